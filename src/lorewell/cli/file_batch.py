"""Commands on many files: finds them, processes one after the other, and prints one table.

A file's content is dropped before the next file is opened; only its row is kept.
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
NO_BOOK = "no_book"  # also the code of the warning
FAILED = "failed"
_MAX_BAR_NAME_CHARS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """One file's row of the table.

    Attributes:
        file: its path.
        outcome: `ok`, `failed`, … in one word.
        format: the format of the import report; empty for a file that could not be read.
        figures: a number for each of the table's columns; empty for a file that could not be read.
        output: the file that was written, with a note where its name is not the default one.
        why: the code and the sentence of the failure.
        exit_code: the exit code that this file alone would give.
    """

    file: Path
    outcome: str = "ok"
    format: str = ""
    figures: tuple[int, ...] = ()
    output: str = ""
    why: str = ""
    exit_code: int = 0


def is_batch(paths: Sequence[Path]) -> bool:
    """Return whether the paths are several, or a folder, rather than one file."""
    return len(paths) != 1 or paths[0].is_dir()


def find_files(paths: Iterable[Path], *, without: Path | None = None) -> list[Path]:
    """Return the given files, and the files in the given folders.

    Folders are walked recursively, in the order of names. Hidden files (`.name`), links and
    devices inside them are skipped; a given path is always taken. A folder that can't be listed
    is returned itself, so that reading it reports the error.

    Args:
        paths: files and folders.
        without: a folder to skip, such as the output folder.
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
    """Return the row of a file that could be read."""
    figures = (
        report.entry_count,
        report.enabled_count,
        report.runtime_blocked_count,
        len(report.warnings),
    )
    outcome = "ok" if holds_book else NO_BOOK
    return FileRow(file=file, outcome=outcome, format=report.format, figures=figures)


def error_row(file: Path, error: LorewellError | OSError) -> FileRow:
    """Return the row of a file that could not be read."""
    name = storable(file.name)
    message = str(error_members(error)["message"]).removeprefix(f"{name} can't be imported: ")
    message = message.removeprefix(f"{name} ")
    code = code_of(error)
    why = f"{code}: {message}" if code is not None else f"can't be read: {message}"
    return FileRow(file=file, outcome=FAILED, why=why, exit_code=exit_code(error))


def process_files(
    files: Sequence[Path], process: Callable[[Path], FileRow], *, as_json: bool
) -> list[FileRow]:
    """Process the files in order and return their rows; show a progress bar on stderr.

    Args:
        files: all files.
        process: reads one file, prints its JSON if requested, and returns its row.
        as_json: whether `process` prints. If stdout is a terminal, there is no bar then.
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
        redirect_stdout=False,  # the JSON of the files is printed beside the bar
        redirect_stderr=False,
        disable=hidden,
    )
    rows: list[FileRow] = []
    with bar:
        task = bar.add_task("", total=len(files), file="")
        for file in files:
            bar.update(task, file=plain(file.name)[:_MAX_BAR_NAME_CHARS])
            rows.append(process(file))
            bar.advance(task)
    return rows


def print_json_line(file: Path, members: bytes) -> None:
    """Print one line of JSON about a file.

    Args:
        file: its path.
        members: a JSON object with all other members.
    """
    named = orjson.dumps({"file": storable(str(file))})
    print_json(named[:-1] + b"," + members[1:])


def print_json_error(file: Path, error: LorewellError | OSError) -> None:
    """Print one line of JSON about a file that could not be read or written."""
    print_json_line(file, orjson.dumps({"error": error_members(error)}))


def batch_exit_code(rows: Iterable[FileRow]) -> int:
    """Return the exit code of a batch: that of the first file that failed, else 0."""
    return next((row.exit_code for row in rows if row.exit_code), 0)


def print_summary(
    rows: Sequence[FileRow],
    figures: Sequence[str],
    *,
    root: Path | None = None,
    with_output: bool = False,
) -> None:
    """Print the table of all files, and below it a line for each failure.

    Args:
        rows: in order.
        figures: the column names of the rows' figures.
        root: the folder that holds all files; their names are relative to it.
        with_output: whether to add a column with the written files.
    """
    if not rows:
        say("No files found.")
        return
    print_parts(_summary(rows, figures, root, with_output=with_output))
    for row in rows:
        if row.why:
            say(f"{_display_name(row, root)}: {row.why}")


def _summary(
    rows: Sequence[FileRow], figures: Sequence[str], root: Path | None, *, with_output: bool
) -> Table:
    table = new_table("Files")
    table.padding = 0  # leaves room for two texts and many numbers in a line
    table.show_footer = True
    outcomes = Counter(row.outcome for row in rows).most_common()
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes)
    table.add_column("File", f"{len(rows)} files: {counts}", overflow="fold", ratio=1)
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
        table.add_row(Text(_display_name(row, root)), Text(row.format), *numbers, outcome, *output)
    return table


def _display_name(row: FileRow, root: Path | None) -> str:
    return plain(str(row.file if root is None else row.file.relative_to(root)))
