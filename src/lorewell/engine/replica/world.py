"""Compiles a book for the policy `replica`: all that does not depend on the turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
    """A condition: its text, and the parsed comparison or its syntax error."""

    text: str
    parsed: Comparison | Flaw


class EntryNeeds(NamedTuple):
    """The requirements of an entry.

    Attributes:
        places: indexes of all entries that it requires, ascending; empty if one is unavailable.
        missing: uid of the first unavailable entry, or a note that there are too many.
    """

    places: tuple[int, ...] = ()
    missing: str | None = None


NO_NEEDS = EntryNeeds()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaEntry:
    """One compiled entry.

    Attributes:
        index: its place in the book.
        spec: the normalised entry.
        primary, secondary: keys that are not blank, in order.
        conditions: conditions of an enabled condition trigger; None if it is off.
        idle: the decision if no key is found; None if other triggers can fire.
    """

    index: int
    spec: NormalEntry
    triggers: Triggers
    primary: tuple[LiteralKey, ...]
    secondary: tuple[LiteralKey, ...]
    conditions: tuple[ParsedCondition, ...] | None
    needs: EntryNeeds
    idle: ReplicaDecision | None

    @property
    def key_count(self) -> int:
        """The number of keys to match."""
        return len(self.primary) + len(self.secondary)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaWorld:
    """A compiled book. Immutable; safe to share between threads.

    Attributes:
        entries: in the order of the file.
        literals: the keys matched without case, and with case; each with the entries that it wakes.
        as_word: for each of the two, the patterns that some entry needs as a whole word.
        always: indexes of the entries to check even if no key is found: other triggers may fire,
            or their decision depends on the turn.
        rag: the entries with a rag trigger.
        content_chars: code points of all contents.
        warnings: problems in the book.
        flaw: why the document is not a book, None if it is one; if set, there are no entries.
    """

    book_id: str
    name: str
    entries: tuple[ReplicaEntry, ...]
    literals: tuple[LiteralIndex, LiteralIndex]
    as_word: tuple[frozenset[int], frozenset[int]]
    always: tuple[int, ...]
    rag: tuple[ReplicaEntry, ...]
    content_chars: int
    warnings: tuple[ReplicaWarning, ...]
    flaw: str | None = None


def compile_world(document: Raw, *, book_id: str, steps: Steps | None = None) -> ReplicaWorld:
    """Compile a book; the document is not changed.

    Args:
        document: the file as JSON; entries are a list in the internal form, or a map in
            SillyTavern's form.
        book_id: the name of the book in requests.
        steps: the step budget, for a book inside a request; None for no limit.

    Raises:
        TooExpensiveError: compiling needs more than `steps`.

    Source: docs/rules/replica.md §1.2, §2.

    >>> tower = {"uid": 7, "key": ["灯塔"], "content": "灯塔由哑女看守。"}
    >>> world = compile_world({"name": "雾隐渡", "entries": [tower]}, book_id="b")
    >>> world.entries[0].spec.uid, world.flaw
    ('7', None)
    """
    name, flaw = book_id, "it is not an object"
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


def with_entry(world: ReplicaWorld, index: int, raw: Mapping[str, Raw]) -> ReplicaWorld:
    """Return a compiled book with one entry changed, without compiling the others again.

    The entry is checked in every turn, whether one of its keys is found or not; it activates as in
    a book that is compiled anew.

    Args:
        world: the compiled book.
        index: the entry.
        raw: the new entry in the internal form; its uid is the old one.
    """
    spec, _ = normalise(raw, uid=world.entries[index].spec.uid)
    return _Compiler(world.book_id, None, world.literals).with_entry(world, index, spec)


def _in_order(listed: Sequence[Raw] | Mapping[str, Raw]) -> Iterator[Raw]:
    """Yield the entries in the internal form, in the order of the file."""
    if isinstance(listed, Mapping):
        for name, raw in listed.items():
            yield from_sillytavern(raw, uid=str(name)) if isinstance(raw, Mapping) else raw
    else:
        yield from listed


class _Compiler:
    """Collects the entries and keys of a book."""

    def __init__(
        self,
        book_id: str,
        steps: Steps | None,
        literals: tuple[LiteralIndex, LiteralIndex] | None = None,
    ) -> None:
        self._book_id = book_id
        self._steps = steps
        self._warnings: list[ReplicaWarning] = []
        self._specs: list[NormalEntry] = []
        folded, exact = literals or (None, None)
        self._tables = (KeyTable(folded), KeyTable(exact))  # without case, and with case

    def add(self, place: int, raw: Raw) -> None:
        """Add one entry."""
        if self._steps is not None:
            self._steps.spend("compile", _STEPS_PER_ENTRY + _STEPS_PER_VALUE * weigh(raw))
        if not isinstance(raw, Mapping):
            self._warn("entry_broken", f"Entry {place} is not an object; it is left out.", None)
            return
        spec, oddities = normalise(raw, uid=derived_uid(self._book_id, place))
        self._specs.append(spec)
        for each in oddities:
            self._warnings.append(ReplicaWarning(*each, self._book_id, spec.uid))

    def world(self, name: str, flaw: str | None) -> ReplicaWorld:
        """Return the book."""
        all_needs = close_needs(self._specs)
        entries = tuple(
            self._compile(index, spec, all_needs[index]) for index, spec in enumerate(self._specs)
        )
        folded, exact = self._tables
        return ReplicaWorld(
            book_id=self._book_id,
            name=name,
            entries=entries,
            literals=(folded.index(), exact.index()),
            as_word=(frozenset(folded.woken_as_word()), frozenset(exact.woken_as_word())),
            always=tuple(entry.index for entry in entries if entry.idle is None),
            rag=tuple(
                entry
                for entry in entries
                if entry.triggers.rag is not None and not entry.spec.disable
            ),
            content_chars=sum(len(spec.content) for spec in self._specs),
            warnings=tuple(self._warnings),
            flaw=flaw,
        )

    def with_entry(self, known: ReplicaWorld, index: int, spec: NormalEntry) -> ReplicaWorld:
        """Return a book with one entry changed; the compiler extends its keys."""
        old = known.entries[index].spec
        entries = list(known.entries)
        if (old.requires, old.disable) != (spec.requires, spec.disable):
            specs = [entry.spec for entry in entries]
            specs[index] = spec
            entries = [
                entry if entry.needs == needs else replace(entry, needs=needs)
                for entry, needs in zip(entries, close_needs(specs), strict=True)
            ]
        entries[index] = self._compile(index, spec, entries[index].needs)
        folded, exact = self._tables
        return replace(
            known,
            entries=tuple(entries),
            literals=(folded.index(), exact.index()),
            as_word=(
                known.as_word[0].union(folded.woken_as_word()),
                known.as_word[1].union(exact.woken_as_word()),
            ),
            always=tuple(sorted({*known.always, index})),
            rag=tuple(
                entry
                for entry in entries
                if entry.triggers.rag is not None and not entry.spec.disable
            ),
        )

    def _compile(self, index: int, spec: NormalEntry, needs: EntryNeeds) -> ReplicaEntry:
        triggers = read_triggers(spec.config)
        for fault in triggers.broken:
            self._warn("trigger_broken", f"Invalid trigger: {fault}; it is off.", spec.uid)
        keyword = triggers.keyword
        primary: tuple[LiteralKey, ...] = ()
        secondary: tuple[LiteralKey, ...] = ()
        if keyword is not None and not spec.disable:
            case, whole = keyword.case_sensitive, keyword.whole_words
            primary = self._keys(keyword.keys, case=case, whole=whole, wakes=index)
            secondary = self._keys(keyword.secondary, case=case, whole=whole, wakes=None)
        others = (triggers.conditions, triggers.rag, triggers.logic)
        keys_alone = not triggers.constant and others == (None, None, None)
        return ReplicaEntry(
            index=index,
            spec=spec,
            triggers=triggers,
            primary=primary,
            secondary=secondary,
            conditions=self._conditions(spec, triggers),
            needs=needs,
            idle=self._idle(spec, triggers) if keys_alone else None,
        )

    def _idle(self, spec: NormalEntry, triggers: Triggers) -> ReplicaDecision:
        on = triggers.keyword is not None
        reason: ReplicaReason = "not_triggered" if on else "no_trigger"
        return ReplicaDecision(
            book_id=self._book_id,
            uid=spec.uid,
            active=False,
            reason="disabled" if spec.disable else reason,
            detail=NO_KEY_FOUND if on and not spec.disable else None,
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
            pattern = table.add(folded, wakes=wakes)
            if whole:
                table.track_word(pattern)
            parsed.append(LiteralKey(key, pattern, whole))
        return tuple(parsed)

    def _conditions(
        self, spec: NormalEntry, triggers: Triggers
    ) -> tuple[ParsedCondition, ...] | None:
        texts = triggers.conditions
        if texts is None or spec.disable:
            return None
        parsed: list[Comparison | Flaw] = [parse_condition(text) for text in texts[:MAX_CONDITIONS]]
        if len(texts) > MAX_CONDITIONS:
            parsed = [Flaw(0, f"there are more than {MAX_CONDITIONS} conditions")]
            texts = texts[:1]
        for text, found in zip(texts, parsed, strict=True):
            if isinstance(found, Flaw):
                message = f"{text[:100]!r} is not a valid condition, so false: {found.detail}."
                self._warn("condition_unreadable", message, spec.uid)
        return tuple(map(ParsedCondition, texts, parsed))

    def _warn(self, code: WarningCode, message: str, uid: str | None) -> None:
        self._warnings.append(ReplicaWarning(code, message, self._book_id, uid))


def close_needs(entries: Sequence[NormalEntry]) -> list[EntryNeeds]:
    """Return the requirements of each entry, direct and indirect. Cycles are allowed.

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
    """Yield the keys of a mapping in order of insertion, including those added meanwhile."""
    at = 0
    while at < len(found):
        batch = list(found)[at:]
        at += len(batch)
        yield from batch
