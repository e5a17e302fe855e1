"""`lorewell index` and `lorewell search`: straight on a database, and the same on a service."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedding import DIMENSIONS
from embedding_server import EmbeddingServer, embedding_server as started
from forked import CLI, started as started_program
from lorewell.cli import indexes
from process import running
from program import Lorewell

FERRY: dict[str, Any] = {
    "name": "雾隐渡",
    "entries": [
        {"id": "tower", "title": "灯塔", "content": "雾中的灯塔由哑女看守，鲸油点灯。"},
        {"id": "toll", "title": "Toll keeper", "content": "Marrow keeps\nthe toll pier.\x1b[2J"},
        {"id": "door", "content": "ประตูถูกปิดผนึก 🔒", "enabled": False},
    ],
}
LONG = {
    "name": "长卷 📜",
    "entries": [{"content": "".join(f"第{n:03}次潮水退去。" for n in range(400))}],
}
UNKNOWN = "99999999-9999-4999-8999-999999999999"


def settings(server: EmbeddingServer) -> dict[str, object]:
    return {
        "embedder": "openai",
        "embedding_url": server.url,
        "embedding_model": "tiny",
        "embedding_dimensions": DIMENSIONS,
        "embedding_batch_size": 2,
        "embedding_concurrency": 1,
        "embedding_retries": 0,
    }


@pytest.fixture(scope="module")
def shared_server() -> Iterator[EmbeddingServer]:
    with started() as server:
        yield server


@pytest.fixture
def server(shared_server: EmbeddingServer) -> EmbeddingServer:
    shared_server.behave()
    shared_server.forget()
    return shared_server


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, shared_server: EmbeddingServer) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("served")
    database = f"sqlite:///{folder / 'books.db'}"
    given = settings(shared_server)
    with running(folder / "log", database_url=database, **given) as served:
        yield served.url


class Program(Lorewell):
    """The program; what it works on is in the environment."""

    def create(self, content: object = FERRY) -> str:
        (made,) = self("book", "create", self.file("book.json", content), "--json").json["books"]
        return str(made["book_id"])


@pytest.fixture
def lorewell(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    server: EmbeddingServer,
) -> Program:
    """The program on a database of its own."""
    for name in list(os.environ):
        if name.startswith("LOREWELL_") and not name.startswith("LOREWELL_TEST"):
            monkeypatch.delenv(name)
    given = {"database_url": f"sqlite:///{tmp_path / 'lorewell.db'}", **settings(server)}
    for name, value in given.items():
        monkeypatch.setenv(f"LOREWELL_{name.upper()}", str(value))
    return Program(tmp_path, monkeypatch, capfd, columns=200)


@pytest.fixture(params=["database", "service"])
def anywhere(
    request: pytest.FixtureRequest, lorewell: Program, monkeypatch: pytest.MonkeyPatch
) -> Program:
    """The program on a database, and on a service."""
    if request.param == "service":
        monkeypatch.setenv("LOREWELL_URL", request.getfixturevalue("url"))
    # The service outlives a test, so each test has a tenant of its own.
    name = request.node.originalname.replace("_", "-")[-100:]
    monkeypatch.setenv("LOREWELL_TENANT", name)
    return lorewell


def test_a_book_is_indexed_once(anywhere: Program, server: EmbeddingServer) -> None:
    book_id = anywhere.create()
    done = anywhere("index", book_id)
    assert done.code == 0, done.err
    assert done.out.startswith(f"雾隐渡: revision 1 of {book_id} is indexed, 3 chunks, ")
    assert done.err == ""
    assert "灯塔\n雾中的灯塔由哑女看守，鲸油点灯。" in server.texts
    calls = server.calls
    again = anywhere("index", book_id)
    assert f"revision 1 of {book_id} was already indexed, 3 chunks" in again.out
    assert server.calls == calls
    assert anywhere("index", book_id, "--force").code == 0
    assert server.calls == 2 * calls


def test_a_revision_is_indexed_and_told_as_json(anywhere: Program) -> None:
    book_id = anywhere.create()
    longer = anywhere.file(
        "next.json", {**FERRY, "entries": [*FERRY["entries"], {"content": "雾"}]}
    )
    assert anywhere("book", "publish", book_id, longer, "--expected", "1").code == 0
    built = anywhere("index", book_id, "--revision", "1", "--json").json
    assert (built["revision"], built["status"], built["chunk_count"]) == (1, "ready", 3)
    assert (built["done"], built["usable"], built["error"]) == (3, True, None)
    assert built["reused"] is False
    assert anywhere("index", book_id, "--revision", "1", "--json").json["reused"] is True
    (listed,) = anywhere("index", "--list", "--json").json["indexes"]
    assert (listed["revision"], listed["status"]) == (2, "absent")


def test_all_that_is_in_use_is_indexed(anywhere: Program) -> None:
    books = [anywhere.create(), anywhere.create(LONG)]
    listed = anywhere("index", "--list")
    assert listed.words.count("1 absent") == 2
    done = anywhere("index", "--all")
    assert done.code == 0
    assert "1 ready 3 雾隐渡" in done.words
    assert "1 ready 4 长卷 📜" in done.words
    assert all(book in done.out for book in books)
    assert anywhere("index", "--all").out == "All indexes are ready.\n"
    assert anywhere("index", "--all", "--json").out == ""
    lines = anywhere("index", "--all", "--force", "--json").out.splitlines()
    assert {json.loads(line)["book_id"] for line in lines} == set(books)
    assert all(json.loads(line)["status"] == "ready" for line in lines)


def test_all_pages_are_gone_through(anywhere: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lorewell.cli.local._PAGE", 2)
    files = [
        anywhere.file(f"{number}.json", {"name": f"书{number}", "entries": [{"content": "灯"}]})
        for number in range(10)
    ]
    for _ in range(6):
        assert anywhere("book", "create", *files).code == 0
    assert len(anywhere("index", "--list", "--json").json["indexes"]) == 60


def test_a_build_that_fails_is_told_and_goes_on_later(
    anywhere: Program, server: EmbeddingServer
) -> None:
    book_id = anywhere.create(LONG)
    server.fail_after(1, 500)
    done = anywhere("index", book_id)
    assert done.code == 7
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert done.err.startswith("lorewell: ")
    assert "500" in done.err
    assert "潮水" not in done.err
    listed = anywhere("index", "--list")
    assert "1 failed 2/4 长卷 📜" in listed.words
    assert "长卷 📜, revision 1: " in listed.out
    failed = anywhere("index", book_id, "--json")
    assert failed.code == 7
    state = json.loads(failed.out)
    assert (state["status"], state["done"]) == ("failed", 2)
    assert "500" in state["error"]
    server.behave()
    server.forget()
    built = anywhere("index", book_id, "--json").json
    assert (built["status"], built["done"]) == ("ready", 4)
    assert len(server.texts) == 2  # the first two have their vectors


def test_one_failure_does_not_stop_the_others(anywhere: Program, server: EmbeddingServer) -> None:
    for number in range(3):
        anywhere.create({"name": f"第{number}册", "entries": [{"content": f"第{number}夜"}]})
    server.fail_after(1, 500, times=1)
    done = anywhere("index", "--all")
    assert done.code == 7
    assert done.words.count("1 ready 1") == 2
    assert done.words.count("1 failed 0/1") == 1
    assert done.out.splitlines()[-1].startswith("第")
    assert ", revision 1: " in done.out
    assert done.err == ""
    last = anywhere("index", "--all", "--json").json
    assert last["status"] == "ready"


def test_what_somebody_else_builds_is_told(lorewell: Program, server: EmbeddingServer) -> None:
    book_id = lorewell.create()
    server.hang(60)
    other = started_program((*CLI, "index", book_id), os.environ, lorewell.folder / "log")
    try:
        _wait_for(lambda: server.calls > 0)
        assert lorewell("index", "--list", "--json").json["indexes"][0]["status"] == "building"
        busy = lorewell("index", book_id)
        assert busy.code == 5
        assert "is being built" in busy.err
        every = lorewell("index", "--all")
        assert every.code == 5
        assert "雾隐渡, revision 1: The index of revision 1" in every.out
    finally:
        other.kill()
        other.wait()


def test_an_interrupted_build_says_that_it_was_stopped(
    lorewell: Program, server: EmbeddingServer
) -> None:
    book_id = lorewell.create()
    server.hang(60)
    program = subprocess.Popen(
        [sys.executable, *CLI, "index", book_id],
        env=os.environ.copy(),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    _wait_for(lambda: server.calls > 0)
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=30)
    assert program.returncode not in (0, None)
    assert out == ""
    assert "Traceback" not in err
    (state,) = lorewell("index", "--list", "--json").json["indexes"]
    assert state["status"] == "failed"
    assert "stopped" in state["error"]
    server.behave()
    assert lorewell("index", book_id).code == 0


def test_an_interrupted_wait_leaves_the_service_to_its_build(
    anywhere: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    book_id = anywhere.create()

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(indexes, "sleep", interrupt)
    done = anywhere("index", book_id)
    assert done.code != 0
    assert "Traceback" not in done.err
    assert ("The service continues with this book" in done.err) is ("LOREWELL_URL" in os.environ)


def test_a_bar_is_shown_on_a_terminal(lorewell: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    lorewell.create()
    lorewell.create(LONG)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    done = lorewell("index", "--all")
    assert "Indexing" in done.err
    assert "2/2" in done.err or "1/2" in done.err
    assert "Indexing" not in done.out


def test_without_vectors_the_setting_is_named(
    lorewell: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    book_id = lorewell.create()
    assert lorewell("index", book_id).code == 0
    monkeypatch.setenv("LOREWELL_EMBEDDER", "none")
    for args in ([book_id], ["--all"]):
        done = lorewell("index", *args)
        assert done.code == 5
        assert "LOREWELL_EMBEDDER" in done.err
    listed = lorewell("index", "--list")
    assert "1 unusable 3 雾隐渡" in listed.words
    assert "unusable: " in listed.out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "exactly one of BOOK, --all and --list"),
        ([UNKNOWN, "--all"], "exactly one of BOOK, --all and --list"),
        (["--all", "--list"], "exactly one of BOOK, --all and --list"),
        (["--all", "--revision", "1"], "--revision"),
        (["--list", "--force"], "--force"),
    ],
)
def test_options_that_contradict_are_refused(
    lorewell: Program, args: list[str], message: str
) -> None:
    done = lorewell("index", *args)
    assert done.code == 2
    assert message in done.err


def test_what_is_not_there_is_told(anywhere: Program) -> None:
    assert anywhere("index", "--list").out == "There are no books.\n"
    unknown = anywhere("index", UNKNOWN)
    assert (unknown.code, unknown.out) == (4, "")
    assert UNKNOWN in unknown.err
    book_id = anywhere.create()
    assert anywhere("index", book_id, "--revision", "7").code == 4
    assert anywhere("search", "灯塔", "--book", f"{book_id}@7").code == 4


def test_books_are_searched_by_words(anywhere: Program, server: EmbeddingServer) -> None:
    book_id = anywhere.create()
    done = anywhere("search", "toll pier")
    assert f"Toll keeper {book_id}:1:toll" in done.words
    assert r"Marrow keeps the toll pier.\x1b[2J" in done.words
    assert anywhere("search", "黄昏").out == "No entries found.\n"
    assert "door (disabled)" in anywhere("search", "ประตูถูกปิดผนึก").out
    assert server.calls == 0


def test_books_are_searched_by_meaning(anywhere: Program) -> None:
    book_id = anywhere.create()
    other = anywhere.create(LONG)
    assert anywhere("index", book_id).code == 0
    options = ("--book", book_id, "--mode", "vector", "--limit", "1")
    found = anywhere("search", "哑女看守灯塔", *options, "--json").json
    (best,) = found["results"]
    assert (best["entry_id"], best["lexical_score"]) == ("tower", None)
    assert best["vector_score"] == best["score"] > 0.3
    shown = anywhere("search", "哑女看守灯塔", *options)
    assert f"{best['score']:.4f} 灯塔" in shown.words.replace(f" {best['score']:.4f}", "", 1)
    both = anywhere("search", "灯塔", "--book", f"{book_id}@1", "--mode", "hybrid", "--json").json
    assert both["degraded"] == []
    assert both["results"][0]["vector_score"] is not None
    degraded = anywhere("search", "灯塔", "--mode", "hybrid")
    assert degraded.code == 0
    assert f"Search by meaning was unavailable: index_not_ready:{other}:1" in degraded.out
    refused = anywhere("search", "灯塔", "--mode", "vector", "--book", other)
    assert refused.code == 5
    assert "index" in refused.err


def test_long_excerpts_are_cut_in_the_table_alone(anywhere: Program) -> None:
    anywhere.create(LONG)
    shown = anywhere("search", "潮水")
    assert "…" in shown.out
    (found,) = anywhere("search", "潮水", "--json").json["results"]
    assert len(found["excerpt"]) == 600
    assert shown.out.count("潮水") < 12


@pytest.mark.parametrize("args", [["--mode", "guess"], ["--limit", "0"], ["--book", "x@y"]])
def test_searches_that_can_not_be_made_are_refused(lorewell: Program, args: list[str]) -> None:
    done = lorewell("search", "灯塔", *args)
    assert done.code == 2
    assert done.err.count("\n") == 1


def _wait_for(ready: Any) -> None:
    deadline = time.monotonic() + 30
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)
