"""Statements in one transaction: the base of all aggregates."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    CursorResult,
    Executable,
    RowMapping,
    Table,
)
from sqlalchemy.exc import SQLAlchemyError

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

COMPRESSION_LEVEL = 6
LARGEST_INTEGER = 2**63 - 1

# Besides the errors that SQLAlchemy wraps, drivers raise OSError for broken sockets and timeouts.
DATABASE_ERRORS = (SQLAlchemyError, OSError)


class DatabaseFailedError(Exception):
    """The database failed, not the unit of work. Never leaves this package.

    Attributes:
        error: the driver's or SQLAlchemy's error.
        committing: whether the database may have committed nevertheless.
    """

    def __init__(self, error: Exception, *, committing: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.committing = committing


@contextmanager
def database_errors(*, committing: bool = False) -> Iterator[None]:
    """Turn errors of the driver into `DatabaseFailedError`; other errors pass through."""
    try:
        yield
    except DATABASE_ERRORS as error:
        raise DatabaseFailedError(error, committing=committing) from error


class Statements(ABC):
    """Runs statements on a connection with an open transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @abstractmethod
    def _insert(self, table: Table) -> postgresql.Insert | sqlite.Insert:
        """Return the dialect's INSERT, which supports ON CONFLICT."""

    @abstractmethod
    def _contains(self, column: Column[str], part: str) -> ColumnElement[bool]:
        """Return the condition that the column's text contains this part exactly."""

    def _pack(self, body: bytes) -> bytes:
        """Compress a body for storage."""
        return zlib.compress(body, COMPRESSION_LEVEL)

    def _unpack(self, stored: bytes) -> bytes:
        """Decompress a stored body."""
        return zlib.decompress(stored)

    def _rows(self, statement: Executable, **values: object) -> Sequence[RowMapping]:
        return self._execute(statement, values).mappings().all()

    def _row(self, statement: Executable, **values: object) -> RowMapping | None:
        return self._execute(statement, values).mappings().first()

    def _change(self, statement: Executable, **values: object) -> int:
        """Return the number of changed rows."""
        return self._execute(statement, values).rowcount

    def _add(self, table: Table, row: Mapping[str, object]) -> bool:
        """Add a row unless its key exists; return whether it was added.

        If another transaction is adding the same key, wait until that one ends.
        """
        statement = self._insert(table).on_conflict_do_nothing(index_elements=[*table.primary_key])
        return self._change(statement, **row) == 1

    def _put(self, table: Table, row: Mapping[str, object], *, once: Collection[str] = ()) -> None:
        """Add a row, or update the row with its key; columns in `once` are set on insert only."""
        self._put_all(table, [row], once=once)

    def _put_all(
        self, table: Table, rows: Sequence[Mapping[str, object]], *, once: Collection[str] = ()
    ) -> None:
        """Do `_put` for one or more rows with the same columns."""
        insert = self._insert(table)
        kept = {*table.primary_key.columns.keys(), *once}
        changed = {name: insert.excluded[name] for name in rows[0] if name not in kept}
        self._execute(
            insert.on_conflict_do_update(index_elements=[*table.primary_key], set_=changed), rows
        )

    def _execute(
        self, statement: Executable, values: Mapping[str, object] | Sequence[Mapping[str, object]]
    ) -> CursorResult[tuple[object, ...]]:
        with database_errors():
            return self._connection.execute(statement, values)
