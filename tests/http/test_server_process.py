"""A real server: limits on real sockets, kills, restarts, several processes."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import httpx
import pytest

from forked import SERVICE, finished
from process import Server, environment, free_port, running
from service import BOOK

MIB = 1024 * 1024
SECRET = "xyzzy-nobody-may-read-this"  # noqa: S105  no password


IS_DEEP = os.environ.get("LOREWELL_HYPOTHESIS") == "deep"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'lorewell.db'}"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def server(url: str, log: Path) -> Iterator[Server]:
    with running(log, database_url=url) as server:
        yield server


def post(*fields: str) -> bytes:
    """Return the head of a request that stores a book."""
    head = "POST /v1/books?tenant_id=demo HTTP/1.1"
    lines = (head, "Host: localhost", "Content-Type: application/json", *fields)
    return "\r\n".join((*lines, "", "")).encode()


class Raw:
    """A connection on which anything can be sent."""

    def __init__(self, server: Server) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> bool:
        """Return whether the other side still takes it."""
        try:
            self._socket.sendall(data)
        except OSError:
            return False
        return True

    def answer(self) -> bytes:
        """Return what comes until the other side is done, or one answer has come."""
        received = b""
        while True:
            head, separator, body = received.partition(b"\r\n\r\n")
            if separator:
                fields = head.decode().lower().split("content-length: ")
                if len(fields) > 1 and len(body) >= int(fields[1].split("\r\n")[0]):
                    return received
            try:
                piece = self._socket.recv(65_536)
            except OSError:
                return received
            if not piece:
                return received
            received += piece

    def is_closed_within(self, seconds: float) -> bool:
        self._socket.settimeout(seconds)
        try:
            while self._socket.recv(65_536):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True


def test_a_declared_body_over_the_limit_is_refused_before_it_is_sent(server: Server) -> None:
    with Raw(server) as raw:
        raw.send(post(f"Content-Length: {48 * MIB + 1}"))
        answer = raw.answer()
    assert answer.startswith(b"HTTP/1.1 413")
    assert b'"body_too_large"' in answer
    assert b"connection: close" in answer.lower()


def test_a_body_of_exactly_the_limit_is_read(server: Server) -> None:
    body = b'{"name": "' + b"n" * (48 * MIB - 12) + b'"}'
    assert len(body) == 48 * MIB
    headers = {"Content-Type": "application/json"}
    answer = server.client.post("/v1/books", content=body, headers=headers)
    assert answer.status_code == 422  # read, and then found to be a long name
    answer = server.client.post("/v1/books", content=body + b" ", headers=headers)
    assert answer.json()["code"] == "body_too_large"


def test_endless_bodies_are_refused_early_and_take_no_memory(server: Server) -> None:
    server.client.post("/v1/books", json=BOOK)  # what is loaded late, is
    begin, highest = server.rss_bytes(), 0
    chunk = b"%x\r\n%b\r\n" % (MIB, b"[" * MIB)
    for _ in range(3):
        taken = 0
        with Raw(server) as raw:
            raw.send(post("Transfer-Encoding: chunked"))
            while taken < 1024 and raw.send(chunk):
                taken += 1
                highest = max(highest, server.rss_bytes())
            answer = raw.answer()
        assert answer == b"" or answer.startswith(b"HTTP/1.1 413")
        assert taken < 120
    grown = (highest - begin) // MIB
    print(f"of 1,024 MiB {taken} were taken; memory grew by {grown} MiB at most")
    assert grown < 20
    assert server.client.get("/healthz").status_code == 200


def test_a_client_that_reads_meanwhile_sees_the_refusal_of_an_endless_body(server: Server) -> None:
    def pieces() -> Iterator[bytes]:
        yield from itertools.repeat(b"[" * MIB, 1024)

    headers = {"Content-Type": "application/json"}
    answer = server.client.post("/v1/books", content=pieces(), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


def test_an_endless_file_is_refused_early(server: Server) -> None:
    head = b'--x\r\nContent-Disposition: form-data; name="files"; filename="f"\r\n\r\n'
    taken = []

    def pieces() -> Iterator[bytes]:
        yield head
        for _ in range(1024):
            taken.append(MIB)
            yield b"x" * MIB

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = server.client.post("/v1/imports/files", content=pieces(), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "file_too_large")
    assert sum(taken) < 64 * MIB


def test_deep_nesting_is_refused(server: Server) -> None:
    headers = {"Content-Type": "application/json"}
    for depth, expected in ((100, "validation_error"), (101, "malformed_json"), (10**6, None)):
        body = b"[" * depth + b"]" * depth
        answer = server.client.post("/v1/books", content=body, headers=headers)
        assert answer.json()["code"] == (expected or "malformed_json")


def test_slow_senders_are_given_up(url: str, log: Path) -> None:
    with running(log, database_url=url, body_timeout_s=1) as server, Raw(server) as raw:
        begin = time.monotonic()
        raw.send(post("Content-Length: 900"))
        dripping = threading.Thread(
            target=lambda: [raw.send(b"x") and time.sleep(0.1) for _ in range(100)]
        )
        dripping.start()
        answer = raw.answer()
        assert answer.startswith(b"HTTP/1.1 408")
        assert b'"request_timeout"' in answer
        assert raw.is_closed_within(10)
        assert time.monotonic() - begin < 10
        dripping.join()


def test_a_head_has_bounds(server: Server) -> None:
    with Raw(server) as raw:
        raw.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        lines = (raw.send(b"X: " + b"x" * 1000 + b"\r\n") for _ in range(10_000))
        assert sum(itertools.takewhile(bool, lines)) < 5_000
        assert raw.answer()[:12] in (b"HTTP/1.1 431", b"")
    assert server.client.get("/healthz").status_code == 200


def test_what_is_no_http_is_refused(server: Server) -> None:
    for line in (b"\x16\x03\x01 hello", b"GET / HTTP/9.9", b"GET /\xff HTTP/1.1"):
        with Raw(server) as raw:
            raw.send(line + b"\r\n\r\n")
            assert not raw.answer().startswith(b"HTTP/1.1 5")
    assert server.client.get("/healthz").status_code == 200


@pytest.mark.parametrize(("database", "rounds"), [("url", 6), ("postgres_url", 3)])
def test_an_acknowledged_book_survives_a_kill(
    database: str, rounds: int, log: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(database)
    made: list[str] = []
    for number in range(rounds * (33 if IS_DEEP else 1)):
        server = Server(log, database_url=url, log_level="warning")
        page = {"limit": "200"}
        stored = server.client.get("/v1/books", params=page).json()["books"]
        assert {each["book_id"] for each in stored} == set(made)
        answer = server.client.post("/v1/books", json={**BOOK, "name": f"Book {number}"})
        server.kill()
        assert answer.status_code == 201
        made.append(answer.json()["books"][0]["book_id"])


def test_a_kill_among_many_writers_loses_nothing_that_was_acknowledged(url: str, log: Path) -> None:
    made: list[str] = []
    server = Server(log, database_url=url, log_level="warning")

    def write(writer: int) -> None:
        with httpx.Client(base_url=server.url, timeout=30) as client:
            for number in itertools.count():
                try:
                    book = {"name": f"{writer}-{number}"}
                    answer = client.post("/v1/books", json=book, params={"tenant_id": "demo"})
                except httpx.TransportError:
                    return
                made.append(answer.json()["books"][0]["book_id"])

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    server.kill()
    for thread in threads:
        thread.join()
    with running(log, database_url=url) as server:
        for book_id in made:
            assert server.client.get(f"/v1/books/{book_id}").status_code == 200
    assert made


def test_ending_lets_requests_finish_and_writes_what_waits(url: str, log: Path) -> None:
    with running(log, database_url=url) as server:
        made = server.client.post("/v1/books", json=BOOK).json()["books"][0]
        turn = {"books": [{"book_id": made["book_id"]}], "query": "lamp"}
        found = server.client.post("/v1/context/select", json=turn).json()
        with Raw(server) as raw:
            raw.send(post("Content-Length: 13") + b'{"name":')
            time.sleep(0.3)
            ended = threading.Thread(target=server.stop)
            ended.start()
            time.sleep(0.3)
            raw.send(b' "X"}')
            assert raw.answer().startswith(b"HTTP/1.1 201")
            ended.join()
    with running(log, database_url=url) as server:
        path = f"/v1/selections/{found['selection_fingerprint']}"
        assert server.client.get(path).status_code == 200
        names = {each["name"] for each in server.client.get("/v1/books").json()["books"]}
        assert names == {"Harbour", "X"}


def refused(**given: object) -> str:
    """Return why a server did not start."""
    done = finished(SERVICE, environment(**given))
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "lore.example", "0"])  # noqa: S104  refused
def test_an_open_address_without_keys_is_refused(host: str) -> None:
    assert "LOREWELL_AUTH=true" in refused(host=host)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"port": "many"}, "LOREWELL_PORT"),
        ({"database_url": f"mysql://root:{SECRET}@host/name"}, "mysql"),
        ({"database_url": f"{SECRET}"}, "sqlite:///"),
        ({"tokenizer": "no-such-tokenizer"}, "no-such-tokenizer"),
        ({"config": "/no/such/file.toml"}, "LOREWELL_CONFIG"),
    ],
)
def test_a_bad_setting_is_told_and_no_password(given: dict[str, str], named: str) -> None:
    logged = refused(**given)
    assert named in logged
    assert SECRET not in logged


@pytest.mark.parametrize("given", [{"allow_unauthenticated": "true"}, {"auth": "true"}])
def test_an_open_address_can_be_allowed(url: str, log: Path, given: dict[str, str]) -> None:
    with running(log, database_url=url, host="0.0.0.0", **given) as server:  # noqa: S104  for a moment
        status = server.client.get("/v1/books").status_code
        assert status == (401 if "auth" in given else 200)
        foreign = server.client.get("/v1/books", headers={"Host": "lore.example"})
        assert foreign.status_code == 421


def test_two_processes_share_one_file(url: str, log: Path) -> None:
    with running(log, database_url=url, workers=2, log_format="json") as server:
        book_id = server.client.post("/v1/books", json=BOOK).json()["books"][0]["book_id"]

        def publish(_: int) -> str:
            body = {**BOOK, "expected_revision": 1}
            path = f"{server.url}/v1/books/{book_id}/revisions?tenant_id=demo"
            answer = httpx.post(path, json=body, timeout=60)
            return answer.json().get("code", str(answer.status_code))

        with ThreadPoolExecutor(16) as pool:
            assert Counter(pool.map(publish, range(50))) == {"201": 1, "revision_conflict": 49}
            key = {"Idempotency-Key": "twins"}

            def create(_: int) -> str:
                path = f"{server.url}/v1/books?tenant_id=twins"
                answer = httpx.post(path, json=BOOK, headers=key, timeout=60)
                return str(answer.json()["books"][0]["book_id"])

            assert len(set(pool.map(create, range(50)))) == 1
        counted = server.client.get("/metrics").text
        publishing = 'method="POST",route="/v1/books/{book_id}/revisions",status="409"'
        assert f"lorewell_http_requests_total{{{publishing}}} 49.0" in counted
    starts = [json.loads(line)["event"] for line in server.log().splitlines()]
    assert sum(event.startswith("Started server process") for event in starts) == 2


def test_a_log_of_a_server_holds_no_lore(url: str, log: Path) -> None:
    entry = {"content": SECRET, "keys": [SECRET]}
    with running(log, database_url=url, log_level="debug") as server:
        made = server.client.post("/v1/books", json={"name": SECRET, "entries": [entry]})
        turn = {"books": [{"book_id": made.json()["books"][0]["book_id"]}], "query": SECRET}
        assert server.client.post("/v1/context/select", json=turn).status_code == 200
        server.client.get("/v1/books", params={"q": SECRET, "x": "\x00"})
    assert "route=/v1/context/select" in server.log()
    assert SECRET not in server.log()


def test_any_asgi_server_can_run_the_factory(url: str, log: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--factory", "--port", str(port)]
    factory = "lorewell.http.server:app_from_environment"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, factory], env=environment(database_url=url), stdout=file, stderr=file
        )
    try:
        transport = httpx.HTTPTransport(retries=10)
        with httpx.Client(transport=transport, base_url=f"http://127.0.0.1:{port}") as client:
            assert client.get("/readyz").status_code == 200
    finally:
        process.terminate()
        process.wait()
