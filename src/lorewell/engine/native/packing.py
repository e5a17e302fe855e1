"""Packs candidates into the budget, with their packages (docs/rules/native.md §8.7, §8.8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from lorewell.engine.native.activation import ActivatedCandidate, ActivationResult
from lorewell.engine.native.compile import MAX_PACKAGE_EDGES, MAX_PACKAGE_ENTRIES
from lorewell.engine.native.compiled import CompiledBook, CompiledEntry
from lorewell.engine.native.eligibility import Eligibility
from lorewell.engine.steps import Steps
from lorewell.errors import (
    BudgetExceededError,
    RequiredConflictError,
    RequiredDependencyUnavailableError,
    SelectionError,
)
from lorewell.model import Reason, SelectRequest


class PackageFigures(NamedTuple):
    """The figures of a package, as in `Facts`: its tokens, the room, the holder of its key."""

    tokens: int | None = None
    room: int | None = None
    beaten_by: str | None = None


NO_FIGURES = PackageFigures()


class Rejection(NamedTuple):
    """Why a candidate is rejected, and the figures of its package."""

    reason: Reason
    detail: str | None = None
    figures: PackageFigures = NO_FIGURES


class PackedEntry(NamedTuple):
    """A packed entry, the full id of its package's root, and the figures of the package."""

    book: CompiledBook
    entry: CompiledEntry
    root: str
    figures: PackageFigures


class RequiredFailure(NamedTuple):
    """A required entry that does not fit, and the error to raise for it."""

    entry: CompiledEntry
    error: type[SelectionError]
    message: str
    details: Mapping[str, object]


@dataclass(slots=True)
class Packing:
    """The budget of one turn while it fills. Mappings are by full id.

    `total_tokens` are the tokens of all chosen entries.
    """

    request: SelectRequest
    eligible: Eligibility
    activation: ActivationResult
    cost: Callable[[CompiledBook, CompiledEntry], int]
    steps: Steps
    chosen: dict[str, PackedEntry] = field(default_factory=dict)
    dropped: dict[str, Rejection] = field(default_factory=dict)
    failure: RequiredFailure | None = None
    _holders: dict[str, str] = field(default_factory=dict)  # conflict key -> full id
    total_tokens: int = 0
    _constant_spent: int = 0

    def offer(self, candidate: ActivatedCandidate) -> None:
        """Add the candidate's whole package, or record why it is rejected."""
        book, root = candidate.book, candidate.entry
        if len(root.closure.members) == 1:  # no requirements, and the candidate is eligible
            new, verdict, cost = [root], None, self.cost(book, root)
        else:
            self.steps.spend("packing", len(root.closure.members))
            members = [book.entries[index] for index in root.closure.members]
            new = [entry for entry in members if entry.full_id not in self.chosen]
            verdict = self._unavailable(candidate)
            cost = 0 if verdict else sum(self.cost(book, entry) for entry in new)
        verdict = (
            verdict
            or self._conflict(new)
            or self._too_many(new)
            or self._too_large(candidate, cost)
        )
        if verdict is not None:
            if root.spec.required:
                self.failure = _failure(root, verdict, self)
            self.dropped[root.full_id] = verdict
            return
        figures = PackageFigures(cost, self.request.token_budget - self.total_tokens)
        self.total_tokens += cost
        if root.spec.constant and not root.spec.required:
            self._constant_spent += cost
        for entry in new:
            self.chosen[entry.full_id] = PackedEntry(book, entry, root.full_id, figures)
            if entry.spec.conflict_key is not None:
                self._holders[entry.spec.conflict_key] = entry.full_id

    def _unavailable(self, candidate: ActivatedCandidate) -> Rejection | None:
        closure = candidate.entry.closure
        if len(closure.members) > MAX_PACKAGE_ENTRIES:
            detail = f"the package has more than {MAX_PACKAGE_ENTRIES} entries"
        elif closure.edges > MAX_PACKAGE_EDGES:
            detail = f"the chain of requires is longer than {MAX_PACKAGE_EDGES} steps"
        else:
            for index in closure.members:
                member = candidate.book.entries[index]
                refusal = self.eligible.refusal(member)
                if refusal is not None:
                    return Rejection(
                        "dependency_unavailable", f"{member.spec.id}: {refusal.reason}"
                    )
            return None
        return Rejection("dependency_unavailable", detail)

    def _conflict(self, new: list[CompiledEntry]) -> Rejection | None:
        holders: dict[str, str] = {}
        for entry in new:
            key = entry.spec.conflict_key
            if key is None:
                continue
            holder = self._holders.get(key) or holders.get(key)
            if holder is not None:
                return Rejection("conflict", None, PackageFigures(beaten_by=holder))
            holders[key] = entry.full_id
        return None

    def _too_many(self, new: list[CompiledEntry]) -> Rejection | None:
        left = self.request.max_entries - len(self.chosen)
        if len(new) <= left:
            return None
        return Rejection("max_entries", f"adds {len(new)} entries where {left} may still come")

    def _too_large(self, candidate: ActivatedCandidate, cost: int) -> Rejection | None:
        room = self.request.token_budget - self.total_tokens
        if cost > room:
            return Rejection("budget_dropped", None, PackageFigures(cost, room))
        spec = candidate.entry.spec
        if spec.constant and not spec.required:
            room = constant_cap(self.request) - self._constant_spent
            if cost > room:
                return Rejection("constant_budget_dropped", None, PackageFigures(cost, room))
        return None

    def shortage(self, verdict: Rejection, entry: CompiledEntry) -> Mapping[str, object]:
        """Return `limit`, `needed` and `available` for a package that does not fit."""
        if verdict.reason == "max_entries":
            members = entry.closure.members
            book = self.activation.active[entry.full_id].book
            new = sum(book.entries[index].full_id not in self.chosen for index in members)
            left = self.request.max_entries - len(self.chosen)
            return {"limit": "entries", "needed": new, "available": left}
        return {
            "limit": "tokens",
            "needed": verdict.figures.tokens,
            "available": verdict.figures.room,
        }


def constant_cap(request: SelectRequest) -> int:
    """Return the token budget of packages of optional constants, rounded down in decimal."""
    return int(Decimal(repr(request.constant_budget_ratio)) * request.token_budget)


def competition_order(
    active: ActivatedCandidate, scores: Mapping[str, float]
) -> tuple[object, ...]:
    """Return the sort key of a candidate; the smallest goes first. Source: §8.7."""
    spec = active.entry.spec
    group = 0 if spec.required else 1 if spec.constant else 2
    full_id = active.entry.full_id
    return (group, -spec.priority, not active.direct, -scores.get(full_id, 0), -spec.order, full_id)


def _failure(entry: CompiledEntry, verdict: Rejection, packing: Packing) -> RequiredFailure:
    name = entry.spec.id
    match verdict.reason:
        case "dependency_unavailable":
            message = f"The required entry {name!r} can't bring what it requires: {verdict.detail}."
            return RequiredFailure(entry, RequiredDependencyUnavailableError, message, {})
        case "conflict":
            message = f"The required entry {name!r} clashes with {verdict.figures.beaten_by}."
            return RequiredFailure(entry, RequiredConflictError, message, {})
        case _:
            figures = packing.shortage(verdict, entry)
            message = (
                f"The required entry {name!r} needs {figures['needed']} {figures['limit']},"
                f" {figures['available']} are left."
            )
            return RequiredFailure(entry, BudgetExceededError, message, figures)


def pack(
    request: SelectRequest,
    eligible: Eligibility,
    activation: ActivationResult,
    cost: Callable[[CompiledBook, CompiledEntry], int],
    steps: Steps,
) -> Packing:
    """Pack the activated entries with their requirements, and record why others are rejected.

    Stops at the first required entry that does not fit; it is the `failure`.
    """
    packing = Packing(request, eligible, activation, cost, steps)
    scores = activation.recall.kept
    ordered = sorted(activation.active.values(), key=lambda a: competition_order(a, scores))
    steps.spend("packing", len(ordered))
    for candidate in ordered:
        if candidate.entry.full_id in packing.chosen:
            continue  # part of an earlier package
        packing.offer(candidate)
        if packing.failure is not None:
            break
    return packing
