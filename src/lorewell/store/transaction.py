"""A transaction: all statements on one connection, and how a unit of work runs in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from sqlalchemy import Connection, RootTransaction

from lorewell.app.ports import Transaction
from lorewell.store.bindings import BindingStatements
from lorewell.store.books import BookStatements
from lorewell.store.conversations import ConversationStatements
from lorewell.store.files import FileStatements
from lorewell.store.idempotency import IdempotencyStatements
from lorewell.store.keys import KeyStatements
from lorewell.store.live import LiveEventStatements
from lorewell.store.requests import RequestStatements
from lorewell.store.revisions import RevisionStatements
from lorewell.store.statements import DATABASE_ERRORS, database_errors
from lorewell.store.vectors import VectorStatements

Result = TypeVar("Result")
Unit = Callable[[Connection], Result]


class SqlTransaction(
    BookStatements,
    RevisionStatements,
    FileStatements,
    IdempotencyStatements,
    BindingStatements,
    KeyStatements,
    RequestStatements,
    ConversationStatements,
    VectorStatements,
    LiveEventStatements,
):
    """One transaction on a SQL database, without the dialect-specific parts."""


class _SettledTransaction(Transaction, Protocol):
    def check_settled(self) -> None: ...


def unit_of(
    make: Callable[[Connection], _SettledTransaction], work: Callable[[Transaction], Result]
) -> Unit[Result]:
    """Return a function that runs `work` on a connection with an open transaction."""

    def run(connection: Connection) -> Result:
        transaction = make(connection)
        result = work(transaction)
        transaction.check_settled()
        return result

    return run


def run_whole(connection: Connection, unit: Unit[Result], *, commit: bool) -> Result:
    """Run a unit of work in a transaction of its own and return its result.

    Args:
        connection: a connection without an open transaction; it has none afterwards either.
        unit: the work; its own errors pass through unchanged.
        commit: whether to commit its writes.

    Raises:
        DatabaseFailedError: the database failed. Nothing was committed, unless `committing` is set.
    """
    with database_errors():
        transaction = connection.begin()
    try:
        result = unit(connection)
        if commit:
            with database_errors(committing=True):
                transaction.commit()
    except BaseException:
        _roll_back(connection, transaction)
        raise
    if not commit:
        _roll_back(connection, transaction)
    return result


def _roll_back(connection: Connection, transaction: RootTransaction) -> None:
    try:
        transaction.rollback()
    except DATABASE_ERRORS:
        connection.invalidate()  # its state is unknown, so nobody may reuse it
