"""The ledger of a scan: its events and loops, recorded if the caller asks for them."""

from __future__ import annotations

from typing import Literal, TypedDict, Unpack

from lorewell.engine.steps import Steps
from lorewell.model.activated import Event, EventKind, Hit, Loop
from lorewell.model.warning import TurnWarning

_STEPS_PER_EVENT, _CHARS_PER_STEP = 3, 50
# Events that explain why an entry is not active. An active entry is explained by its trigger.
_DECIDING: frozenset[EventKind] = frozenset(
    {
        *("disabled", "trigger_filter", "character_filter", "tag_filter", "delay", "cooldown"),
        *("delay_until_recursion", "delay_level", "exclude_recursion", "decorator_suppress"),
        *("no_keys", "secondary_unsatisfied", "regex_timeout", "regex_unsupported"),
        *("group_lost_to_sticky", "group_cooldown_removed", "group_lost_score", "group_lost"),
        *("group_taken", "group_mistaken", "probability_failed"),
        *("budget_overflow", "budget_refused"),
    }
)


class EventFacts(TypedDict, total=False):
    """The figures of an event."""

    key: str | None
    hit: Hit | None
    group: str
    winner: str
    score: int
    best: int
    roll: float
    threshold: float
    tokens: int | None
    limit: int
    number: float
    timer: Literal["sticky", "cooldown"]
    why: Literal["chat_not_advanced", "missing_entry", "not_configured", "expired"]
    macro: TurnWarning


class Ledger:
    """The events and loops of one scan, in order; both stay empty unless `kept`.

    Attributes:
        kept: whether events are recorded. If not, callers can skip working them out.
        steps: the step budget of the scan, events included.
        loop: the current loop, from 1; 0 before the first.
    """

    def __init__(self, steps: Steps, *, kept: bool) -> None:
        """Start with no events."""
        self.kept = kept
        self.steps = steps
        self.loop = 0
        self.events: list[Event] = []
        self.loops: list[Loop] = []

    def add(self, kind: EventKind, entry: str | None = None, **facts: Unpack[EventFacts]) -> None:
        """Record an event."""
        if self.kept:
            texts = (entry, facts.get("key"), facts.get("group"), facts.get("winner"))
            chars = sum(map(len, filter(None, texts)))
            self.steps.spend("ledger", _STEPS_PER_EVENT + chars // _CHARS_PER_STEP)
            self.events.append(Event(self.loop, kind, entry, **facts))

    def add_loop(self, loop: Loop) -> None:
        """Record a loop."""
        names = (*loop.candidates, *loop.successful)
        chars = sum(map(len, names))
        self.steps.spend("ledger", _STEPS_PER_EVENT + len(names) + chars // _CHARS_PER_STEP)
        self.loops.append(loop)

    def last_rejections(self) -> dict[str, Event]:
        """Return by entry id the last event that explains why the entry is not active."""
        last: dict[str, Event] = {}
        for event in self.events:
            if event.entry is None or event.kind not in _DECIDING:
                continue
            before = last.get(event.entry)
            # The loser of a group finds it taken in every later loop: keep the first reason.
            if event.kind != "group_taken" or before is None or before.group != event.group:
                last[event.entry] = event
        return last
