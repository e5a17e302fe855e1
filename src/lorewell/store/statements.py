"""Statements in one transaction: the floor that the aggregates stand on."""

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

# What a driver lets through beside what SQLAlchemy wraps: broken sockets and timeouts.
DATABASE_ERRORS = (SQLAlchemyError, OSError)


class DatabaseFailedError(Exception):
    """The database failed, not the work that used it; it never leaves this package.

    Attributes:
        error: the driver's or SQLAlchemy's error.
        committing: whether the database may have done the work all the same.
    """

    def __init__(self, error: Exception, *, committing: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.committing = committing


@contextmanager
def failing(*, committing: bool = False) -> Iterator[None]:
    """Turn a driver's errors into `DatabaseFailedError`; of others it knows nothing."""
    try:
        yield
    except DATABASE_ERRORS as error:
        raise DatabaseFailedError(error, committing=committing) from error


class Statements(ABC):
    """Runs statements on a connection that has a transaction begun."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @abstractmethod
    def _insert(self, table: Table) -> postgresql.Insert | sqlite.Insert:
        """Return the dialect's INSERT, which can say ON CONFLICT."""

    @abstractmethod
    def _holds(self, column: Column[str], part: str) -> ColumnElement[bool]:
        """Return a condition: the column's text holds this part, letter by letter."""

    def _pack(self, body: bytes) -> bytes:
        """Return a body as it is stored."""
        return zlib.compress(body, COMPRESSION_LEVEL)

    def _unpack(self, stored: bytes) -> bytes:
        """Return the body that was stored."""
        return zlib.decompress(stored)

    def _rows(self, statement: Executable, **values: object) -> Sequence[RowMapping]:
        return self._execute(statement, values).mappings().all()

    def _row(self, statement: Executable, **values: object) -> RowMapping | None:
        return self._execute(statement, values).mappings().first()

    def _change(self, statement: Executable, **values: object) -> int:
        """Return how many rows were changed."""
        return self._execute(statement, values).rowcount

    def _add(self, table: Table, row: Mapping[str, object]) -> bool:
        """Return whether the row was new; a row that has its key already stays as it is.

        Where another transaction is adding it, this waits for the end of that one.
        """
        statement = self._insert(table).on_conflict_do_nothing(index_elements=[*table.primary_key])
        return self._change(statement, **row) == 1

    def _put(self, table: Table, row: Mapping[str, object], *, once: Collection[str] = ()) -> None:
        """Add a row, or give the row that has its key all of these values but those `once` set."""
        self._put_all(table, [row], once=once)

    def _put_all(
        self, table: Table, rows: Sequence[Mapping[str, object]], *, once: Collection[str] = ()
    ) -> None:
        """As `_put`, for rows with values of the same columns; there is one at least."""
        insert = self._insert(table)
        kept = {*table.primary_key.columns.keys(), *once}
        changed = {name: insert.excluded[name] for name in rows[0] if name not in kept}
        self._execute(
            insert.on_conflict_do_update(index_elements=[*table.primary_key], set_=changed), rows
        )

    def _execute(
        self, statement: Executable, values: Mapping[str, object] | Sequence[Mapping[str, object]]
    ) -> CursorResult[tuple[object, ...]]:
        with failing():
            return self._connection.execute(statement, values)
