"""Where the plain keys of one book stand in the texts of a scan: each text is searched once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from lorewell.engine.matching.literal import MOST_TOLD
from lorewell.engine.sillytavern.buffer import MAX_DEPTH, EntryView, ScanBuffer, Segment
from lorewell.engine.sillytavern.keys import Borders, PlainKey, find_plain
from lorewell.engine.sillytavern.world import PlainKeyIndex, SillyTavernWorld
from lorewell.engine.steps import Steps
from lorewell.model.activate import SillyTavernSettings
from lorewell.model.activated import Hit

_COUNTED_AT_ONCE: Final = 200  # keys
_FEW: Final = 4  # places of a key; to look at them is part of searching
_CHARS_PER_STEP: Final = 50  # of a text that is put in lower case


class KeyHit(NamedTuple):
    """The first place of a key in one text, in the form in which that was searched."""

    segment: Segment
    start: int
    end: int
    folded: bool

    @property
    def hit(self) -> Hit:
        """The place as the ledger has it."""
        return self.segment.hit(self.start, self.end, folded=self.folded)


class _Seen:
    """The sights of one key: in the newest message that holds it, and in the other texts.

    Of texts that are seen together only the first counts.
    """

    __slots__ = ("message", "others")

    def __init__(self) -> None:
        self.message: KeyHit | None = None
        self.others: dict[tuple[int, bool], KeyHit] = {}

    def note(self, sight: KeyHit) -> None:
        segment = sight.segment
        if segment.rank >= MAX_DEPTH:
            self.others.setdefault((segment.source, segment.kind == "recursion"), sight)
        else:
            self.message = sight

    def find(self, view: EntryView) -> KeyHit | None:
        if self.message is not None and view.shows(self.message.segment):
            return self.message
        return next((sight for sight in self.others.values() if view.shows(sight.segment)), None)


def _may_note(seen: _Seen | None, segment: Segment) -> bool:
    """Return whether a sight in a text can be of use.

    Of messages only the newest counts, and they are searched from the newest on.
    """
    return seen is None or segment.rank >= MAX_DEPTH or seen.message is None


class PlainKeyHits:
    """The plain keys of one book in the texts of one scan.

    A text holds no marker and a plain key holds none, so a key found in the joined text lies
    within one of its texts, and the ends of a text are borders of words: to search each text alone
    gives the same answer.
    """

    def __init__(
        self,
        world: SillyTavernWorld,
        buffer: ScanBuffer,
        settings: SillyTavernSettings,
        alone: Borders,
        steps: Steps,
    ) -> None:
        """Bind a book to the texts; nothing is searched yet."""
        self._alone = alone
        self._world = world
        self._buffer = buffer
        self._steps = steps
        self._literals = world.literals(
            settings.world_info_case_sensitive, settings.world_info_match_whole_words
        )
        # By whether case counts, then by whether the key stands alone.
        self._seen: tuple[tuple[dict[str, _Seen], dict[str, _Seen]], ...] = (({}, {}), ({}, {}))
        self._searched = [0, 0, 0]  # messages, other texts, texts of recursion
        self._awake: set[int] = set()

    def advance(self) -> set[int]:
        """Search the texts that came in sight; return the entries that they wake."""
        self._awake = set()
        buffer = self._buffer
        deepest = int(min(max(self._world.deepest, buffer.depth), MAX_DEPTH))
        all_texts = (buffer.messages, buffer.others, buffer.recursion)
        ends = (min(deepest, len(buffer.messages)), len(buffer.others), len(buffer.recursion))
        for kind, (texts, end) in enumerate(zip(all_texts, ends, strict=True)):
            for number in range(self._searched[kind], end):
                self._search(texts[number])
            self._searched[kind] = max(self._searched[kind], end)
        return self._awake

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
                self._see(literals, case, pattern, segment, starts)

    def _see(
        self,
        literals: PlainKeyIndex,
        case: int,
        pattern: int,
        segment: Segment,
        starts: Sequence[int],
    ) -> None:
        """Note where a key stands in a text, unless that changes nothing."""
        index, woken_alone = literals.automaton, literals.as_word.get(pattern)
        wanted = index.patterns[pattern]
        anywhere, alone = self._seen[case]
        if _may_note(anywhere.get(wanted), segment):
            sight = KeyHit(segment, starts[0], starts[0] + len(wanted), folded=not case)
            self._note(anywhere, wanted, sight, index.entries[pattern])
        if woken_alone is not None and _may_note(alone.get(wanted), segment):
            start = self._first_alone(
                segment.folded if case == 0 else segment.exact, wanted, starts
            )
            if start >= 0:
                sight = KeyHit(segment, start, start + len(wanted), folded=not case)
                self._note(alone, wanted, sight, woken_alone)

    def _first_alone(self, text: str, wanted: str, starts: Sequence[int]) -> int:
        """Return the first place where a key stands alone, -1 if there is none."""
        if len(starts) > _FEW:
            self._steps.spend("keys", len(starts))
        for start in starts:
            if self._alone(text, start, start + len(wanted), self._steps):
                return start
        if len(starts) < MOST_TOLD:
            return -1
        return find_plain(text, wanted, self._alone, self._steps, begin=starts[-1] + 1)

    def _note(
        self, seen: dict[str, _Seen], wanted: str, sight: KeyHit, woken: Iterable[int]
    ) -> None:
        known = seen.get(wanted)
        if known is None:
            known = seen[wanted] = _Seen()
            self._awake.update(woken)
        known.note(sight)

    def find(self, key: PlainKey, view: EntryView, *, case: bool, alone: bool) -> KeyHit | None:
        """Return where a key stands in what a view shows."""
        seen = self._seen[case][alone].get(key.exact if case else key.folded)
        return None if seen is None else seen.find(view)
