"""Compiled books, shared by all requests of a process and bounded in bytes."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Generic, NamedTuple, TypeVar, cast

from lorewell.app.computing.pool import ComputeTurn
from lorewell.engine.native.compiled import CompiledBook
from lorewell.engine.replica import ReplicaWorld
from lorewell.engine.sillytavern.sources import Library
from lorewell.engine.sillytavern.world import SillyTavernWorld
from lorewell.engine.steps import Steps

Held = TypeVar("Held", CompiledBook, SillyTavernWorld, Library, ReplicaWorld)

# What an entry costs compiled beside its texts, measured: keys, automaton, decision, containers.
_BYTES_PER_ENTRY = 8_000
_BYTES_PER_CHARACTER = 2
_BYTES_PER_LORE = 6_000
_BYTES_PER_REPLICA_ENTRY = 6_000
_BYTES_PER_PLACE = 300  # of an entry in a library's order, with its verdict


class CacheKey(NamedTuple, Generic[Held]):
    """What names something compiled: it never changes, so it is only ever evicted.

    Attributes:
        kind: what it is.
        name: of a book its id, revision and content hash, and what else it was compiled with. The
            hash alone would not do: the full id stands in every block, so tokens depend on it.
    """

    kind: type[Held]
    name: Hashable


@dataclass(slots=True)
class CacheCounts:
    """How often the cache had a book, had to compile one, and had to let one go.

    `compile_s` is the time that all compiling together took, in seconds.
    """

    hits: int = 0
    misses: int = 0
    evictions: int = 0
    compile_s: float = 0.0


class BookCache:
    """The compiled books asked for last. Threads may look for them; `get` is for the event loop."""

    def __init__(self, *, limit_bytes: int) -> None:
        """Hold at most about `limit_bytes`; 0 holds nothing."""
        self.counts = CacheCounts()
        self._limit = limit_bytes
        self._lock = threading.Lock()
        self._books: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._pending: dict[Hashable, asyncio.Task[tuple[Any, int, float]]] = {}
        self._bytes = 0

    @property
    def held_bytes(self) -> int:
        """About how many bytes the held books take."""
        return self._bytes

    def find(self, key: CacheKey[Held]) -> Held | None:
        """Return the book if it is held."""
        with self._lock:
            held = self._books.get(key)
            if held is None:
                return None
            self._books.move_to_end(key)
            self.counts.hits += 1
            return cast("Held", held[0])

    async def get(
        self, key: CacheKey[Held], turn: ComputeTurn, compiled: Callable[[Steps], Held]
    ) -> Held:
        """Return the book, compiled once however many ask for it at the same time.

        A compilation that was begun goes on for the cache when its turn ends.

        Raises:
            OverloadedError: it takes longer than a request may wait.
        """
        held = self.find(key)
        if held is not None:
            return held
        self.counts.misses += 1
        task = self._pending.get(key)
        if task is None:

            def measured(steps: Steps) -> tuple[Held, int, float]:
                begin = perf_counter()
                book = compiled(steps)
                return book, size_of(book), perf_counter() - begin

            task = self._pending[key] = turn.begin(measured)
            task.add_done_callback(partial(self._fill, key))
        return cast("Held", (await turn.wait_for(task))[0])  # what a key names is of its kind

    def hold(self, key: CacheKey[Held], book: Held) -> None:
        """Hold something that was made since `find` did not find it."""
        with self._lock:
            self.counts.misses += 1
            if key not in self._books:
                self._hold(key, book, size_of(book))

    def _fill(self, key: Hashable, task: asyncio.Task[tuple[Any, int, float]]) -> None:
        del self._pending[key]
        if task.cancelled() or task.exception() is not None:
            return  # told to all that wait for the book
        book, size, seconds = task.result()
        with self._lock:
            self.counts.compile_s += seconds
            self._hold(key, book, size)

    def _hold(self, key: Hashable, book: object, size: int) -> None:
        if size > self._limit:
            return
        self._books[key] = (book, size)
        self._bytes += size
        while self._bytes > self._limit:
            _, (_, freed) = self._books.popitem(last=False)
            self._bytes -= freed
            self.counts.evictions += 1


def size_of(book: CompiledBook | SillyTavernWorld | Library | ReplicaWorld) -> int:
    """Return about how many bytes a compiled book takes, with its lexical index.

    A library is its order alone: its worlds are held under names of their own.
    """
    match book:
        case CompiledBook():
            keys = sum(len(key) for entry in book.entries for key in entry.spec.keys)
            texts = book.content_chars + keys
            return book.entry_count * _BYTES_PER_ENTRY + texts * _BYTES_PER_CHARACTER
        case SillyTavernWorld():
            texts = sum(len(entry.content) for entry in book.entries)
            return len(book.entries) * _BYTES_PER_LORE + texts * _BYTES_PER_CHARACTER
        case ReplicaWorld():
            texts = book.content_chars * _BYTES_PER_CHARACTER
            return len(book.entries) * _BYTES_PER_REPLICA_ENTRY + texts
        case Library():
            return sum(len(each.world.entries) for each in book.books) * _BYTES_PER_PLACE
