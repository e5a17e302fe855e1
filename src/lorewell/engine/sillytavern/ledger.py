"""What happened in a scan, written down as it happens, if anybody wants to know."""

from __future__ import annotations

from typing import Literal, TypedDict, Unpack

from lorewell.model.activated import Event, EventKind, Hit, Loop


class Facts(TypedDict, total=False):
    """The figures of an event."""

    key: str | None
    hit: Hit | None
    group: str
    winner: str
    score: int
    best: int
    roll: float
    threshold: float
    tokens: int
    limit: int
    number: float
    timer: Literal["sticky", "cooldown"]
    why: Literal["chat_not_advanced", "missing_entry", "not_configured", "expired"]


class Ledger:
    """The events and loops of one scan, in order; both stay empty unless it is kept.

    Attributes:
        kept: whether events are written down; a caller may then spare itself finding them out.
        loop: the loop under way, from 1; 0 before the first.
    """

    def __init__(self, *, kept: bool) -> None:
        """Begin with nothing."""
        self.kept = kept
        self.loop = 0
        self.events: list[Event] = []
        self.loops: list[Loop] = []

    def add(self, kind: EventKind, entry: str | None = None, **facts: Unpack[Facts]) -> None:
        """Write an event down."""
        if self.kept:
            self.events.append(Event(self.loop, kind, entry, **facts))
