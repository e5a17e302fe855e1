"""Finds the book's keys in the book's own texts, with the automaton of the engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lorewell.engine.matching.key_table import KeyTable
from lorewell.engine.matching.literal import LiteralIndex
from lorewell.insight.lint.judged import JudgedBook, JudgedEntry, JudgedKey

MAX_CONTENT_CHARS: Final = 2_000_000  # of all contents that are searched


class KeyForm(NamedTuple):
    """A plain key in the form for comparison, and whether case counts for it."""

    wanted: str
    case: bool


class Sighting(NamedTuple):
    """A place where a key was found: the text's entry (index in the judged ones), start and end."""

    text: int
    start: int
    end: int
    alone: bool


@dataclass(slots=True)
class KeySightings:
    """Where a key was found in the contents of the book.

    Attributes:
        texts: the texts that hold it.
        alone: those in which it stands alone somewhere.
        inside: a place where it is part of a longer word.
    """

    texts: set[int] = field(default_factory=set)
    alone: set[int] = field(default_factory=set)
    inside: Sighting | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextScan:
    """The keys of a book in its own texts.

    Attributes:
        folded: the searched contents, by judged entry, without case.
        sightings: by key; keys found nowhere are missing.
        contained: by key, the other keys that are part of it.
        listed: by key, the judged entries that have it as a primary key.
    """

    folded: Sequence[str]
    sightings: Mapping[KeyForm, KeySightings]
    contained: Mapping[KeyForm, frozenset[KeyForm]]
    listed: Mapping[KeyForm, Sequence[int]]

    def of(self, entry: JudgedEntry, key: JudgedKey) -> KeySightings:
        """Return the sightings of a key of an entry."""
        return self.sightings.get(form_of(entry, key), KeySightings())

    def hits(self, entry: JudgedEntry, key: JudgedKey) -> set[int]:
        """Return the texts in which a key of an entry hits."""
        found = self.of(entry, key)
        return found.alone if key.alone else found.texts


def form_of(entry: JudgedEntry, key: JudgedKey) -> KeyForm:
    """Return the form of a plain key of an entry."""
    return KeyForm(key.wanted, entry.case)


def scan_texts(book: JudgedBook) -> TextScan:
    """Search the contents and the keys of a book for its keys, each of them once."""
    listed = _list_keys(book)
    indexes = {case: _index(listed, case=case) for case in (False, True)}
    contents = [entry.content for entry in book.entries]
    sightings: dict[KeyForm, KeySightings] = {}
    folded = []
    room = MAX_CONTENT_CHARS
    for at, content in enumerate(contents):
        text = content[:room]
        room -= len(text)
        folded.append(book.fold(text))
        for case, index in indexes.items():
            searched = book.compose(text) if case else folded[-1]
            _sight(book, index, searched, at, sightings, case=case)
    return TextScan(
        folded=folded,
        sightings=sightings,
        contained=_containments(book, listed, indexes),
        listed=listed,
    )


def _list_keys(book: JudgedBook) -> dict[KeyForm, list[int]]:
    """Return all plain keys, each with the entries that have it as a primary key."""
    listed: dict[KeyForm, list[int]] = defaultdict(list)
    for at, entry in enumerate(book.entries):
        for key in entry.plain_keys:
            if not (members := listed[form_of(entry, key)]) or members[-1] != at:
                members.append(at)
    for entry in book.entries:
        for key in entry.secondary:
            if key.wanted:
                listed.setdefault(form_of(entry, key), [])
        if entry.case:  # to tell that a key is there in another case
            for key in entry.plain_keys:
                listed.setdefault(KeyForm(book.fold(key.wanted), case=False), [])
    return listed


def _index(forms: Mapping[KeyForm, Sequence[int]], *, case: bool) -> LiteralIndex:
    table = KeyTable()
    for form in forms:
        if form.case is case:
            table.add(form.wanted)
    return table.index()


def _sight(
    book: JudgedBook,
    index: LiteralIndex,
    text: str,
    at: int,
    sightings: dict[KeyForm, KeySightings],
    *,
    case: bool,
) -> None:
    for pattern, start, end in index.find(text, book.steps):
        found = sightings.setdefault(KeyForm(index.patterns[pattern], case), KeySightings())
        found.texts.add(at)
        if at in found.alone:
            continue
        alone = book.borders(text, start, end, book.steps)
        if alone:
            found.alone.add(at)
        elif found.inside is None:
            found.inside = Sighting(at, start, end, alone)


def _containments(
    book: JudgedBook, forms: Mapping[KeyForm, Sequence[int]], indexes: Mapping[bool, LiteralIndex]
) -> dict[KeyForm, frozenset[KeyForm]]:
    found = {}
    for form in forms:
        index = indexes[form.case]
        inner = {
            KeyForm(index.patterns[pattern], form.case)
            for pattern, _, _ in index.find(form.wanted, book.steps)
        }
        inner.discard(form)
        if inner:
            found[form] = frozenset(inner)
    return found


def wakes(book: JudgedBook, scan: TextScan) -> Iterator[tuple[int, KeyForm, bool]]:
    """Yield (judged entry, key in its content, whether the key must stand alone to wake)."""
    for form, found in scan.sightings.items():
        for at in found.texts:
            if book.entries[at].feeds:
                yield at, form, at in found.alone
