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
    """

    selected: frozenset[str]
    tokens: int


class Trials(Protocol):
    """The turns that can be tried for one entry."""

    def run(self, edits: Sequence[Edit]) -> TrialResult:
        """Run the turn with these edits."""

    def gate(self, edits: Sequence[Edit]) -> str | None:
        """Return the gate that keeps the entry out after these edits; None if it is selected."""

    def changes(self, edits: Sequence[Edit]) -> Sequence[Change]:
        """Return the changes to try after these edits, each a different one."""

    def steps_of(self, edits: Sequence[Edit]) -> tuple[EditStep, ...]:
        """Return edits in the form of the contract."""


@dataclass(slots=True)
class ChangesFound:
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

    def attempt(self, kind: WhatIfKind, edits: tuple[Edit, ...]) -> None:
        """Run the turn with these edits, and keep them if the verdict flips."""
        self.tried += 1
        try:
            result = self.trials.run(edits)
        except InvalidInputError:  # the edited book or request is not valid
            return
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

    def pairs(self, firsts: Sequence[Change]) -> None:
        """Try second changes for the other gate that a first change leads to."""
        left = MAX_PAIRS
        gate = self.trials.gate(())
        for first in firsts:
            try:
                other = self.trials.gate(first.edits)
            except InvalidInputError:
                continue
            if other in (None, gate):
                continue
            for second in self.trials.changes(first.edits):
                if left == 0:
                    return
                left -= 1
                self.attempt("pair", (*first.edits, *second.edits))


def search(trials: Trials, entry: str, base: TrialResult) -> ChangesFound:
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
        singles = trials.changes(())
        for change in singles:
            hunt.attempt(change.kind, change.edits)
        if not hunt.found:
            hunt.pairs(singles)
    except TooExpensiveError:
        complete = False
    ranked = sorted(hunt.found, key=lambda each: (each.others, len(each.edits)))
    return ChangesFound(tuple(ranked[:MAX_CHANGES]), hunt.tried, complete)
