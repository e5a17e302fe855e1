"""Searches the smallest changes that flip the verdict on an entry.

Every change that is offered was tried: the turn was run with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from lorewell.errors import InvalidInputError, TooExpensiveError
from lorewell.insight.explain.edits import Change, Edit
from lorewell.model.explained import EditStep, WhatIf, WhatIfKind

MAX_CHANGES = 20
MAX_PAIRS = 150
_MAX_NAMED = 50


class TrialResult(NamedTuple):
    """The result of a turn.

    Attributes:
        selected: ids of the selected entries.
        tokens: what they take together.
        gate: the gate that keeps the entry out; None if it is selected.
    """

    selected: frozenset[str]
    tokens: int
    gate: str | None


class Trials(Protocol):
    """The turns that can be tried for one entry."""

    def run(self, edits: Sequence[Edit]) -> TrialResult:
        """Run the turn with these edits."""

    def changes(self, edits: Sequence[Edit]) -> Sequence[Change]:
        """Return the changes to try after these edits, each a different one."""

    def steps_of(self, edits: Sequence[Edit]) -> tuple[EditStep, ...]:
        """Return edits in the form of the contract."""


@dataclass(slots=True)
class SearchResult:
    """The changes that flip the verdict.

    Attributes:
        changes: the best ones, best first.
        tried: number of changes that were tried.
        complete: whether all of the list was tried.
    """

    changes: tuple[WhatIf, ...] = ()
    tried: int = 0
    complete: bool = True


@dataclass(slots=True)
class _Search:
    trials: Trials
    entry: str
    base: TrialResult
    found: list[WhatIf] = field(default_factory=list)
    tried: int = 0

    def attempt(self, kind: WhatIfKind, edits: tuple[Edit, ...]) -> TrialResult | None:
        """Run the turn with these edits, and keep them if the verdict flips."""
        self.tried += 1
        try:
            result = self.trials.run(edits)
        except InvalidInputError:  # the edited book or request is not valid
            return None
        if (self.entry in result.selected) != (self.entry in self.base.selected):
            joins = sorted(result.selected - self.base.selected - {self.entry})
            leaves = sorted(self.base.selected - result.selected - {self.entry})
            self.found.append(
                WhatIf(
                    kind=kind,
                    edits=self.trials.steps_of(edits),
                    others=len(joins) + len(leaves),
                    joins=tuple(joins[:_MAX_NAMED]),
                    leaves=tuple(leaves[:_MAX_NAMED]),
                    tokens=result.tokens - self.base.tokens,
                )
            )
        return result

    def singles(self) -> list[Change]:
        """Try all single changes; return those that lead to another gate."""
        further = []
        for change in self.trials.changes(()):
            result = self.attempt(change.kind, change.edits)
            if result is not None and result.gate is not None and result.gate != self.base.gate:
                further.append(change)
        return further

    def pairs(self, firsts: Sequence[Change]) -> None:
        """Try second changes for the gate that each first change leads to."""
        left = MAX_PAIRS
        for first in firsts:
            for second in self.trials.changes(first.edits):
                if left == 0:
                    return
                left -= 1
                self.attempt("pair", (*first.edits, *second.edits))


def search(trials: Trials, entry: str, base: TrialResult) -> SearchResult:
    """Return the changes that flip the verdict on an entry.

    All single changes are tried, and pairs only if no single one flips it.

    Args:
        trials: the turns that can be tried.
        entry: the entry's id.
        base: the turn without changes.
    """
    hunt = _Search(trials, entry, base)
    complete = True
    try:
        firsts = hunt.singles()
        if not hunt.found:
            hunt.pairs(firsts)
    except TooExpensiveError:
        complete = False
    ranked = sorted(hunt.found, key=lambda each: (each.others, len(each.edits)))
    return SearchResult(tuple(ranked[:MAX_CHANGES]), hunt.tried, complete)
