"""A transaction: all aggregates on one connection, run whole."""

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
from lorewell.store.statements import DATABASE_ERRORS, failing
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
    """One transaction on a SQL database, but for what each database does in its own way."""


class _Whole(Transaction, Protocol):
    def check_settled(self) -> None: ...


def unit_of(
    make: Callable[[Connection], _Whole], work: Callable[[Transaction], Result]
) -> Unit[Result]:
    """Return what runs `work` on a connection that has a transaction begun."""

    def run(connection: Connection) -> Result:
        transaction = make(connection)
        result = work(transaction)
        transaction.check_settled()
        return result

    return run


def run_whole(connection: Connection, unit: Unit[Result], *, commit: bool) -> Result:
    """Run a unit of work in a transaction of its own and return its result.

    Args:
        connection: one that has no transaction begun; it has none afterwards.
        unit: what is to be done; its own errors pass through unchanged.
        commit: whether to keep what it wrote.

    Raises:
        DatabaseFailedError: the database failed; nothing was kept unless it says `committing`.
    """
    with failing():
        transaction = connection.begin()
    try:
        result = unit(connection)
        if commit:
            with failing(committing=True):
                transaction.commit()
    except BaseException:
        _give_up(connection, transaction)
        raise
    if not commit:
        _give_up(connection, transaction)
    return result


def _give_up(connection: Connection, transaction: RootTransaction) -> None:
    try:
        transaction.rollback()
    except DATABASE_ERRORS:
        connection.invalidate()  # nobody may get a connection in an unknown state
