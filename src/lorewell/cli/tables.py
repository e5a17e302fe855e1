"""Parts that the tables of all commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from rich import box
from rich.table import Table
from rich.text import Text

from lorewell.model import Block, Decision, Entry
from lorewell.model.plain import plain
from lorewell.model.replica import ReplicaDecision

Decided = TypeVar("Decided", Decision, ReplicaDecision)

MAX_ENTRIES_A_REASON = 20  # the JSON lists them all


def new_table(title: str) -> Table:
    """Return an empty table in the common style."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
        pad_edge=False,
        expand=True,
    )


def reasons_table(
    title: str,
    decisions: Iterable[Decided],
    order: Sequence[str],
    meaning: Mapping[str, str],
    listed: Callable[[Sequence[Decided]], Text],
) -> Table:
    """Return a table with one row for each reason: its meaning, the count and the entries.

    Args:
        title: of the table.
        decisions: the decisions to list.
        order: the reasons in the order of the rows.
        meaning: of each reason.
        listed: formats the entries of one reason.
    """
    table = new_table(title)
    table.add_column("Reason", overflow="fold", min_width=23)
    table.add_column("Count", justify="right", no_wrap=True)
    table.add_column("Entries", overflow="fold", ratio=1)
    groups: dict[str, list[Decided]] = {}
    for decision in decisions:
        groups.setdefault(decision.reason, []).append(decision)
    for reason in sorted(groups, key=order.index):
        group = groups[reason]
        name = Text(reason, style="yellow")
        name.append(f"\n{meaning[reason]}", style="dim")
        table.add_row(name, str(len(group)), listed(group))
    return table


def placed(item: Block | Entry) -> str:
    """Return the position of a block or entry, with depth and role or outlet name."""
    match item.position:
        case "at_depth":
            return f"at_depth {item.depth}\nas {item.role}"
        case "outlet":
            return f"outlet\n{plain(item.outlet_name or '')}"
        case position:
            return position
