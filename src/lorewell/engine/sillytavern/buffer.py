"""The texts of a scan, and the view that each entry has of them (docs/rules/sillytavern.md §6)."""

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
GROWING: Final = "\u0130"  # the only character that becomes two in lower case
_CHARS_PER_STEP, _SEGMENTS_PER_STEP = 200, 2
_JOINT: Final = "\n" + MARKER
_MAX_JOINED_SIZE: Final = 4_000_000  # of all cached joined texts
_KINDS: tuple[HitIn, ...] = get_args(HitIn)[1:-2]


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One scanned text.

    Attributes:
        kind, number: as in `Hit`.
        rank: for a message, the number of newer ones; for any other text at least `MAX_DEPTH`.
        source: the bit of the flag that an entry needs to see it; 0 if it needs none.
        offset: number of characters trimmed off its front.
        wakers: for a text of recursion, the start of each entry's content and the entry's id.
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
        """The text without lone surrogates: automata refuse them, and no plain key holds one."""
        return SURROGATE.sub(MARKER, self.text)

    @cached_property
    def folded(self) -> str:
        """The text without lone surrogates, in lower case."""
        return self.exact.lower()

    @cached_property
    def _grown(self) -> tuple[int, ...]:
        """Where each character that becomes two starts in the lower-case text, in order."""
        if len(self.folded) == len(self.text):
            return ()
        places = (at for at, character in enumerate(self.text) if character == GROWING)
        return tuple(at + before for before, at in enumerate(places))

    def _unfolded(self, place: int) -> int:
        """Return the place in the text for a place in its lower-case form."""
        before = bisect_left(self._grown, place)
        is_inside = before > 0 and self._grown[before - 1] == place - 1
        return place - before + 1 if is_inside else place - before

    def hit(self, start: int, end: int, *, folded: bool = False) -> Hit:
        """Return a span of this text, or of its lower-case form, in the form of the ledger."""
        if folded and self._grown:
            start, end = self._unfolded(start), self._unfolded(end)
        at = bisect_right(self.wakers, start, key=lambda waker: waker[0]) - 1
        woken_by = self.wakers[at][1] if self.wakers else None
        return Hit(self.kind, self.number, (start + self.offset, end + self.offset), woken_by)


class EntryView(NamedTuple):
    """The texts an entry sees: `depth` messages, the texts of `sources`, and recursion or not."""

    depth: int
    sources: int
    recursion: bool

    def shows(self, segment: Segment) -> bool:
        """Return whether the view includes a text."""
        if segment.rank < MAX_DEPTH:
            return segment.rank < self.depth
        if self.depth <= 0:
            return False
        if segment.source:
            return bool(self.sources & segment.source)
        return self.recursion or segment.kind != "recursion"


class _FullText:
    """All texts of a scan joined: the other texts, the messages, the recursion.

    Attributes:
        depth: the maximum number of messages in it.
        recursion: the number of texts of recursion in it.
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
        # Where each message ends. The first follows a bare marker, not a joint.
        lengths = (len(_JOINT) + len(text) for text in texts)
        self._ends = [*accumulate(lengths, initial=len(front) - len(_JOINT))]
        self._ends[0] = len(front)
        self._begin = len(others)

    def parts(self, view: EntryView) -> Parts:
        """Return the parts that a view of at least one message shows, as in `JoinedText`."""
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
    """The texts of a view as the one text that SillyTavern searches.

    Attributes:
        segments: the texts, in order.
        size: characters of the joined text, plus one for each text.
    """

    def __init__(self, view: EntryView, buffer: ScanBuffer) -> None:
        """Find the texts; they are joined on demand."""
        others = filter(view.shows, [*buffer.others, *buffer.recursion])
        self._has_messages = view.depth > 0 and bool(buffer.messages)
        self.segments = [*buffer.messages[: view.depth], *others]
        self._has_text = view.depth > 0
        # A view without messages still starts with their text, which is empty.
        at = len(MARKER) if self._has_messages else len(MARKER) + len(_JOINT)
        self._starts: list[int] = []
        for segment in self.segments:
            self._starts.append(at)
            at += len(segment.text) + len(_JOINT)
        self.size = at + len(self.segments)

    @cached_property
    def text(self) -> str:
        """The joined text; "" for a view of depth 0."""
        texts = [segment.text for segment in self.segments]
        if not self._has_messages:
            texts.insert(0, "")
        return MARKER + _JOINT.join(texts) if self._has_text else ""

    @cached_property
    def folded(self) -> str:
        """The joined text in lower case."""
        return self.text.lower()

    def hit(self, start: int, end: int) -> Hit | None:
        """Return where a span lies, None if there is no text. A span may start on a marker."""
        if not self.segments:
            return None
        at = max(0, bisect_right(self._starts, start) - 1)
        segment, begin = self.segments[at], self._starts[at]
        low, high = (min(max(place - begin, 0), len(segment.text)) for place in (start, end))
        return segment.hit(low, high)


class ScanBuffer:
    """The texts of one scan. Recursion adds texts, and `deepen` shows one more message."""

    def __init__(self, request: SillyTavernRequest, macros: Macros, steps: Steps) -> None:
        """Take the texts of a request; the macros of prompts are expanded."""
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
        self._full_text: _FullText | None = None

    @property
    def depth(self) -> int:
        """The number of messages that entries without a scan depth of their own see."""
        return self._default_depth + self._skew

    def deepen(self) -> None:
        """Show one more message by default; cached texts of the old depth are dropped."""
        self._drop_cached(lambda view: view.depth == self.depth)
        self._skew += 1

    def view(self, entry: ScanEntry, *, recursion: bool) -> EntryView:
        """Return the view of an entry; sources without a text do not count."""
        own = self.depth if entry.scan_depth is None else entry.scan_depth
        depth = 0 if math.isnan(own) or own <= 0 else int(min(own, MAX_DEPTH))
        if not depth:
            return EntryView(0, 0, recursion=False)
        return EntryView(depth, entry.sources & self._present, recursion and bool(self.recursion))

    def add(self, contents: Sequence[tuple[str, str]], loop: int) -> None:
        """Add the text of one loop, given the ids and contents of its entries."""
        wakers, at = [], 0
        for entry, content in contents:
            wakers.append((at, entry))
            at += len(content) + 1
        text = "\n".join(content for _, content in contents)
        self.recursion.append(
            Segment(kind="recursion", number=loop, text=text, wakers=tuple(wakers))
        )
        self._drop_cached(lambda view: view.recursion)

    def _drop_cached(self, is_stale: Callable[[EntryView], bool]) -> None:
        for cached in (self._joined, self._outcomes):
            for view in [view for view in cached if is_stale(view)]:
                del cached[view]
        self._size = sum(joined.size for joined in self._joined.values())

    def joined(self, view: EntryView) -> JoinedText:
        """Return the texts of a view as one text; the latest ones are cached."""
        if view not in self._joined:
            joined = JoinedText(view, self)
            self._spend_joining(joined.segments, joined.size)
            self._size += joined.size
            while self._joined and self._size > _MAX_JOINED_SIZE:
                self._size -= self._joined.pop(next(iter(self._joined))).size
            self._joined[view] = joined
        return self._joined[view]

    def _spend_joining(self, segments: Sequence[Segment], chars: int) -> None:
        """Spend the steps that joining texts takes."""
        cost = 1 + len(segments) // _SEGMENTS_PER_STEP + chars // _CHARS_PER_STEP
        self._steps.spend("scan", cost)

    def outcomes(self, view: EntryView) -> dict[Pattern, PatternOutcome]:
        """Return the known outcomes of regexes in a view; the caller adds to them."""
        return self._outcomes.setdefault(view, {})

    def full_text(self, views: Iterable[EntryView]) -> tuple[str, dict[EntryView, Parts]]:
        """Return one text that covers all views, and the parts of it that each view shows.

        As long as only recursion adds texts, the text only grows at its end.
        """
        views = set(views)
        depth = max(view.depth for view in views)
        full = self._full_text
        if full is None or full.depth < depth or full.recursion != len(self.recursion):
            depth = max(depth, full.depth if full else 0)
            full = self._full_text = _FullText(self, depth)
            segments = [*self.messages[:depth], *self.others, *self.recursion]
            self._spend_joining(segments, len(full.text))
        return full.text, {view: full.parts(view) for view in views}


def _messages(request: SillyTavernRequest) -> list[Segment]:
    """Return the newest messages, newest first; the empty ones at the old end are dropped."""
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
    """Return the prompts to scan, the author's note last."""
    values = {prompt.name: (number, prompt) for number, prompt in enumerate(request.prompts)}
    segments = []
    for name in in_object_order(values):
        number, prompt = values[name]
        text = macros.expand(prompt.value, None, f"/prompts/{number}/value") if prompt.scan else ""
        if text:
            segments.append(Segment(kind="prompt", number=number, text=text))
    note = request.authors_note
    is_scanned = note is not None and note.scan
    text = macros.expand(note.value, None, "/authors_note/value") if note and is_scanned else ""
    if text:
        segments.append(Segment(kind="prompt", number=None, text=text))
    return segments
