"""Resolves conflicts between active entries that share a label.

Source: docs/rules/replica.md §7.6.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lorewell.engine.replica.world import ReplicaEntry
from lorewell.engine.steps import Steps
from lorewell.model.replica import ReplicaFacts, Source, Trigger

_STEPS_PER_CANDIDATE: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An entry that is active before conflicts are resolved.

    Attributes:
        place: its number in the order of collection.
        needs: places of all entries that it requires.
    """

    place: int
    book_id: str
    source: Source
    entry: ReplicaEntry
    trigger: Trigger
    facts: ReplicaFacts
    needs: frozenset[int]

    @property
    def uid(self) -> str:
        """The entry's uid."""
        return self.entry.spec.uid


class ConflictLoss(NamedTuple):
    """The winner of a conflict, and the shared label."""

    winner: Candidate
    label: str


@dataclass(slots=True)
class ConflictOutcome:
    """The outcome for all candidates. Mappings are by place.

    Attributes:
        kept: the remaining candidates, in the order of collection.
        lost: the losers of a conflict.
        broken: the candidates with a removed requirement, and that requirement.
        orphans: the dependencies that only removed entries required.
    """

    kept: list[Candidate] = field(default_factory=list)
    lost: dict[int, ConflictLoss] = field(default_factory=dict)
    broken: dict[int, Candidate] = field(default_factory=dict)
    orphans: set[int] = field(default_factory=set)


def resolve(candidates: Sequence[Candidate], steps: Steps) -> ConflictOutcome:
    """Resolve conflicts until no two candidates share a label and all requirements are met.

    Candidates that are removed along with a loser free their labels. The conflicts are then
    resolved again without them, so that entries that lost to them may stay. Such candidates are
    never added back.
    """
    by_place = {each.place: each for each in candidates}
    ranked = sorted(candidates, key=_rank)
    labels = sum(len(each.entry.spec.group) for each in candidates)
    outcome = ConflictOutcome()
    while True:
        steps.spend("groups", _STEPS_PER_CANDIDATE * len(candidates) + labels // 2)
        standing = [
            each
            for each in ranked
            if each.place not in outcome.broken and each.place not in outcome.orphans
        ]
        outcome.lost = _contest(standing)
        gone = outcome.lost.keys() | outcome.broken.keys() | outcome.orphans
        fresh = {
            each.place: by_place[min(each.needs & gone)]
            for each in standing
            if each.place not in outcome.lost and each.needs & gone
        }
        orphans = _orphans(standing, gone | fresh.keys())
        if not fresh and not orphans:
            outcome.kept = [each for each in candidates if each.place not in gone]
            return outcome
        outcome.broken |= fresh
        outcome.orphans |= orphans


def _rank(candidate: Candidate) -> tuple[bool, float, int, str, int]:
    entry = candidate.entry.spec
    return (
        candidate.trigger != "constant",
        -entry.group_weight,
        entry.order,
        entry.uid,
        candidate.place,
    )


def _contest(ranked: Iterable[Candidate]) -> dict[int, ConflictLoss]:
    """Return the candidates that share a label with a kept one before them."""
    holders: dict[str, Candidate] = {}
    lost: dict[int, ConflictLoss] = {}
    for each in ranked:
        labels = each.entry.spec.group
        taken = next((label for label in labels if label in holders), None)
        if taken is None:
            holders.update(dict.fromkeys(labels, each))
        else:
            lost[each.place] = ConflictLoss(holders[taken], taken)
    return lost


def _orphans(standing: Iterable[Candidate], gone: Iterable[int]) -> set[int]:
    """Return the dependencies that no remaining candidate requires."""
    removed = set(gone)
    left = [each for each in standing if each.place not in removed]
    needed: set[int] = set()
    for each in left:
        if each.trigger != "dependency":
            needed |= each.needs
    return {e.place for e in left if e.trigger == "dependency" and e.place not in needed}
