"""The report of an import as tables; the JSON has all of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lorewell.cli.tables import new_table
from lorewell.formats import ImportedBook
from lorewell.formats.native import FORMAT as NATIVE
from lorewell.model.imports import (
    EntryMacros,
    ImportNotice,
    ImportReport,
    Loss,
    LossReason,
    Quarantined,
    Suspicion,
)
from lorewell.model.plain import plain

MAX_LINES = 100  # rows of a table
_DESCRIPTION_CHARS = 300
Finding = TypeVar("Finding")
_LOST: Mapping[LossReason, str] = {
    "unsupported": "has no effect here; the book keeps it",
    "wrong_type": "has the wrong type; the default is used",
    "clamped": "reduced to its limit",
    "cut": "cut at its limit; the book keeps the whole",
    "duplicate_id": "the id is taken; the entry got another one",
    "odd_id": "not usable as an id; the entry got another one",
    "blocked": "needs a feature of its own program; the entry is never selected",
    "no_entry": "not an entry; left out",
    "not_taken": "not part of the lorebook; not kept",
}
_SUSPICIONS: Mapping[Suspicion, str] = {
    "ejs": "template code",
    "mvu": "variable updates",
    "charinfo": "a protocol for creating characters",
    "script": "a script or web page",
    "macro": "a macro",
    "decorators": "decorators without effect here",
    "link": "a link",
    "hidden_characters": "invisible characters",
    "bidirectional": "characters that reverse the text direction",
    "prompt_override": "an instruction to the model",
    "expensive_regex": "a regex that may run very long",
}


def report_tables(found: ImportedBook) -> list[RenderableType]:
    """Return the printed report of an import: a summary, and tables of its lists."""
    report = found.report
    source = report.source_file
    about = [f"{plain(source.name)}, {source.size} bytes, SHA-256 {source.sha256}"]
    parts = [summary(found, about)]
    if report.blocked:
        parts.append(_blocked(report))
    parts.extend(notice_tables("Warnings", report.warnings))
    parts.extend(loss_tables(report.losses, _LOST))
    parts.extend(_suspect_tables(report.quarantine))
    parts.extend(_macro_tables(report.macros))
    return parts


def summary(found: ImportedBook, about: Sequence[str]) -> RenderableType:
    """Return name, format, counts and description of a book; `about` holds further lines."""
    report = found.report
    counts = f"{report.entry_count} entries, {report.enabled_count} enabled"
    if report.runtime_blocked_count:
        counts += f", {report.runtime_blocked_count} blocked"
    lines = [f"{report.format}: {counts}" if report.format != NATIVE else counts, *about]
    description = found.book.description
    if description:
        cut = description[:_DESCRIPTION_CHARS]
        lines.append(plain(cut) + ("…" if len(cut) < len(description) else ""))
    text = Text(plain(found.book.name), style="bold")
    return text.append("\n" + "\n".join(lines) + "\n", style="not bold")


def _blocked(report: ImportReport) -> Table:
    table = new_table("Blocked entries: kept, but never selected")
    table.add_column("Entry", overflow="fold", ratio=2)
    table.add_column("Needs", overflow="fold", ratio=1)
    for entry in report.blocked:
        name = Text(plain(entry.entry_id), style="bold")
        if entry.title:
            name.append(f"\n{plain(entry.title)}", style="not bold")
        table.add_row(name, Text(plain(", ".join(entry.requirements)), style="yellow"))
    return table


def notice_tables(title: str, notices: Sequence[ImportNotice]) -> list[RenderableType]:
    """Return a table of notices; an empty list if there are none."""
    if not notices:
        return []
    table = new_table(title)
    table.add_column("Entry", overflow="fold", ratio=1)
    table.add_column("Note", overflow="fold", ratio=4)
    for notice in notices[:MAX_LINES]:
        note = Text(plain(f"{notice.code}: {notice.message}"))
        table.add_row(Text(plain(notice.entry_id or "")), note)
    return [_with_rest(table, notices)]


def loss_tables(losses: Sequence[Loss], meanings: Mapping[LossReason, str]) -> list[RenderableType]:
    """Return a table of losses, a row for each kind; an empty list if there are none."""
    groups = _grouped(losses, lambda loss: (loss.field, loss.kind, loss.why))
    if not groups:
        return []
    table = new_table("Losses")
    table.add_column("What", overflow="fold", ratio=2)
    table.add_column("Times", justify="right")
    table.add_column("First place", overflow="fold", ratio=3)
    table.add_column("Effect", overflow="fold", ratio=3)
    for alike in groups[:MAX_LINES]:
        loss = alike[0]
        what, place = (Text(plain(each)) for each in (f"{loss.field} ({loss.kind})", loss.pointer))
        table.add_row(what, str(len(alike)), place, f"{loss.why}: {meanings[loss.why]}")
    return [_with_rest(table, groups)]


def _suspect_tables(found: Sequence[Quarantined]) -> list[RenderableType]:
    groups = _grouped(found, lambda each: (each.entry_id, each.what))
    if not groups:
        return []
    table = new_table("Review before use: kept, but never run, fetched or obeyed here")
    table.add_column("Entry", overflow="fold", ratio=1)
    table.add_column("What", overflow="fold", ratio=2)
    table.add_column("Times", justify="right")
    table.add_column("First place", overflow="fold", ratio=2)
    table.add_column("Text", overflow="fold", ratio=2)
    for alike in groups[:MAX_LINES]:
        first = alike[0]
        entry, place, text = (
            Text(plain(each))
            for each in (first.entry_id, f"{first.pointer} {first.span[0]}", first.text)
        )
        what = f"{first.what}: {_SUSPICIONS[first.what]}"
        table.add_row(entry, what, str(len(alike)), place, text)
    return [_with_rest(table, groups)]


def _macro_tables(entries: Sequence[EntryMacros]) -> list[RenderableType]:
    """Return a table of the macros that the policy lacks, with the entries that use them."""
    lacking: dict[str, list[str]] = {}
    for entry in entries:
        for name in entry.unknown:
            lacking.setdefault(name, []).append(entry.entry_id)
    if not lacking:
        return []
    table = new_table("Macros that the rules of this book lack: they stay as written")
    table.add_column("Macro", overflow="fold", ratio=1)
    table.add_column("Entries", justify="right")
    table.add_column("First entry", overflow="fold", ratio=2)
    for name, users in [*lacking.items()][:MAX_LINES]:
        table.add_row(Text(plain(name)), str(len(users)), Text(plain(users[0])))
    return [_with_rest(table, [*lacking])]


def _grouped(found: Sequence[Finding], kind: Callable[[Finding], Hashable]) -> list[list[Finding]]:
    """Return the items grouped by kind, in the order in which each kind first occurs."""
    groups: dict[Hashable, list[Finding]] = {}
    for each in found:
        groups.setdefault(kind(each), []).append(each)
    return list(groups.values())


def _with_rest(table: Table, rows: Sequence[Any]) -> Table:
    """Return the table with a last row that counts the omitted ones."""
    if len(rows) > MAX_LINES:
        table.add_row(f"and {len(rows) - MAX_LINES} more")
    return table
