"""The store on PostgreSQL, for any number of processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import asyncpg
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    NullPool,
    Table,
    bindparam,
    func,
    select,
    text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.util import await_only

from lorewell.app.ports import Part, Transaction
from lorewell.errors import LorewellError, StorageUnavailableError
from lorewell.store import migrations
from lorewell.store.failures import translate
from lorewell.store.probe import CHECK_SECONDS, Probe
from lorewell.store.statements import DATABASE_ERRORS, DatabaseFailedError, database_errors
from lorewell.store.transaction import SqlTransaction, Unit, run_whole, unit_of
from lorewell.store.vectors_pgvector import PgVectors, make_hnsw

Result = TypeVar("Result")

_ATTEMPTS = 5
_PAUSE_SECONDS = 0.05
_CONNECT_SECONDS = 10.0
_TOUCH = text("UPDATE alembic_version SET version_num = version_num")
_ABORTED = frozenset({"40001", "40P01"})  # serialization failure, deadlock
_LARGE_BYTES = 32_768  # a hop to a thread costs less than compressing as much
_MIGRATION_LOCK = int.from_bytes(b"lorewell")
_LIVE_CHANNEL = "lorewell_live"
_LIVE_TURN = select(func.pg_advisory_xact_lock(int.from_bytes(b"lorelive")))
# Only the id: payloads are limited to 8,000 bytes, and every user of the database can listen.
_LIVE_NOTIFY = select(func.pg_notify(_LIVE_CHANNEL, bindparam("newest")))
_HEAR_PAUSE_SECONDS = 0.5
_HEAR_CHECK_SECONDS = 15.0
# Two keys, so that it never equals one of the locks with one key.
_HOLD_NAME = text(
    "SELECT pg_advisory_xact_lock(:space, hashtext(:tenant || chr(10) || :name))"
).bindparams(space=int.from_bytes(b"name"))
_CONNECT_ERRORS = (*DATABASE_ERRORS, asyncpg.PostgresError, asyncpg.InterfaceError)


class PostgresTransaction(PgVectors, SqlTransaction):
    """A transaction on PostgreSQL."""

    def _insert(self, table: Table) -> postgresql.Insert:
        return postgresql.insert(table)

    def _contains(self, column: Column[str], part: str) -> ColumnElement[bool]:
        return func.strpos(column, part) > 0

    def hold_name(self, tenant_id: str, name: str) -> None:
        """Take an advisory lock until this transaction ends."""
        self._execute(_HOLD_NAME, {"tenant": tenant_id, "name": name})

    def _take_turn(self) -> None:
        # Ids are assigned before the commit, and commits may come in another order: a reader that
        # has seen 8 would miss a 7 that is committed later. So each writer waits for the commit of
        # the writer before, and ids become visible in order.
        self._execute(_LIVE_TURN, {})

    def _announce(self, newest: int) -> None:
        self._execute(_LIVE_NOTIFY, {"newest": str(newest)})

    # These run on the event loop, which a large body must not block.
    def _pack(self, body: bytes) -> bytes:
        return _off_loop(super()._pack, body)

    def _unpack(self, stored: bytes) -> bytes:
        return _off_loop(super()._unpack, stored)


def _off_loop(convert: Callable[[bytes], bytes], body: bytes) -> bytes:
    if len(body) < _LARGE_BYTES:
        return convert(body)
    return await_only(asyncio.to_thread(convert, body))


class PostgresStore:
    """A `Store` on PostgreSQL."""

    def __init__(
        self,
        url: str,
        *,
        pool_size: int,
        wait_seconds: float,
        statement_cache_size: int,
    ) -> None:
        """Use a libpq URL that begins with `postgresql://`; nothing is opened yet."""
        self._url = url
        self._statement_cache_size = statement_cache_size
        self._engine = create_async_engine(
            "postgresql+asyncpg://",
            async_creator=self._connector(wait_seconds),
            connect_args={"prepared_statement_cache_size": statement_cache_size},
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=wait_seconds,
            isolation_level="READ COMMITTED",
            hide_parameters=True,  # parameters are private texts, and errors are logged
        )
        self._snapshots = self._engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._wait_seconds = wait_seconds
        self._checker = create_async_engine(
            "postgresql+asyncpg://",
            async_creator=self._connector(CHECK_SECONDS),
            connect_args={"prepared_statement_cache_size": statement_cache_size},
            pool_size=1,
            max_overflow=0,
            hide_parameters=True,
        )
        self._checking = asyncio.Lock()
        self._probe = Probe(self._try_to_write)
        self._closed = False

    async def read(self, work: Callable[[Transaction], Result]) -> Result:
        """Run `work` in a consistent read-only snapshot that includes every acknowledged write."""
        unit = unit_of(PostgresTransaction, work)
        return await self._run_in_time(self._snapshots, unit, commit=False)

    def mark(self) -> None:
        """Return None: only a query could find out whether another process has written."""

    async def hear(self, heard: Callable[[], None]) -> None:
        """Listen on a separate connection, and reconnect after it is lost."""
        while True:
            try:
                await self._listen(heard)
            except (*_CONNECT_ERRORS, ValueError):
                await asyncio.sleep(_HEAR_PAUSE_SECONDS)

    async def _listen(self, heard: Callable[[], None]) -> None:
        connection = await self._connector(_CONNECT_SECONDS)()
        try:
            lost = asyncio.Event()
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(_LIVE_CHANNEL, lambda *_: heard())
            heard()  # for events that were added while nobody listened
            while not lost.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_HEAR_CHECK_SECONDS):
                        await lost.wait()
                await connection.execute("SELECT 1")  # detects a dead connection
        finally:
            connection.terminate()

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Run `work` and commit its writes; roll back if it raises."""
        unit = unit_of(PostgresTransaction, work)
        return await self._run_in_time(self._engine, unit, commit=True)

    async def migrate(self) -> None:
        """Bring the schema up to date, one process at a time."""
        await asyncio.to_thread(self._migrate)

    def _migrate(self) -> None:
        with migrations.turn:
            asyncio.run(self._migrate_async())

    async def _migrate_async(self) -> None:
        async with self._unlimited_engine() as engine:
            await self._run(engine, _upgrade_locked, commit=True)

    @asynccontextmanager
    async def _unlimited_engine(self) -> AsyncIterator[AsyncEngine]:
        """Yield an engine whose connections have no time limit."""
        engine = create_async_engine(
            "postgresql+asyncpg://",
            async_creator=self._connector(None),
            connect_args={"prepared_statement_cache_size": self._statement_cache_size},
            poolclass=NullPool,
            hide_parameters=True,
        )
        try:
            yield engine
        finally:
            await engine.dispose()

    async def prepare_tenant_search(self, embedding_version: str, dimensions: int) -> None:
        """Create an HNSW index of a version's vectors, if there are enough of them."""
        self._check_open()
        async with self._unlimited_engine() as engine:
            try:
                async with engine.connect() as connection:
                    await connection.execution_options(isolation_level="AUTOCOMMIT")
                    await make_hnsw(connection, embedding_version, dimensions)
            except _CONNECT_ERRORS as error:
                raise translate(error) from error

    async def check(self) -> Part | None:
        """Return the part that is not ready; None if all are.

        It uses a separate connection, which no waiting transaction can hold.
        """
        try:
            async with asyncio.timeout(CHECK_SECONDS), self._checking:
                part = await self._run(self._checker, migrations.find_part, commit=False)
                if part is None and not await self._probe.takes_writes():
                    return "writes"
        except (StorageUnavailableError, TimeoutError):
            return "storage"
        return part

    async def _try_to_write(self) -> bool:
        try:
            await self._run(self._checker, _probe_write, commit=False)
        except LorewellError:
            return False
        return True

    async def close(self) -> None:
        """Close all idle connections; running work still finishes."""
        self._closed = True
        await self._engine.dispose()
        await self._checker.dispose()

    async def _run_in_time(
        self, engine: AsyncEngine, unit: Unit[Result], *, commit: bool
    ) -> Result:
        """Run a unit of work with a time limit that starts now."""
        try:
            async with asyncio.timeout(self._wait_seconds) as patience:
                return await self._run(engine, unit, commit=commit)
        except TimeoutError as error:
            if not patience.expired():  # raised by the work itself
                raise
            message = "The database did not answer in time."
            raise StorageUnavailableError(message, reason="timeout") from error

    async def _run(self, engine: AsyncEngine, unit: Unit[Result], *, commit: bool) -> Result:
        """Run a unit of work; retry it after a deadlock or a lost connection."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await self._run_once(engine, unit, commit=commit)
            except DatabaseFailedError as failure:
                was_aborted = _was_aborted(failure)
                if attempt == _ATTEMPTS or not (was_aborted or _is_lost(failure)):
                    raise translate(failure.error) from failure.error
            if was_aborted:  # let the surviving transaction finish first
                await asyncio.sleep(_PAUSE_SECONDS * 4 ** (attempt - 1))
        raise AssertionError  # the last attempt returns or raises

    async def _run_once(self, engine: AsyncEngine, unit: Unit[Result], *, commit: bool) -> Result:
        self._check_open()
        async with AsyncExitStack() as stack:
            try:
                connection = await stack.enter_async_context(engine.connect())
            except ValueError:  # no cause: the error may quote the password
                message = "Invalid database URL."
                raise StorageUnavailableError(message) from None
            except _CONNECT_ERRORS as error:
                raise translate(error) from error
            try:
                return await connection.run_sync(run_whole, unit, commit=commit)
            finally:
                if self._closed:  # closed in between: there is no pool to return it to
                    await connection.invalidate()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageUnavailableError("The database is closed.")

    def _connector(self, wait_seconds: float | None) -> Callable[..., Awaitable[Any]]:
        # asyncpg parses the URL, so that all libpq parameters work.
        return partial(
            asyncpg.connect,
            self._url,
            timeout=_CONNECT_SECONDS,
            command_timeout=wait_seconds,
            statement_cache_size=self._statement_cache_size,
        )


def _upgrade_locked(connection: Connection) -> None:
    with database_errors():
        connection.execute(select(func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
    migrations.upgrade(connection)


def _probe_write(connection: Connection) -> None:
    """Update a row without changing it, in a transaction that is rolled back."""
    with database_errors():
        connection.execute(_TOUCH)


def _was_aborted(failure: DatabaseFailedError) -> bool:
    """Return whether the database aborted this transaction in favour of another."""
    error = failure.error
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) in _ABORTED


def _is_lost(failure: DatabaseFailedError) -> bool:
    """Return whether the connection was lost before the commit."""
    error = failure.error
    return isinstance(error, DBAPIError) and error.connection_invalidated and not failure.committing
