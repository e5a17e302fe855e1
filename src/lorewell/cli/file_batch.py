"""Many files in one command: found, read one after the other, and told in one table.

What was read of a file is dropped before the next one is opened; only a row of it is kept.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from lorewell.cli.failures import code_of, error_members, exit_code
from lorewell.cli.printing import new_console, print_json, print_parts, say
from lorewell.cli.tables import new_table
from lorewell.errors import LorewellError
from lorewell.formats.json_text import storable
from lorewell.model.imports import ImportReport
from lorewell.model.plain import plain

READ_FIGURES = ("Entries", "Enabled", "Blocked", "Warnings")
NO_BOOK = "no_book"  # as the warning that says it
FAILED = "failed"
_MAX_BAR_NAME_CHARS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """What is kept of one file among many.

    Attributes:
        file: its path.
        outcome: one short word.
        format: the report's word; empty where nothing was read.
        figures: a number for each of the table's columns; none where nothing was read.
        output: the file that was written from it, and what there is to say about its name.
        why: why it failed: code and sentence.
        exit_code: what the program would have ended with for this file alone.
    """

    file: Path
    outcome: str = "ok"
    format: str = ""
    figures: tuple[int, ...] = ()
    output: str = ""
    why: str = ""
    exit_code: int = 0


def is_many(paths: Sequence[Path]) -> bool:
    """Return whether these are several files, or a folder, and not just one file."""
    return len(paths) != 1 or paths[0].is_dir()


def gather(paths: Iterable[Path], *, without: Path | None = None) -> list[Path]:
    """Return the files that are named and those in the folders that are named.

    Folders are walked to the ground, in the order of names; what is hidden (`.name`), and links
    and devices in them, are passed over. What is named is taken in any case. A folder that can't
    be listed stands in the place of its files, so that reading it says why.

    Args:
        paths: files and folders.
        without: a folder that is passed over, such as the one that is written to.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            _walk(path, found, without)
        else:
            found.append(path)
    return found


def _walk(top: Path, found: list[Path], without: Path | None) -> None:
    folders = [top]
    while folders:
        folder = folders.pop()
        if without is not None and folder.resolve() == without:
            continue
        try:
            with os.scandir(folder) as listed:
                entries = sorted(
                    (entry for entry in listed if not entry.name.startswith(".")),
                    key=lambda entry: entry.name,
                )
        except OSError:
            found.append(folder)
            continue
        found.extend(folder / each.name for each in entries if each.is_file(follow_symlinks=False))
        below = [folder / each.name for each in entries if each.is_dir(follow_symlinks=False)]
        folders.extend(reversed(below))


def report_row(file: Path, report: ImportReport, *, holds_book: bool) -> FileRow:
    """Return the row of a file that was read."""
    figures = (
        report.entry_count,
        report.enabled_count,
        report.runtime_blocked_count,
        len(report.warnings),
    )
    outcome = "ok" if holds_book else NO_BOOK
    return FileRow(file=file, outcome=outcome, format=report.format, figures=figures)


def failed_row(file: Path, error: LorewellError | OSError) -> FileRow:
    """Return the row of a file that can't be read."""
    name = storable(file.name)
    told = str(error_members(error)["message"]).removeprefix(f"{name} can't be imported: ")
    told = told.removeprefix(f"{name} ")
    code = code_of(error)
    why = f"{code}: {told}" if code is not None else f"can't be read: {told}"
    return FileRow(file=file, outcome=FAILED, why=why, exit_code=exit_code(error))


def answer_each(
    files: Sequence[Path], answer: Callable[[Path], FileRow], *, as_json: bool
) -> list[FileRow]:
    """Return what came of each file, in order, with a bar on stderr while it lasts.

    Args:
        files: all of them.
        answer: reads one, and prints it if that is asked for.
        as_json: whether something is printed for each file. Where that goes to a terminal, there
            is no bar in between.
    """
    console = new_console(stderr=True)
    hidden = not console.is_interactive or (as_json and sys.stdout.isatty())
    bar = Progress(
        TextColumn("Reading"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[file]}", markup=False),
        console=console,
        transient=True,
        redirect_stdout=False,  # what is printed for a file is no part of the bar
        redirect_stderr=False,
        disable=hidden,
    )
    rows: list[FileRow] = []
    with bar:
        task = bar.add_task("", total=len(files), file="")
        for file in files:
            bar.update(task, file=plain(file.name)[:_MAX_BAR_NAME_CHARS])
            rows.append(answer(file))
            bar.advance(task)
    return rows


def print_line(file: Path, members: bytes) -> None:
    """Print one line of JSON about a file.

    Args:
        file: its path.
        members: an object with all other members.
    """
    named = orjson.dumps({"file": storable(str(file))})
    print_json(named[:-1] + b"," + members[1:])


def print_failure(file: Path, error: LorewellError | OSError) -> None:
    """Print one line of JSON about a file that can't be read."""
    print_line(file, orjson.dumps({"error": error_members(error)}))


def ending(rows: Iterable[FileRow]) -> int:
    """Return the exit code for many files: 0, or that of the first one that failed."""
    return next((row.exit_code for row in rows if row.exit_code), 0)


def print_summary(
    rows: Sequence[FileRow],
    figures: Sequence[str],
    *,
    root: Path | None = None,
    with_output: bool = False,
) -> None:
    """Print the one table about all files, and below it a line for each that failed.

    Args:
        rows: in order.
        figures: what the numbers of the rows are.
        root: the folder that all files are in; they are named from there.
        with_output: whether there is a column for what was written.
    """
    if not rows:
        say("There are no files.")
        return
    print_parts(_summary(rows, figures, root, with_output=with_output))
    for row in rows:
        if row.why:
            say(f"{_named(row, root)}: {row.why}")


def _summary(
    rows: Sequence[FileRow], figures: Sequence[str], root: Path | None, *, with_output: bool
) -> Table:
    table = new_table("Files")
    table.padding = 0  # two texts and many numbers share a line
    table.show_footer = True
    outcomes = Counter(row.outcome for row in rows).most_common()
    told = ", ".join(f"{count} {outcome}" for outcome, count in outcomes)
    table.add_column("File", f"{len(rows)} files: {told}", overflow="fold", ratio=1)
    table.add_column("Format", no_wrap=True)
    for at, name in enumerate(figures):
        total = sum(row.figures[at] for row in rows if row.figures)
        table.add_column(name, str(total), justify="right", no_wrap=True)
    table.add_column("Outcome", no_wrap=True)
    if with_output:
        table.add_column("Written to", overflow="fold", ratio=1)
    for row in rows:
        numbers = map(str, row.figures) if row.figures else [""] * len(figures)
        outcome = Text(row.outcome, style="yellow" if row.exit_code else "green")
        output = [Text(plain(row.output))] if with_output else []
        table.add_row(Text(_named(row, root)), Text(row.format), *numbers, outcome, *output)
    return table


def _named(row: FileRow, root: Path | None) -> str:
    return plain(str(row.file if root is None else row.file.relative_to(root)))
