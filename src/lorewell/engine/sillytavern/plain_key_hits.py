"""Hits of the plain keys of one book in the texts of a scan; each text is searched once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from lorewell.engine.matching.literal import MAX_PLACES
from lorewell.engine.sillytavern.buffer import MAX_DEPTH, EntryView, ScanBuffer, Segment
from lorewell.engine.sillytavern.keys import Borders, PlainKey, find_plain
from lorewell.engine.sillytavern.world import PlainKeyIndex, SillyTavernWorld
from lorewell.engine.steps import Steps
from lorewell.model.activate import SillyTavernSettings
from lorewell.model.activated import Hit

_COUNTED_AT_ONCE: Final = 200  # keys
_FEW: Final = 4  # places of a key; checking so few is included in the cost of the search
_CHARS_PER_STEP: Final = 50  # of a text to lowercase


class KeyHit(NamedTuple):
    """The first place of a key in one text, in the form that was searched."""

    segment: Segment
    start: int
    end: int
    folded: bool

    @property
    def hit(self) -> Hit:
        """The place in the form of the ledger."""
        return self.segment.hit(self.start, self.end, folded=self.folded)


class _HitsOfKey:
    """The hits of one key: in the newest message that holds it, and in the other texts.

    Of texts that every view shows together, only the first hit is kept.
    """

    __slots__ = ("message", "others")

    def __init__(self) -> None:
        self.message: KeyHit | None = None
        self.others: dict[tuple[int, bool], KeyHit] = {}

    def add(self, hit: KeyHit) -> None:
        segment = hit.segment
        if segment.rank >= MAX_DEPTH:
            self.others.setdefault((segment.source, segment.kind == "recursion"), hit)
        else:
            self.message = hit

    def find(self, view: EntryView) -> KeyHit | None:
        if self.message is not None and view.shows(self.message.segment):
            return self.message
        return next((hit for hit in self.others.values() if view.shows(hit.segment)), None)


def _is_wanted(known: _HitsOfKey | None, segment: Segment) -> bool:
    """Return whether a hit in a text can still change an answer.

    Messages are searched newest first, and only the newest hit counts.
    """
    return known is None or segment.rank >= MAX_DEPTH or known.message is None


class PlainKeyHits:
    """The hits of one book's plain keys in the texts of one scan.

    Neither a text nor a plain key holds a marker, so a key found in the joined text lies within
    one of its texts, and the ends of a text are word borders. Searching each text on its own
    therefore gives the same answer as searching the joined text.
    """

    def __init__(
        self,
        world: SillyTavernWorld,
        buffer: ScanBuffer,
        settings: SillyTavernSettings,
        stands_alone: Borders,
        steps: Steps,
    ) -> None:
        """Bind a book to the texts; nothing is searched yet."""
        self._stands_alone = stands_alone
        self._world = world
        self._buffer = buffer
        self._steps = steps
        self._literals = world.literals(
            settings.world_info_case_sensitive, settings.world_info_match_whole_words
        )
        # By whether case counts, then by whether the key stands alone as a word.
        self._hits: tuple[tuple[dict[str, _HitsOfKey], dict[str, _HitsOfKey]], ...]
        self._hits = (({}, {}), ({}, {}))
        self._searched = [0, 0, 0]  # messages, other texts, texts of recursion
        self._woken: set[int] = set()

    def advance(self) -> set[int]:
        """Search the texts that became visible; return the indexes of the entries they wake."""
        self._woken = set()
        buffer = self._buffer
        deepest = int(min(max(self._world.deepest, buffer.depth), MAX_DEPTH))
        all_texts = (buffer.messages, buffer.others, buffer.recursion)
        ends = (min(deepest, len(buffer.messages)), len(buffer.others), len(buffer.recursion))
        for kind, (texts, end) in enumerate(zip(all_texts, ends, strict=True)):
            for number in range(self._searched[kind], end):
                self._search(texts[number])
            self._searched[kind] = max(self._searched[kind], end)
        return self._woken

    def _search(self, segment: Segment) -> None:
        for case, literals in enumerate(self._literals):
            index = literals.automaton
            if not index.patterns:
                continue
            self._steps.spend("matching", 1 + len(segment.text) // _CHARS_PER_STEP)
            text = segment.exact if case else segment.folded
            places: dict[int, list[int]] = {}
            for pattern, start, _ in index.find_again(text, self._steps):
                if pattern in places:
                    places[pattern].append(start)
                else:
                    places[pattern] = [start]
            for number, (pattern, starts) in enumerate(places.items()):
                if number % _COUNTED_AT_ONCE == 0:
                    self._steps.spend("keys", min(_COUNTED_AT_ONCE, len(places) - number))
                self._add_hits(literals, case, pattern, segment, starts)

    def _add_hits(
        self,
        literals: PlainKeyIndex,
        case: int,
        pattern: int,
        segment: Segment,
        starts: Sequence[int],
    ) -> None:
        """Add the first hit of a key in a text, and its first hit as a word."""
        index, woken_as_word = literals.automaton, literals.as_word.get(pattern)
        wanted = index.patterns[pattern]
        anywhere, as_word = self._hits[case]
        if _is_wanted(anywhere.get(wanted), segment):
            hit = KeyHit(segment, starts[0], starts[0] + len(wanted), folded=not case)
            self._add(anywhere, wanted, hit, index.entries[pattern])
        if woken_as_word is not None and _is_wanted(as_word.get(wanted), segment):
            start = self._find_word(segment.exact if case else segment.folded, wanted, starts)
            if start >= 0:
                hit = KeyHit(segment, start, start + len(wanted), folded=not case)
                self._add(as_word, wanted, hit, woken_as_word)

    def _find_word(self, text: str, wanted: str, starts: Sequence[int]) -> int:
        """Return the first place where a key stands alone, -1 if there is none."""
        if len(starts) > _FEW:
            self._steps.spend("keys", len(starts))
        for start in starts:
            if self._stands_alone(text, start, start + len(wanted), self._steps):
                return start
        if len(starts) < MAX_PLACES:
            return -1
        return find_plain(text, wanted, self._stands_alone, self._steps, begin=starts[-1] + 1)

    def _add(
        self, hits: dict[str, _HitsOfKey], wanted: str, hit: KeyHit, woken: Iterable[int]
    ) -> None:
        known = hits.get(wanted)
        if known is None:
            known = hits[wanted] = _HitsOfKey()
            self._woken.update(woken)
        known.add(hit)

    def find(self, key: PlainKey, view: EntryView, *, case: bool, as_word: bool) -> KeyHit | None:
        """Return the first hit of a key in a view, None if there is none."""
        known = self._hits[case][as_word].get(key.exact if case else key.folded)
        return None if known is None else known.find(view)
