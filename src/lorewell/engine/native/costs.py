"""The tokens of entries in the context (docs/rules/native.md §8.8)."""

from __future__ import annotations

from dataclasses import dataclass, field

from lorewell.engine.native.compiled import CompiledBook, CompiledEntry
from lorewell.engine.native.context import Wrapping, cost_of
from lorewell.engine.native.eligibility import Eligibility
from lorewell.engine.render import escaping_chars
from lorewell.engine.steps import Steps
from lorewell.engine.tokens import CHARS_PER_STEP


@dataclass(frozen=True, slots=True)
class EntryCost:
    """Counts the tokens of eligible entries, each text once."""

    eligible: Eligibility
    wrapping: Wrapping
    steps: Steps
    _counted: dict[str, int] = field(default_factory=dict)

    def __call__(self, book: CompiledBook, entry: CompiledEntry) -> int:
        """Return the tokens of an eligible entry after substitution."""
        if entry.cost is not None and self.wrapping.is_full:
            return entry.cost
        cost = self._counted.get(entry.full_id)
        if cost is None:
            content = self.eligible.content(entry)
            if entry.template is not None:
                self.steps.write("escaping", escaping_chars(content))
            self.steps.spend("tokens", 1 + len(content) // CHARS_PER_STEP)
            cost = self.wrapping.known_cost(book, entry)
            if cost is None:
                cost = cost_of(self.wrapping.tag(entry), content, book.counter)
            self._counted[entry.full_id] = cost
        return cost
