"""Several processes on one database, and one that is killed in the middle of it."""

import contextlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from contract.harness import Harness, opened
from contract.rows import digest, uuid
from lorewell.app.ports import Transaction
from lorewell.store import open_store

TESTS = Path(__file__).resolve().parents[1]


@contextlib.contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-W", "error", str(TESTS / "contract" / "writer.py"), *arguments],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def finish(process: subprocess.Popen[str]) -> list[str]:
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    return output.split()


def count_whole_books(db: Harness, tenant_id: str) -> int:
    """Return how many books the tenant has, after a look at each: all of it must be there."""

    def look(tx: Transaction) -> int:
        heads = tx.list_heads(
            tenant_id, limit=9999, after=None, name_contains=None, include_deleted=True
        )
        numbers = [int(head.book_id[-12:]) for head in heads]
        assert sorted(numbers) == list(range(len(numbers)))
        for number in numbers:
            content = f"{tenant_id} {number} ".encode() * 500
            row = tx.find_revision(tenant_id, uuid(number), 1)
            assert row is not None
            assert row.content_hash == digest(content)
            assert tx.get_content(tenant_id, row.content_hash) == content
        return len(numbers)

    return db.read(look)


def test_two_writing_processes_lose_nothing(url: str) -> None:
    with opened(open_store(url)) as db:
        with started("write", url, "a", "200") as one, started("write", url, "b", "200") as two:
            assert finish(one) == finish(two) == [str(number) for number in range(200)]
        assert [count_whole_books(db, tenant_id) for tenant_id in "ab"] == [200, 200]


def test_killed_process_leaves_whole_writes(url: str) -> None:
    with opened(open_store(url)) as db:
        acknowledged = 0
        with started("write", url, "a", "100000") as process:
            assert process.stdout is not None
            for acknowledged, line in enumerate(process.stdout, start=1):
                assert line == f"{acknowledged - 1}\n"
                if acknowledged == 30:
                    process.kill()
        assert acknowledged >= 30
        count = count_whole_books(db, "a")
        assert acknowledged <= count <= acknowledged + 1
        with started("write", url, "b", "3") as process:
            assert finish(process) == ["0", "1", "2"]
    if url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def test_three_processes_migrate_an_empty_database_once(empty_url: str) -> None:
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(started("migrate", empty_url)) for _ in range(3)]
        assert [finish(process) for process in processes] == [["None"]] * 3
