"""Floods on raw connections, without a key: they end soon, and nobody else waits for them."""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from process import Server, running

LIVE = "/v1/live?tenant_id=a&prompt_id=p"
ATTACK_S = 0.4
LONGEST_S = 1.5  # an unhindered answer takes a hundredth of it; each flood once took 4 s or more
PING, PONG, TEXT, BEGIN, MORE = 0x89, 0x8A, 0x81, 0x01, 0x00

Attack = Callable[[socket.socket], None]


@pytest.fixture(name="server", scope="module")
def server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("floods")
    given = {"live": "true", "max_connections": 100, "log_level": "error"}
    with running(folder / "log", database_url=f"sqlite:///{folder}/lorewell.db", **given) as server:
        yield server


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=5)


def handshake(path: str = LIVE) -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    lines = (
        f"GET {path} HTTP/1.1",
        "Host: localhost",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}",
    )
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"


def opened(server: Server) -> socket.socket:
    client = connect(server)
    client.sendall(handshake())
    head = b""
    while b"\r\n\r\n" not in head:
        head += client.recv(4096)
    assert head.startswith(b"HTTP/1.1 101 ")
    return client


def frame(kind: int, data: bytes = b"") -> bytes:
    """Return a client's frame, masked with zeros."""
    length = len(data)
    if length < 126:
        return bytes((kind, 0x80 | length)) + bytes(4) + data
    return struct.pack("!BBH", kind, 0x80 | 126, length) + bytes(4) + data


def end_of(client: socket.socket) -> tuple[int, str]:
    """Return how the server closed a socket."""
    with client.makefile("rb") as file, suppress(ConnectionError):
        while head := file.read(2):
            length = head[1] if head[1] < 126 else int.from_bytes(file.read(2), "big")
            data = file.read(length)
            if head[0] == 0x88:
                return int.from_bytes(data[:2], "big"), data[2:].decode()
    return 0, ""


@pytest.mark.parametrize(
    "flood",
    [
        frame(PING) * 40_000,
        frame(PONG) * 40_000,
        frame(TEXT) * 40_000,
        frame(0x82) * 40_000,
        frame(BEGIN) + frame(MORE) * 40_000,
        frame(BEGIN, b"x") + frame(MORE, b"x") * 40_000,
        (frame(TEXT, b"x") + frame(PING)) * 20_000,
    ],
    ids=["pings", "pongs", "texts", "bytes", "fragments", "small fragments", "mixed"],
)
def test_too_many_small_frames_end_a_socket(server: Server, flood: bytes) -> None:
    with opened(server) as client:
        threading.Thread(target=_send, args=(client, flood), daemon=True).start()
        begin = time.monotonic()
        assert end_of(client) == (1008, "too_many_frames")
        assert time.monotonic() - begin < 10


def test_frames_of_a_usual_client_are_fine(server: Server) -> None:
    with opened(server) as client:
        client.sendall(frame(PING, b"still there") * 150)
        large = frame(BEGIN, b"x" * 2_000)
        client.sendall(large + frame(MORE, b"x" * 2_000) * 1_000 + frame(0x80))
        client.sendall(frame(PING, b"last") + frame(0x88, struct.pack("!H", 1000)))
        assert end_of(client) == (1000, "")


def test_frames_before_the_handshake_is_answered_wait(server: Server) -> None:
    with connect(server) as client:
        client.sendall(handshake() + frame(PING, b"early") + frame(0x88, struct.pack("!H", 1000)))
        received = b""
        with suppress(ConnectionError):
            while piece := client.recv(65_536):
                received += piece
        head, _, rest = received.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 ")
        assert b"\x8a\x05early" in rest


def test_a_frame_that_is_not_masked_or_compressed_ends_a_socket(server: Server) -> None:
    for bad in (b"\x81\x01x", b"\xc1\x81\0\0\0\0x", b"\x83\x80\0\0\0\0", b"\x09\x80\0\0\0\0"):
        with opened(server) as client:
            client.sendall(bad)
            assert end_of(client)[0] == 1002


def _send(client: socket.socket, data: bytes) -> None:
    with suppress(OSError):
        client.sendall(data)


def open_and_send(server: Server, data: bytes, *, times: int = 50) -> Callable[[], None]:
    def attack() -> None:
        with opened(server) as client:
            client.settimeout(ATTACK_S)
            for _ in range(times):
                client.sendall(data)

    return attack


def connect_and_send(
    server: Server, head: bytes, data: bytes, *, times: int = 50
) -> Callable[[], None]:
    def attack() -> None:
        with connect(server) as client:
            client.settimeout(ATTACK_S)
            client.sendall(head)
            for _ in range(times):
                client.sendall(data)
            time.sleep(0.1)

    return attack


def connect_often(server: Server) -> Callable[[], None]:
    def attack() -> None:
        with ExitStack() as stack:
            for _ in range(100):
                stack.enter_context(connect(server))

    return attack


GET = b"GET /v1/books?tenant_id=a HTTP/1.1\r\nHost: localhost\r\n"
POST = (
    b"POST /v1/books?tenant_id=a HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)
ATTACKS: dict[str, Callable[[Server], Callable[[], None]]] = {
    "pings": lambda server: open_and_send(server, frame(PING) * 40_000),
    "fragments": lambda server: open_and_send(server, frame(MORE) * 40_000),
    "texts": lambda server: open_and_send(server, frame(TEXT) * 40_000),
    "early pings": lambda server: connect_and_send(server, handshake(), frame(PING) * 40_000),
    "chunks": lambda server: connect_and_send(server, POST, b"1\r\nx\r\n" * 40_000),
    "trailers": lambda server: connect_and_send(server, POST + b"0\r\n", b"X: a\r\n" * 40_000),
    "extensions": lambda server: connect_and_send(server, POST + b"1;", b"a=b;" * 40_000),
    "headers": lambda server: connect_and_send(server, GET, b"a:\r\n" * 40_000),
    "blank lines": lambda server: connect_and_send(server, b"", b"\r\n" * 100_000),
    "requests": lambda server: connect_and_send(server, b"", (GET + b"\r\n") * 3_000),
    "small requests": lambda server: connect_and_send(
        server, b"", b"GET / HTTP/1.1\r\n\r\n" * 10_000
    ),
    "upgrades": lambda server: connect_and_send(
        server, b"", (GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n") * 3_000
    ),
    "connections": connect_often,
}


@pytest.mark.parametrize("name", ATTACKS)
def test_nobody_else_waits(server: Server, name: str) -> None:
    attack = ATTACKS[name](server)
    until = time.monotonic() + ATTACK_S

    def repeat() -> None:
        while time.monotonic() < until:
            with suppress(OSError, AssertionError):  # refused, or cut off: as it should be
                attack()

    attackers = [threading.Thread(target=repeat, daemon=True) for _ in range(4)]
    for each in attackers:
        each.start()
    longest = 0.0
    while time.monotonic() < until:
        begin = time.monotonic()
        assert ask(server, "/readyz").startswith(b"HTTP/1.1 200 ")
        longest = max(longest, time.monotonic() - begin)
        time.sleep(0.01)
    assert longest < LONGEST_S
    for each in attackers:
        each.join()


def ask(server: Server, path: str) -> bytes:
    """Return the answer on a connection of its own."""
    with connect(server) as client:
        client.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
        return client.makefile("rb").read()


def test_many_connections_with_requests_sent_ahead(server: Server) -> None:
    clients = [connect(server) for _ in range(60)]
    try:
        for client in clients:
            client.sendall((GET + b"\r\n") * 150)
        begin = time.monotonic()
        assert ask(server, "/readyz").startswith(b"HTTP/1.1 200 ")
        assert time.monotonic() - begin < LONGEST_S  # all of them would take several seconds
    finally:
        for client in clients:
            client.close()


def test_requests_sent_ahead_are_answered_in_order(server: Server) -> None:
    with connect(server) as client:
        paths = [f"/nothing/{number}" for number in range(40)]
        asked = "".join(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Request-ID: {path}\r\n\r\n"
            for path in paths
        )
        client.sendall(asked.encode())
        requested: list[str] = []
        with client.makefile("rb") as file:
            while len(requested) < len(paths):
                line = file.readline()
                assert line
                if line.startswith(b"x-request-id: "):
                    requested.append(line.split()[1].decode())
        assert requested == paths


def test_one_connection_too_many_makes_room_or_is_refused(server: Server) -> None:
    silent = [connect(server) for _ in range(100)]
    try:
        assert ask(server, "/readyz").startswith(b"HTTP/1.1 200 ")
        for client in silent:
            client.close()
        time.sleep(0.1)
        silent = [opened(server) for _ in range(100)]  # busy ones: none can go
        answer = ask(server, "/readyz")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        problem = json.loads(body)
        assert (problem["code"], problem["details"]) == ("overloaded", {"limit": 100})
        assert "LOREWELL_MAX_CONNECTIONS" in problem["detail"]
    finally:
        for client in silent:
            client.close()
