"""The budget: how many tokens there are, and what a growing text takes of them (spec §8)."""

from __future__ import annotations

import math

from lorewell.engine.tokens import TokenCounter
from lorewell.model.activate import SillyTavernRequest


def limit_of(request: SillyTavernRequest) -> int:
    """Return the budget in tokens: at least 1, at most the cap."""
    settings = request.settings
    share = settings.world_info_budget * request.context_tokens / 100
    limit = math.floor(share + 0.5) or 1
    cap = settings.world_info_budget_cap
    return min(limit, cap) if cap > 0 else limit


class Counter:
    """Counts texts as SillyTavern does: "" is 0, and any other text may cost something extra."""

    def __init__(self, counter: TokenCounter, extra: int) -> None:
        """Bind it to a tokenizer; `extra` is in tokens."""
        self._counter = counter
        self._extra = extra
        self.name = counter.name

    def count(self, text: str) -> int:
        """Return what a text costs."""
        return self._counter.count(text) + self._extra if text else 0
