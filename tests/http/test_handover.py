"""Large requests, which a second process answers."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from process import Server, running
from service import BOOK
from siege.service import family

MOST_BYTES = 2_000
LARGE = {**BOOK, "description": "灯塔🏮" * 1_000}
_PATIENCE_S = 30.0


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def large_process(server: Server) -> int | None:
    """Return the process that answers large requests."""
    for pid in family(server._process.pid)[1:]:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"lorewell.http.server" in words:
            return pid
    return None


@pytest.fixture(name="server", scope="module")
def server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("handover")
    given = {"database_url": f"sqlite:///{folder / 'a.db'}", "log_format": "json"}
    with running(folder / "log", handover_bytes=MOST_BYTES, **given) as server:
        until(lambda: large_process(server) is not None)
        yield server


def test_only_large_requests_need_the_second_process(server: Server) -> None:
    pid = large_process(server)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        assert server.client.post("/v1/books", json=BOOK).status_code == 201
        with pytest.raises(httpx.ReadTimeout):
            server.client.post("/v1/books", json=LARGE, timeout=1)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert server.client.post("/v1/books", json=LARGE).status_code == 201


def test_a_handed_over_book_is_whole(server: Server) -> None:
    made = server.client.post("/v1/books", json=LARGE).json()["books"][0]
    book = server.client.get(f"/v1/books/{made['book_id']}").json()
    assert book["revision"]["description"] == LARGE["description"]


@pytest.mark.parametrize("piece", [1, 100, 5_000])
def test_bodies_in_chunks_and_pieces(server: Server, piece: int) -> None:
    body = json.dumps(LARGE).encode()
    head = (
        "POST /v1/books?tenant_id=demo HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as line:
        start = head + body[:300]
        for at in range(0, len(start), piece):
            line.sendall(start[at : at + piece])
        line.sendall(body[300:])
        assert line.recv(100).startswith(b"HTTP/1.1 201")
    pieces = (body[at : at + 1_000] for at in range(0, len(body), 1_000))
    kind = {"Content-Type": "application/json"}
    assert server.client.post("/v1/books", content=pieces, headers=kind).status_code == 201


def test_one_connection_for_small_and_large_requests(server: Server) -> None:
    def request(document: object) -> bytes:
        body = json.dumps(document).encode()
        lines = (
            "POST /v1/books?tenant_id=demo HTTP/1.1",
            "Host: localhost",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        )
        return "\r\n".join((*lines, "", "")).encode() + body

    documents = [BOOK, LARGE, BOOK, LARGE, BOOK]
    for sends in ([*map(request, documents)], [b"".join(map(request, documents))]):
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as line:
            got = b""
            for each in sends:
                line.sendall(each)
            while got.count(b"HTTP/1.1 201") < len(documents):
                got += line.recv(65_536)


def test_small_files_go_there_too(server: Server) -> None:
    pid = large_process(server)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    files = {"file": ("w.json", b'{"entries": {}}')}
    try:
        with pytest.raises(httpx.ReadTimeout):
            server.client.post("/v1/imports/preview", files=files, timeout=1)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert server.client.post("/v1/imports/preview", files=files).status_code == 200


def test_the_connections_limits_hold_in_the_second_process(server: Server) -> None:
    kind = {"Content-Type": "application/json"}
    answer = server.client.post("/v1/books", content=b"[" * 10_000, headers=kind)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed_json")
    text = server.client.get("/metrics").text
    assert 'lorewell_http_requests_total{method="POST",route="/v1/books",status="400"}' in text


def test_a_killed_process_is_started_again(server: Server) -> None:
    before = large_process(server)
    assert before is not None
    os.kill(before, signal.SIGKILL)
    until(lambda: large_process(server) not in {None, before})
    assert server.client.post("/v1/books", json=LARGE).status_code == 201
    assert server.is_running


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_both_processes_end(tmp_path: Path, number: signal.Signals, workers: int) -> None:
    given = {"database_url": f"sqlite:///{tmp_path / 'a.db'}", "workers": workers}
    server = Server(tmp_path / "log", handover_bytes=MOST_BYTES, **given)
    until(lambda: large_process(server) is not None)
    assert server.client.post("/v1/books", json=LARGE).status_code == 201
    pids = family(server._process.pid)
    if workers > 1 and number == signal.SIGKILL:
        pids = [pid for pid in pids if pid in {server._process.pid, large_process(server)}]
    server.signal(number)
    server._process.wait(timeout=_PATIENCE_S)
    until(lambda: not any(family(pid) for pid in pids))
    server.client.close()
