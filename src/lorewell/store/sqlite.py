"""The store in one SQLite file: one writing connection, and a few reading ones.

A unit of work takes one hop to a thread: a hop per statement would cost ten times as much.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Column, ColumnElement, Connection, Engine, Table, create_engine, event, func
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from lorewell.app.ports import Part, Transaction
from lorewell.errors import LorewellError, StorageUnavailableError
from lorewell.store import migrations
from lorewell.store.failures import translate
from lorewell.store.probe import CHECK_SECONDS, Probe
from lorewell.store.statements import DatabaseFailedError, database_errors
from lorewell.store.transaction import SqlTransaction, Unit, run_whole, unit_of
from lorewell.store.vectors_sqlite import Matrices, SqliteVectors

Result = TypeVar("Result")

IN_MEMORY = ":memory:"
_PAUSE_SECONDS = 0.005
_BUSY_SECONDS = 0.1  # SQLite's own wait for a lock; then the store retries until a deadline
_NOT_A_DATABASE = "SQLITE_NOTADB"
_MIN_FREE_BYTES = 1024 * 1024
_PROBE_BYTES = 65_536
_HEAR_SECONDS = 0.05  # reading the mark takes 3 µs
_SCHEMA_SECONDS = 1.0  # between two looks at a current schema
_WRITE = "BEGIN IMMEDIATE"
_READ = "BEGIN"  # the snapshot is taken by the first statement after it


class SqliteTransaction(SqlTransaction, SqliteVectors):
    """A transaction on SQLite, with the matrices of its store."""

    def __init__(self, connection: Connection, matrices: Matrices) -> None:
        super().__init__(connection)
        self.matrices = matrices

    def _insert(self, table: Table) -> sqlite.Insert:
        return sqlite.insert(table)

    def _contains(self, column: Column[str], part: str) -> ColumnElement[bool]:
        return func.instr(column, part) > 0


class SqliteStore:
    """A `Store` in one file, which several processes may use at the same time.

    SQLite allows one writing transaction at a time, so writes share one thread. Reads run in
    parallel, each on its own snapshot.
    """

    def __init__(
        self, path: str, *, readers: int, wait_seconds: float, vector_cache_bytes: int
    ) -> None:
        """Use the file at `path`, or `:memory:`; nothing is opened yet."""
        self._path = path
        self._make = partial(SqliteTransaction, matrices=Matrices(vector_cache_bytes))
        self._wait_seconds = wait_seconds
        self._writer = self._make_engine(_WRITE, connections=1)
        self._writing = ThreadPoolExecutor(1, "lorewell-writer")
        self._engines, self._executors = [self._writer], [self._writing]
        if path == IN_MEMORY:  # it exists within one connection, so one thread uses it
            self._reader, self._reading = self._writer, self._writing
        else:
            self._reader = self._make_engine(_READ, connections=readers)
            self._reading = ThreadPoolExecutor(readers, "lorewell-reader")
            self._engines.append(self._reader)
            self._executors.append(self._reading)
        self._watching: sqlite3.Connection | None = None
        self._current_until = 0.0  # until then the schema counts as current
        self._probe = Probe(self._try_to_write)
        self._busy_since: float | None = None
        self._closed = False

    async def read(self, work: Callable[[Transaction], Result]) -> Result:
        """Run `work` in a consistent snapshot that includes every acknowledged write."""
        return await self._hop(self._reading, partial(self._read, unit_of(self._make, work)))

    def mark(self) -> Hashable | None:
        """Return SQLite's count of commits, as seen by a separate connection; takes 3 µs."""
        if self._path == IN_MEMORY or self._closed:
            return None  # an in-memory database has no second connection
        try:
            if self._watching is None:
                self._watching = self._connect()
            (count,) = self._watching.execute("PRAGMA data_version").fetchone()
            return int(count)
        except (sqlite3.Error, StorageUnavailableError):
            return None  # the next read reports the error

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Run `work` and commit its writes; roll back if it raises.

        The time limit starts now, and includes waiting for other writers of any process.
        """
        unit, deadline = unit_of(self._make, work), time.monotonic() + self._wait_seconds
        return await self._hop(self._writing, partial(self._write, unit, deadline), is_timed=True)

    async def hear(self, heard: Callable[[], None]) -> None:
        """Call `heard` whenever the mark has changed; never for an in-memory database."""
        last = self.mark()
        while True:
            await asyncio.sleep(_HEAR_SECONDS)
            now = self.mark()
            if now != last:
                last = now
                heard()

    async def prepare_tenant_search(self, embedding_version: str, dimensions: int) -> None:
        """Do nothing: exact search is fast enough."""

    async def migrate(self) -> None:
        """Bring the schema up to date, under SQLite's write lock."""
        deadline = time.monotonic() + self._wait_seconds
        await self._hop(self._writing, partial(self._migrate, deadline))

    async def check(self) -> Part | None:
        """Return the part that is not ready; None if all are."""
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                part = await self._find_part()
                if part is None and not await self._probe.takes_writes():
                    return "writes"
        except TimeoutError:
            return "storage"
        except StorageUnavailableError as error:
            is_other = error.details.get("reason") == _NOT_A_DATABASE
            return "not_a_database" if is_other else "storage"
        return part

    async def _find_part(self) -> Part | None:
        """Return the part that can't be read or whose schema is another one.

        The mark shows at once if the file can't be read, without waiting behind other reads.
        """
        is_known = time.monotonic() < self._current_until
        if is_known and self.mark() is not None:
            return None
        part = await self._hop(self._reading, partial(self._read, migrations.find_part))
        self._current_until = 0.0 if part else time.monotonic() + _SCHEMA_SECONDS
        return part

    async def _try_to_write(self) -> bool:
        if self._path == IN_MEMORY:
            return True
        return await self._hop(self._reading, self._probe_write)

    def _probe_write(self) -> bool:
        """Return whether a write reaches the disk; it is rolled back.

        It uses a connection of its own, so that no writer waits for it. While another connection
        writes, the probe passes, unless that lasts too long.
        """
        path = Path(self._path)
        try:
            if shutil.disk_usage(path.parent).free < _MIN_FREE_BYTES:
                return False
            with closing(self._connect()) as connection:
                connection.execute("PRAGMA busy_timeout = 0")
                connection.execute("PRAGMA cache_size = 1")  # more than that is written at once
                connection.execute(_WRITE)
                connection.execute("CREATE TABLE probe (body BLOB)")
                connection.execute("INSERT INTO probe VALUES (zeroblob(?))", (_PROBE_BYTES,))
                connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            if not _is_busy(error):
                return False
            now = time.monotonic()
            self._busy_since = self._busy_since or now
            return now - self._busy_since < self._wait_seconds
        except (OSError, StorageUnavailableError):
            return False
        self._busy_since = None
        return True

    async def close(self) -> None:
        """Wait for running work, then close all connections and threads."""
        self._closed = True
        loop = asyncio.get_running_loop()
        for executor in self._executors:
            await loop.run_in_executor(None, executor.shutdown)
        for engine in self._engines:
            engine.dispose()
        if self._watching is not None:
            self._watching.close()

    async def _hop(
        self,
        executor: ThreadPoolExecutor,
        work: Callable[[], Result],
        *,
        is_timed: bool = False,
    ) -> Result:
        """Run the work in a thread; timed work is cancelled if it does not start in time."""
        if self._closed:
            raise StorageUnavailableError("The database is closed.")
        in_context: Callable[[], Result] = partial(copy_context().run, work)
        loop = asyncio.get_running_loop()
        if not is_timed:
            return await loop.run_in_executor(executor, in_context)
        submitted = executor.submit(in_context)
        timer = loop.call_later(self._wait_seconds, submitted.cancel)  # running work continues
        try:
            return await asyncio.wrap_future(submitted)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            message = "The database is busy: other writes took too long."
            raise StorageUnavailableError(message, reason="queue") from None
        finally:
            timer.cancel()

    def _read(self, unit: Unit[Result]) -> Result:
        deadline = time.monotonic() + self._wait_seconds
        return self._run_with_retries(self._reader, unit, deadline, commit=False)

    def _write(self, unit: Unit[Result], deadline: float) -> Result:
        return self._run_with_retries(self._writer, unit, deadline, commit=True)

    def _migrate(self, deadline: float) -> None:
        with migrations.turn:
            self._write(migrations.upgrade, deadline)

    def _run_with_retries(
        self, engine: Engine, unit: Unit[Result], deadline: float, *, commit: bool
    ) -> Result:
        """Run a unit of work, and retry while another process holds a lock.

        SQLite itself waits for most locks but not for all, such as those while several processes
        open the file.
        """
        while True:
            try:
                with database_errors():
                    connection = engine.connect()
                with connection:
                    return run_whole(connection, unit, commit=commit)
            except DatabaseFailedError as failure:
                if not _is_busy(failure.error) or time.monotonic() >= deadline:
                    raise self._translate(failure.error) from failure.error
            time.sleep(_PAUSE_SECONDS)

    def _translate(self, error: Exception) -> LorewellError:
        translated = translate(error)
        if translated.details.get("reason") != _NOT_A_DATABASE:
            return translated
        message = f"The file is not an SQLite database: {self._path}"
        return StorageUnavailableError(message, reason=_NOT_A_DATABASE)

    def _make_engine(self, begin: str, *, connections: int) -> Engine:
        engine = create_engine(
            "sqlite://",
            creator=self._connect,
            poolclass=QueuePool,
            pool_size=connections,
            max_overflow=0,
            pool_reset_on_return=None,  # each unit of work ends its own transaction
            hide_parameters=True,  # parameters are private texts, and errors are logged
        )

        # The driver must not begin transactions by itself.
        @event.listens_for(engine, "begin")
        def _begin(connection: Connection) -> None:
            connection.exec_driver_sql(begin)

        if begin != _WRITE:

            @event.listens_for(engine, "connect")
            def _forbid_writing(
                connection: sqlite3.Connection, _entry: ConnectionPoolEntry
            ) -> None:
                connection.execute("PRAGMA query_only = ON")

        return engine

    def _connect(self) -> sqlite3.Connection:
        if self._path != IN_MEMORY:
            _make_folder(Path(self._path).parent)
        connection = sqlite3.connect(
            self._path,
            timeout=min(self._wait_seconds, _BUSY_SECONDS),
            isolation_level=None,
            check_same_thread=False,  # each connection is used by one thread at a time
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(
                "PRAGMA synchronous = FULL"
            )  # acknowledged writes survive a power cut
            connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
        return connection


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageUnavailableError(
            f"Can't create the folder of the database: {folder}", folder=str(folder)
        ) from error


def _is_busy(error: Exception) -> bool:
    origin = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(origin, "sqlite_errorcode", None)
    # The lowest byte is the error code; the others are details.
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
