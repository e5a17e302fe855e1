"""Writers whose server is killed and started again, and what must be true of the rest.

A write that was acknowledged is there, whole and once. One that broke off is there whole, or not at
all; under an idempotency key it is sent again until it is acknowledged, and then it is there once.
One that was refused is not there.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from random import Random
from typing import Any, Literal

import httpx

from deep.texts import make_book
from forked import SERVICE
from lorewell import BookCreate
from lorewell.model import content_hash
from lorewell.model.text import canonical_json
from process import Server, environment, free_port

TENANT = {"tenant_id": "demo"}
WRITERS = 6
LIFE_S = 0.5  # after its start a server lives for less
START_S = 1.5  # some are killed within this time of their start, ready or not
SHARED_BOOKS = 2


@dataclass(slots=True, kw_only=True)
class Held:
    """A book as a writer knows it."""

    book_id: str
    head: int
    is_shared: bool = False
    doubts: int = 0  # writes that may have moved it on without an answer


@dataclass(slots=True, kw_only=True)
class Attempt:
    """A write: what was sent, and what came of it."""

    book: BookCreate
    key: str | None
    path: str
    body: Mapping[str, Any]
    sent: int = 0
    outcome: Literal["acknowledged", "doubtful", "refused"] = "doubtful"
    was_replayed: bool = False
    place: tuple[str, int] | None = None  # book and revision, as acknowledged


@dataclass(slots=True)
class Target:
    """Where the server is now, and what is left to do."""

    writes: SimpleQueue[int]
    shared: list[Held] = field(default_factory=list)
    url: str = ""
    is_up: threading.Event = field(default_factory=threading.Event)
    is_over: bool = False


class Writer:
    """Creates and publishes, through whatever server there is."""

    def __init__(self, number: int, seed: int, target: Target) -> None:
        self._name = f"writer {number}"
        self._chance = Random(f"{seed} {number}")
        self._target = target
        self._books: list[Held] = []
        self._client = httpx.Client(timeout=60, params=TENANT)
        self.attempts: list[Attempt] = []

    def run(self) -> list[Attempt]:
        with self._client:
            while not self._target.is_over:
                try:
                    number = self._target.writes.get_nowait()
                except Empty:
                    break
                self._write(f"{self._name}, write {number}")
        return self.attempts

    def _write(self, name: str) -> None:
        chance = self._chance
        key = f"{name} key" if chance.random() < 0.6 else None
        book = make_book(chance, name, entries=chance.choice((1, 5, 40, 40, 300)))
        if not self._books or chance.random() < 0.35:
            self._create(book, key)
        elif chance.random() < 0.25:
            self._publish(chance.choice(self._target.shared), book, key)
        else:
            self._publish(chance.choice(self._books), book, key)

    def _create(self, book: BookCreate, key: str | None) -> None:
        body = book.model_dump(mode="json")
        attempt = Attempt(book=book, key=key, path="/v1/books", body=body)
        answer = self._send(attempt)
        if answer is None:
            return
        assert answer.status_code in (200, 201), answer.text
        (made,) = answer.json()["books"]
        self._acknowledge(attempt, answer, (made["book_id"], made["revision"]))
        self._books.append(Held(book_id=made["book_id"], head=1))

    def _publish(self, held: Held, book: BookCreate, key: str | None) -> None:
        body = {**book.model_dump(mode="json"), "expected_revision": held.head}
        path = f"/v1/books/{held.book_id}/revisions"
        attempt = Attempt(book=book, key=key, path=path, body=body)
        answer = self._send(attempt)
        if answer is None:
            held.doubts += 1
        elif answer.status_code == 409:
            problem = answer.json()
            assert problem["code"] == "revision_conflict"
            assert held.is_shared or held.doubts, "nobody else writes this book"
            attempt.outcome, held.head = "refused", problem["details"]["actual"]
        else:
            assert answer.status_code in (200, 201), answer.text
            held.head = answer.json()["revision"]
            self._acknowledge(attempt, answer, (held.book_id, held.head))

    def _acknowledge(
        self, attempt: Attempt, answer: httpx.Response, place: tuple[str, int]
    ) -> None:
        attempt.outcome, attempt.place = "acknowledged", place
        attempt.was_replayed = answer.json()["replayed"]
        assert attempt.was_replayed == (answer.status_code == 200)
        assert not attempt.was_replayed or attempt.sent > 1, "it had not been done before"

    def _send(self, attempt: Attempt) -> httpx.Response | None:
        """Return the answer; None if the exchange broke off and there is no key to ask again."""
        self.attempts.append(attempt)
        headers = {} if attempt.key is None else {"Idempotency-Key": attempt.key}
        while not self._target.is_over:
            if not self._target.is_up.wait(0.5):
                continue
            url = f"{self._target.url}{attempt.path}"
            try:
                attempt.sent += 1
                return self._client.post(url, json=attempt.body, headers=headers)
            except httpx.ConnectError:  # nothing was sent
                attempt.sent -= 1
                time.sleep(0.05)
            except httpx.TransportError:
                if attempt.key is None:
                    return None
        return None


@dataclass(slots=True, kw_only=True)
class Campaign:
    """What came of a campaign."""

    attempts: list[Attempt]
    kills: int
    kills_at_start: int
    seconds: float

    def __str__(self) -> str:
        outcomes = Counter(each.outcome for each in self.attempts)
        repeated = [each for each in self.attempts if each.sent > 1]
        replayed = sum(each.was_replayed for each in repeated)
        return (
            f"{len(self.attempts)} writes by {WRITERS} threads in {self.seconds:.0f} s, "
            f"{self.kills} kills among them and {self.kills_at_start} while it started; "
            f"{outcomes['acknowledged']} acknowledged, {outcomes['refused']} refused by a newer "
            f"head, {outcomes['doubtful']} without an answer; {len(repeated)} sent again by key, "
            f"of which {replayed} had been done"
        )


def run_campaign(url: str, log: Path, *, seed: int, writes: int) -> Campaign:
    """Write so often, with kills at random moments all the while."""
    begin = time.monotonic()
    chance = Random(seed)
    at_start = sum(_kill_at_start(url, log, chance) for _ in range(3))  # there are no tables yet
    queue: SimpleQueue[int] = SimpleQueue()
    for number in range(writes):
        queue.put(number)
    target = Target(queue)
    writers = [Writer(number, seed, target) for number in range(WRITERS)]
    shared = _make_shared(url, log, target, chance)
    kills = 0
    with ThreadPoolExecutor(WRITERS) as pool:
        running: list[Future[list[Attempt]]] = []
        try:
            while not running or not all(each.done() for each in running):
                if chance.random() < 0.2:
                    at_start += _kill_at_start(url, log, chance)
                server = Server(log, database_url=url, log_level="warning")
                target.url = server.url
                target.is_up.set()
                running = running or [pool.submit(each.run) for each in writers]
                wait(running, timeout=chance.uniform(0, LIFE_S), return_when=FIRST_EXCEPTION)
                server.kill()
                target.is_up.clear()
                kills += 1
                if any(each.done() and each.exception() for each in running):
                    break
        finally:
            target.is_over = True
        written = [attempt for each in running for attempt in each.result()]
    return Campaign(
        attempts=[*shared, *written],
        kills=kills,
        kills_at_start=at_start,
        seconds=time.monotonic() - begin,
    )


def _kill_at_start(url: str, log: Path, chance: Random) -> int:
    with log.open("ab") as file:
        given = environment(database_url=url, port=free_port())
        process = subprocess.Popen([sys.executable, *SERVICE], env=given, stdout=file, stderr=file)
        time.sleep(chance.uniform(0, START_S))
        process.kill()
        process.wait()
    return 1


def _make_shared(url: str, log: Path, target: Target, chance: Random) -> list[Attempt]:
    """Make the books that all writers publish to."""
    server = Server(log, database_url=url, log_level="warning")
    made = []
    for number in range(SHARED_BOOKS):
        book = make_book(chance, f"shared {number}", entries=5)
        body = book.model_dump(mode="json")
        answer = server.client.post("/v1/books", json=body)
        book_id = answer.json()["books"][0]["book_id"]
        target.shared.append(Held(book_id=book_id, head=1, is_shared=True))
        attempt = Attempt(book=book, key=None, path="/v1/books", body=body, sent=1)
        attempt.outcome, attempt.place = "acknowledged", (book_id, 1)
        made.append(attempt)
    server.kill()
    return made


def check_campaign(server: Server, attempts: Sequence[Attempt]) -> int:
    """Compare what is stored with what was written; return the number of revisions."""
    sent = {each.book.name: each for each in attempts}
    assert len(sent) == len(attempts)
    places = _stored(server, sent)
    for name, attempt in sent.items():
        match attempt.outcome:
            case "acknowledged":
                assert places.get(name) == [attempt.place], name
            case "doubtful":
                assert len(places.get(name, ())) <= 1, name
            case "refused":
                assert name not in places
    for attempt in attempts:
        if attempt.key is not None and attempt.outcome == "acknowledged":
            _check_replay(server, attempt)
    assert _stored(server, sent) == places, "a replay wrote something"
    return sum(map(len, places.values()))


def _stored(server: Server, sent: Mapping[str, Attempt]) -> Mapping[str, list[tuple[str, int]]]:
    """Return where each name is stored; every revision is whole and as it was sent."""
    places: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for head in _pages(server, "/v1/books", "books"):
        path = f"/v1/books/{head['book_id']}"
        revisions = list(_pages(server, f"{path}/revisions", "revisions"))
        numbers = [each["revision"] for each in revisions]
        assert numbers == list(range(head["latest_revision"], 0, -1))
        assert revisions[0]["name"] == head["name"]
        for info in revisions:
            answer = server.client.get(path, params={"revision": info["revision"]})
            assert answer.status_code == 200, answer.text
            _check_revision(answer.json()["revision"], info, sent[info["name"]].book)
            places[info["name"]].append((head["book_id"], info["revision"]))
    return places


def _pages(server: Server, path: str, member: str) -> Iterator[Any]:
    cursor: dict[str, str] = {}
    while True:
        page = server.client.get(path, params={"limit": "100", **cursor}).json()
        yield from page[member]
        if page["next_cursor"] is None:
            return
        cursor = {"cursor": page["next_cursor"]}


def _check_revision(stored: Mapping[str, Any], info: Mapping[str, Any], book: BookCreate) -> None:
    fields = {name: stored[name] for name in BookCreate.model_fields}
    assert stored["content_hash"] == info["content_hash"] == content_hash(book)
    assert content_hash(BookCreate.model_validate(fields)) == content_hash(book)
    assert canonical_json(fields) == canonical_json(book.model_dump(mode="json"))
    assert stored["entry_count"] == info["entry_count"] == len(book.entries)


def _check_replay(server: Server, attempt: Attempt) -> None:
    headers = {"Idempotency-Key": attempt.key or ""}
    answer = server.client.post(attempt.path, json=attempt.body, headers=headers)
    assert answer.status_code == 200, answer.text
    reported = answer.json()
    assert reported["replayed"] is True
    again = reported["books"][0] if "books" in reported else reported
    assert (again["book_id"], again["revision"]) == attempt.place
