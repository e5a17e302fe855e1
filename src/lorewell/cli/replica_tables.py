"""A turn of the policy `replica` as tables: active entries, counts, and the other entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lorewell.cli.tables import MAX_ENTRIES_A_REASON, new_table, reasons_table
from lorewell.model.plain import plain
from lorewell.model.replica import (
    NO_REPLICA_FACTS,
    ReplicaActive,
    ReplicaDecision,
    ReplicaFacts,
    ReplicaReason,
    ReplicaRequest,
    ReplicaResponse,
)

_REASONS: tuple[ReplicaReason, ...] = get_args(ReplicaReason)
_MEANING: Mapping[str, str] = {
    "disabled": "switched off",
    "no_trigger": "no trigger is enabled",
    "not_triggered": "nothing triggered it",
    "probability": "lost the roll",
    "dependency_unavailable": "an entry it requires is out",
    "conflict": "lost its conflict label",
}
_AT_DEPTH = 6


def activation_parts(answer: ReplicaResponse, request: ReplicaRequest) -> list[RenderableType]:
    """Return the printed turn: a summary, and its tables."""
    view = _ActivationView(answer, request)
    parts: list[RenderableType] = [view.summary()]
    if answer.entries:
        parts += [view.active(), view.counts()]
    if any(not decision.active for decision in answer.decisions):
        parts.append(view.left_out())
    elif request.explain != "full":
        parts.append(
            Text(
                f"explain is {request.explain!r}: reasons of the other entries were not requested."
            )
        )
    if answer.warnings:
        parts.append(view.warnings())
    return parts


class _ActivationView:
    """Formats one turn."""

    def __init__(self, answer: ReplicaResponse, request: ReplicaRequest) -> None:
        self._answer = answer
        self._history = len(request.chat_history)
        self._decisions = {(each.book_id, each.uid): each for each in answer.decisions}

    def summary(self) -> Text:
        answer = self._answer
        books = ", ".join(f"{plain(each.id)} ({each.source})" for each in answer.books)
        text = Text(books or "no books", style="bold")
        entries = sum(each.entry_count for each in answer.books)
        figures = f"\n{answer.stats.total} of {entries} entries active"
        return text.append(f"{figures}, {self._history} messages of history\n", style="not bold")

    def active(self) -> Table:
        table = new_table("Active")
        table.add_column("Entry", overflow="fold", ratio=2)
        table.add_column("Position", overflow="fold", ratio=2)
        table.add_column("Order", justify="right", no_wrap=True)
        table.add_column("Why", overflow="fold", ratio=3)
        for entry in self._answer.entries:
            why = Text(entry.trigger_type, style="green")
            decision = self._decisions.get((entry.book_id, entry.uid))
            facts = _facts(NO_REPLICA_FACTS if decision is None else decision.facts)
            if facts:
                why.append(f": {facts}", style="default")
            table.add_row(self._entry(entry), Text(_placed(entry)), str(entry.order), why)
        return table

    def counts(self) -> Table:
        table = new_table("Counts")
        table.add_column("Position or trigger", overflow="fold", ratio=1)
        table.add_column("Count", justify="right", no_wrap=True)
        stats = self._answer.stats
        for each in stats.by_position:
            table.add_row(f"{each.label} ({each.position})", str(each.count))
        for trigger, count in stats.by_trigger.items():
            table.add_row(trigger, str(count))
        table.add_row("total", str(stats.total), style="bold")
        return table

    def left_out(self) -> Table:
        out = (decision for decision in self._answer.decisions if not decision.active)
        return reasons_table("Not active", out, _REASONS, _MEANING, self._listed)

    def warnings(self) -> Table:
        table = new_table("Warnings")
        table.add_column("Where", overflow="fold", ratio=1)
        table.add_column("Warning", overflow="fold", ratio=2)
        for code, message, book_id, uid in self._answer.warnings[:MAX_ENTRIES_A_REASON]:
            where = plain(uid or book_id or "the turn")
            table.add_row(Text(where), Text(plain(f"{code}: {message}")))
        more = len(self._answer.warnings) - MAX_ENTRIES_A_REASON
        if more > 0:
            table.add_row("", f"and {more} more")
        return table

    def _entry(self, entry: ReplicaActive) -> Text:
        text = Text(self._named(entry.book_id, entry.uid), style="bold")
        if entry.comment:
            text.append(f"\n{plain(entry.comment)}", style="not bold")
        return text

    def _named(self, book_id: str, uid: str) -> str:
        """Return the entry's uid, followed by its book if there are several."""
        several = len(self._answer.books) > 1
        return f"{plain(uid)} ({plain(book_id)})" if several else plain(uid)

    def _listed(self, group: Sequence[ReplicaDecision]) -> Text:
        lines = []
        for each in group[:MAX_ENTRIES_A_REASON]:
            details = ", ".join(filter(None, (plain(each.detail or ""), _roll(each.facts))))
            name = self._named(each.book_id, each.uid)
            lines.append(f"{name}: {details}" if details else name)
        more = len(group) - MAX_ENTRIES_A_REASON
        return Text("\n".join([*lines, f"and {more} more"] if more > 0 else lines))


def _placed(entry: ReplicaActive) -> str:
    place = f"{entry.position_label} ({entry.position})"
    return f"{place}\ndepth {entry.depth}" if entry.position == _AT_DEPTH else place


def _facts(facts: ReplicaFacts) -> str:
    """Return what triggered an entry: keys, dependency and roll."""
    details = []
    if facts.keys:
        keys = ", ".join(f"'{plain(key)}'" for key in facts.keys)
        details.append(f"{keys} in {_where(facts)}")
    if facts.required_by is not None:
        details.append(f"required by {plain(facts.required_by)}")
    details.append(_roll(facts))
    return ", ".join(filter(None, details))


def _where(facts: ReplicaFacts) -> str:
    if facts.found_in == "history":
        return f"message {facts.message} of the history"
    return "the user's text" + (" and the history" if facts.found_in == "both" else "")


def _roll(facts: ReplicaFacts) -> str:
    if facts.roll is None:
        return ""
    sign = "<" if facts.needed is not None and facts.roll < facts.needed else ">="
    return f"roll {facts.roll:.1f} {sign} {facts.needed:g}"
