"""What can go wrong outside: the address, the file, the disk, the connection, others' locks."""

import asyncio
import contextlib
import os
import resource
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from sqlalchemy import text

from contract.harness import Harness, execute, opened
from contract.rows import add_book, head, revision, uuid
from lorewell.app.ports import Store, Transaction
from lorewell.errors import StorageUnavailableError, ValidationFailedError
from lorewell.store import open_store, probe, sqlite
from lorewell.store.postgres import PostgresStore
from lorewell.store.sqlite import SqliteStore, SqliteTransaction


@contextlib.contextmanager
def unready(store: Store) -> Iterator[Harness]:
    """Yield a store without making its tables."""
    with asyncio.Runner() as runner:
        harness = Harness(store, runner)
        yield harness
        harness.run(store.close())


def assert_unavailable(db: Harness, part: str = "storage") -> StorageUnavailableError:
    assert db.run(db.store.check()) == part
    for call in (
        db.store.read(lambda tx: tx.list_tenants()),
        db.store.write(lambda tx: tx.list_tenants()),
    ):
        with pytest.raises(StorageUnavailableError):
            db.run(call)
    with pytest.raises(StorageUnavailableError) as caught:
        db.run(db.store.migrate())
    assert caught.value.code == "storage_unavailable"
    return caught.value


@pytest.mark.parametrize(
    "url",
    [
        "mysql://ann:hunter2@host/db",
        "ann:hunter2@host/db",
        "ann:hunter2://host/db",
        "://hunter2",
        "sqlite://hunter2/books.db",
        "sqlite:hunter2",
        "",
    ],
)
def test_unknown_address_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValidationFailedError) as caught:
        open_store(url)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_store_names_no_driver_before_it_is_needed() -> None:
    code = (
        "import sys; sys.modules['asyncpg'] = None\n"
        "import lorewell, lorewell.store\n"
        "assert 'sqlalchemy' not in sys.modules, 'loaded early'\n"
        "lorewell.store.open_store('sqlite://')\n"
        "assert 'sqlalchemy' in sys.modules\n"
        "try: lorewell.store.open_store('postgresql://u:hunter2@h/d')\n"
        "except lorewell.store.ValidationFailedError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "lorewell[postgres]" in done.stdout
    assert "hunter2" not in done.stdout


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+asyncpg", "POSTGRES"])
def test_postgres_has_several_names(postgres_url: str, scheme: str) -> None:
    with opened(open_store(f"{scheme}://{postgres_url.partition('://')[2]}")) as db:
        assert db.read(lambda tx: tx.list_tenants()) == []


def test_database_in_memory_is_one_for_all_threads() -> None:
    with opened(open_store("sqlite://")) as db:
        db.write(add_book(1))
        results = db.all(*(db.store.read(lambda tx: tx.list_tenants()) for _ in range(20)))
        assert results == [["a"]] * 20
        assert db.run(db.store.check()) is None


def test_relative_path_and_odd_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "new folder/50% of 雾?#mode=ro.db"
    with opened(open_store(f"sqlite:///{name}")) as db:
        db.write(add_book(1))
    assert (tmp_path / name).is_file()
    with opened(open_store(f"sqlite:///{tmp_path}/{name}")) as db:
        assert db.read(lambda tx: tx.list_tenants()) == ["a"]


def test_folder_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with unready(open_store(f"sqlite:///{tmp_path}/file/folder/books.db")) as db:
        error = assert_unavailable(db)
    assert str(tmp_path / "file" / "folder") in str(error)


@pytest.mark.parametrize("what", ["text", "folder", "half"])
def test_file_that_is_no_database(tmp_path: Path, what: str) -> None:
    path = tmp_path / "books.db"
    if what == "folder":
        path.mkdir()
    elif what == "text":
        path.write_text("Dear diary, " * 1000)
    else:
        with opened(open_store(f"sqlite:///{path}")) as db:
            db.write(add_book(1))
        path.write_bytes(path.read_bytes()[:6000] + os.urandom(9000))
    with unready(open_store(f"sqlite:///{path}")) as db:
        if what == "half":
            with pytest.raises(StorageUnavailableError):
                db.write(add_book(2))
        elif what == "text":
            error = assert_unavailable(db, "not_a_database")
            assert str(error) == f"The file is not an SQLite database: {path}"
        else:
            assert_unavailable(db)


def test_full_disk_keeps_what_was_there(sqlite_url: str) -> None:
    with opened(open_store(sqlite_url)) as db:
        db.write(add_book(1))
        assert isinstance(db.store, SqliteStore)

        def limit(pages: str) -> None:
            assert isinstance(db.store, SqliteStore)
            with db.store._writer.connect() as connection:
                connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

        limit("60")
        with pytest.raises(StorageUnavailableError) as caught:
            db.write(add_book(2, content=os.urandom(1_000_000)))
        assert caught.value.details == {"reason": "SQLITE_FULL"}
        assert db.read(lambda tx: tx.find_heads("a", [uuid(1), uuid(2)])) == {uuid(1): head(1)}
        limit("1000000")
        db.write(add_book(2))


def test_lock_of_another_is_waited_for_and_not_for_ever(sqlite_url: str) -> None:
    path = sqlite_url.removeprefix("sqlite:///")
    with opened(open_store(sqlite_url, wait_seconds=0.3)) as db:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            begun = time.monotonic()
            with pytest.raises(StorageUnavailableError) as caught:
                db.write(add_book(1))
            assert 0.25 < time.monotonic() - begun < 5
            assert caught.value.details == {"reason": "SQLITE_BUSY"}
            assert db.read(lambda tx: tx.list_tenants()) == []  # readers don't mind
        db.write(add_book(1))

    with (
        opened(open_store(sqlite_url)) as db,
        contextlib.closing(
            sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        ) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.2, other.execute, ["ROLLBACK"])
        release.start()
        db.write(add_book(2))
        release.join()


@contextlib.contextmanager
def locked(url: str) -> Iterator[None]:
    """Keep everybody from writing."""
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///")
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
        return
    with asyncio.Runner() as runner:
        connection: Any = runner.run(asyncpg.connect(url))
        runner.run(connection.execute("BEGIN; LOCK TABLE books"))
        yield
        runner.run(connection.close())


def test_all_writers_behind_a_lock_give_up_at_the_same_time(url: str) -> None:
    """Each waits from when it was asked, whether it waits for the lock or for those before it."""
    with opened(open_store(url, wait_seconds=0.3, pool_size=2)) as db:
        with locked(url):
            begun = time.monotonic()
            results = db.all(*(db.store.write(add_book(number)) for number in range(30)))
            passed = time.monotonic() - begun
            assert all(isinstance(result, StorageUnavailableError) for result in results)
            assert 0.25 < passed < 3  # one after the other it would be 9
            assert db.run(db.store.check()) is None  # who writes meanwhile may end any time
        db.write(add_book(1))


def test_a_lock_that_is_never_given_back_is_told(sqlite_url: str) -> None:
    with opened(open_store(sqlite_url, wait_seconds=0.2)) as db, locked(sqlite_url):
        assert db.run(db.store.check()) is None
        time.sleep(probe._KEEP_SECONDS + 0.1)
        assert db.run(db.store.check()) == "writes"


def test_disk_that_takes_nothing_is_told(sqlite_url: str) -> None:
    with opened(open_store(sqlite_url)) as db:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8_192, hard))
        try:
            assert db.run(db.store.check()) == "writes"
            assert db.run(db.store.check()) == "writes"
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert db.read(lambda tx: tx.list_tenants()) == []
        time.sleep(probe._KEEP_SECONDS + 0.1)
        mark = db.store.mark()
        assert db.run(db.store.check()) is None
        assert db.store.mark() == mark  # nothing was committed for that


def test_disk_that_is_nearly_full_is_told(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_MIN_FREE_BYTES", 2**62)
    with opened(open_store(sqlite_url)) as db:
        assert db.run(db.store.check()) == "writes"


def test_database_that_takes_no_writes_is_told(make_database: Callable[[], str]) -> None:
    url = make_database()
    with opened(open_store(url)) as db:
        assert db.run(db.store.check()) is None
        name = urlsplit(url).path.removeprefix("/")
        execute(url, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        kill_connections(url)
        time.sleep(probe._KEEP_SECONDS + 0.1)
        assert db.run(db.store.check()) == "writes"


def test_an_attempt_to_write_that_hangs_counts_as_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_WAIT_SECONDS", 0.05)

    async def go() -> None:
        hangs = asyncio.Event()
        tried: list[int] = []

        async def attempt() -> bool:
            tried.append(1)
            await hangs.wait()
            return True

        held = probe.Probe(attempt)
        assert await asyncio.gather(held.takes_writes(), held.takes_writes()) == [False, False]
        hangs.set()
        await asyncio.sleep(0.01)
        assert await held.takes_writes()
        assert tried == [1]

    asyncio.run(go())


def test_file_that_another_opens_alone_is_waited_for(tmp_path: Path) -> None:
    """SQLite's own patience ends where the journal is chosen; ours does not."""
    path = tmp_path / "books.db"
    with contextlib.closing(
        sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    ) as other:
        other.executescript("CREATE TABLE other (id); BEGIN EXCLUSIVE")
        release = threading.Timer(0.3, other.execute, ["ROLLBACK"])
        release.start()
        with opened(open_store(f"sqlite:///{path}")) as db:
            assert db.run(db.store.check()) is None
        release.join()


def test_broken_connection_is_replaced(sqlite_url: str) -> None:
    def break_it(tx: Transaction) -> None:
        assert isinstance(tx, SqliteTransaction)
        driver = tx._connection.connection.driver_connection
        assert driver is not None
        driver.close()
        raise LookupError

    with opened(open_store(sqlite_url)) as db:
        with pytest.raises(LookupError):
            db.write(break_it)
        db.write(add_book(1))


def test_errors_tell_no_text_of_books(url: str) -> None:
    """They are logged with their causes, and the database's own words come with those."""
    with opened(open_store(url)) as db:
        db.write(add_book(1))
        with pytest.raises(Exception) as caught:  # noqa: PT011  whatever it is
            db.write(add_book(1, name="hunter2"))
    reported: list[str] = []
    error: BaseException | None = caught.value
    while error is not None:
        reported.append(f"{error!r} {error}")
        error = error.__cause__ or error.__context__
    assert len(reported) > 1
    assert "hunter2" not in "".join(reported)


@pytest.mark.parametrize(
    "address", ["postgresql://u:hunter2@127.0.0.1:9/d", "postgresql://u:hunter2@[bad/d?x=y"]
)
def test_server_that_is_not_there(address: str) -> None:
    with unready(open_store(address)) as db:
        error = assert_unavailable(db)
    assert "hunter2" not in f"{error!r} {error} {error.details} {error.__cause__!r}"


def test_database_that_is_not_there(postgres_server: str) -> None:
    address = urlsplit(postgres_server)._replace(path="/nowhere").geturl()
    with unready(open_store(address)) as db:
        assert_unavailable(db)


def kill_connections(url: str) -> None:
    execute(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


def test_idle_connections_that_died_are_replaced_unnoticed(postgres_url: str) -> None:
    with opened(open_store(postgres_url, pool_size=5)) as db:
        for _ in range(3):
            db.all(*(db.store.read(lambda tx: tx.list_tenants()) for _ in range(20)))
            kill_connections(postgres_url)
            db.write(
                lambda tx: tx.claim("a", "k", "h") or tx.settle("a", "k", status=1, response=b"")
            )


def in_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_lost_connection_in_the_middle_runs_the_work_again(postgres_url: str) -> None:
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        runs.append(len(runs))
        add_book(1)(tx)
        if len(runs) == 1:
            in_thread(lambda: kill_connections(postgres_url))
        add_book(2)(tx)

    with opened(open_store(postgres_url)) as db:
        db.write(work)
        assert runs == [0, 1]
        assert len(db.read(lambda tx: tx.find_heads("a", [uuid(1), uuid(2)]))) == 2


def test_connection_that_is_always_lost_is_given_up(postgres_url: str) -> None:
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        runs.append(len(runs))
        tx.list_tenants()
        in_thread(lambda: kill_connections(postgres_url))
        tx.list_tenants()

    with opened(open_store(postgres_url)) as db:
        with pytest.raises(StorageUnavailableError):
            db.write(work)
        assert len(runs) == 5
        assert db.read(lambda tx: tx.list_tenants()) == []


def test_connection_lost_at_the_commit_is_not_tried_again(postgres_url: str) -> None:
    """Nobody knows whether it was done, and to do it twice may be wrong."""
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        runs.append(len(runs))
        add_book(1)(tx)
        in_thread(lambda: kill_connections(postgres_url))

    with opened(open_store(postgres_url)) as db:
        with pytest.raises(StorageUnavailableError):
            db.write(work)
        assert runs == [0]


def test_deadlock_is_solved_by_another_run(postgres_url: str) -> None:
    """Two batches store the same contents, each the other's first one last."""

    def batch(first: int, contents: list[bytes]) -> Callable[[Transaction], None]:
        def work(tx: Transaction) -> None:
            for number, content in enumerate(contents, start=first):
                add_book(number, content=content)(tx)

        return work

    contents = [b"%d" % number for number in range(40)]
    with opened(open_store(postgres_url)) as db:
        results = db.all(
            db.store.write(batch(0, contents)), db.store.write(batch(100, contents[::-1]))
        )
        assert results == [None, None]
        found = db.read(lambda tx: tx.find_heads("a", [uuid(39), uuid(139)]))
        assert len(found) == 2


def test_slow_answer_is_not_waited_for_for_ever(postgres_url: str) -> None:
    with (
        opened(open_store(postgres_url)) as first,
        opened(open_store(postgres_url, wait_seconds=0.3)) as second,
    ):
        first.write(add_book(1))
        failed: list[Exception] = []

        def wait() -> None:
            try:
                second.write(lambda tx: tx.find_head("a", uuid(1), lock=True))
            except StorageUnavailableError as error:
                failed.append(error)

        def hold(tx: Transaction) -> None:
            tx.find_head("a", uuid(1), lock=True)
            in_thread(wait)

        first.write(hold)
        assert len(failed) == 1
        assert second.write(lambda tx: tx.find_head("a", uuid(1), lock=True)) == head(1)


def test_more_callers_than_connections_wait_their_turn(postgres_url: str) -> None:
    with opened(open_store(postgres_url, pool_size=1)) as db:
        results = db.all(*(db.store.write(add_book(number)) for number in range(60)))
        assert results == [None] * 60


def test_without_prepared_statements_all_works_the_same(postgres_url: str) -> None:
    with opened(open_store(postgres_url, statement_cache_size=0)) as db:
        db.write(add_book(1))
        for number in range(2, 6):
            row = revision(1, number)
            db.write(lambda tx, row=row: tx.insert_revision(row, b"{}"))
        rows = db.read(lambda tx: tx.list_revisions("a", uuid(1), limit=9, before=None))
        assert len(rows) == 5
        # A pooler gives each transaction another connection: no name may outlive its own.
        named = text("SELECT count(*) FROM pg_prepared_statements")
        assert isinstance(db.store, PostgresStore)
        unit = db.store._run(db.store._engine, lambda each: each.scalar(named), commit=False)
        assert db.run(unit) == 0
