"""An explanation as tables: the gates, near misses of keys, and what would flip the verdict."""

from __future__ import annotations

import json
from collections.abc import Mapping

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lorewell.cli.tables import new_table
from lorewell.model.explained import EditStep, Explanation, NearKind, NearMiss, WhatIf
from lorewell.model.plain import plain

_NEAR: Mapping[NearKind, str] = {
    "outside_window": "is in a message that is not scanned",
    "inside_word": "is inside a longer word",
    "case": "is there in another case",
    "form": "is there in another form",
    "typo": "is one letter away",
    "secondary_missing": "is a secondary key and is missing",
    "other_text": "is in a text that this entry does not scan",
    "not_waking": "is in an entry that may not wake others",
    "round_limit": "is in an entry that is found in the last round",
    "excluded": "is in an entry, but none may wake this one",
}
_STYLES = {"passed": "green", "failed": "red", "not_reached": "dim"}
_MAX_VALUE_CHARS = 80
_MAX_NAMED = 5


def explain_parts(explanation: Explanation) -> list[RenderableType]:
    """Return the printed explanation."""
    parts: list[RenderableType] = [_verdict(explanation), _gates(explanation)]
    if explanation.near:
        parts.append(_near(explanation))
    parts.append(_changes(explanation) if explanation.changes else Text(_no_change(explanation)))
    return parts


def _verdict(explanation: Explanation) -> Text:
    text = Text(plain(explanation.entry_id), style="bold")
    if explanation.title:
        text.append(f" {plain(explanation.title)}", style="not bold")
    verdict = "selected" if explanation.selected else "left out"
    why = explanation.reason
    if explanation.cause is not None:
        why += f" ({explanation.cause})"
    if explanation.detail:
        why += f": {plain(explanation.detail)}"
    return text.append(f"\n{verdict}, {why}\n", style="not bold")


def _gates(explanation: Explanation) -> Table:
    table = new_table("Gates, in order")
    table.add_column("Gate", overflow="fold", min_width=15)
    table.add_column("", overflow="fold", min_width=11)
    table.add_column("Figures", overflow="fold", ratio=1)
    for gate in explanation.gates:
        figures = ", ".join(f"{name} {_shown(value)}" for name, value in gate.facts.items())
        status = Text(gate.status.replace("_", " "), style=_STYLES[gate.status])
        table.add_row(gate.gate, status, Text(plain(figures)))
    return table


def _near(explanation: Explanation) -> Table:
    table = new_table("Near misses")
    table.add_column("Key", overflow="fold", ratio=1)
    table.add_column("", overflow="fold", ratio=3)
    for miss in explanation.near:
        table.add_row(Text(plain(miss.key)), Text(plain(f"{_NEAR[miss.kind]}{_where(miss)}")))
    return table


def _where(miss: NearMiss) -> str:
    found = f" as '{miss.found}'" if miss.found and miss.found != miss.key else ""
    if miss.entry is not None:
        return f"{found}: {miss.entry}"
    if miss.text == "message" and miss.message is not None:
        return f"{found}: message {miss.message + 1}"
    return found if miss.span is None else f"{found}: {miss.text}"


def _changes(explanation: Explanation) -> Table:
    table = new_table("Keeps it out" if explanation.selected else "Brings it in")
    table.add_column("Change", overflow="fold", ratio=3)
    table.add_column("Other entries", overflow="fold", ratio=2)
    table.add_column("Tokens", justify="right", no_wrap=True)
    for change in explanation.changes:
        edits = "\n".join(_edit(edit, explanation) for edit in change.edits)
        table.add_row(Text(plain(edits)), Text(plain(_others(change))), f"{change.tokens:+d}")
    if not explanation.complete:
        table.caption = "The search ended early: more steps may find more."
    return table


def _edit(edit: EditStep, explanation: Explanation) -> str:
    of = "request" if edit.target == "request" else str(edit.entry_id)
    if edit.target == "entry" and edit.book_id != explanation.book_id:
        of = f"{of} ({edit.book_id})"
    if edit.op == "remove":
        return f"{of}: remove {edit.path}"
    return f"{of}: {edit.path} = {_shown(edit.value)}"


def _others(change: WhatIf) -> str:
    if not change.others:
        return "none"
    parts = [f"{change.others}:"]
    for sign, ids in (("+", change.joins), ("-", change.leaves)):
        names = [each.split(":", 2)[-1] for each in ids[:_MAX_NAMED]]
        parts += [f"{sign}{name}" for name in names]
    return " ".join(parts)


def _no_change(explanation: Explanation) -> str:
    if not explanation.complete:
        return "No change was found before the search ran out of steps."
    return f"None of the {explanation.tried} changes that were tried flips the verdict."


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[:_MAX_VALUE_CHARS]}…"
