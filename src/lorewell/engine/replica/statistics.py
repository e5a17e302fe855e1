"""Counts the active entries of a turn, and writes log lines (docs/rules/replica.md §6.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from lorewell.engine.replica.positions import POSITIONS
from lorewell.model.replica import (
    TRIGGERS,
    PositionCount,
    ReplicaActive,
    ReplicaDecision,
    ReplicaResponse,
    ReplicaStats,
)

CHECK = "[WorldBook-Check]"
_FOUND_IN = {"user": "the user's text", "history": "the history", "both": "both texts"}


def count(entries: Sequence[ReplicaActive]) -> ReplicaStats:
    """Count entries by position and by trigger."""
    positions = Counter(entry.position for entry in entries)
    triggers = Counter(entry.trigger_type for entry in entries)
    return ReplicaStats(
        total=len(entries),
        by_position=tuple(
            PositionCount(position=number, label=POSITIONS[number].label, count=positions[number])
            for number in sorted(positions)
        ),
        by_trigger={trigger: triggers[trigger] for trigger in TRIGGERS if triggers[trigger]},
    )


def log_lines(response: ReplicaResponse, *, checks: bool = True) -> Iterator[str]:
    """Yield the log lines of a turn. Of entries and messages they contain only keys, no text.

    Args:
        response: the answer of the turn.
        checks: whether to log a line with the found keys for each decision of the response.
    """
    for book in response.books:
        yield f"[WorldBook] loaded {book.id}: {book.entry_count} entries ({book.source})"
    for decision in response.decisions if checks else ():
        yield f"{CHECK} {decision.reason} {decision.uid}{_where(decision)}"
    for entry in response.entries:
        yield f"[WorldBook] active {entry.uid}: {entry.trigger_type}, {entry.position_label}"
    for warning in response.warnings:
        where = warning.uid or warning.book_id or "-"
        yield f"[WorldBook] warning {warning.code}: {where}"
    yield f"[WorldBook] total {response.stats.total}"
    for each in response.stats.by_position:
        yield f"[WorldBook] {each.label} ({each.position}): {each.count}"
    for trigger, number in response.stats.by_trigger.items():
        yield f"[WorldBook] {trigger}: {number}"


def _where(decision: ReplicaDecision) -> str:
    keys, found_in = decision.facts.keys, decision.facts.found_in
    if not keys or found_in is None:
        return ""
    return f": {', '.join(keys)} in {_FOUND_IN[found_in]}"
