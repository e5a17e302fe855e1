"""The token budget of a scan, and the cost of a growing text.

Source: docs/rules/sillytavern.md §8.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from lorewell.engine.steps import Steps
from lorewell.engine.tokens import CHARS_PER_STEP, TokenCounter, adds_up, count_tokens
from lorewell.model.activate import SillyTavernRequest

# The turns of a chat activate mostly the same entries, so the counts of short texts are cached.
_CACHED_CHARS = 2_000
_MAX_CACHED = 5_000
_JOINED_PER_STEP = 4_000


def limit_of(request: SillyTavernRequest) -> int:
    """Return the budget in tokens: at least 1, and at most the cap if one is set."""
    settings = request.settings
    share = settings.world_info_budget * request.context_tokens / 100
    limit = math.floor(share + 0.5) or 1
    cap = settings.world_info_budget_cap
    return min(limit, cap) if cap > 0 else limit


class TextCounter:
    r"""Counts texts made of contents, each followed by a line break, as SillyTavern does.

    "" costs 0; any other text costs its tokens plus a fixed extra. SillyTavern counts the whole
    text again for each entry. The bundled encodings always split after the last line break of a
    run of blanks, unless a slash follows (o200k encodes ".\n/" as one piece), so with them the
    text is counted piece by piece. Any other tokenizer gets the texts that SillyTavern counts.
    """

    def __init__(
        self,
        counter: TokenCounter,
        extra: int,
        steps: Steps,
        *,
        before_blank: int = 0,
        cached: dict[str, int] | None = None,
    ) -> None:
        """Bind the counter to a tokenizer.

        Args:
            counter: the tokenizer.
            extra: tokens added to every text that is not empty.
            steps: the step budget; a cached count spends as many steps as a fresh one.
            before_blank: tokens added besides to a text that begins with a blank.
            cached: earlier counts by text; short texts are added.
        """
        self._counter = counter
        self._steps = steps
        self._extra = extra
        self._before_blank = before_blank
        self._adds_up = adds_up(counter)
        self._known: dict[str, int] = {}
        self._cached = {} if cached is None else cached
        self.name = counter.name

    def begin(self, contents: Iterable[str] = ()) -> RunningText:
        """Return a running text that starts with these contents."""
        text = RunningText(self, 0, "")
        for content in contents:
            text = text.add(content)
        return text

    def find_split(self, content: str) -> int | None:
        """Return the offset from which a content's tokens don't depend on the lines before it.

        None if there is no such offset.
        """
        body = content.lstrip()
        if not self._adds_up or not body or body[0] == "/":
            return None
        blanks = content[: len(content) - len(body)]
        return max(blanks.rfind("\n"), blanks.rfind("\r")) + 1

    def count(self, text: str) -> int:
        """Return the tokens of a text, without the extra."""
        tokens = self._known.get(text)
        if tokens is not None:
            return tokens
        self._steps.spend("tokens", 1 + len(text) // CHARS_PER_STEP)
        tokens = self._cached.get(text)
        if tokens is None:
            tokens = count_tokens(self._counter, text, self._steps)
            if len(self._cached) >= _MAX_CACHED:  # texts with macros differ from turn to turn
                self._cached.clear()
            if len(text) <= _CACHED_CHARS:
                self._cached[text] = tokens
        self._known[text] = tokens
        return tokens

    def spend_joining(self, chars: int) -> None:
        """Spend steps for joining texts of so many characters, if they are many."""
        if chars > _JOINED_PER_STEP:
            self._steps.spend("tokens", chars // _JOINED_PER_STEP)

    def total(self, settled: int, rest: str) -> int:
        """Return the cost of a text: `settled` tokens, followed by the text `rest`."""
        if not rest:
            return 0
        tokens = settled + self.count(rest) + self._extra
        # Only tokenizers whose counts don't add up have it, and they get the whole text.
        return tokens + self._before_blank if self._before_blank and rest[0].isspace() else tokens


class RunningText(NamedTuple):
    """A text that grows: `settled` tokens, followed by a rest that is counted on demand."""

    tally: TextCounter
    settled: int
    rest: str

    def add(self, content: str) -> RunningText:
        """Return the text with a content and a line break added."""
        line = content + "\n"
        self.tally.spend_joining(len(self.rest) + len(line))
        start = self.tally.find_split(content) if self.rest else None
        if start is not None:
            settled = self.settled + self.tally.count(self.rest + line[:start])
            return RunningText(self.tally, settled, line[start:])
        return RunningText(self.tally, self.settled, self.rest + line)

    @property
    def tokens(self) -> int:
        """The cost of the text."""
        return self.tally.total(self.settled, self.rest)


class _Piece(NamedTuple):
    """A text that follows another one, counted where the text before it has no effect.

    Attributes:
        head: the text up to the first split; the whole text if it has none.
        settled: tokens between the first split and the last.
        tail: the text from the last split on; "" if there is none.
    """

    head: str
    settled: int
    tail: str

    def after(self, other: _Piece, tally: TextCounter) -> _Piece:
        """Return this text with the other one in front of it."""
        if not other.tail:
            return _Piece(other.head + self.head, self.settled, self.tail)
        if not self.tail:
            return _Piece(other.head, other.settled, other.tail + self.head)
        between = tally.count(other.tail + self.head)
        return _Piece(other.head, other.settled + between + self.settled, self.tail)


_NO_PIECE: Final = _Piece("", 0, "")


class LoopContents:
    """The contents of earlier loops, newest first, as one text that grows at its front."""

    def __init__(self, tally: TextCounter) -> None:
        """Start with no text."""
        self._tally = tally
        self._first: str | None = None  # the newest content, as a line
        self._behind = _NO_PIECE  # the text after it
        self._tokens: int | None = 0

    @property
    def tokens(self) -> int:
        """The cost of the text, counted on demand as SillyTavern does."""
        if self._tokens is None:
            tally, behind = self._tally, self._behind
            settled, rest = 0, (self._first or "") + behind.head
            if behind.tail:
                settled, rest = tally.count(rest) + behind.settled, behind.tail
            self._tokens = tally.total(settled, rest)
        return self._tokens

    def put_before(self, contents: Sequence[str]) -> None:
        """Add contents in front of all others."""
        lines = [content + "\n" for content in contents]
        if self._first is not None:
            lines.append(self._first)
        for line in reversed(lines[1:]):
            self._tally.spend_joining(len(line) + len(self._behind.head))
            self._behind = self._behind.after(self._split(line), self._tally)
        self._first = lines[0]
        self._tokens = None

    def _split(self, line: str) -> _Piece:
        start = self._tally.find_split(line)
        return _Piece(line, 0, "") if start is None else _Piece(line[:start], 0, line[start:])
