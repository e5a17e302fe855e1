"""How hostile callers send what they send, over plain sockets."""

from __future__ import annotations

import re
import select
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from siege.attack import HOST, Caller, Ended, Site

_CONNECT_S = 2.0
_LOOK_S = 0.1  # how often a caller that waits looks whether it shall end
_PIECE = 1 << 18
_KEPT_BYTES = 65_536
_LAST_CHUNK = b"0\r\n\r\n"
_UNKNOWN = -1
_LITTLE_BYTES = 4_096
_LATE_S = 1.5
_CODE = re.compile(rb'"code":\s*"([a-z_]+)"')
_HANDSHAKE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
_MASKED_EMPTY = b"\x80\0\0\0\0"
PING, PONG = b"\x89" + _MASKED_EMPTY, b"\x8a" + _MASKED_EMPTY
CONTINUATIONS = b"\x01%b%b\x80%b" % (
    _MASKED_EMPTY,
    (b"\0" + _MASKED_EMPTY) * 2_000,
    _MASKED_EMPTY,
)
"""An empty text message in 2,002 frames."""


def connect(caller: Caller, *, receive_bytes: int = 0) -> socket.socket:
    """Return a connection; with `receive_bytes` one that takes little before it is read."""
    line = socket.socket()
    try:
        if receive_bytes:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        line.settimeout(_CONNECT_S)
        line.connect((HOST, caller.site.port))
    except OSError:
        line.close()
        raise
    line.settimeout(_LOOK_S)
    return line


@contextmanager
def connections(caller: Caller, count: int, **given: int) -> Iterator[Iterator[socket.socket]]:
    """Yield new connections, one after the other; all are closed in the end."""
    opened: list[socket.socket] = []

    def opening() -> Iterator[socket.socket]:
        while len(opened) < count and not caller.stop.is_set():
            opened.append(connect(caller, **given))
            yield opened[-1]

    try:
        yield opening()
    finally:
        for line in opened:
            line.close()


def send(caller: Caller, line: socket.socket, data: bytes) -> None:
    """Send all of it, unless the caller shall end meanwhile.

    Raises:
        Ended: it shall.
        OSError: the service closed the connection.
    """
    view = memoryview(data)
    while view:
        if caller.stop.is_set():
            raise Ended
        try:
            view = view[line.send(view[:_PIECE]) :]
        except TimeoutError:
            if select.select([line], [], [], 0)[0]:
                return  # it answers before it has all


def receive(caller: Caller, line: socket.socket) -> bytes:
    """Return what comes next; nothing at the end."""
    while True:
        if caller.stop.is_set():
            raise Ended
        try:
            return line.recv(_PIECE)
        except TimeoutError:
            continue


def answer(caller: Caller, line: socket.socket) -> tuple[str, int, bool]:
    """Return what the next answer is, how long, and whether the connection stays open."""
    kept, tail, size = bytearray(), b"", 0
    needed: int | None = None
    while needed is None or needed == _UNKNOWN or size < needed:
        data = receive(caller, line)
        if not data:
            return (_named(bytes(kept)) if needed == _UNKNOWN else "closed", size, False)
        size += len(data)
        kept += data[: _KEPT_BYTES - len(kept)]
        tail = (tail + data)[-len(_LAST_CHUNK) :]
        if needed is None:
            needed = _needed(bytes(kept))
        if needed == _UNKNOWN and tail == _LAST_CHUNK:
            break
    return _named(bytes(kept)), size, b"connection: close" not in bytes(kept[:2_000]).lower()


def _needed(got: bytes) -> int | None:
    """Return how many bytes an answer has, `_UNKNOWN` if it does not say; None before its head."""
    head, blank, _ = got.partition(b"\r\n\r\n")
    if not blank:
        return None
    _, has_length, rest = head.lower().partition(b"content-length:")
    if not has_length:
        no_body = head.split(b" ", 2)[1] in (b"204", b"304")
        return len(head) + 4 if no_body else _UNKNOWN
    return len(head) + 4 + int(rest.split(b"\r\n")[0])


def _named(got: bytes) -> str:
    """Return the status of an answer, and the code of a problem."""
    words = got.split(b" ", 2)
    status = words[1].decode() if len(words) > 1 else "none"
    found = _CODE.search(got) if status >= "400" else None
    return f"{status} {found[1].decode()}" if found else status


def ask(caller: Caller, data: bytes) -> None:
    """Send a request on a connection of its own, and read the whole answer."""
    with closing(connect(caller)) as line:
        with suppress(
            BrokenPipeError, ConnectionResetError
        ):  # the answer may be there all the same
            send(caller, line, data)
        try:
            what, size, _ = answer(caller, line)
        except Ended:
            what, size = "waiting", 0
        caller.tally.add(what, size)


def repeat(caller: Caller, data: bytes) -> None:
    """Send a request again and again on one connection, as fast as it is answered."""
    with closing(connect(caller)) as line:
        is_open = True
        while is_open:
            send(caller, line, data)
            what, size, is_open = answer(caller, line)
            caller.tally.add(what, size)


def leave(caller: Caller, data: bytes) -> None:
    """Send a request and go away while it is worked on."""
    with closing(connect(caller)) as line:
        send(caller, line, data)
        caller.stop.wait(0.05)
        caller.tally.add("left")


def never_read(caller: Caller, data: bytes) -> None:
    """Ask on many connections and read none of the answers."""
    with connections(caller, caller.site.size(50, 2), receive_bytes=_LITTLE_BYTES) as opened:
        lines = []
        for line in opened:
            send(caller, line, data)
            caller.tally.add("unread")
            lines.append(line)
        _hold(caller, lines)


def _hold(caller: Caller, lines: list[socket.socket]) -> None:
    """Keep connections open until the caller ends or half of them were closed."""
    poll = select.poll()
    for line in lines:
        poll.register(line, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
    closed: set[int] = set()
    while not caller.stop.is_set() and len(closed) * 2 <= len(lines):
        for number, _ in poll.poll(_LOOK_S * 1_000):
            poll.unregister(number)
            closed.add(number)
            caller.tally.add("closed unread")


def crowd(caller: Caller, data: bytes) -> None:
    """Open many connections, begin something on each, and do nothing more."""
    with connections(caller, caller.site.size(250, 5)) as opened:
        lines = []
        for line in opened:
            send(caller, line, data)
            caller.tally.add("opened")
            lines.append(line)
        _hold(caller, lines)


def pipeline(caller: Caller, data: bytes) -> None:
    """Send requests one behind the other on many connections, and read no answer."""
    with connections(caller, caller.site.size(40, 3), receive_bytes=_LITTLE_BYTES) as opened:
        lines = []
        for line in opened:
            line.settimeout(0.5)
            try:
                line.sendall(data * 150)
                caller.tally.add("sent")
            except TimeoutError:
                caller.tally.add("sent in part")  # the service does not take it all
            lines.append(line)
        _hold(caller, lines)


def dribble(caller: Caller, data: bytes) -> None:
    """Send a request a byte at a time, ten in a second, on several connections."""
    with connections(caller, caller.site.size(50, 2)) as opened:
        lines = list(opened)
        for at in range(len(data)):
            for line in tuple(lines):
                try:
                    line.send(data[at : at + 1])
                except OSError:
                    lines.remove(line)
                    caller.tally.add("closed")
            if not lines or caller.stop.wait(0.1):
                return
        caller.tally.add("sent slowly", len(lines))


def trickle(caller: Caller, data: bytes) -> None:
    """Send the head of a request with the first half of its body at once, and never the rest."""
    head, _, body = data.partition(b"\r\n\r\n")
    crowd(caller, head + b"\r\n\r\n" + body[: len(body) // 2])


def opening(site: Site, path: str, *, key: str | None = None) -> bytes:
    """Return the request that opens a socket."""
    return site.request("GET", path, b"", *_HANDSHAKE, key=key)


def flood(caller: Caller, data: bytes) -> None:
    """Send what opens a socket, and then the frames behind it again and again.

    `data` is both, with an empty line between them as HTTP has it.
    """
    head, _, frames = data.partition(b"\r\n\r\n")
    many = frames * max(1, _PIECE // len(frames))
    with closing(connect(caller)) as line:
        begin = time.monotonic()
        with suppress(ConnectionError):
            send(caller, line, head + b"\r\n\r\n")
            while True:
                send(caller, line, many)
                if select.select([line], [], [], 0)[0] and not line.recv(_PIECE):
                    break
                if time.monotonic() - begin > 1:
                    begin = time.monotonic()
                    caller.tally.add("flooded for a second")
        caller.tally.add("closed")


def hold_socket(caller: Caller, data: bytes) -> None:
    """Open sockets and wait until the service closes them; count those that it closes late."""
    begun: dict[int, tuple[socket.socket, float]] = {}
    poll = select.poll()
    with connections(caller, caller.site.size(50, 3)) as opened:
        for line in opened:
            begun[line.fileno()] = (line, time.monotonic())
            send(caller, line, data)
            poll.register(line, select.POLLIN | select.POLLRDHUP)
        while begun and not caller.stop.is_set():
            for number, _ in poll.poll(_LOOK_S * 1_000):
                line, begin = begun[number]
                if not receive(caller, line):
                    poll.unregister(number)
                    del begun[number]
                    late = time.monotonic() - begin > _LATE_S
                    caller.tally.add("closed late" if late else "closed in a second")
        for _, begin in begun.values():
            if time.monotonic() - begin > _LATE_S:
                caller.tally.add("still open")
