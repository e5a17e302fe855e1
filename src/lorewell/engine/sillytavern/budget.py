"""The budget: how many tokens there are, and what a growing text takes of them (spec §8)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from lorewell.engine.tokens import TokenCounter, adds_up
from lorewell.model.activate import SillyTavernRequest

# A chat's turns activate much the same entries, so their texts are counted once, not each turn.
_KEPT_CHARS = 2_000
_MOST_KEPT = 5_000


def limit_of(request: SillyTavernRequest) -> int:
    """Return the budget in tokens: at least 1, at most the cap."""
    settings = request.settings
    share = settings.world_info_budget * request.context_tokens / 100
    limit = math.floor(share + 0.5) or 1
    cap = settings.world_info_budget_cap
    return min(limit, cap) if cap > 0 else limit


class Tally:
    r"""Counts texts of contents, each followed by a line break, as SillyTavern does.

    "" is 0, and any other text may cost something extra. SillyTavern counts the whole text anew
    for each entry. The bundled encodings always split behind the last line break among blanks,
    unless a slash follows (o200k takes ".\n/" for one piece), so there the text is counted piece
    by piece. Any other tokenizer is given the very texts that SillyTavern counts.
    """

    def __init__(
        self, counter: TokenCounter, extra: int, *, known: dict[str, int] | None = None
    ) -> None:
        """Bind it to a tokenizer.

        Args:
            counter: the tokenizer.
            extra: tokens.
            known: what it counted before, for it to read and to add short texts to.
        """
        self._counter = counter
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
        found = self._kept.get(text)
        if found is None:
            found = self._known.get(text)
        if found is None:
            found = self._known[text] = self._counter.count(text)
            if len(self._kept) >= _MOST_KEPT:  # texts with macros in them are new each turn
                self._kept.clear()
            if len(text) <= _KEPT_CHARS:
                self._kept[text] = found
        return found

    def total(self, settled: int, rest: str) -> int:
        """Return what a text costs that ends with `rest`, `settled` tokens standing before it."""
        return settled + self.count(rest) + self._extra if rest else 0


class RunningText(NamedTuple):
    """A text that grows, counted when asked: `settled` tokens, and a rest that they precede."""

    tally: Tally
    settled: int
    rest: str

    def add(self, content: str) -> RunningText:
        """Return the text with a content and a line break added."""
        line = content + "\n"
        start = self.tally.find_split(content) if self.rest else None
        if start is not None:
            settled = self.settled + self.tally.count(self.rest + line[:start])
            return RunningText(self.tally, settled, line[start:])
        return RunningText(self.tally, self.settled, self.rest + line)

    @property
    def tokens(self) -> int:
        """What the text costs."""
        return self.tally.total(self.settled, self.rest)
