"""The gates of an entry under the policy `native`, read from what the engine decided."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lorewell.engine.conditions import Flaw, describe_fields, in_state, is_true
from lorewell.engine.matching.keys import LiteralKey
from lorewell.engine.native.compile import CERTAIN
from lorewell.engine.native.compiled import CompiledBook, CompiledEntry
from lorewell.engine.native.conditions import holds
from lorewell.engine.native.keywords import NOTHING
from lorewell.engine.native.packing import constant_cap
from lorewell.engine.native.select import DecidedTurn
from lorewell.engine.state import AbsentValue, look_up
from lorewell.insight.explain.near import NearKey, NearText, find_key
from lorewell.model import Reason
from lorewell.model.explained import ExplainedGate, GateStatus, NearKind

FILTERS: Mapping[Reason, str] = {
    "disabled": "enabled",
    "audience_mismatch": "audience",
    "condition_failed": "conditions",
    "runtime_unsupported": "runtime",
    "probability": "probability",
    "template_missing": "template",
    "empty_content": "content",
    "placement_unsupported": "placement",
}
PACKING: Mapping[Reason, str] = {
    "dependency_unavailable": "package",
    "conflict": "conflict",
    "max_entries": "max_entries",
    "budget_dropped": "budget",
    "constant_budget_dropped": "constant_budget",
}
_MAX_TEXTS = 200

Figures = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeView:
    """One entry in a decided turn."""

    decided: DecidedTurn
    number: int
    entry: CompiledEntry

    @property
    def book(self) -> CompiledBook:
        """The entry's book."""
        return self.decided.turn.snapshot[self.number]

    @property
    def selected(self) -> bool:
        """Whether the entry is selected."""
        return self.decided.failure is None and self.entry.full_id in self.decided.packing.chosen

    @property
    def depth(self) -> int:
        """The number of messages that it scans."""
        own = self.entry.spec.scan_depth
        return self.decided.turn.request.scan_depth if own is None else own

    def reason(self) -> str:
        """Return the reason in the ledger; the code of the error if the request fails."""
        failure = self.decided.failure
        if failure is not None and self.decisive() == "request":
            return failure.code
        turn, packing, _ = self.decided
        return turn.decide(self.book, self.entry, packing).reason

    def decisive(self) -> str | None:
        """Return the gate that keeps the entry out; None if it is selected."""
        if self.selected:
            return None
        turn, packing, failure = self.decided
        full_id = self.entry.full_id
        refusal = turn.eligible.refusal(self.entry)
        if refusal is not None:
            return FILTERS[refusal.reason]
        dropped = packing.dropped.get(full_id)
        if dropped is not None and full_id not in packing.chosen:
            return PACKING[dropped.reason]
        if failure is not None and (full_id in turn.activation.active or full_id in packing.chosen):
            return "request"
        match = turn.activation.checked.get(full_id, NOTHING)
        return "secondary" if match.place is not None else "keys"

    def near_keys(self, *, secondary: bool = False) -> list[NearKey]:
        """Return the plain primary keys and the words of the key expression, or the secondary."""
        spec, entry = self.entry.spec, self.entry
        keys = entry.secondary if secondary else entry.primary
        literal = {key.text: None for key in keys if isinstance(key, LiteralKey)}
        if entry.expression is not None and not secondary:
            literal |= dict.fromkeys(entry.expression.wanted)
        case, whole_words = bool(spec.case_sensitive), bool(spec.match_whole_words)
        return [NearKey(key, case, whole_words) for key in literal]

    def texts(self) -> list[NearText]:
        """Return the texts of the turn, and why the entry does not scan some of them."""
        turn = self.decided.turn
        request, activation = turn.request, turn.activation
        contents = [message.content for message in request.history]
        first = len(contents) + 1 - self.depth
        texts = []
        for number, content in enumerate([*contents, request.query]):
            unseen: NearKind | None = "outside_window" if number < first else None
            name = "query" if number == len(contents) else "message"
            texts.append(NearText(content, name, number, unseen=unseen))
        texts.reverse()
        heard, late = set(activation.suppliers), set(activation.unheard)
        for full_id, active in list(activation.active.items())[:_MAX_TEXTS]:
            if full_id == self.entry.full_id:
                continue
            why: NearKind | None = "not_waking"
            if full_id in late:
                why = "round_limit"
            elif full_id in heard:
                why = "excluded" if self.entry.spec.exclude_recursion else None
            content = turn.eligible.content(active.entry)
            texts.append(NearText(content, "entry", entry=full_id, unseen=why))
        return texts

    def unheard(self) -> tuple[NearKind, str] | None:
        """Return why the text of an active entry with a key did not wake this entry, and its id."""
        texts = [each for each in self.texts() if each.entry is not None and each.unseen]
        texts.sort(key=lambda each: ("round_limit", "not_waking", "excluded").index(each.unseen))
        for text in texts:
            for key in self.near_keys():
                if find_key(text.text, key, self.decided.turn.steps) is not None:
                    assert text.unseen is not None and text.entry is not None  # noqa: S101, PT018
                    return text.unseen, text.entry
        return None


def native_gates(view: NativeView) -> tuple[tuple[ExplainedGate, ...], str | None]:
    """Return the gates of an entry in their order, and the cause that the reason does not tell."""
    cause = None
    decisive = view.decisive()
    unheard = view.unheard() if decisive in ("keys", "secondary") else None
    if unheard is not None:
        cause = unheard[0]
    gates = [*_filters(view), *_triggers(view, unheard), *_packing(view)]
    if view.decided.failure is not None:
        reached = decisive == "request"
        failure = view.decided.failure
        facts = {"error": failure.code, "entry_id": failure.details.get("entry_id")}
        gates.append(_gate("request", "failed" if reached else "not_reached", facts))
    return tuple(gates), cause


def _gate(name: str, status: GateStatus, facts: Figures) -> ExplainedGate:
    return ExplainedGate(
        gate=name, status=status, facts={} if status == "not_reached" else {**facts}
    )


def _filters(view: NativeView) -> Iterator[ExplainedGate]:
    """Yield the filters of eligibility, up to the one that fails."""
    refusal = view.decided.turn.eligible.refusal(view.entry)
    status: GateStatus = "passed"
    for reason, name in FILTERS.items():
        if status == "failed":
            status = "not_reached"
        if refusal is not None and refusal.reason == reason:
            status = "failed"
        facts = {} if status == "not_reached" else _FACTS[name](view)
        if status == "failed" and refusal is not None and refusal.detail is not None:
            facts = {**facts, "detail": refusal.detail}
        yield _gate(name, status, facts)


def _audience(view: NativeView) -> Figures:
    return {
        "wanted": view.decided.turn.request.audience,
        "audience": list(view.entry.spec.audience),
    }


def _conditions(view: NativeView) -> Figures:
    state = view.decided.turn.request.state
    operands: list[Figures] = []
    for condition in view.entry.spec.conditions:
        value = look_up(state, condition.path)
        found = {"missing": True} if value is AbsentValue.ABSENT else {"found": value}
        operands.append(
            {
                "path": condition.path,
                "op": condition.op,
                "value": condition.value,
                **found,
                "holds": holds(condition, state),
            }
        )
    table = in_state(state)
    for text, parsed in ((each.text, each.parsed) for each in view.entry.texts):
        if isinstance(parsed, Flaw):
            operands.append({"text": text, "flaw": parsed.detail, "holds": False})
        else:
            values, true = describe_fields(parsed, table), is_true(parsed, table)
            operands.append({"text": text, "values": values, "holds": true})
    return {"conditions": operands}


def _chance(view: NativeView) -> Figures:
    if view.entry.spec.probability >= CERTAIN:
        return {"threshold": CERTAIN}
    chance = view.decided.turn.eligible.chance(view.entry)
    return {"roll": chance.roll, "threshold": chance.threshold}


def _names(view: NativeView) -> Figures:
    template = view.entry.template
    return {"names": [] if template is None else sorted(template.variables)}


def _place(view: NativeView) -> Figures:
    spec = view.entry.spec
    outlet = {} if spec.outlet_name is None else {"outlet_name": spec.outlet_name}
    return {"position": spec.position, **outlet}


_FACTS: Mapping[str, Callable[[NativeView], Figures]] = {
    "enabled": lambda view: {"enabled": view.entry.spec.enabled},
    "audience": _audience,
    "conditions": _conditions,
    "runtime": lambda view: {
        "kind": view.entry.spec.kind,
        "requirements": list(view.entry.spec.runtime_requirements),
    },
    "probability": _chance,
    "template": _names,
    "content": lambda view: {"chars": len(view.entry.spec.content)},
    "placement": _place,
}


def _triggers(view: NativeView, unheard: tuple[NearKind, str] | None) -> Iterator[ExplainedGate]:
    """Yield the ways in which an entry is activated: a flag, keys, recall, other entries."""
    turn = view.decided.turn
    entry, spec, activation = view.entry, view.entry.spec, turn.activation
    eligible = turn.eligible.refusal(entry) is None
    active = activation.active.get(entry.full_id)
    by_flag = spec.required or spec.constant
    if by_flag:
        flags = {"required": spec.required, "constant": spec.constant}
        yield _gate("flag", "passed" if eligible else "not_reached", flags)
    seen = min(view.depth, len(turn.request.history) + 1)
    window = {"scan_depth": view.depth, "messages": seen}
    missed: GateStatus = "failed" if eligible and active is None else "not_reached"
    yield _gate("window", "passed" if eligible and seen else missed, window)
    match = active.match if active else activation.checked.get(entry.full_id, NOTHING)
    hit = activation.trace(entry.full_id)
    place = {"key": hit.key, "message": hit.message, "span": hit.span, "woken_by": hit.woken_by}
    keys: dict[str, object] = {
        "keys": len(entry.primary),
        **{k: v for k, v in place.items() if v is not None},
    }
    if match.problem is not None:
        keys |= {"problem": match.problem, "detail": match.detail}
    yield _gate("keys", "passed" if match.place is not None else missed, keys)
    if entry.secondary:
        secondary: dict[str, object] = {
            "logic": spec.logic,
            "keys": [key.text for key in entry.secondary],
        }
        if match.place is None:
            status: GateStatus = "not_reached"
        elif match.hit:
            status = "passed"
        else:
            status, secondary = "failed", {**secondary, "detail": match.detail}
        yield _gate("secondary", status, secondary)
    if turn.request.strategy == "hybrid":
        ranks = activation.recall.ranks(entry.full_id)._asdict()
        recalled = entry.full_id in activation.recall.kept
        yield _gate(
            "recall",
            "passed" if recalled else missed,
            {name: value for name, value in ranks.items() if value is not None},
        )
    yield _recursion(view, unheard)


def _recursion(view: NativeView, unheard: tuple[NearKind, str] | None) -> ExplainedGate:
    turn = view.decided.turn
    active = turn.activation.active.get(view.entry.full_id)
    facts: dict[str, object] = {
        "max_rounds": turn.request.max_recursion_rounds,
        "texts": len(turn.activation.suppliers),
        "exclude_recursion": view.entry.spec.exclude_recursion,
    }
    if active is not None and active.why == "recursion":
        woken_by = turn.activation.trace(view.entry.full_id).woken_by
        return _gate("recursion", "passed", {**facts, "round": active.round, "woken_by": woken_by})
    if unheard is not None:
        cause, by = unheard
        return _gate("recursion", "failed", {**facts, "cause": cause, "by": by})
    searched = turn.activation.suppliers and active is None
    reached = searched and turn.eligible.refusal(view.entry) is None
    return _gate("recursion", "failed" if reached else "not_reached", facts)


def _packing(view: NativeView) -> Sequence[ExplainedGate]:
    """Return the gates of the package, up to the one that fails."""
    turn, packing, _ = view.decided
    entry, request = view.entry, turn.request
    chosen, dropped = packing.chosen.get(entry.full_id), packing.dropped.get(entry.full_id)
    names = [*PACKING.values()]
    if not entry.spec.constant or entry.spec.required:
        names.remove("constant_budget")
    members = [view.book.entries[index].spec.id for index in entry.closure.members]
    figures: dict[str, Figures] = {
        "package": {"members": members},
        "conflict": {"conflict_key": entry.spec.conflict_key},
        "max_entries": {"max_entries": request.max_entries, "selected": len(packing.chosen)},
        "budget": {"token_budget": request.token_budget},
        "constant_budget": {"cap": constant_cap(request)},
    }
    if chosen is not None:
        room = {"tokens": chosen.figures.tokens, "room": chosen.figures.room}
        figures["budget"] = {**figures["budget"], **room}
        if chosen.root != entry.full_id:
            figures["package"] = {**figures["package"], "included_by": chosen.root}
        return [_gate(name, "passed", figures[name]) for name in names]
    gates = []
    failed = None if dropped is None else PACKING[dropped.reason]
    status: GateStatus = "not_reached" if failed is None else "passed"
    for name in names:
        facts = figures[name]
        if name == failed and dropped is not None:
            given = {**dropped.figures._asdict(), "detail": dropped.detail}
            facts = {**facts, **{k: v for k, v in given.items() if v is not None}}
        gates.append(_gate(name, "failed" if name == failed else status, facts))
        if name == failed:
            status = "not_reached"
    return gates
