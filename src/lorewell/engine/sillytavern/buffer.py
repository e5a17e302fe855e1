"""The texts that are scanned, and which of them an entry sees (spec §6)."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple, get_args

from lorewell.engine.sillytavern.javascript import SURROGATE, WHITESPACE, in_object_order, trim
from lorewell.engine.sillytavern.keys import MARKER
from lorewell.engine.sillytavern.lore import Lore
from lorewell.engine.sillytavern.macros import Macros
from lorewell.engine.steps import Steps
from lorewell.jsregex import Outcome, Pattern
from lorewell.model.activate import ScanTexts, SillyTavernRequest
from lorewell.model.activated import Hit, HitIn

MAX_DEPTH: Final = 1_000
GROWING: Final = "\u0130"  # the one character that is two in lower case
_CHARS_PER_STEP, _SEGMENTS_PER_STEP = 200, 2
_JOINT = "\n" + MARKER
_KINDS: tuple[HitIn, ...] = get_args(HitIn)[1:-2]


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One text among those scanned.

    Attributes:
        kind, number: as in `Hit`.
        rank: of a message how many are newer; of any other text at least `MAX_DEPTH`.
        source: the bit of the flag that it takes to see it; 0 if it takes none.
        offset: how many characters were trimmed off at its front.
        wakers: of a text of recursion, where the content of each entry begins, and its id.
    """

    kind: HitIn
    number: int | None
    text: str
    rank: int = MAX_DEPTH
    source: int = 0
    offset: int = 0
    wakers: tuple[tuple[int, str], ...] = ()

    @cached_property
    def exact(self) -> str:
        """The text without lone surrogates, which no automaton takes and no plain key holds."""
        return SURROGATE.sub(MARKER, self.text)

    @cached_property
    def folded(self) -> str:
        """The same in lower case."""
        return self.exact.lower()

    @cached_property
    def _grown(self) -> tuple[int, ...]:
        """Where in the lower case each character begins that is two of it, in order."""
        if len(self.folded) == len(self.text):
            return ()
        places = (at for at, character in enumerate(self.text) if character == GROWING)
        return tuple(at + before for before, at in enumerate(places))

    def _unfolded(self, place: int) -> int:
        """Return the place in the text that a place in its lower case stands for."""
        before = bisect_left(self._grown, place)
        is_inside = before > 0 and self._grown[before - 1] == place - 1
        return place - before + is_inside

    def hit(self, start: int, end: int, *, folded: bool = False) -> Hit:
        """Return a span of this text, or of its lower case, as the ledger has it."""
        if folded and self._grown:
            start, end = self._unfolded(start), self._unfolded(end)
        at = bisect_right(self.wakers, start, key=lambda waker: waker[0]) - 1
        woken_by = self.wakers[at][1] if self.wakers else None
        return Hit(self.kind, self.number, (start + self.offset, end + self.offset), woken_by)


class View(NamedTuple):
    """What an entry sees: so many messages, the texts of these bits, and recursion or not."""

    depth: int
    sources: int
    recursion: bool

    def shows(self, segment: Segment) -> bool:
        """Return whether a text is among what the entry sees."""
        if segment.rank < MAX_DEPTH:
            return segment.rank < self.depth
        if self.depth <= 0:
            return False
        if segment.source:
            return bool(self.sources & segment.source)
        return self.recursion or segment.kind != "recursion"


@dataclass(slots=True)
class Joined:
    """All that an entry sees as the one text that SillyTavern searches.

    Attributes:
        starts: where each of the segments begins in it.
        outcomes: what regexes have given in it.
    """

    text: str
    segments: list[Segment]
    starts: list[int]
    outcomes: dict[Pattern, Outcome] = field(default_factory=dict)
    _folded: str | None = None

    @property
    def folded(self) -> str:
        """The text in lower case."""
        if self._folded is None:
            self._folded = self.text.lower()
        return self._folded

    def hit(self, start: int, end: int) -> Hit | None:
        """Return where a span lies, None if there is no text; it may begin on a marker."""
        if not self.segments:
            return None
        at = max(0, bisect_right(self.starts, start) - 1)
        segment, begin = self.segments[at], self.starts[at]
        low, high = (min(max(place - begin, 0), len(segment.text)) for place in (start, end))
        return segment.hit(low, high)


class Buffer:
    """The texts of one scan; recursion adds to them, and each step of depth lets more be seen."""

    def __init__(self, request: SillyTavernRequest, macros: Macros, steps: Steps) -> None:
        """Take the texts of a request, the prompts with their macros expanded."""
        self._steps = steps
        newest = request.chat[-MAX_DEPTH:]
        chars = sum(len(line.content) for line in newest)
        steps.spend("scan", 1 + len(newest) + chars // _CHARS_PER_STEP)
        self._default_depth = request.settings.world_info_depth
        self._skew = 0
        self.messages = _messages(request)
        self.others = [*_extras(request.scan_texts), *_injected(request, macros)]
        self.recursion: list[Segment] = []
        self._present = sum(segment.source for segment in self.others)
        self._joined: dict[View, Joined] = {}

    @property
    def depth(self) -> int:
        """How many messages are seen by entries that do not say so themselves."""
        return self._default_depth + self._skew

    def deepen(self) -> None:
        """Let one more message be seen by default; texts of the depth so far are of no more use."""
        self._joined = {view: it for view, it in self._joined.items() if view.depth < self.depth}
        self._skew += 1

    def view(self, lore: Lore, *, recursion: bool) -> View:
        """Return what an entry sees; texts that are not there don't tell views apart."""
        own = self.depth if lore.scan_depth is None else lore.scan_depth
        depth = 0 if math.isnan(own) or own <= 0 else int(min(own, MAX_DEPTH))
        if not depth:
            return View(0, 0, recursion=False)
        return View(depth, lore.sources & self._present, recursion and bool(self.recursion))

    def add(self, contents: Sequence[tuple[str, str]], loop: int) -> None:
        """Add the text of one loop: ids and contents of its entries."""
        wakers, at = [], 0
        for entry, content in contents:
            wakers.append((at, entry))
            at += len(content) + 1
        text = "\n".join(content for _, content in contents)
        self.recursion.append(
            Segment(kind="recursion", number=loop, text=text, wakers=tuple(wakers))
        )
        self._joined = {view: it for view, it in self._joined.items() if not view.recursion}

    def joined(self, view: View) -> Joined:
        """Return all that a view shows, as one text."""
        if view not in self._joined:
            self._joined[view] = self._join(view)
        return self._joined[view]

    def _join(self, view: View) -> Joined:
        if not view.depth:
            return Joined("", [], [])
        messages = self.messages[: view.depth]
        segments = [*messages, *filter(view.shows, [*self.others, *self.recursion])]
        chars = sum(len(segment.text) for segment in segments)
        self._steps.spend(
            "scan", 1 + len(segments) // _SEGMENTS_PER_STEP + chars // _CHARS_PER_STEP
        )
        starts, at = [], len(MARKER)
        if not messages:  # the text of no messages is empty, and is there
            at += len(_JOINT)
        for segment in segments:
            starts.append(at)
            at += len(segment.text) + len(_JOINT)
        texts = [segment.text for segment in segments]
        text = MARKER + _JOINT.join(texts if messages else ["", *texts])
        return Joined(text, segments, starts)


def _messages(request: SillyTavernRequest) -> list[Segment]:
    """Return the newest messages, newest first; empty ones hold a place, but not at the end."""
    with_names = request.settings.world_info_include_names
    texts = [
        f"{line.name}: {line.content}" if line.name and with_names else line.content
        for line in reversed(request.chat[-MAX_DEPTH:])
    ]
    while texts and not texts[-1]:
        texts.pop()
    newest = len(request.chat) - 1
    return [
        Segment(
            kind="message",
            number=newest - rank,
            text=trim(text),
            rank=rank,
            offset=len(text) - len(text.lstrip(WHITESPACE)),
        )
        for rank, text in enumerate(texts)
    ]


def _extras(texts: ScanTexts) -> list[Segment]:
    found = [getattr(texts, kind) for kind in _KINDS]
    return [
        Segment(kind=kind, number=None, text=text, source=1 << bit)
        for bit, (kind, text) in enumerate(zip(_KINDS, found, strict=True))
        if text
    ]


def _injected(request: SillyTavernRequest, macros: Macros) -> list[Segment]:
    """Return the prompts to be scanned, the author's note last."""
    values = {prompt.name: (number, prompt) for number, prompt in enumerate(request.prompts)}
    segments = []
    for name in in_object_order(values):
        number, prompt = values[name]
        text = macros.expand(prompt.value) if prompt.scan else ""
        if text:
            segments.append(Segment(kind="prompt", number=number, text=text))
    note = request.authors_note
    text = macros.expand(note.value) if note is not None and note.scan else ""
    if text:
        segments.append(Segment(kind="prompt", number=None, text=text))
    return segments
