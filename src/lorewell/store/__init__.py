"""The stores: SQLite and PostgreSQL."""

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
    """Return the store for a database URL. It connects on first use.

    Args:
        url: `sqlite:///books.db` (relative), `sqlite:////var/lib/lorewell/books.db` (absolute), or
            `postgresql://user:password@host/database`, with libpq's parameters (`?sslmode=…`).
            `sqlite://` alone is an in-memory database, for tests.
        readers: SQLite reader threads.
        pool_size: PostgreSQL connections.
        wait_seconds: maximum wait for a lock, a connection or PostgreSQL's answer.
        statement_cache_size: prepared statements per PostgreSQL connection; 0 behind a transaction
            pooler.
        vector_cache_bytes: approximate size of the vector cache; SQLite only.

    Raises:
        ValidationFailedError: the URL is invalid, or the driver is not installed.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or not _SCHEME.fullmatch(scheme):  # never quoted: it may contain a password
        raise ValidationFailedError(
            "Invalid database URL. Use one like sqlite:///books.db or postgresql://user@host/name."
        )
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
    raise ValidationFailedError(f"Unsupported database {scheme!r}. Use sqlite or postgresql.")


def _open_sqlite(rest: str, *, readers: int, wait_seconds: float, vector_cache_bytes: int) -> Store:
    from lorewell.store.sqlite import SqliteStore  # noqa: PLC0415  loads SQLAlchemy only on use

    if rest and not rest.startswith("/"):
        raise ValidationFailedError(
            "An SQLite URL needs three slashes before the path: sqlite:///books.db."
        )
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
            "PostgreSQL requires the extra `postgres`: pip install 'lorewell[postgres]'."
        ) from error
    return PostgresStore(
        url,
        pool_size=pool_size,
        wait_seconds=wait_seconds,
        statement_cache_size=statement_cache_size,
    )
