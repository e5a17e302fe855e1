"""A book of the policy `replica`, and all of it that can be known before a turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from lorewell.engine.conditions import Comparison, Flaw, parse_condition
from lorewell.engine.matching.key_table import KeyTable
from lorewell.engine.matching.keys import LiteralKey, fold_key, trim
from lorewell.engine.matching.literal import LiteralIndex
from lorewell.engine.replica.entries import (
    NormalEntry,
    derived_uid,
    from_sillytavern,
    normalise,
)
from lorewell.engine.replica.triggers import MAX_CONDITIONS, Triggers, read_triggers
from lorewell.engine.replica.values import Raw
from lorewell.engine.steps import Steps, weigh
from lorewell.model.replica import (
    ReplicaDecision,
    ReplicaReason,
    ReplicaWarning,
    WarningCode,
)

_STEPS_PER_ENTRY, _STEPS_PER_VALUE = 20, 4
MAX_PACKAGE: Final = 50  # dependencies of one entry, §7.7
NO_KEY_FOUND: Final = "keyword: no key was found"


class ParsedCondition(NamedTuple):
    """A condition as written, and as read."""

    text: str
    parsed: Comparison | Flaw


class EntryNeeds(NamedTuple):
    """What an entry requires.

    Attributes:
        places: indexes of all that come with it, ascending; empty if one of them can't.
        missing: uid of the first that can't, or why there are too many.
    """

    places: tuple[int, ...] = ()
    missing: str | None = None


NO_NEEDS = EntryNeeds()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaEntry:
    """One entry, made ready.

    Attributes:
        index: its place in the book.
        primary, secondary: keys that are not blank, in order.
        conditions: of a condition trigger that is on; None if it is off.
        idle: the decision on it where no key of it is found; None if something else can count.
    """

    index: int
    entry: NormalEntry
    triggers: Triggers
    primary: tuple[LiteralKey, ...]
    secondary: tuple[LiteralKey, ...]
    conditions: tuple[ParsedCondition, ...] | None
    needs: EntryNeeds
    idle: ReplicaDecision | None

    @property
    def key_count(self) -> int:
        """How many keys there are to look at."""
        return len(self.primary) + len(self.secondary)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaWorld:
    """A book, ready for a turn. Immutable; safe to share between threads.

    Attributes:
        entries: in the order of the file.
        literals: of the keys where case does not count, and where it does; with each key the
            entries that it wakes.
        alone: of each of the two, the keys of which somebody asks whether they stand alone.
        alert: indexes of the entries that can be active without a key being found, or that say why
            not.
        rag: the entries that are to be compared.
        content_chars: of the entries together.
        warnings: what was odd in the book.
        flaw: why it is no book, if it is none; then it has no entries.
    """

    book_id: str
    name: str
    entries: tuple[ReplicaEntry, ...]
    literals: tuple[LiteralIndex, LiteralIndex]
    alone: tuple[frozenset[int], frozenset[int]]
    alert: tuple[int, ...]
    rag: tuple[ReplicaEntry, ...]
    content_chars: int
    warnings: tuple[ReplicaWarning, ...]
    flaw: str | None = None


def compile_world(document: Raw, *, book_id: str, steps: Steps | None = None) -> ReplicaWorld:
    """Return a book ready for a turn; it is not changed.

    Args:
        document: its file as JSON; entries are a list in the internal form, or a map in that of
            SillyTavern.
        book_id: what requests call it.
        steps: what it may cost, of a book that comes with a request; a stored one has no limit.

    Raises:
        TooExpensiveError: it needs more than `steps`.

    Source: docs/rules/replica.md §1.2, §2.

    >>> tower = {"uid": 7, "key": ["灯塔"], "content": "灯塔由哑女看守。"}
    >>> world = compile_world({"name": "雾隐渡", "entries": [tower]}, book_id="b")
    >>> world.entries[0].entry.uid, world.flaw
    ('7', None)
    """
    name, flaw = book_id, "it is no object"
    listed: Raw = None
    if isinstance(document, Mapping):
        given = document.get("name")
        name, flaw = given if isinstance(given, str) else book_id, "it has no entries"
        listed = document.get("entries")
    if not isinstance(listed, list | Mapping):
        return _Compiler(book_id, steps).world(name, flaw)
    compiler = _Compiler(book_id, steps)
    for place, raw in enumerate(_in_order(listed)):
        compiler.add(place, raw)
    return compiler.world(name, None)


def _in_order(listed: Sequence[Raw] | Mapping[str, Raw]) -> Iterator[Raw]:
    """Yield the entries in the internal form, in the order of the file."""
    if isinstance(listed, Mapping):
        for name, raw in listed.items():
            yield from_sillytavern(raw, uid=str(name)) if isinstance(raw, Mapping) else raw
    else:
        yield from listed


class _Compiler:
    """Collects the entries and keys of a book."""

    def __init__(self, book_id: str, steps: Steps | None) -> None:
        self._book_id = book_id
        self._steps = steps
        self._warnings: list[ReplicaWarning] = []
        self._normal: list[NormalEntry] = []
        self._tables = (KeyTable(), KeyTable())  # case does not count, and does

    def add(self, place: int, raw: Raw) -> None:
        """Take in one entry."""
        if self._steps is not None:
            self._steps.spend("compile", _STEPS_PER_ENTRY + _STEPS_PER_VALUE * weigh(raw))
        if not isinstance(raw, Mapping):
            self._warn("entry_broken", f"Entry {place} is no object: it is left out.", None)
            return
        entry, odd = normalise(raw, uid=derived_uid(self._book_id, place))
        self._normal.append(entry)
        for each in odd:
            self._warnings.append(ReplicaWarning(*each, self._book_id, entry.uid))

    def world(self, name: str, flaw: str | None) -> ReplicaWorld:
        """Return the book."""
        all_needs = close_needs(self._normal)
        entries = tuple(
            self._lore(index, entry, all_needs[index]) for index, entry in enumerate(self._normal)
        )
        folded, exact = self._tables
        return ReplicaWorld(
            book_id=self._book_id,
            name=name,
            entries=entries,
            literals=(folded.index(), exact.index()),
            alone=(frozenset(folded.woken_as_word()), frozenset(exact.woken_as_word())),
            alert=tuple(lore.index for lore in entries if lore.idle is None),
            rag=tuple(
                lore for lore in entries if lore.triggers.rag is not None and not lore.entry.disable
            ),
            content_chars=sum(len(entry.content) for entry in self._normal),
            warnings=tuple(self._warnings),
            flaw=flaw,
        )

    def _lore(self, index: int, entry: NormalEntry, needs: EntryNeeds) -> ReplicaEntry:
        triggers = read_triggers(entry.config)
        for what in triggers.broken:
            self._warn("trigger_broken", f"Of the triggers {what}: it is off.", entry.uid)
        keyword = triggers.keyword
        primary: tuple[LiteralKey, ...] = ()
        secondary: tuple[LiteralKey, ...] = ()
        if keyword is not None and not entry.disable:
            case, whole = keyword.case_sensitive, keyword.whole_words
            primary = self._keys(keyword.keys, case=case, whole=whole, wakes=index)
            secondary = self._keys(keyword.secondary, case=case, whole=whole, wakes=None)
        others = (triggers.conditions, triggers.rag, triggers.logic)
        keys_alone = not triggers.constant and others == (None, None, None)
        return ReplicaEntry(
            index=index,
            entry=entry,
            triggers=triggers,
            primary=primary,
            secondary=secondary,
            conditions=self._conditions(entry, triggers),
            needs=needs,
            idle=self._idle(entry, triggers) if keys_alone else None,
        )

    def _idle(self, entry: NormalEntry, triggers: Triggers) -> ReplicaDecision:
        on = triggers.keyword is not None
        reason: ReplicaReason = "not_triggered" if on else "no_trigger"
        return ReplicaDecision(
            book_id=self._book_id,
            uid=entry.uid,
            active=False,
            reason="disabled" if entry.disable else reason,
            detail=NO_KEY_FOUND if on and not entry.disable else None,
        )

    def _keys(
        self, keys: Sequence[str], *, case: bool, whole: bool, wakes: int | None
    ) -> tuple[LiteralKey, ...]:
        table = self._tables[case]
        parsed = []
        for key in keys:
            folded = fold_key(trim(key), case_sensitive=case)
            if not folded:
                continue
            pattern = table.add(folded)
            if wakes is not None:
                table.wake(pattern, wakes)
            if whole:
                table.track_words(pattern)
            parsed.append(LiteralKey(key, pattern, whole))
        return tuple(parsed)

    def _conditions(
        self, entry: NormalEntry, triggers: Triggers
    ) -> tuple[ParsedCondition, ...] | None:
        texts = triggers.conditions
        if texts is None or entry.disable:
            return None
        parsed: list[Comparison | Flaw] = [parse_condition(text) for text in texts[:MAX_CONDITIONS]]
        if len(texts) > MAX_CONDITIONS:
            parsed = [Flaw(0, f"there are more than {MAX_CONDITIONS} conditions")]
            texts = texts[:1]
        for text, found in zip(texts, parsed, strict=True):
            if isinstance(found, Flaw):
                message = f"{text[:100]!r} is no condition, and so false: {found.detail}."
                self._warn("condition_unreadable", message, entry.uid)
        return tuple(map(ParsedCondition, texts, parsed))

    def _warn(self, code: WarningCode, message: str, uid: str | None) -> None:
        self._warnings.append(ReplicaWarning(code, message, self._book_id, uid))


def close_needs(entries: Sequence[NormalEntry]) -> list[EntryNeeds]:
    """Return what each entry requires, with all that those require. Circles do no harm.

    Source: docs/rules/replica.md §7.7.
    """
    places: dict[str, int] = {}
    for index, entry in enumerate(entries):
        places.setdefault(entry.uid, index)
    return [
        _close(entries, index, places) if entry.requires else NO_NEEDS
        for index, entry in enumerate(entries)
    ]


def _close(entries: Sequence[NormalEntry], root: int, places: Mapping[str, int]) -> EntryNeeds:
    found: dict[int, None] = {root: None}
    for index in _growing(found):
        for uid in entries[index].requires:
            place = places.get(uid)
            if place is None or entries[place].disable:
                return EntryNeeds(missing=uid)
            found[place] = None
            if len(found) > MAX_PACKAGE + 1:
                return EntryNeeds(missing=f"more than {MAX_PACKAGE} entries")
    return EntryNeeds(tuple(sorted(found.keys() - {root})))


def _growing(found: Mapping[int, None]) -> Iterator[int]:
    """Yield the members of a mapping in the order in which they come in, new ones too."""
    at = 0
    while at < len(found):
        batch = list(found)[at:]
        at += len(batch)
        yield from batch
