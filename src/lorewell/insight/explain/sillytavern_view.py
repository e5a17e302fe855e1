"""One entry in a turn under the policy `sillytavern`, read from the engine's ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lorewell.engine.sillytavern.scan_entry import MATCH_FLAGS, ScanEntry
from lorewell.engine.sillytavern.sources import Library
from lorewell.engine.steps import Steps
from lorewell.insight.explain.near import NearKey, NearText, find_key
from lorewell.model.activate import ScanTexts, SillyTavernRequest
from lorewell.model.activated import Event, SillyTavernResponse, Verdict
from lorewell.model.explained import ExplainedGate, GateStatus, NearKind

_GATES: Mapping[str, tuple[str, ...]] = {
    "enabled": ("disabled",),
    "trigger": ("trigger_filter",),
    "character": ("character_filter", "tag_filter"),
    "delay": ("delay",),
    "cooldown": ("cooldown",),
    "recursion": ("delay_until_recursion", "delay_level", "exclude_recursion"),
    "decorator": ("decorator_suppress", "decorator_activate"),
    "flag": ("external", "constant", "sticky"),
    "keys": (
        *("primary", "primary_then_secondary", "no_keys", "not_triggered"),
        *("regex_timeout", "regex_unsupported"),
    ),
    "secondary": ("and_any", "not_all", "not_any", "and_all", "secondary_unsatisfied"),
    "group": (
        *("group_lost_to_sticky", "group_cooldown_removed", "group_lost_score", "group_lost"),
        *("group_prio_winner", "group_roll_winner", "group_already_active", "group_taken"),
        "group_mistaken",
    ),
    "probability": ("probability_passed", "probability_failed"),
    "budget": ("added", "budget_overflow", "budget_refused"),
}
GATES = tuple(_GATES)
_GATE_OF = {kind: gate for gate, kinds in _GATES.items() for kind in kinds}
_OPTIONAL = {
    *("trigger", "character", "delay", "cooldown", "recursion", "decorator", "flag"),
    *("secondary", "group", "probability"),
}
_MAX_TEXTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SillyTavernView:
    """One entry in a scanned turn, with its whole ledger."""

    library: Library
    request: SillyTavernRequest
    response: SillyTavernResponse
    book: int
    index: int
    steps: Steps

    @property
    def entry(self) -> ScanEntry:
        """The entry."""
        return self.library.books[self.book].world.entries[self.index]

    @property
    def selected(self) -> bool:
        """Whether the entry is active."""
        return any(each.id == self.entry.id for each in self.response.activated)

    def verdict(self) -> Verdict:
        """Return the verdict in the ledger."""
        found = (each for each in self.response.verdicts if each.id == self.entry.id)
        return next(
            found, Verdict(id=self.entry.id, activated=False, reason="not_triggered", loop=0)
        )

    def events(self) -> list[Event]:
        """Return the events of the entry, in order."""
        return [event for event in self.response.events if event.entry == self.entry.id]

    def decisive(self) -> str | None:
        """Return the gate that keeps the entry out; None if it is active."""
        return None if self.selected else _GATE_OF[self.verdict().reason]

    @property
    def depth(self) -> int:
        """The number of messages that it scans, before the scan goes deeper."""
        own = self.entry.scan_depth
        return self.request.settings.world_info_depth if own is None else int(max(own, 0))

    def near_keys(self) -> list[NearKey]:
        """Return the plain primary keys."""
        settings, entry = self.request.settings, self.entry
        case = settings.world_info_case_sensitive if entry.case is None else entry.case
        whole = settings.world_info_match_whole_words if entry.whole is None else entry.whole
        return [
            NearKey(key.text, case, whole and key.plain.single)
            for key in entry.keys
            if key.plain is not None and key.text.strip()
        ]

    def texts(self) -> list[NearText]:
        """Return the texts of the turn, and why the entry does not scan some of them."""
        return [*self._messages(), *self._scan_texts(), *self._contents()]

    def _messages(self) -> Iterator[NearText]:
        count = len(self.request.chat)
        for number in range(count - 1, -1, -1):
            unseen: NearKind | None = None if count - number <= self.depth else "outside_window"
            yield NearText(self.request.chat[number].content, "message", number, unseen=unseen)

    def _scan_texts(self) -> Iterator[NearText]:
        for bit, name in enumerate(ScanTexts.model_fields):
            text = getattr(self.request.scan_texts, name)
            seen = bool(self.entry.sources & (1 << bit)) and self.depth > 0
            if text:
                yield NearText(text, name, unseen=None if seen else "other_text")
        note = self.request.authors_note
        if note is not None:
            yield NearText(note.value, "authors_note", unseen=None if note.scan else "other_text")

    def _contents(self) -> Iterator[NearText]:
        entries = (
            {entry.id: entry for book in self.library.books for entry in book.world.entries}
            if self.response.activated
            else {}
        )
        last = self.response.loops[-1].state if self.response.loops else "stop"
        loops = len(self.response.loops)
        for active in self.response.activated[:_MAX_TEXTS]:
            source = entries.get(active.id)
            if active.id == self.entry.id or source is None:
                continue
            why: NearKind | None = None
            if source.prevents_recursion or not self.request.settings.world_info_recursive:
                why = "not_waking"
            elif active.loop == loops and last != "stop":
                why = "round_limit"
            elif self.entry.excludes_recursion:
                why = "excluded"
            yield NearText(active.content, "entry", entry=active.id, unseen=why)

    def unheard(self) -> tuple[NearKind, str] | None:
        """Return why the text of an active entry with a key did not wake this one, and its id."""
        order = ("round_limit", "not_waking", "excluded")
        texts = [each for each in self._contents() if each.unseen is not None]
        texts.sort(key=lambda each: order.index(str(each.unseen)))
        for text in texts:
            for key in self.near_keys():
                if find_key(text.text, key, self.steps) is not None:
                    assert text.unseen is not None and text.entry is not None  # noqa: S101, PT018
                    return text.unseen, text.entry
        return None


def sillytavern_gates(view: SillyTavernView) -> tuple[tuple[ExplainedGate, ...], str | None]:
    """Return the gates of an entry in their order, and the cause that the reason does not tell."""
    decisive = view.decisive()
    events = {_GATE_OF[event.kind]: event for event in view.events() if event.kind in _GATE_OF}
    unheard = view.unheard() if decisive in ("keys", "secondary", "recursion") else None
    gates = []
    status: GateStatus = "passed"
    for gate in GATES:
        own = _fields(view, gate)
        is_off = gate in _OPTIONAL and not own and gate not in events and gate != decisive
        if is_off:
            continue
        if gate == decisive:
            status = "failed"
        facts = {} if status == "not_reached" else {**own, **_figures(events.get(gate))}
        if gate == decisive and unheard is not None:
            facts |= {"cause": unheard[0], "by": unheard[1]}
        gates.append(ExplainedGate(gate=gate, status=status, facts=facts))
        if gate == decisive:
            status = "not_reached"
    return tuple(gates), None if unheard is None else unheard[0]


def _figures(event: Event | None) -> dict[str, Any]:
    """Return the figures of an event that apply."""
    if event is None:
        return {}
    members = {name: value for name, value in event._asdict().items() if value is not None}
    del members["entry"]
    hit = members.pop("hit", None)
    return members if hit is None else {**members, "hit": hit._asdict()}


def _fields(view: SillyTavernView, gate: str) -> dict[str, Any]:
    """Return the entry's own values that a gate reads; empty if it has none."""
    entry = view.entry
    own: dict[str, dict[str, Any]] = {
        "enabled": {"disable": entry.disabled},
        "keys": {"keys": len(entry.keys), "scan_depth": view.depth, "also": _also(entry)},
        "budget": {
            "limit": view.response.budget.limit,
            "used": view.response.budget.used,
            "ignore_budget": entry.ignores_budget,
        },
    }
    if entry.delay is not None:
        own["delay"] = {"delay": entry.delay, "chat": view.request.length}
    if entry.cooldown is not None:
        own["cooldown"] = {"cooldown": entry.cooldown}
    if entry.level or entry.excludes_recursion:
        own["recursion"] = {"level": entry.level, "exclude_recursion": entry.excludes_recursion}
    if entry.constant:
        own["flag"] = {"constant": True}
    if entry.uses_secondary:
        keys = [key.text for key in entry.secondary]
        own["secondary"] = {"logic": entry.logic, "keys": keys}
    if entry.groups:
        own["group"] = {"groups": list(entry.groups), "weight": entry.weight}
    if entry.probability is not None:
        own["probability"] = {"threshold": entry.probability}
    return own.get(gate, {})


def _also(entry: ScanEntry) -> list[str]:
    """Return the flags for further texts that are set."""
    return [name for bit, name in enumerate(MATCH_FLAGS) if entry.sources & (1 << bit)]
