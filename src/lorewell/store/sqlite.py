"""The store in one SQLite file: one connection that writes, and a few that read.

A unit of work runs whole in one hop to a thread: a hop for each statement costs ten times more.
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
from lorewell.store.statements import DatabaseFailedError, failing
from lorewell.store.transaction import SqlTransaction, Unit, run_whole, unit_of
from lorewell.store.vectors_sqlite import Matrices, SqliteVectors

Result = TypeVar("Result")

IN_MEMORY = ":memory:"
_PAUSE_SECONDS = 0.005
_BUSY_SECONDS = 0.1  # that SQLite waits for a lock by itself; then we ask again, up to a deadline
_NOT_A_DATABASE = "SQLITE_NOTADB"
_LEAST_FREE_BYTES = 1024 * 1024
_PROBE_BYTES = 65_536
_HEAR_SECONDS = 0.05  # a look takes 3 µs
_WRITE = "BEGIN IMMEDIATE"
_READ = "BEGIN"  # the snapshot is taken by the first statement after it


class SqliteTransaction(SqlTransaction, SqliteVectors):
    """A transaction on SQLite, with the matrices of the store that it is of."""

    def __init__(self, connection: Connection, matrices: Matrices) -> None:
        super().__init__(connection)
        self.matrices = matrices

    def _insert(self, table: Table) -> sqlite.Insert:
        return sqlite.insert(table)

    def _holds(self, column: Column[str], part: str) -> ColumnElement[bool]:
        return func.instr(column, part) > 0


class SqliteStore:
    """A `Store` in one file, which several processes may use at the same time.

    SQLite lets one transaction write at a time, so writes take turns on one thread; reads run
    beside them, each on its own snapshot.
    """

    def __init__(
        self, path: str, *, readers: int, wait_seconds: float, vector_cache_bytes: int
    ) -> None:
        """Take the path of a file, or `:memory:`; nothing is opened yet."""
        self._path = path
        self._make = partial(SqliteTransaction, matrices=Matrices(vector_cache_bytes))
        self._wait_seconds = wait_seconds
        self._writer = self._make_engine(_WRITE, connections=1)
        self._writing = ThreadPoolExecutor(1, "lorewell-writer")
        self._engines, self._executors = [self._writer], [self._writing]
        if path == IN_MEMORY:  # the database is its only connection, so it has only one thread
            self._reader, self._reading = self._writer, self._writing
        else:
            self._reader = self._make_engine(_READ, connections=readers)
            self._reading = ThreadPoolExecutor(readers, "lorewell-reader")
            self._engines.append(self._reader)
            self._executors.append(self._reading)
        self._watching: sqlite3.Connection | None = None
        self._probe = Probe(self._try_to_write)
        self._busy_since: float | None = None
        self._closed = False

    async def read(self, work: Callable[[Transaction], Result]) -> Result:
        """Run `work` in one consistent snapshot that shows every acknowledged write."""
        return await self._hop(self._reading, partial(self._read, unit_of(self._make, work)))

    def mark(self) -> Hashable | None:
        """Return SQLite's count of others' commits as one more connection sees it: 3 µs."""
        if self._path == IN_MEMORY or self._closed:
            return None  # in memory there is no other connection that could count
        try:
            if self._watching is None:
                self._watching = self._connect()
            (count,) = self._watching.execute("PRAGMA data_version").fetchone()
            return int(count)
        except (sqlite3.Error, StorageUnavailableError):
            return None  # a read will say what is wrong

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Run `work` and commit what it wrote, or nothing of it if it raises.

        It waits for others no longer than from now on, whether they are of this process or not.
        """
        unit, deadline = unit_of(self._make, work), time.monotonic() + self._wait_seconds
        return await self._hop(self._writing, partial(self._write, unit, deadline), is_timed=True)

    async def hear(self, heard: Callable[[], None]) -> None:
        """Call `heard` whenever the mark has changed; in memory there is nobody else to hear of."""
        last = self.mark()
        while True:
            await asyncio.sleep(_HEAR_SECONDS)
            now = self.mark()
            if now != last:
                last = now
                heard()

    async def prepare_tenant_search(self, embedding_version: str, dimensions: int) -> None:
        """Do nothing: all vectors are looked at, and that is fast."""

    async def migrate(self) -> None:
        """Bring the schema up to date, under the lock of a writer."""
        deadline = time.monotonic() + self._wait_seconds
        await self._hop(self._writing, partial(self._migrate, deadline))

    async def check(self) -> Part | None:
        """Return what is not ready, None if all is."""
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                part = await self._hop(self._reading, partial(self._read, migrations.find_part))
                if part is None and not await self._probe.takes_writes():
                    return "writes"
        except TimeoutError:
            return "storage"
        except StorageUnavailableError as error:
            is_other = error.details.get("reason") == _NOT_A_DATABASE
            return "not_a_database" if is_other else "storage"
        return part

    async def _try_to_write(self) -> bool:
        if self._path == IN_MEMORY:
            return True
        return await self._hop(self._reading, self._write_a_little)

    def _write_a_little(self) -> bool:
        """Return whether a write reaches the disk; what is written is rolled back.

        Not by the connection that writes, which others may wait for. While another one writes this
        one can't, and need not, unless that never ends.
        """
        path = Path(self._path)
        try:
            if shutil.disk_usage(path.parent).free < _LEAST_FREE_BYTES:
                return False
            with closing(self._connect()) as connection:
                connection.execute("PRAGMA busy_timeout = 0")
                connection.execute("PRAGMA cache_size = 1")  # what is more is written at once
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
        """Wait for the work that was begun, then let go of all connections and threads."""
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
        """Do the work in a thread; if it is timed, it has to begin while its caller waits."""
        if self._closed:
            raise StorageUnavailableError("The database is closed.")
        in_context: Callable[[], Result] = partial(copy_context().run, work)
        loop = asyncio.get_running_loop()
        if not is_timed:
            return await loop.run_in_executor(executor, in_context)
        submitted = executor.submit(in_context)
        timer = loop.call_later(self._wait_seconds, submitted.cancel)  # work that runs goes on
        try:
            return await asyncio.wrap_future(submitted)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            message = "The database is busy: other writes take too long."
            raise StorageUnavailableError(message, reason="queue") from None
        finally:
            timer.cancel()

    def _read(self, unit: Unit[Result]) -> Result:
        deadline = time.monotonic() + self._wait_seconds
        return self._patiently(self._reader, unit, deadline, commit=False)

    def _write(self, unit: Unit[Result], deadline: float) -> Result:
        return self._patiently(self._writer, unit, deadline, commit=True)

    def _migrate(self, deadline: float) -> None:
        with migrations.turn:
            self._write(migrations.upgrade, deadline)

    def _patiently(
        self, engine: Engine, unit: Unit[Result], deadline: float, *, commit: bool
    ) -> Result:
        """Run a unit of work, again and again while another process is in the way.

        SQLite waits by itself for most locks, but not for all: not while the file is opened by
        several processes at once, for one.
        """
        while True:
            try:
                with failing():
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
            pool_reset_on_return=None,  # a unit of work always ends its transaction itself
            hide_parameters=True,  # they are people's texts, and errors are logged
        )

        # The driver would begin transactions when it sees fit; here it never does, we do.
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
            check_same_thread=False,  # threads of one pool take turns with its connections
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # an answer given survives a power cut
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
            f"The folder of the database can't be made: {folder}", folder=str(folder)
        ) from error


def _is_busy(error: Exception) -> bool:
    origin = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(origin, "sqlite_errorcode", None)
    # The lowest byte is the error, what is above tells more of it.
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
