"""An attack as a value: what is sent, how, and what it takes; and how it goes on and on.

`python -m siege.attack` is a process of hostile callers (see `main`): their own work is not what
slows the service, since the bytes are made before they begin and the process is a nice one.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx

HOST = "127.0.0.1"
TENANT = "hostile"
CALLERS = 8
NICENESS = 19
_PAUSE_S = 0.02  # after an attempt that came to nothing

Json = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The service as a hostile caller sees it.

    Attributes:
        key: of a tenant of its own, with the scopes `read` and `write`.
        scale: of the attack: 1 in the campaign, less in the short form.
        seed: what is random is made from it.
    """

    port: int
    key: str
    scale: float = 1.0
    seed: int = 1
    tenant: str = TENANT

    def size(self, most: int, least: int = 1) -> int:
        """Return a count or length in the scale of the attack."""
        return max(least, round(most * self.scale))

    @property
    def random(self) -> Random:
        return Random(self.seed)

    def path(self, path: str, **query: object) -> str:
        """Return a path with its query and the tenant."""
        return f"{path}?{httpx.QueryParams({'tenant_id': self.tenant, **query})}"

    def request(
        self, method: str, path: str, body: bytes = b"", *headers: str, key: str | None = ""
    ) -> bytes:
        """Return a request as it is sent; `key` None sends none."""
        given = {None: [], "": [f"Authorization: Bearer {self.key}"]}
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {HOST}:{self.port}",
            *given.get(key, [f"Authorization: Bearer {key}"]),
            *headers,
        ]
        if method not in ("GET", "DELETE"):
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join((*lines, "", "")).encode() + body

    def get(self, path: str, **query: object) -> bytes:
        return self.request("GET", self.path(path, **query))

    def post(self, path: str, document: Json, *headers: str) -> bytes:
        """Return a request with a JSON body; bytes are one already."""
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        kind = "Content-Type: application/json"
        return self.request("POST", self.path(path), body, kind, *headers)

    def form(self, path: str, name: str, data: bytes, *, field: str = "file") -> bytes:
        """Return a request with a form of one file."""
        head = (
            f'--edge\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n\r\n'
        )
        body = b"".join((head.encode(), data, b"\r\n--edge--\r\n"))
        kind = "Content-Type: multipart/form-data; boundary=edge"
        return self.request("POST", self.path(path), body, kind)

    def ask(self, method: str, path: str, document: Json = None) -> Json:
        """Ask for something that an attack needs before it begins, and return the answer."""
        answer = httpx.request(
            method,
            f"http://{HOST}:{self.port}{self.path(path)}",
            headers={"Authorization": f"Bearer {self.key}"},
            json=document,
            timeout=120,
        )
        assert answer.status_code < 300, answer.text[:1_000]
        return answer.json()

    def create(self, book: Json) -> str:
        """Store a book and return its id."""
        return str(self.ask("POST", "/v1/books", book)["books"][0]["book_id"])


@dataclass(slots=True)
class Tally:
    """What hostile callers got, counted; they share one.

    Attributes:
        got: by what it was, such as `422 too_expensive`; after the service was asked to stop it is
            counted under `after`.
        largest: bytes of the largest answer, by what it was.
    """

    got: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    largest: Counter[str] = field(default_factory=Counter)
    is_ending: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, what: str, size: int = 0) -> None:
        with self._lock:
            (self.after if self.is_ending else self.got)[what] += 1
            self.largest[what] = max(self.largest[what], size)

    def members(self) -> dict[str, dict[str, int]]:
        return {name: dict(getattr(self, name)) for name in ("got", "after", "largest")}


class Ended(Exception):  # noqa: N818  an end, not an error
    """Says that a caller shall end while it waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """One hostile caller: where it sends to, when it ends, and where it counts."""

    site: Site
    stop: threading.Event
    tally: Tally


Act = Callable[[Caller, bytes], None]
Blow = tuple[Act, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One way to ask for much with little.

    Attributes:
        make: returns what is sent and how; each caller goes through it from a place of its own.
        short: the scale of the short form.
        hangs: whether its model server never answers.
    """

    name: str
    make: Callable[[Site], Sequence[Blow]]
    short: float = 0.05
    hangs: bool = False


def start(
    site: Site, blows: Sequence[Blow], tally: Tally, callers: int = CALLERS
) -> Callable[[], None]:
    """Let hostile callers begin; return what ends them."""
    stop = threading.Event()
    caller = Caller(site=site, stop=stop, tally=tally)
    threads = [
        threading.Thread(target=_go_on, args=(caller, blows, number), daemon=True)
        for number in range(callers)
    ]
    for thread in threads:
        thread.start()

    def end() -> None:
        stop.set()
        for thread in threads:
            thread.join(5)

    return end


def _go_on(caller: Caller, blows: Sequence[Blow], number: int) -> None:
    while not caller.stop.is_set():
        act, data = blows[number % len(blows)]
        begin = time.monotonic()
        try:
            act(caller, data)
        except Ended:
            return
        except OSError as error:
            caller.tally.add(type(error).__name__)
            caller.stop.wait(_PAUSE_S)
        if time.monotonic() - begin < 0.0001:
            caller.stop.wait(_PAUSE_S)
        number += 1


def main(argv: Sequence[str]) -> None:
    """Attack until the input ends; then print what was got, as JSON.

    Arguments are a JSON object of a `Site` and the name of an attack. It prints `ready`, begins at
    the first line of its input, and counts anew at the second.
    """
    from siege.catalogue import find  # noqa: PLC0415  it needs this module

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    given, name = argv
    site, tally = Site(**json.loads(given)), Tally()
    blows = find(name).make(site)
    os.nice(NICENESS)
    print("ready", flush=True)
    sys.stdin.readline()
    end = start(site, blows, tally)
    sys.stdin.readline()
    tally.is_ending = True
    sys.stdin.read()
    end()
    print(json.dumps(tally.members()), flush=True)
    os._exit(0)  # whatever still waits in a socket


if __name__ == "__main__":
    main(sys.argv[1:])
