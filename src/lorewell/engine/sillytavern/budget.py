"""The budget: how many tokens there are, and what a growing text takes of them.

Source: docs/rules/sillytavern.md §8.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from lorewell.engine.steps import Steps
from lorewell.engine.tokens import CHARS_PER_STEP, TokenCounter, adds_up, count_tokens
from lorewell.model.activate import SillyTavernRequest

# A chat's turns activate much the same entries, so their texts are counted once, not each turn.
_KEPT_CHARS = 2_000
_MOST_KEPT = 5_000
_JOINED_PER_STEP = 4_000


def limit_of(request: SillyTavernRequest) -> int:
    """Return the budget in tokens: at least 1, at most the cap."""
    settings = request.settings
    share = settings.world_info_budget * request.context_tokens / 100
    limit = math.floor(share + 0.5) or 1
    cap = settings.world_info_budget_cap
    return min(limit, cap) if cap > 0 else limit


class TextCounter:
    r"""Counts texts of contents, each followed by a line break, as SillyTavern does.

    "" is 0, and any other text may cost something extra. SillyTavern counts the whole text anew
    for each entry. The bundled encodings always split behind the last line break among blanks,
    unless a slash follows (o200k takes ".\n/" for one piece), so there the text is counted piece
    by piece. Any other tokenizer is given the very texts that SillyTavern counts.
    """

    def __init__(
        self,
        counter: TokenCounter,
        extra: int,
        steps: Steps,
        *,
        known: dict[str, int] | None = None,
    ) -> None:
        """Bind it to a tokenizer.

        Args:
            counter: the tokenizer.
            extra: tokens.
            steps: what it may cost; what is known already is not cheaper.
            known: what it counted before, for it to read and to add short texts to.
        """
        self._counter = counter
        self._steps = steps
        self._extra = extra
        self._adds_up = adds_up(counter)
        self._known: dict[str, int] = {}
        self._kept = {} if known is None else known
        self.name = counter.name

    def begin(self, contents: Iterable[str] = ()) -> RunningText:
        """Return a text of these contents, to be added to."""
        text = RunningText(self, 0, "")
        for content in contents:
            text = text.add(content)
        return text

    def find_split(self, content: str) -> int | None:
        """Return from where on the tokens of a content don't depend on the lines before it."""
        body = content.lstrip()
        if not self._adds_up or not body or body[0] == "/":
            return None
        blanks = content[: len(content) - len(body)]
        return max(blanks.rfind("\n"), blanks.rfind("\r")) + 1

    def count(self, text: str) -> int:
        """Return the tokens of a text, without what it costs extra."""
        found = self._known.get(text)
        if found is not None:
            return found
        self._steps.spend("tokens", 1 + len(text) // CHARS_PER_STEP)
        found = self._kept.get(text)
        if found is None:
            found = count_tokens(self._counter, text, self._steps)
            if len(self._kept) >= _MOST_KEPT:  # texts with macros in them are new each turn
                self._kept.clear()
            if len(text) <= _KEPT_CHARS:
                self._kept[text] = found
        self._known[text] = found
        return found

    def grow(self, chars: int) -> None:
        """Count that so many characters are put together, if they are many."""
        if chars > _JOINED_PER_STEP:
            self._steps.spend("tokens", chars // _JOINED_PER_STEP)

    def total(self, settled: int, rest: str) -> int:
        """Return what a text costs that ends with `rest`, `settled` tokens standing before it."""
        return settled + self.count(rest) + self._extra if rest else 0


class RunningText(NamedTuple):
    """A text that grows, counted when asked: `settled` tokens, and a rest that they precede."""

    tally: TextCounter
    settled: int
    rest: str

    def add(self, content: str) -> RunningText:
        """Return the text with a content and a line break added."""
        line = content + "\n"
        self.tally.grow(len(self.rest) + len(line))
        start = self.tally.find_split(content) if self.rest else None
        if start is not None:
            settled = self.settled + self.tally.count(self.rest + line[:start])
            return RunningText(self.tally, settled, line[start:])
        return RunningText(self.tally, self.settled, self.rest + line)

    @property
    def tokens(self) -> int:
        """What the text costs."""
        return self.tally.total(self.settled, self.rest)


class _Piece(NamedTuple):
    """A text that stands behind another one, counted as far as what is before it has no part.

    Attributes:
        head: up to the first place where it can be split; all of it if there is none.
        settled: tokens from there to the last such place.
        tail: from there on; "" if there is none.
    """

    head: str
    settled: int
    tail: str

    def after(self, other: _Piece, tally: TextCounter) -> _Piece:
        """Return this text with the other one before it."""
        if not other.tail:
            return _Piece(other.head + self.head, self.settled, self.tail)
        if not self.tail:
            return _Piece(other.head, other.settled, other.tail + self.head)
        between = tally.count(other.tail + self.head)
        return _Piece(other.head, other.settled + between + self.settled, self.tail)


_NO_PIECE: Final = _Piece("", 0, "")


class LoopContents:
    """The contents of earlier loops, the newest first, as one text that grows at its front."""

    def __init__(self, tally: TextCounter) -> None:
        """Begin with no text."""
        self._tally = tally
        self._first: str | None = None  # the newest content, as a line
        self._behind = _NO_PIECE  # what stands behind that
        self._tokens: int | None = 0

    @property
    def tokens(self) -> int:
        """What the text costs. It is counted when this is asked for, as SillyTavern does."""
        if self._tokens is None:
            tally, behind = self._tally, self._behind
            settled, rest = 0, (self._first or "") + behind.head
            if behind.tail:
                settled, rest = tally.count(rest) + behind.settled, behind.tail
            self._tokens = tally.total(settled, rest)
        return self._tokens

    def put_before(self, contents: Sequence[str]) -> None:
        """Add contents before all others."""
        lines = [content + "\n" for content in contents]
        if self._first is not None:
            lines.append(self._first)
        for line in reversed(lines[1:]):
            self._tally.grow(len(line) + len(self._behind.head))
            self._behind = self._behind.after(self._split(line), self._tally)
        self._first = lines[0]
        self._tokens = None

    def _split(self, line: str) -> _Piece:
        start = self._tally.find_split(line)
        return _Piece(line, 0, "") if start is None else _Piece(line[:start], 0, line[start:])
