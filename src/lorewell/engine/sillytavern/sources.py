"""The books of a scan: which of them count, and the order of their entries.

Source: docs/rules/sillytavern.md §3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from lorewell.engine.sillytavern.javascript import sort_descending
from lorewell.engine.sillytavern.scan_entry import ScanEntry
from lorewell.engine.sillytavern.world import SillyTavernWorld
from lorewell.engine.tokens import TokenCounter, adds_up
from lorewell.model.activate import BookSource
from lorewell.model.activated import Verdict

_PRECEDENCE: tuple[BookSource, ...] = ("global", "chat", "persona", "character")
_EVENLY, _CHARACTER_FIRST, _GLOBAL_FIRST = range(3)  # `world_info_character_strategy`
# The sources sorted together after the chat's book and the persona's, by strategy.
_STRATEGIES: Mapping[int, tuple[tuple[BookSource, ...], ...]] = {
    _EVENLY: (("global", "character"),),
    _CHARACTER_FIRST: (("character",), ("global",)),
    _GLOBAL_FIRST: (("global",), ("character",)),
}


class Attached(NamedTuple):
    """A book and its source: what it is bound to."""

    source: BookSource
    world: SillyTavernWorld


class EntryLocation(NamedTuple):
    """The place of an entry in the list, and the number of its book."""

    place: int
    book: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryList:
    """All entries of a scan in order. An entry is identified by its place in `entries`.

    Attributes:
        worlds: the books that count.
        places: for each book, the places of its entries.
        levels: the distinct recursion levels of delayed entries, lowest first.
        idle: returns the verdict on each entry to which nothing happens.
    """

    entries: tuple[ScanEntry, ...]
    worlds: tuple[SillyTavernWorld, ...]
    places: tuple[tuple[int, ...], ...]
    levels: tuple[float, ...]
    idle: Callable[[], tuple[Verdict, ...]]

    def find(self, digest: object) -> ScanEntry | None:
        """Return the first entry with a hash, None if there is none."""
        return next((self.entries[place] for place, _ in self.with_hash(digest)), None)

    def with_hash(self, digest: object) -> Iterator[EntryLocation]:
        """Yield the locations of all entries with a hash; duplicates share one."""
        if isinstance(digest, int | float):
            for book, world in enumerate(self.worlds):
                for index in world.by_hash.get(digest, ()):
                    yield EntryLocation(self.places[book][index], book)

    def with_id(self, entry: str) -> Iterator[EntryLocation]:
        """Yield the locations of all entries with an id."""
        for book, world in enumerate(self.worlds):
            for index in world.by_id.get(entry, ()):
                yield EntryLocation(self.places[book][index], book)


def _counting(attached: Iterable[Attached]) -> Iterator[Attached]:
    """Yield the books that count, by source. Only a global book may count more than once."""
    listed = list(attached)
    names: set[str] = set()
    for source in _PRECEDENCE:
        of_source = [each for each in listed if each.source == source]
        for each in of_source:
            if each.world.name not in names or source == "global":
                yield each
            names.add(each.world.name)


def _with_entry(known: EntryList, book: int, world: SillyTavernWorld, changed: int) -> EntryList:
    """Return a list with one entry changed, at its old place."""
    entries = list(known.entries)
    entries[known.places[book][changed]] = world.entries[changed]
    worlds = list(known.worlds)
    worlds[book] = world
    return replace(
        known,
        entries=tuple(entries),
        worlds=tuple(worlds),
        levels=tuple(sorted({entry.level for entry in entries if entry.level})),
    )


class Library:
    """The books of a chat. The order of their entries is cached for each strategy."""

    def __init__(self, attached: Iterable[Attached]) -> None:
        """Take the books in the order in which they were selected or bound."""
        self.books = tuple(_counting(attached))
        self._lists: dict[int, EntryList] = {}
        self._counts: dict[str, dict[str, int]] = {}

    def cached_counts(self, counter: TokenCounter) -> dict[str, int] | None:
        """Return the cached token counts of texts; the caller adds to them.

        None for a tokenizer of the caller, because its name may not identify it.
        """
        return self._counts.setdefault(counter.name, {}) if adds_up(counter) else None

    def in_order(self, strategy: int) -> EntryList:
        """Return all entries: the chat's book first, then the persona's, then the others."""
        if strategy not in _STRATEGIES:
            strategy = _EVENLY
        if strategy not in self._lists:
            self._lists[strategy] = self._sort(strategy)
        return self._lists[strategy]

    def with_world(self, book: int, world: SillyTavernWorld, changed: int) -> Library:
        """Return the library with a book replaced by one in which one entry differs.

        Args:
            book: number of the book.
            world: the new book.
            changed: index of the entry; its id is the old one.
        """
        books = list(self.books)
        before, after = books[book].world.entries[changed], world.entries[changed]
        books[book] = Attached(books[book].source, world)
        library = Library(books)
        library._counts = self._counts
        if str(before.order) == str(after.order):  # NaN is not equal to itself
            library._lists = {
                strategy: _with_entry(known, book, world, changed)
                for strategy, known in self._lists.items()
            }
        return library

    def _sort(self, strategy: int) -> EntryList:
        together = _STRATEGIES[strategy]
        runs: tuple[tuple[BookSource, ...], ...] = (("chat",), ("persona",), *together)
        ordered = [
            member
            for sources in runs
            for member in sort_descending(
                self._members(sources), lambda m: self.books[m[0]].world.entries[m[1]].order
            )
        ]
        places: list[list[int]] = [[0] * len(book.world.entries) for book in self.books]
        for place, (book, index) in enumerate(ordered):
            places[book][index] = place
        entries = tuple(self.books[book].world.entries[index] for book, index in ordered)
        return EntryList(
            entries=entries,
            worlds=tuple(book.world for book in self.books),
            places=tuple(map(tuple, places)),
            levels=tuple(sorted({entry.level for entry in entries if entry.level})),
            idle=cache(lambda: tuple(self._idle(book, index) for book, index in ordered)),
        )

    def _idle(self, book: int, index: int) -> Verdict:
        world = self.books[book].world
        name = world.entries[index].id
        return Verdict(
            id=name,
            activated=False,
            reason="not_triggered",
            loop=0,
            ignored_rules=world.ignored_rules.get(name, ()),
        )

    def _members(self, sources: tuple[BookSource, ...]) -> list[tuple[int, int]]:
        return [
            (number, index)
            for source in sources
            for number, book in enumerate(self.books)
            if book.source == source
            for index in range(len(book.world.entries))
        ]
