"""`lorewell import` and `lorewell inspect`: one file in full or in short, or many in a table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from lorewell.cli.book_contents import import_json
from lorewell.cli.failures import exit_code
from lorewell.cli.file_batch import (
    READ_FIGURES,
    FileRow,
    answer_each,
    ending,
    failed_row,
    gather,
    is_many,
    print_failure,
    print_line,
    print_summary,
    report_row,
)
from lorewell.cli.import_tables import report_tables
from lorewell.cli.inspections import inspection_json, inspection_text
from lorewell.cli.printing import print_json, print_parts
from lorewell.errors import LorewellError
from lorewell.formats import open_book
from lorewell.formats.inspection import inspect_file


def import_command(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Lorebooks, cards with one, folders of them."),
    ],
    *,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print book and report as JSON; of many files, a line each."),
    ] = False,
) -> None:
    """Read lorebooks and cards of other programs, and report what becomes of them; store nothing.

    One file is reported in full, several files or a folder in one table.
    """
    if is_many(paths):
        _read_many(paths, _import_row, as_json=as_json)
    found = open_book(paths[0])
    if as_json:
        print_json(import_json(found))
    else:
        print_parts(*report_tables(found))


def inspect_command(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Any files, or folders of them.")
    ],
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON; of many files, a line each.")
    ] = False,
) -> None:
    """Say in short what is in a file, whatever it is; of several files or a folder in one table."""
    if is_many(paths):
        _read_many(paths, _inspect_row, as_json=as_json)
    path = paths[0]
    seen = inspect_file(path)
    if as_json:
        print_line(path, inspection_json(seen))
    else:
        print_parts(inspection_text(seen))
    if isinstance(seen.opened, LorewellError):
        raise typer.Exit(exit_code(seen.opened))


def _read_many(paths: list[Path], read: Callable[..., FileRow], *, as_json: bool) -> NoReturn:
    """Answer for many files, and end the program."""
    rows = answer_each(gather(paths), partial(read, as_json=as_json), as_json=as_json)
    if not as_json:
        root = paths[0] if len(paths) == 1 else None
        print_summary(rows, READ_FIGURES, root=root)
    raise typer.Exit(ending(rows))


def _import_row(file: Path, *, as_json: bool) -> FileRow:
    try:
        found = open_book(file)
    except (LorewellError, OSError) as error:
        if as_json:
            print_failure(file, error)
        return failed_row(file, error)
    if as_json:
        print_line(file, import_json(found).encode())
    return report_row(file, found.report, holds_book=found.holds_book)


def _inspect_row(file: Path, *, as_json: bool) -> FileRow:
    try:
        seen = inspect_file(file)
    except OSError as error:
        if as_json:
            print_failure(file, error)
        return failed_row(file, error)
    if as_json:
        print_line(file, inspection_json(seen))
    if isinstance(seen.opened, LorewellError):
        return failed_row(file, seen.opened)
    return report_row(file, seen.opened.report, holds_book=seen.opened.holds_book)
