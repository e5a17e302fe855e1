"""A service on a SQLite file, and quiet logs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from service import Api, serving


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith("LOREWELL_") and not name.startswith("LOREWELL_TEST"):
            monkeypatch.delenv(name)
    # Log lines are looked at by the tests that want them; elsewhere they are only noise.
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    yield
    structlog.reset_defaults()


@pytest.fixture
def database(migrated_file: Path, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(migrated_file, tmp_path / 'lorewell.db')}"


@pytest.fixture
def api(database: str) -> Iterator[Api]:
    with serving(database_url=database) as api:
        yield api
