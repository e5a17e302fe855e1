"""The command that shows live selections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from lorewell.cli.library import CommandContext, service_options
from lorewell.cli.printing import print_json, print_parts, say
from lorewell.cli.tables import new_table
from lorewell.model.plain import plain

if TYPE_CHECKING:
    from lorewell.model.live import LiveFrame, LiveGroup, LiveMissed, LiveSelection


@service_options
def live_command(
    context: CommandContext,
    *,
    prompt: Annotated[
        str, typer.Option("--prompt", metavar="PROMPT", help="Id of the prompt to watch.")
    ],
    since: Annotated[
        int | None,
        typer.Option(metavar="ID", help="Event id: first show the events after it."),
    ] = None,
) -> None:
    """Show each selection for a prompt as it is made, until Ctrl+C.

    Without a URL the service on this machine is watched.
    """
    with context.connect() as client:
        try:
            for frame in client.live(prompt, last_event_id=since):
                if context.as_json:
                    print_json(frame.to_json())
                else:
                    _show(frame)
        except KeyboardInterrupt:
            return


def _show(frame: LiveFrame) -> None:
    match frame.type:
        case "ready":
            say(f"Watching {frame.prompt_id} of {frame.tenant_id}.")
        case "selection":
            print_parts(selection_part(frame))
        case "missed":
            say(missed_line(frame))


def missed_line(frame: LiveMissed) -> str:
    """Return a line that says why selections may be missing."""
    why = {
        "expired": "the older ones have expired",
        "too_many": "there were too many to send",
        "unknown": "the service does not know the last event id",
        "overflow": "they were made faster than they could be stored",
    }[frame.reason]
    return f"Selections may be missing: {why}."


def selection_part(frame: LiveSelection) -> RenderableType:
    """Return one selection: a line, and a table of what is active by context."""
    stats = frame.stats
    tokens = "" if stats.tokens is None else f", {stats.tokens:,} tokens"
    line = f"{frame.id}  {frame.at}  {frame.policy}, {frame.source}: {stats.total} entries{tokens}"
    if not frame.groups:
        return Text(plain(line))
    table = new_table("")
    for name in ("Place", "Entry", "Title", "Reason", "Tokens", "Text"):
        table.add_column(name, overflow="fold")
    for group in frame.groups:
        for entry in group.entries:
            table.add_row(
                Text(plain(_place(group))),
                Text(plain(entry.entry_id)),
                Text(plain(entry.title)),
                Text(plain(f"{entry.reason}: {entry.key}" if entry.key else entry.reason)),
                "" if entry.tokens is None else str(entry.tokens),
                Text(plain(entry.preview)),
            )
    return Group(Text(plain(line)), table)


def _place(group: LiveGroup) -> str:
    label = f"{group.label} ({group.position})" if isinstance(group.position, int) else group.label
    if group.outlet_name is not None:
        return f"{label} {group.outlet_name}"
    if group.depth is not None:
        return f"{label}, depth {group.depth:g}, {group.role}"
    return label
