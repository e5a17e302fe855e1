"""Mixed load through several servers on one database, every answer checked.

What a server acknowledged, every other one shows at once. What is asked of a pinned revision gives
the same bytes through each of them, and the bytes that the library gives.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Any

import httpx

from deep.texts import make_book, phrase
from lorewell import BookCreate, CompiledBook, SelectRequest, compile_book, select
from lorewell.model import content_hash
from lorewell.model.parse import parse_json, parse_model
from lorewell.model.text import canonical_json
from process import Server

TENANT = {"tenant_id": "demo"}
THREADS = 6
SHARED_BOOKS = 3  # a prompt binds as many
ENTRIES = 30
PATIENCE_S = 60
_DURATION = re.compile(rb'"duration_ms":[^,}]+')
_SELECT = "/v1/context/select"
_BINDINGS = "/v1/prompt-bindings"

Json = Any
Place = tuple[str, int]


@contextmanager
def replicas(count: int, folder: Path, **given: object) -> Iterator[Sequence[Server]]:
    """Yield servers that were started at the same time."""
    with ExitStack() as stack:
        with ThreadPoolExecutor(count) as pool:
            logs = [folder / f"log {number}" for number in range(count)]
            starting = [pool.submit(Server, log, **given) for log in logs]
        for each in starting:
            if each.exception() is None:
                stack.callback(each.result().stop)
        yield [each.result() for each in starting]


def timeless(answer: bytes) -> bytes:
    """Return a selection without the time it took."""
    return _DURATION.sub(b'"duration_ms":0', answer)


@dataclass(slots=True)
class Known:
    """What was acknowledged so far."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    books: dict[Place, BookCreate] = field(default_factory=dict)
    heads: dict[str, int] = field(default_factory=dict)
    selections: dict[bytes, bytes] = field(default_factory=dict)  # of pinned revisions
    shared: list[str] = field(default_factory=list)

    def add(self, place: Place, book: BookCreate) -> None:
        with self.lock:
            assert place not in self.books, "two writers were given the same revision"
            self.books[place] = book
            book_id, revision = place
            self.heads[book_id] = max(revision, self.heads.get(book_id, 0))

    def places(self) -> list[Place]:
        with self.lock:
            return list(self.books)


class Worker:
    """Asks now this server, now that one."""

    def __init__(self, number: int, seed: int, servers: Sequence[Server], known: Known) -> None:
        self._name = f"worker {number}"
        self._chance = Random(f"{seed} {number}")
        self._urls = [server.url for server in servers]
        self._known = known
        self._client = httpx.Client(timeout=PATIENCE_S)
        self._book_id = ""
        self.times_s: dict[str, list[float]] = defaultdict(list)
        self.conflicts = 0
        self._written = 0

    def run(self, deadline: float) -> None:
        steps = {
            self._publish: 3,
            self._race: 2,
            self._rebind: 2,
            self._read: 3,
            self._select_latest: 3,
            self._select_pinned: 6,
        }
        with self._client:
            self._book_id = self._create()
            while time.monotonic() < deadline:
                (step,) = self._chance.choices(list(steps), list(steps.values()))
                step()

    def _ask(
        self, kind: str, method: str, path: str, *, expect: tuple[int, ...] = (200,), **given: Json
    ) -> httpx.Response:
        """Ask any server."""
        params = {**TENANT, **given.pop("params", {})}
        begin = time.monotonic()
        url = self._chance.choice(self._urls) + path
        answer = self._client.request(method, url, params=params, **given)
        self.times_s[kind].append(time.monotonic() - begin)
        assert answer.status_code in expect, answer.text
        return answer

    def _make(self) -> BookCreate:
        self._written += 1
        return make_book(self._chance, f"{self._name}, {self._written}", entries=ENTRIES)

    def _create(self) -> str:
        book = self._make()
        sent = book.model_dump(mode="json")
        answer = self._ask("create", "POST", "/v1/books", expect=(201,), json=sent)
        book_id: str = answer.json()["books"][0]["book_id"]
        self._known.add((book_id, 1), book)
        return book_id

    def _publish(self) -> None:
        """Publish a revision; whoever is asked next has it."""
        book, head = self._make(), self._known.heads[self._book_id]
        answer = self._put_revision(self._book_id, book, head)
        assert answer.status_code == 201
        stored = self._ask("read", "GET", f"/v1/books/{self._book_id}").json()
        assert stored["book"]["latest_revision"] == stored["revision"]["revision"] == head + 1
        self._check_stored(stored, book)

    def _race(self) -> None:
        """Publish to a book that others publish to as well."""
        book_id = self._chance.choice(self._known.shared)
        head = self._known.heads[book_id]
        answer = self._put_revision(book_id, self._make(), head)
        if answer.status_code == 409:
            problem = answer.json()
            assert problem["code"] == "revision_conflict"
            assert problem["details"]["actual"] > head
            self.conflicts += 1

    def _put_revision(self, book_id: str, book: BookCreate, head: int) -> httpx.Response:
        sent = {**book.model_dump(mode="json"), "expected_revision": head}
        path = f"/v1/books/{book_id}/revisions"
        answer = self._ask("publish", "POST", path, expect=(201, 409), json=sent)
        if answer.status_code == 201:
            assert answer.json()["content_hash"] == content_hash(book)
            self._known.add((book_id, head + 1), book)
        return answer

    def _rebind(self) -> None:
        """Bind a prompt anew; whoever is asked next resolves it so."""
        places = dict(self._chance.sample(self._known.places(), k=3))
        bindings = [
            {"book_id": book_id, "revision": revision, "position": position}
            for position, (book_id, revision) in enumerate(places.items())
        ]
        params = {"prompt_id": self._name}
        self._ask("rebind", "PUT", _BINDINGS, params=params, json={"bindings": bindings})
        resolved = self._ask("resolve", "GET", f"{_BINDINGS}/resolve", params=params).json()
        assert [(each["book_id"], each["revision"]) for each in resolved["books"]] == list(
            places.items()
        )

    def _read(self) -> None:
        """Read any book: it is no older than what was acknowledged before."""
        (book_id, revision), book = self._any()
        least = self._known.heads[book_id]
        path = f"/v1/books/{book_id}"
        stored = self._ask("read", "GET", path, params={"revision": revision}).json()
        assert stored["book"]["latest_revision"] >= least
        self._check_stored(stored, book)

    def _any(self) -> tuple[Place, BookCreate]:
        place = self._chance.choice(self._known.places())
        return place, self._known.books[place]

    @staticmethod
    def _check_stored(stored: Json, book: BookCreate) -> None:
        assert stored["revision"]["content_hash"] == content_hash(book)
        sent = book.model_dump(mode="json")["entries"]
        assert canonical_json(stored["revision"]["entries"]) == canonical_json(sent)

    def _select_latest(self) -> None:
        """Select from a head: it is no older than what was acknowledged before."""
        (book_id, _), _ = self._any()
        least = self._known.heads[book_id]
        turn = {"books": [{"book_id": book_id}], "query": phrase(self._chance, 12)}
        answer = self._ask("select", "POST", _SELECT, json=turn)
        assert answer.json()["snapshot"][0]["revision"] >= least

    def _select_pinned(self) -> None:
        """Select from revisions, or ask once more what somebody asked another server."""
        known = self._known
        with known.lock:
            before = list(known.selections)
        again = before and self._chance.random() < 0.5
        turn = self._chance.choice(before) if again else canonical_json(self._turn())
        headers = {"Content-Type": "application/json"}
        answer = self._ask("select", "POST", _SELECT, content=turn, headers=headers)
        found = timeless(answer.content)
        with known.lock:
            assert known.selections.setdefault(turn, found) == found

    def _turn(self) -> Mapping[str, Json]:
        chance = self._chance
        places = dict(chance.sample(self._known.places(), k=chance.randint(1, 3)))
        return {
            "books": [{"book_id": name, "revision": number} for name, number in places.items()],
            "query": phrase(chance, 12),
            "history": [{"role": "user", "content": phrase(chance, 40)} for _ in range(4)],
            "token_budget": chance.choice((300, 1500, 8000)),
            "max_recursion_rounds": chance.randint(0, 3),
            "explain": chance.choice(("full", "selected")),
            "seed": str(chance.randint(0, 9)),
        }


@dataclass(slots=True, kw_only=True)
class Load:
    """What came of a load."""

    seconds: float
    times_s: Mapping[str, Sequence[float]]
    conflicts: int
    distinct_selections: int
    revisions: int

    def lines(self) -> Iterator[str]:
        total = sum(map(len, self.times_s.values()))
        yield (
            f"{total} operations of {THREADS} threads in {self.seconds:.1f} s: "
            f"{total / self.seconds:.0f} a second, no error but {self.conflicts} conflicts; "
            f"{self.revisions} revisions and {self.distinct_selections} distinct selections of "
            "pinned revisions, all as the library has them"
        )
        for kind, times in sorted(self.times_s.items()):
            highest = quantiles(times, n=100)[-1] if len(times) > 1 else times[0]
            yield (
                f"  {kind}: {len(times) / self.seconds:.0f} a second, "
                f"median {median(times) * 1000:.1f} ms, p99 {highest * 1000:.0f} ms"
            )


def run_load(servers: Sequence[Server], *, seed: int, seconds: float) -> Load:
    """Ask so long, then compare with the library what was selected, and everything stored."""
    known = Known()
    chance = Random(seed)
    for number in range(SHARED_BOOKS):
        book = make_book(chance, f"shared {number}", entries=ENTRIES)
        answer = servers[0].client.post("/v1/books", json=book.model_dump(mode="json"))
        book_id = answer.json()["books"][0]["book_id"]
        known.add((book_id, 1), book)
        known.shared.append(book_id)
    workers = [Worker(number, seed, servers, known) for number in range(THREADS)]
    begin = time.monotonic()
    with ThreadPoolExecutor(THREADS) as pool:
        running = [pool.submit(each.run, begin + seconds) for each in workers]
        wait(running, return_when=FIRST_EXCEPTION)
        took = time.monotonic() - begin
    for each in running:
        each.result()
    _check_selections(known)
    for server in servers:
        _check_revisions(server, known)
    times: dict[str, list[float]] = defaultdict(list)
    for worker in workers:
        for kind, measured in worker.times_s.items():
            times[kind] += measured
    return Load(
        seconds=took,
        times_s=times,
        conflicts=sum(worker.conflicts for worker in workers),
        distinct_selections=len(known.selections),
        revisions=len(known.books),
    )


def _check_selections(known: Known) -> None:
    compiled: dict[Place, CompiledBook] = {}
    for turn, found in known.selections.items():
        request = parse_model(SelectRequest, parse_json(turn))
        books = []
        for ref in request.books:
            assert ref.revision is not None
            place = (ref.book_id, ref.revision)
            if place not in compiled:
                book = known.books[place]
                compiled[place] = compile_book(book, book_id=place[0], revision=place[1])
            books.append(compiled[place])
        assert timeless(select(books, request).to_json()) == found


def _check_revisions(server: Server, known: Known) -> None:
    """Every server has all revisions that were acknowledged, and no others."""
    expected = {place: content_hash(book) for place, book in known.books.items()}
    stored: dict[Place, str] = {}
    for book_id in known.heads:
        page: Json = {"next_cursor": ""}
        while page["next_cursor"] is not None:
            cursor = {"cursor": page["next_cursor"]} if page["next_cursor"] else {}
            path = f"/v1/books/{book_id}/revisions"
            page = server.client.get(path, params={"limit": "200", **cursor}).json()
            for info in page["revisions"]:
                stored[book_id, info["revision"]] = info["content_hash"]
    assert stored == expected
    counted = Counter(book_id for book_id, _ in stored)
    assert counted == known.heads
