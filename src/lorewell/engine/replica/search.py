"""Where the keys of a book stand in the texts of a turn (docs/rules/replica.md §4.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Literal, NamedTuple

from lorewell.engine.matching.fold import Folded, fold_case, keep_case, steps_to_fold
from lorewell.engine.matching.keys import LiteralKey
from lorewell.engine.matching.literal import MAX_PLACES, occurrences
from lorewell.engine.matching.words import stands_alone
from lorewell.engine.replica.triggers import ALL, NONE, NOT_ALL, KeywordTrigger
from lorewell.engine.replica.world import ReplicaEntry, ReplicaWorld
from lorewell.engine.steps import Steps
from lorewell.model.replica import ReplicaFacts

Span = tuple[int, int]
_COUNTED_AT_ONCE, _TRIES_AT_ONCE = 200, 8  # keys; tries, of which fewer are part of looking
_FOUND_IN: dict[tuple[bool, bool], Literal["user", "history", "both"]] = {
    (True, False): "user",
    (False, True): "history",
    (True, True): "both",
}


class KeywordMatch(NamedTuple):
    """What the keys of an entry gave; with a `detail` they do not count, for that reason."""

    facts: ReplicaFacts
    detail: str | None = None


class _Seen:
    """The first place of one key in the user's text, and in the history."""

    __slots__ = ("history", "user")

    def __init__(self) -> None:
        self.user: Span | None = None
        self.history: tuple[int, Span] | None = None


class TurnTexts:
    """The texts of one turn, each brought to the forms for comparison once, for all books."""

    def __init__(self, mes: str, history: Sequence[str], steps: Steps) -> None:
        """Take the user's text and the history; nothing is done to them yet."""
        self._texts = (mes, *history)
        self._forms: dict[bool, list[Folded]] = {}
        self.steps = steps

    def in_form(self, *, case: bool) -> Iterator[tuple[int | None, Folded]]:
        """Yield each text with its place in the history; the user's comes first and has none."""
        if case not in self._forms:
            form = keep_case if case else fold_case
            self.steps.spend("matching", steps_to_fold(self._texts))
            self._forms[case] = [form(text, self.steps) for text in self._texts]
        for place, folded in enumerate(self._forms[case], -1):
            yield (None if place < 0 else place), folded


class KeywordSearch:
    """The keys of one book in the texts of one turn: one pass over each text.

    Attributes:
        awake: indexes of the entries of which a key was found somewhere, whole word or not.
    """

    def __init__(self, world: ReplicaWorld, texts: TurnTexts) -> None:
        """Search all of it."""
        self._world = world
        self._steps = texts.steps
        # By whether case counts, then by whether the key stands alone.
        self._seen: tuple[tuple[dict[int, _Seen], dict[int, _Seen]], ...] = (({}, {}), ({}, {}))
        self.awake: set[int] = set()
        for case in (False, True):
            if world.literals[case].patterns:
                for number, form in texts.in_form(case=case):
                    self._look(form, number, case=case)
                for pattern in self._seen[case][False]:
                    self.awake.update(world.literals[case].entries[pattern])

    def _look(self, form: Folded, number: int | None, *, case: bool) -> None:
        index = self._world.literals[case]
        anywhere, alone = self._seen[case]
        places: dict[int, list[int]] = {}
        for pattern, start, _ in index.find_again(form.text, self._steps):
            places.setdefault(pattern, []).append(start)
        for count, (pattern, starts) in enumerate(places.items()):
            if count % _COUNTED_AT_ONCE == 0:
                self._steps.spend("keys", min(_COUNTED_AT_ONCE, len(places) - count))
            wanted = index.patterns[pattern]
            if _may_note(anywhere.get(pattern), number):
                span = self._first(form, wanted, starts, alone=False)
                if span is not None:
                    _note(anywhere, pattern, number, span)
            is_asked = pattern in self._world.alone[case]
            if is_asked and _may_note(alone.get(pattern), number):
                span = self._first(form, wanted, starts, alone=True)
                if span is not None:
                    _note(alone, pattern, number, span)

    def _first(
        self, form: Folded, wanted: str, starts: Sequence[int], *, alone: bool
    ) -> Span | None:
        """Return the first place of a key that cuts no character, and stands alone if it must."""
        rest: Iterable[int] = ()
        if len(starts) == MAX_PLACES:
            rest = occurrences(form.text, wanted, starts[-1] + 1, self._steps)
        for tries, start in enumerate(chain(starts, rest), 1):
            if tries % _TRIES_AT_ONCE == 0:
                self._steps.spend("keys", _TRIES_AT_ONCE)
            end = start + len(wanted)
            span = form.original_span(start, end)
            if span and (not alone or stands_alone(form.text, start, end, self._steps)):
                return span
        return None

    def look(self, lore: ReplicaEntry) -> KeywordMatch | None:
        """Return what the keys of an entry gave; None if none was found."""
        keyword = lore.triggers.keyword or KeywordTrigger()
        seen = self._seen[keyword.case_sensitive][keyword.whole_words]
        found = [(key, seen[key.pattern]) for key in lore.primary if key.pattern in seen]
        if not found:
            return None
        in_user = [where.user for _, where in found if where.user is not None]
        in_history = [where.history for _, where in found if where.history is not None]
        message, span = (None, in_user[0]) if in_user else in_history[0]
        facts = ReplicaFacts(
            keys=tuple(dict.fromkeys(key.text for key, _ in found)),
            found_in=_FOUND_IN[bool(in_user), bool(in_history)],
            message=message,
            span=span,
        )
        return KeywordMatch(facts, _fault(keyword.logic, lore.secondary, seen))


def _may_note(seen: _Seen | None, number: int | None) -> bool:
    """Return whether a place in a text can be of use: of the history only the first counts."""
    return seen is None or (seen.user if number is None else seen.history) is None


def _note(seen: dict[int, _Seen], pattern: int, number: int | None, span: Span) -> None:
    known = seen.get(pattern)
    if known is None:
        known = seen[pattern] = _Seen()
    if number is None:
        known.user = known.user or span
    else:
        known.history = known.history or (number, span)


def _fault(logic: int, keys: Sequence[LiteralKey], seen: dict[int, _Seen]) -> str | None:
    """Return why the secondary keys do not hold in all texts together, None if they do."""
    if not keys:
        return None
    hit = [key.text for key in keys if key.pattern in seen]
    missed = [key.text for key in keys if key.pattern not in seen]
    if logic == ALL:
        return f"of all secondary keys {missed[0]!r} was not found" if missed else None
    if logic == NONE:
        return f"of no secondary keys {hit[0]!r} was found" if hit else None
    if logic == NOT_ALL:
        return None if missed else "of not all secondary keys every one was found"
    return None if hit else "of any secondary keys none was found"
