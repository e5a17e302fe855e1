"""One entry in a turn under the policy `replica`, read from the engine's ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lorewell.engine.replica.world import ReplicaEntry, ReplicaWorld
from lorewell.engine.steps import Steps
from lorewell.insight.explain.near import NearKey, NearText
from lorewell.model.explained import ExplainedGate, GateStatus
from lorewell.model.replica import (
    ReplicaDecision,
    ReplicaFacts,
    ReplicaReason,
    ReplicaRequest,
    ReplicaResponse,
)

_GATE_OF: Mapping[ReplicaReason, str] = {
    "disabled": "enabled",
    "no_trigger": "trigger",
    "not_triggered": "trigger",
    "probability": "probability",
    "dependency_unavailable": "requires",
    "conflict": "conflict",
}
GATES = ("enabled", "trigger", "probability", "requires", "conflict")
# The facts of a decision by the gate that they belong to.
_FACTS: Mapping[str, tuple[str, ...]] = {
    "trigger": (
        *("keys", "found_in", "message", "span", "condition", "value"),
        *("similarity", "threshold", "rank", "top_k", "required_by"),
    ),
    "probability": ("roll", "needed"),
    "requires": ("missing",),
    "conflict": ("winner", "label"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """One entry in a turn, with its whole ledger."""

    books: Mapping[str, ReplicaWorld]
    request: ReplicaRequest
    response: ReplicaResponse
    book: str
    index: int
    steps: Steps

    @property
    def entry(self) -> ReplicaEntry:
        """The entry."""
        return self.books[self.book].entries[self.index]

    @property
    def id(self) -> str:
        """The entry's book and uid."""
        return f"{self.book_id}.{self.entry.spec.uid}"

    @property
    def book_id(self) -> str:
        """The book, as decisions name it."""
        return self.books[self.book].book_id

    def decision(self) -> ReplicaDecision:
        """Return the decision in the ledger."""
        uid = self.entry.spec.uid
        found = (e for e in self.response.decisions if (e.book_id, e.uid) == (self.book_id, uid))
        usual = ReplicaDecision(book_id=self.book_id, uid=uid, active=False, reason="not_triggered")
        return next(found, usual)

    def decisive(self) -> str | None:
        """Return the gate that keeps the entry out; None if it is active."""
        decision = self.decision()
        return None if decision.active else _GATE_OF[decision.reason]

    def near_keys(self) -> list[NearKey]:
        """Return the primary keys."""
        keyword = self.entry.triggers.keyword
        if keyword is None:
            return []
        case, whole = keyword.case_sensitive, keyword.whole_words
        return [NearKey(key, case, whole) for key in keyword.keys if key.strip()]

    def texts(self) -> list[NearText]:
        """Return the texts of the turn; all of them are searched."""
        history = self.request.chat_history
        said = [NearText(self.request.mes, "query")]
        said += [
            NearText(history[number], "message", number)
            for number in range(len(history) - 1, -1, -1)
        ]
        return said


def replica_gates(view: ReplicaView) -> tuple[ExplainedGate, ...]:
    """Return the gates of an entry in their order."""
    decision, decisive = view.decision(), view.decisive()
    gates = []
    status: GateStatus = "passed"
    for gate in GATES:
        if gate == decisive:
            status = "failed"
        facts = {} if status == "not_reached" else _facts(view, gate, decision)
        gates.append(ExplainedGate(gate=gate, status=status, facts=facts))
        if gate == decisive:
            status = "not_reached"
    return tuple(gates)


def _facts(view: ReplicaView, gate: str, decision: ReplicaDecision) -> dict[str, Any]:
    spec, triggers = view.entry.spec, view.entry.triggers
    facts: ReplicaFacts = decision.facts
    found = {name: getattr(facts, name) for name in _FACTS.get(gate, ())}
    known = {name: value for name, value in found.items() if value is not None}
    if gate == view.decisive() and decision.detail is not None:
        known["detail"] = decision.detail
    match gate:
        case "enabled":
            return {"disable": spec.disable}
        case "trigger":
            on = {
                "constant": triggers.constant,
                "keyword": triggers.keyword is not None,
                "condition": triggers.conditions is not None,
                "rag": triggers.rag is not None,
                "logic": triggers.logic is not None,
            }
            return {"triggers": [name for name, is_on in on.items() if is_on], **known}
        case "requires":
            return {"requires": list(spec.requires), **known}
        case "conflict":
            return {"group": list(spec.group), "weight": spec.group_weight, **known}
        case _:
            return known
