"""Whole chats as tables: turns, entries, differences, plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lorewell.cli.tables import new_table
from lorewell.model.chat_replay import (
    BudgetPlan,
    ChatReplay,
    EntryCount,
    EntryKey,
    EntryStory,
    ReplayDiff,
    ReplayStep,
)
from lorewell.model.plain import plain

MAX_ROWS = 60  # of a table; the JSON lists them all
_MAX_NAMES = 12

Titles = Mapping[EntryKey, str]


def replay_parts(replay: ChatReplay, titles: Titles) -> list[RenderableType]:
    """Return the turns and the entries of a chat, and its warnings."""
    parts: list[RenderableType] = [_turns(replay.steps, titles), _entries(replay.entries)]
    parts += [
        Text(f"{plain(code)}: in {count} of {len(replay.steps)} turns", style="yellow")
        for code, count in replay.warnings.items()
    ]
    return parts


def diff_parts(diff: ReplayDiff, titles: Titles) -> list[RenderableType]:
    """Return the summary of a difference, its turns and its entries."""
    parts: list[RenderableType] = [Text(plain(diff.summary), style="bold")]
    if not diff.changed:
        return parts
    turns = new_table("Turns that change")
    turns.add_column("Messages", justify="right", no_wrap=True)
    for column in ("Joined", "Dropped", "Edited"):
        turns.add_column(column, overflow="fold", ratio=1)
    turns.add_column("Tokens", justify="right", no_wrap=True)
    for each in diff.changed[:MAX_ROWS]:
        cells = [_names(keys, titles) for keys in (each.joined, each.dropped, each.edited)]
        turns.add_row(str(each.messages), *cells, f"{each.tokens:+}" if each.tokens else "")
    entries = new_table("Entries that change")
    entries.add_column("Entry", overflow="fold", ratio=1)
    for column in ("Joined", "Dropped", "Edited"):
        entries.add_column(column, justify="right", no_wrap=True)
    for entry in diff.entries[:MAX_ROWS]:
        counts = (entry.joined, entry.dropped, entry.edited)
        entries.add_row(_name(entry.entry_id, entry.title), *(str(each or "") for each in counts))
    parts += [turns, *_more(len(diff.changed)), entries, *_more(len(diff.entries))]
    return parts


def plan_parts(plan: BudgetPlan) -> list[RenderableType]:
    """Return what the entries of a chat cost, and what other budgets would change."""
    costs = new_table(f"Cost over {plan.turns} turns")
    costs.add_column("Entry", overflow="fold", ratio=1)
    for column in ("Turns", "Tokens", "Refused"):
        costs.add_column(column, justify="right", no_wrap=True)
    for each in plan.entries[:MAX_ROWS]:
        counts = (each.turns, each.tokens, each.refused)
        costs.add_row(_name(each.entry_id, each.title), *(str(count or "") for count in counts))
    parts: list[RenderableType] = [costs, *_more(len(plan.entries))]
    if plan.idle:
        idle = ", ".join(_counted(plan.idle[:_MAX_NAMES]))
        parts.append(Text(f"Always in, but their keys are never found: {idle}", style="yellow"))
    if plan.curve:
        parts.append(_curve(plan))
    return parts


def _curve(plan: BudgetPlan) -> Table:
    own = plan.budget or 0
    at = sum(step.budget <= own for step in plan.curve) - 1
    begin = max(0, at - MAX_ROWS // 2)
    table = new_table(f"What a token budget buys; the present one is {own}")
    for column in ("From", "Uses", "Tokens", "Fullest turn"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ("Joined", "Dropped"):
        table.add_column(column, overflow="fold", ratio=1)
    for number, step in enumerate(plan.curve[begin : begin + MAX_ROWS], begin):
        figures = (step.budget, step.uses, step.tokens, step.fullest)
        names = (", ".join(_counted(each[:_MAX_NAMES])) for each in (step.joined, step.dropped))
        style = "bold green" if number == at else ""
        table.add_row(*map(str, figures), *names, style=style)
    return table


def _counted(entries: Iterable[EntryCount]) -> list[str]:
    return [
        plain(each.title or each.entry_id) + (f" ×{each.turns}" if each.turns > 1 else "")
        for each in entries
    ]


def _turns(steps: Sequence[ReplayStep], titles: Titles) -> Table:
    table = new_table("Turn by turn")
    table.add_column("Messages", justify="right", no_wrap=True)
    for column in ("Entered", "Left", "No place"):
        table.add_column(column, overflow="fold", ratio=1)
    for column in ("In", "Tokens", "Room"):
        table.add_column(column, justify="right", no_wrap=True)
    for step in steps:
        refused = _names([each.key for each in step.refused], titles)
        table.add_row(
            str(step.messages),
            _names(step.entered, titles),
            _names(step.left, titles),
            refused if step.failed is None else Text(step.failed, style="red"),
            str(len(step.used)),
            str(step.tokens),
            "" if step.room is None else str(step.room),
        )
    return table


def _entries(stories: Sequence[EntryStory]) -> Table:
    table = new_table("Entries")
    table.add_column("Entry", overflow="fold", ratio=2)
    for column in ("Turns", "First", "Silence", "Tokens"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("Never, mostly because", overflow="fold", ratio=1)
    ranked = sorted(stories, key=lambda each: (-each.turns, each.book))
    for each in ranked:
        figures = (each.turns, each.first, each.longest_silence, each.tokens)
        cells = ["" if not each.turns else str(figure) for figure in figures]
        why = Text(plain(each.why or ""), style="yellow")
        table.add_row(_name(each.entry_id, each.title), *cells, why)
    return table


def _name(entry_id: str, title: str) -> Text:
    name = Text(plain(entry_id), style="bold")
    if title and title != entry_id:
        name.append(f" {plain(title)}", style="not bold")
    return name


def _names(keys: Sequence[EntryKey], titles: Titles) -> str:
    named = [plain(titles.get(key, "") or key.entry_id) for key in keys[:_MAX_NAMES]]
    more = [f"and {len(keys) - _MAX_NAMES} more"] if len(keys) > _MAX_NAMES else []
    return ", ".join([*named, *more])


def _more(count: int) -> list[RenderableType]:
    return [Text(f"and {count - MAX_ROWS} more; --json lists all")] if count > MAX_ROWS else []
