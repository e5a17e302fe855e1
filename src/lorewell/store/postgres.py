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
from lorewell.store.statements import DATABASE_ERRORS, DatabaseFailedError, failing
from lorewell.store.transaction import SqlTransaction, Unit, run_whole, unit_of
from lorewell.store.vectors_pgvector import PgVectors, make_hnsw

Result = TypeVar("Result")

_ATTEMPTS = 5
_PAUSE_SECONDS = 0.05
_CONNECT_SECONDS = 10.0
_TOUCH = text("UPDATE alembic_version SET version_num = version_num")
_UNDONE = frozenset({"40001", "40P01"})  # serialization failure, deadlock
_LARGE_BYTES = 32_768  # a hop to a thread costs less than to compress as much
_MIGRATION_LOCK = int.from_bytes(b"lorewell")
_LIVE_CHANNEL = "lorewell_live"
_LIVE_TURN = select(func.pg_advisory_xact_lock(int.from_bytes(b"lorelive")))
# The number alone: what is sent may have 8,000 bytes, and everybody on the database can listen.
_LIVE_NOTIFY = select(func.pg_notify(_LIVE_CHANNEL, bindparam("newest")))
_HEAR_PAUSE_SECONDS = 0.5
_HEAR_CHECK_SECONDS = 15.0
# Two numbers, so that it is none of the locks with one, whatever the name.
_HOLD_NAME = text(
    "SELECT pg_advisory_xact_lock(:space, hashtext(:tenant || chr(10) || :name))"
).bindparams(space=int.from_bytes(b"name"))
_CONNECT_ERRORS = (*DATABASE_ERRORS, asyncpg.PostgresError, asyncpg.InterfaceError)


class PostgresTransaction(PgVectors, SqlTransaction):
    """A transaction on PostgreSQL."""

    def _insert(self, table: Table) -> postgresql.Insert:
        return postgresql.insert(table)

    def _holds(self, column: Column[str], part: str) -> ColumnElement[bool]:
        return func.strpos(column, part) > 0

    def hold_name(self, tenant_id: str, name: str) -> None:
        """Wait for other transactions that did this; till this one ends others wait for it."""
        self._execute(_HOLD_NAME, {"tenant": tenant_id, "name": name})

    def _take_turn(self) -> None:
        # Numbers are given before commits, and commits could come in another order: a reader that
        # had seen 8 would never look for a 7 that comes later. So who adds events waits for the
        # commit of whoever is adding some; a number is given, and becomes visible, in its turn.
        self._execute(_LIVE_TURN, {})

    def _announce(self, newest: int) -> None:
        self._execute(_LIVE_NOTIFY, {"newest": str(newest)})

    # Statements are awaited on the event loop, and it must not stand still for a large body.
    def _pack(self, body: bytes) -> bytes:
        return _beside_the_loop(super()._pack, body)

    def _unpack(self, stored: bytes) -> bytes:
        return _beside_the_loop(super()._unpack, stored)


def _beside_the_loop(convert: Callable[[bytes], bytes], body: bytes) -> bytes:
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
        """Take a URL as libpq has it, beginning with `postgresql://`; nothing is opened yet."""
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
            hide_parameters=True,  # they are people's texts, and errors are logged
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
        """Run `work` in one consistent read-only snapshot that shows every acknowledged write."""
        unit = unit_of(PostgresTransaction, work)
        return await self._run_in_time(self._snapshots, unit, commit=False)

    def mark(self) -> None:
        """Return None: whether another replica has written, only the server knows."""

    async def hear(self, heard: Callable[[], None]) -> None:
        """Listen on a connection of its own; one that is lost is made again, and then read."""
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
            heard()  # of what came before, and while there was no connection
            while not lost.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_HEAR_CHECK_SECONDS):
                        await lost.wait()
                await connection.execute("SELECT 1")  # nobody may be there though nothing says so
        finally:
            connection.terminate()

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Run `work` and commit what it wrote, or nothing of it if it raises."""
        unit = unit_of(PostgresTransaction, work)
        return await self._run_in_time(self._engine, unit, commit=True)

    async def migrate(self) -> None:
        """Bring the schema up to date; processes that start together do it one by one."""
        await asyncio.to_thread(self._migrate)

    def _migrate(self) -> None:
        with migrations.turn:
            asyncio.run(self._migrate_alone())

    async def _migrate_alone(self) -> None:
        async with self._patient_engine() as engine:
            await self._run(engine, _upgrade_locked, commit=True)

    @asynccontextmanager
    async def _patient_engine(self) -> AsyncIterator[AsyncEngine]:
        """Yield what makes connections of its own, which wait for as long as it takes."""
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
        """Make an HNSW index of a version's vectors, if there are so many that it helps."""
        self._check_open()
        async with self._patient_engine() as engine:
            try:
                async with engine.connect() as connection:
                    await connection.execution_options(isolation_level="AUTOCOMMIT")
                    await make_hnsw(connection, embedding_version, dimensions)
            except _CONNECT_ERRORS as error:
                raise translate(error) from error

    async def check(self) -> Part | None:
        """Return what is not ready, None if all is.

        On a connection of its own, which nobody who waits for a lock can hold.
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
            await self._run(self._checker, _write_a_little, commit=False)
        except LorewellError:
            return False
        return True

    async def close(self) -> None:
        """Let go of all connections; what runs on one of them yet ends undisturbed."""
        self._closed = True
        await self._engine.dispose()
        await self._checker.dispose()

    async def _run_in_time(
        self, engine: AsyncEngine, unit: Unit[Result], *, commit: bool
    ) -> Result:
        """Run a unit of work; whatever it waits for, it waits no longer than from now on."""
        try:
            async with asyncio.timeout(self._wait_seconds) as patience:
                return await self._run(engine, unit, commit=commit)
        except TimeoutError as error:
            if not patience.expired():  # it is one of the work's own
                raise
            message = "The database did not do its work in time."
            raise StorageUnavailableError(message, reason="timeout") from error

    async def _run(self, engine: AsyncEngine, unit: Unit[Result], *, commit: bool) -> Result:
        """Run a unit of work, again if it was undone for another's sake or lost on its way."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await self._run_once(engine, unit, commit=commit)
            except DatabaseFailedError as failure:
                was_undone = _was_undone(failure)
                if attempt == _ATTEMPTS or not (was_undone or _is_lost(failure)):
                    raise translate(failure.error) from failure.error
            if was_undone:  # by a deadlock; it would come again before the survivor has ended
                await asyncio.sleep(_PAUSE_SECONDS * 4 ** (attempt - 1))
        raise AssertionError  # the last attempt returns or raises

    async def _run_once(self, engine: AsyncEngine, unit: Unit[Result], *, commit: bool) -> Result:
        self._check_open()
        async with AsyncExitStack() as stack:
            try:
                connection = await stack.enter_async_context(engine.connect())
            except ValueError:  # what was wrong with the address may be its password
                message = "The address of the database can't be read."
                raise StorageUnavailableError(message) from None
            except _CONNECT_ERRORS as error:
                raise translate(error) from error
            try:
                return await connection.run_sync(run_whole, unit, commit=commit)
            finally:
                if self._closed:  # meanwhile: there is no pool to take it back
                    await connection.invalidate()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageUnavailableError("The database is closed.")

    def _connector(self, wait_seconds: float | None) -> Callable[..., Awaitable[Any]]:
        # asyncpg reads the URL itself, so that all of libpq's parameters work.
        return partial(
            asyncpg.connect,
            self._url,
            timeout=_CONNECT_SECONDS,
            command_timeout=wait_seconds,
            statement_cache_size=self._statement_cache_size,
        )


def _upgrade_locked(connection: Connection) -> None:
    with failing():
        connection.execute(select(func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
    migrations.upgrade(connection)


def _write_a_little(connection: Connection) -> None:
    """Change a row to what it is, in a transaction that is rolled back."""
    with failing():
        connection.execute(_TOUCH)


def _was_undone(failure: DatabaseFailedError) -> bool:
    """Return whether the database gave up this transaction so that another could go on."""
    error = failure.error
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) in _UNDONE


def _is_lost(failure: DatabaseFailedError) -> bool:
    """Return whether the connection went, and with it the work, for sure."""
    error = failure.error
    return isinstance(error, DBAPIError) and error.connection_invalidated and not failure.committing
