"""Where the plain keys of one book stand in the texts of a scan: each text is searched once."""

from __future__ import annotations

from typing import NamedTuple

from lorewell.engine.sillytavern.buffer import MAX_DEPTH, Buffer, Segment, View
from lorewell.engine.sillytavern.keys import Borders, Plain
from lorewell.engine.sillytavern.world import World
from lorewell.model.activate import SillyTavernSettings
from lorewell.model.activated import Hit


class Sight(NamedTuple):
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
    """The sights of one key: in the newest message that holds it, and in each other text."""

    __slots__ = ("message", "others")

    def __init__(self) -> None:
        self.message: Sight | None = None
        self.others: list[Sight] = []

    def note(self, sight: Sight) -> None:
        if sight.segment.rank >= MAX_DEPTH:
            self.others.append(sight)
        elif self.message is None:  # messages are searched from the newest on
            self.message = sight

    def find(self, view: View) -> Sight | None:
        if self.message is not None and view.shows(self.message.segment):
            return self.message
        return next((sight for sight in self.others if view.shows(sight.segment)), None)


def _note(seen: dict[str, _Seen], wanted: str, sight: Sight) -> None:
    known = seen.get(wanted)
    if known is None:
        known = seen[wanted] = _Seen()
    known.note(sight)


class Sightings:
    """The plain keys of one book in the texts of one scan.

    A text holds no marker and a plain key holds none, so a key found in the joined text lies
    within one of its texts, and the ends of a text are borders of words: to search each text alone
    gives the same answer.
    """

    def __init__(
        self, world: World, buffer: Buffer, settings: SillyTavernSettings, alone: Borders
    ) -> None:
        """Bind a book to the texts; nothing is searched yet."""
        self._alone = alone
        self._world = world
        self._buffer = buffer
        self._literals = world.literals(
            settings.world_info_case_sensitive, settings.world_info_match_whole_words
        )
        # By whether case counts, then by whether the key stands alone.
        self._seen: tuple[tuple[dict[str, _Seen], dict[str, _Seen]], ...] = (({}, {}), ({}, {}))
        self._searched = [0, 0, 0]  # messages, other texts, texts of recursion
        self.awake: set[int] = set()

    def advance(self) -> None:
        """Search the texts that came in sight; what has a key in them is `awake`."""
        buffer = self._buffer
        deepest = int(min(max(self._world.deepest, buffer.depth), MAX_DEPTH))
        all_texts = (buffer.messages[:deepest], buffer.others, buffer.recursion)
        for kind, texts in enumerate(all_texts):
            for segment in texts[self._searched[kind] :]:
                self._search(segment)
            self._searched[kind] = max(self._searched[kind], len(texts))

    def _search(self, segment: Segment) -> None:
        for case, (index, entries_alone) in enumerate(self._literals):
            if not index.patterns:
                continue
            text = segment.exact if case else segment.folded
            anywhere, alone = self._seen[case]
            found_anywhere: set[int] = set()
            settled: set[int] = set()  # of each kind only the first place counts
            for pattern, start, end in index.find_again(text):
                if pattern in settled:
                    continue
                wanted = index.patterns[pattern]
                if pattern not in found_anywhere:
                    found_anywhere.add(pattern)
                    self.awake.update(index.entries[pattern])
                    _note(anywhere, wanted, Sight(segment, start, end, folded=not case))
                woken_alone = entries_alone[pattern]
                if woken_alone is None:
                    settled.add(pattern)
                elif self._alone(text, start, end):
                    settled.add(pattern)
                    self.awake.update(woken_alone)
                    _note(alone, wanted, Sight(segment, start, end, folded=not case))

    def find(self, key: Plain, view: View, *, case: bool, alone: bool) -> Sight | None:
        """Return where a key stands in what a view shows."""
        seen = self._seen[case][alone].get(key.exact if case else key.folded)
        return None if seen is None else seen.find(view)
