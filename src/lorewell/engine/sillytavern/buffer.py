"""The texts that are scanned, and which of them an entry sees (docs/rules/sillytavern.md §6)."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final, NamedTuple, get_args

from lorewell.engine.sillytavern.javascript import SURROGATE, WHITESPACE, in_object_order, trim
from lorewell.engine.sillytavern.keys import MARKER
from lorewell.engine.sillytavern.macros import Macros
from lorewell.engine.sillytavern.scan_entry import ScanEntry
from lorewell.engine.steps import Steps
from lorewell.jsregex import Parts, Pattern, PatternOutcome
from lorewell.model.activate import ScanTexts, SillyTavernRequest
from lorewell.model.activated import Hit, HitIn

MAX_DEPTH: Final = 1_000
GROWING: Final = "\u0130"  # the one character that is two in lower case
_CHARS_PER_STEP, _SEGMENTS_PER_STEP = 200, 2
_JOINT: Final = "\n" + MARKER
_MAX_JOINED_SIZE: Final = 4_000_000  # of all joined texts that are kept
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
        return place - before + 1 if is_inside else place - before

    def hit(self, start: int, end: int, *, folded: bool = False) -> Hit:
        """Return a span of this text, or of its lower case, as the ledger has it."""
        if folded and self._grown:
            start, end = self._unfolded(start), self._unfolded(end)
        at = bisect_right(self.wakers, start, key=lambda waker: waker[0]) - 1
        woken_by = self.wakers[at][1] if self.wakers else None
        return Hit(self.kind, self.number, (start + self.offset, end + self.offset), woken_by)


class EntryView(NamedTuple):
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


class _Written:
    """All texts of a scan as one: what stands beside the chat, the messages, the recursion.

    Attributes:
        depth: how many messages it holds at most.
        recursion: how many texts of recursion it holds.
    """

    def __init__(self, buffer: ScanBuffer, depth: int) -> None:
        """Join the texts."""
        self.depth = depth
        self.recursion = len(buffer.recursion)
        self._others = buffer.others
        texts = [segment.text for segment in buffer.messages[:depth]]
        others, recursion = (
            "".join(_JOINT + segment.text for segment in segments)
            for segments in (buffer.others, buffer.recursion)
        )
        front = others + MARKER
        self.text = front + _JOINT.join(texts) + recursion
        # Where each message ends; before the first stands a marker alone, not a joint.
        lengths = (len(_JOINT) + len(text) for text in texts)
        self._ends = [*accumulate(lengths, initial=len(front) - len(_JOINT))]
        self._ends[0] = len(front)
        self._begin = len(others)

    def parts(self, view: EntryView) -> Parts:
        """Return which parts a view of at least one message shows: as `JoinedText` has them."""
        parts = [(self._begin, self._ends[min(view.depth, len(self._ends) - 1)])]
        at = 0
        for segment in self._others:
            end = at + len(_JOINT) + len(segment.text)
            if view.shows(segment):
                parts.append((at, end))
            at = end
        if view.recursion:
            parts.append((self._ends[-1], len(self.text)))
        return tuple(parts)


class JoinedText:
    """All that an entry sees as the one text that SillyTavern searches.

    Attributes:
        segments: the texts, in order.
        size: its characters, and one for each of its texts.
    """

    def __init__(self, view: EntryView, buffer: ScanBuffer) -> None:
        """Find the texts; they are joined when asked for."""
        others = filter(view.shows, [*buffer.others, *buffer.recursion])
        self._has_messages = view.depth > 0 and bool(buffer.messages)
        self.segments = [*buffer.messages[: view.depth], *others]
        self._is_there = view.depth > 0
        # The text of no messages is empty, and is there.
        at = len(MARKER) if self._has_messages else len(MARKER) + len(_JOINT)
        self._starts: list[int] = []
        for segment in self.segments:
            self._starts.append(at)
            at += len(segment.text) + len(_JOINT)
        self.size = at + len(self.segments)

    @cached_property
    def text(self) -> str:
        """The text as it is; without any depth there is none."""
        texts = [segment.text for segment in self.segments]
        if not self._has_messages:
            texts.insert(0, "")
        return MARKER + _JOINT.join(texts) if self._is_there else ""

    @cached_property
    def folded(self) -> str:
        """The text in lower case."""
        return self.text.lower()

    def hit(self, start: int, end: int) -> Hit | None:
        """Return where a span lies, None if there is no text; it may begin on a marker."""
        if not self.segments:
            return None
        at = max(0, bisect_right(self._starts, start) - 1)
        segment, begin = self.segments[at], self._starts[at]
        low, high = (min(max(place - begin, 0), len(segment.text)) for place in (start, end))
        return segment.hit(low, high)


class ScanBuffer:
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
        self._joined: dict[EntryView, JoinedText] = {}
        self._size = 0
        self._outcomes: dict[EntryView, dict[Pattern, PatternOutcome]] = {}
        self._written: _Written | None = None

    @property
    def depth(self) -> int:
        """How many messages are seen by entries that do not say so themselves."""
        return self._default_depth + self._skew

    def deepen(self) -> None:
        """Let one more message be seen by default; texts of the depth so far are of no more use."""
        self._forget(lambda view: view.depth == self.depth)
        self._skew += 1

    def view(self, entry: ScanEntry, *, recursion: bool) -> EntryView:
        """Return what an entry sees; texts that are not there don't tell views apart."""
        own = self.depth if entry.scan_depth is None else entry.scan_depth
        depth = 0 if math.isnan(own) or own <= 0 else int(min(own, MAX_DEPTH))
        if not depth:
            return EntryView(0, 0, recursion=False)
        return EntryView(depth, entry.sources & self._present, recursion and bool(self.recursion))

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
        self._forget(lambda view: view.recursion)

    def _forget(self, useless: Callable[[EntryView], bool]) -> None:
        for known in (self._joined, self._outcomes):
            for view in [view for view in known if useless(view)]:
                del known[view]
        self._size = sum(joined.size for joined in self._joined.values())

    def joined(self, view: EntryView) -> JoinedText:
        """Return all that a view shows, as one text; the texts asked for last are kept."""
        if view not in self._joined:
            joined = JoinedText(view, self)
            self._count(joined.segments, joined.size)
            self._size += joined.size
            while self._joined and self._size > _MAX_JOINED_SIZE:
                self._size -= self._joined.pop(next(iter(self._joined))).size
            self._joined[view] = joined
        return self._joined[view]

    def _count(self, segments: Sequence[Segment], chars: int) -> None:
        """Count what it costs to join texts."""
        cost = 1 + len(segments) // _SEGMENTS_PER_STEP + chars // _CHARS_PER_STEP
        self._steps.spend("scan", cost)

    def outcomes(self, view: EntryView) -> dict[Pattern, PatternOutcome]:
        """Return what regexes have given in what a view shows; to be added to."""
        return self._outcomes.setdefault(view, {})

    def written(self, views: Iterable[EntryView]) -> tuple[str, dict[EntryView, Parts]]:
        """Return one text with all that the views show, and the parts of it that each shows.

        From one call to the next it grows at its end, as long as only recursion adds to it.
        """
        views = set(views)
        depth = max(view.depth for view in views)
        written = self._written
        if written is None or written.depth < depth or written.recursion != len(self.recursion):
            depth = max(depth, written.depth if written else 0)
            written = self._written = _Written(self, depth)
            self._count([*self.messages[:depth], *self.others, *self.recursion], len(written.text))
        return written.text, {view: written.parts(view) for view in views}


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
