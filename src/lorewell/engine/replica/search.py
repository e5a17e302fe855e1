"""Searches the keys of a book in the texts of a turn (docs/rules/replica.md §4.2)."""

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
_COUNTED_AT_ONCE, _TRIES_AT_ONCE = 200, 8  # keys; tries, of which fewer cost no steps
_FOUND_IN: dict[tuple[bool, bool], Literal["user", "history", "both"]] = {
    (True, False): "user",
    (False, True): "history",
    (True, True): "both",
}


class KeywordMatch(NamedTuple):
    """The keys of an entry that were found; `detail` says why the secondary keys refuse them."""

    facts: ReplicaFacts
    detail: str | None = None


class _KeyPlaces:
    """The first place of one key in the user's text, and in the history."""

    __slots__ = ("history", "user")

    def __init__(self) -> None:
        self.user: Span | None = None
        self.history: tuple[int, Span] | None = None


class TurnTexts:
    """The texts of one turn, each folded once for all books."""

    def __init__(self, mes: str, history: Sequence[str], steps: Steps) -> None:
        """Take the user's text and the history; they are folded on demand."""
        self._texts = (mes, *history)
        self._forms: dict[bool, list[Folded]] = {}
        self.steps = steps

    def in_form(self, *, case: bool) -> Iterator[tuple[int | None, Folded]]:
        """Yield each text with its index in the history, the user's text first with None."""
        if case not in self._forms:
            form = keep_case if case else fold_case
            self.steps.spend("matching", steps_to_fold(self._texts))
            self._forms[case] = [form(text, self.steps) for text in self._texts]
        for place, folded in enumerate(self._forms[case], -1):
            yield (None if place < 0 else place), folded


class KeywordSearch:
    """Searches the keys of one book in the texts of one turn, with one pass over each text.

    Attributes:
        woken: indexes of the entries with a primary key somewhere, as a whole word or not.
    """

    def __init__(self, world: ReplicaWorld, texts: TurnTexts) -> None:
        """Search all texts."""
        self._world = world
        self._steps = texts.steps
        # By whether case counts, then by whether the key stands alone as a word.
        self._places: tuple[tuple[dict[int, _KeyPlaces], dict[int, _KeyPlaces]], ...]
        self._places = (({}, {}), ({}, {}))
        self.woken: set[int] = set()
        for case in (False, True):
            if world.literals[case].patterns:
                for number, form in texts.in_form(case=case):
                    self._search(form, number, case=case)
                for pattern in self._places[case][False]:
                    self.woken.update(world.literals[case].entries[pattern])

    def _search(self, form: Folded, number: int | None, *, case: bool) -> None:
        index = self._world.literals[case]
        anywhere, as_word = self._places[case]
        hits: dict[int, list[int]] = {}
        for pattern, start, _ in index.find_again(form.text, self._steps):
            hits.setdefault(pattern, []).append(start)
        for count, (pattern, starts) in enumerate(hits.items()):
            if count % _COUNTED_AT_ONCE == 0:
                self._steps.spend("keys", min(_COUNTED_AT_ONCE, len(hits) - count))
            wanted = index.patterns[pattern]
            if _is_wanted(anywhere.get(pattern), number):
                span = self._first(form, wanted, starts, as_word=False)
                if span is not None:
                    _add(anywhere, pattern, number, span)
            is_tracked = pattern in self._world.as_word[case]
            if is_tracked and _is_wanted(as_word.get(pattern), number):
                span = self._first(form, wanted, starts, as_word=True)
                if span is not None:
                    _add(as_word, pattern, number, span)

    def _first(
        self, form: Folded, wanted: str, starts: Sequence[int], *, as_word: bool
    ) -> Span | None:
        """Return the first place of a key that cuts no character; as a word if it must be one."""
        rest: Iterable[int] = ()
        if len(starts) == MAX_PLACES:
            rest = occurrences(form.text, wanted, starts[-1] + 1, self._steps)
        for tries, start in enumerate(chain(starts, rest), 1):
            if tries % _TRIES_AT_ONCE == 0:
                self._steps.spend("keys", _TRIES_AT_ONCE)
            end = start + len(wanted)
            span = form.original_span(start, end)
            if span and (not as_word or stands_alone(form.text, start, end, self._steps)):
                return span
        return None

    def match(self, entry: ReplicaEntry) -> KeywordMatch | None:
        """Match the keys of an entry; None if no primary key was found."""
        keyword = entry.triggers.keyword or KeywordTrigger()
        places = self._places[keyword.case_sensitive][keyword.whole_words]
        found = [(key, places[key.pattern]) for key in entry.primary if key.pattern in places]
        if not found:
            return None
        in_user = [place.user for _, place in found if place.user is not None]
        in_history = [place.history for _, place in found if place.history is not None]
        message, span = (None, in_user[0]) if in_user else in_history[0]
        facts = ReplicaFacts(
            keys=tuple(dict.fromkeys(key.text for key, _ in found)),
            found_in=_FOUND_IN[bool(in_user), bool(in_history)],
            message=message,
            span=span,
        )
        return KeywordMatch(facts, _secondary_fault(keyword.logic, entry.secondary, places))


def _is_wanted(known: _KeyPlaces | None, number: int | None) -> bool:
    """Return whether a place can change an answer: only the first one in the history counts."""
    return known is None or (known.user if number is None else known.history) is None


def _add(places: dict[int, _KeyPlaces], pattern: int, number: int | None, span: Span) -> None:
    known = places.get(pattern)
    if known is None:
        known = places[pattern] = _KeyPlaces()
    if number is None:
        known.user = known.user or span
    else:
        known.history = known.history or (number, span)


def _secondary_fault(
    logic: int, keys: Sequence[LiteralKey], places: dict[int, _KeyPlaces]
) -> str | None:
    """Return why the secondary logic fails in all texts together, None if it holds."""
    if not keys:
        return None
    hit = [key.text for key in keys if key.pattern in places]
    missed = [key.text for key in keys if key.pattern not in places]
    if logic == ALL:
        return f"of all secondary keys {missed[0]!r} was not found" if missed else None
    if logic == NONE:
        return f"of no secondary keys {hit[0]!r} was found" if hit else None
    if logic == NOT_ALL:
        return None if missed else "of not all secondary keys every one was found"
    return None if hit else "of any secondary keys none was found"
