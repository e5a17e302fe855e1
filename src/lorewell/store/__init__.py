"""The stores: SQLite in one file, and PostgreSQL."""

from __future__ import annotations

import re

from lorewell.app.ports import Store
from lorewell.errors import ValidationFailedError

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*", re.IGNORECASE)
_POSTGRES = frozenset({"postgresql", "postgres", "postgresql+asyncpg"})


def open_store(
    url: str,
    *,
    readers: int = 4,
    pool_size: int = 10,
    wait_seconds: float = 30.0,
    statement_cache_size: int = 100,
    vector_cache_bytes: int = 512 * 1024 * 1024,
) -> Store:
    """Return the store that a URL names. It connects when it is first used.

    Args:
        url: `sqlite:///books.db` (relative), `sqlite:////var/lib/lorewell/books.db` (absolute), or
            `postgresql://user:password@host/database`, with libpq's parameters (`?sslmode=…`).
            `sqlite://` alone is a database in memory, for tests.
        readers: threads that read from SQLite.
        pool_size: connections to PostgreSQL.
        wait_seconds: how long to wait for a lock, a connection or PostgreSQL's answer.
        statement_cache_size: prepared statements a PostgreSQL connection keeps; 0 behind a pooler
            that gives each transaction another connection.
        vector_cache_bytes: vectors that SQLite's process holds between searches, roughly;
            PostgreSQL holds its own.

    Raises:
        ValidationFailedError: the URL names no database that we know, or its driver is missing.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or not _SCHEME.fullmatch(scheme):  # it may hold a password: tell none of it
        raise ValidationFailedError("A database URL must be like sqlite:///books.db.")
    if scheme.lower() == "sqlite":
        return _open_sqlite(
            rest,
            readers=readers,
            wait_seconds=wait_seconds,
            vector_cache_bytes=vector_cache_bytes,
        )
    if scheme.lower() in _POSTGRES:
        return _open_postgres(
            f"postgresql://{rest}",
            pool_size=pool_size,
            wait_seconds=wait_seconds,
            statement_cache_size=statement_cache_size,
        )
    raise ValidationFailedError(f"There is no store for {scheme!r}; use sqlite or postgresql.")


def _open_sqlite(rest: str, *, readers: int, wait_seconds: float, vector_cache_bytes: int) -> Store:
    from lorewell.store.sqlite import SqliteStore  # noqa: PLC0415  SQL is loaded where it is used

    if rest and not rest.startswith("/"):
        raise ValidationFailedError("An SQLite URL has three slashes before the path of the file.")
    path = rest.removeprefix("/")
    return SqliteStore(
        path or ":memory:",
        readers=readers,
        wait_seconds=wait_seconds,
        vector_cache_bytes=vector_cache_bytes,
    )


def _open_postgres(
    url: str, *, pool_size: int, wait_seconds: float, statement_cache_size: int
) -> Store:
    try:
        from lorewell.store.postgres import PostgresStore  # noqa: PLC0415  needs an extra
    except ModuleNotFoundError as error:
        raise ValidationFailedError(
            "PostgreSQL needs the extra `postgres`: pip install 'lorewell[postgres]'."
        ) from error
    return PostgresStore(
        url,
        pool_size=pool_size,
        wait_seconds=wait_seconds,
        statement_cache_size=statement_cache_size,
    )
