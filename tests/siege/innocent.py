"""An innocent client: asks for little, at a steady rate, and notes how long each answer takes.

`python -m siege.innocent PORT KEY BOOK SECONDS` prints as JSON, for each kind of request, the
milliseconds of each one. They count from when a request was due, whether or not the one before it
was answered by then; one that is not answered at the end counts with what it waited.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from math import ceil

from siege.acts import answer, connect, send
from siege.attack import Caller, Ended, Site, Tally

TENANT = "innocent"
KINDS = ("GET /v1/books", "select", "/readyz", "bad key")
_RIGHT = dict(zip(KINDS, ("200", "200", "200", "401 unauthenticated"), strict=True))
RATE = 20.0
_KEPT_FOR = 5  # requests on one connection: the next one may reach another worker
_PATIENCE_S = 1.0  # for what was due last


@dataclass(slots=True)
class Seen:
    """What became of one kind of request.

    Attributes:
        took_ms: of each, from when it was due.
        wrong: answers that are not those of a service that works.
    """

    took_ms: list[float] = field(default_factory=list)
    wrong: Counter[str] = field(default_factory=Counter)

    @property
    def p99_ms(self) -> float:
        return sorted(self.took_ms)[ceil(len(self.took_ms) * 0.99) - 1]


def requests(site: Site, book_id: str) -> Mapping[str, bytes]:
    select = {"books": [{"book_id": book_id}], "query": "the lamp is lit", "explain": "none"}
    made = (
        site.get("/v1/books"),
        site.post("/v1/context/select", select),
        site.request("GET", "/readyz", key=None),
        site.request("GET", site.path("/v1/books"), key="lw_0123456789abcdef_unknown"),
    )
    return dict(zip(KINDS, made, strict=True))


def measure(
    site: Site, book_id: str, seconds: float, *, patience_s: float = _PATIENCE_S
) -> Mapping[str, Seen]:
    """Send requests for so many seconds; return what became of each kind when all are answered.

    Args:
        site: of the innocent client.
        book_id: a book to select from.
        seconds: for how long requests are sent.
        patience_s: how much longer an answer may take; then it counts as `unanswered`.
    """
    stop = threading.Event()
    seen = {kind: Seen() for kind in KINDS}
    caller = Caller(site=site, stop=stop, tally=Tally())
    threads = [
        threading.Thread(target=_ask_steadily, args=(caller, data, seen[kind], seconds))
        for kind, data in requests(site, book_id).items()
    ]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds + patience_s
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    stop.set()
    for thread in threads:
        thread.join()
    for kind, each in seen.items():
        each.wrong.pop(_RIGHT[kind], None)
    return seen


def _ask_steadily(caller: Caller, data: bytes, seen: Seen, seconds: float) -> None:
    begin = time.perf_counter()
    with closing(_Asking(caller, data)) as ask:
        for number in range(ceil(seconds * RATE)):
            due = begin + number / RATE
            time.sleep(max(0.0, due - time.perf_counter()))
            what = ask()
            seen.took_ms.append((time.perf_counter() - due) * 1_000)
            seen.wrong[what] += 1


class _Asking:
    """Asks on a connection, and on a new one after a few requests."""

    def __init__(self, caller: Caller, data: bytes) -> None:
        self._caller, self._data = caller, data
        self._line: socket.socket | None = None
        self._asked = 0

    def __call__(self) -> str:
        """Return what the answer is; an end of the connection is one too."""
        try:
            if self._line is None:
                self._line = connect(self._caller)
            return self._on(self._line)
        except Ended:
            return "unanswered"
        except Exception as error:  # noqa: BLE001  each is a failure of the service
            self.close()
            return type(error).__name__

    def _on(self, line: socket.socket) -> str:
        send(self._caller, line, self._data)
        what, _, stays = answer(self._caller, line)
        self._asked += 1
        if not stays or self._asked % _KEPT_FOR == 0:
            self.close()
        return what

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
        self._line = None


def main(argv: Sequence[str]) -> None:
    port, key, book_id, seconds = argv
    site = Site(port=int(port), key=key, tenant=TENANT)
    seen = measure(site, book_id, float(seconds))
    results = {kind: {"took_ms": each.took_ms, "wrong": each.wrong} for kind, each in seen.items()}
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1:])
