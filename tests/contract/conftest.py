"""Stores for contract tests: in memory, on SQLite, and on PostgreSQL."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contract.harness import Harness, opened
from fakes import MemoryStore
from lorewell.app.ports import Store
from lorewell.store import open_store


@pytest.fixture
def sqlite_url(migrated_file: Path, tmp_path: Path) -> str:
    """Return the URL of a file of empty tables."""
    return f"sqlite:///{shutil.copy(migrated_file, tmp_path / 'books.db')}"


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'folder' / 'books.db'}"
    make: Callable[[], str] = request.getfixturevalue("make_database")
    return make()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def db(request: pytest.FixtureRequest) -> Iterator[Harness]:
    """Yield an empty store of each kind."""
    if request.param == "memory":
        store: Store = MemoryStore()
    else:
        store = open_store(request.getfixturevalue(f"{request.param}_url"))
    with opened(store) as harness:
        yield harness
