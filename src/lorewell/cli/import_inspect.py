"""`lorewell import` and `lorewell inspect`: one file in detail, or many in a table."""

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
    batch_exit_code,
    error_row,
    find_files,
    is_batch,
    print_json_error,
    print_json_line,
    print_summary,
    process_files,
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
        typer.Argument(
            metavar="PATH...", help="Lorebooks, cards that hold one, or folders of them."
        ),
    ],
    *,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print book and report as JSON; one line per file if there are several."
        ),
    ] = False,
) -> None:
    """Read lorebooks and cards of any supported format and report the result; store nothing.

    One file gets a full report; several files or a folder get one table.
    """
    if is_batch(paths):
        _report_files(paths, _import_row, as_json=as_json)
    found = open_book(paths[0])
    if as_json:
        print_json(import_json(found))
    else:
        print_parts(*report_tables(found))


def inspect_command(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Files of any kind, or folders of them.")
    ],
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON; one line per file if there are several.")
    ] = False,
) -> None:
    """Summarize files of any kind; several files or a folder get one table."""
    if is_batch(paths):
        _report_files(paths, _inspect_row, as_json=as_json)
    path = paths[0]
    seen = inspect_file(path)
    if as_json:
        print_json_line(path, inspection_json(seen))
    else:
        print_parts(inspection_text(seen))
    if isinstance(seen.opened, LorewellError):
        raise typer.Exit(exit_code(seen.opened))


def _report_files(paths: list[Path], read: Callable[..., FileRow], *, as_json: bool) -> NoReturn:
    """Report many files, and exit."""
    rows = process_files(find_files(paths), partial(read, as_json=as_json), as_json=as_json)
    if not as_json:
        root = paths[0] if len(paths) == 1 else None
        print_summary(rows, READ_FIGURES, root=root)
    raise typer.Exit(batch_exit_code(rows))


def _import_row(file: Path, *, as_json: bool) -> FileRow:
    try:
        found = open_book(file)
    except (LorewellError, OSError) as error:
        if as_json:
            print_json_error(file, error)
        return error_row(file, error)
    if as_json:
        print_json_line(file, import_json(found).encode())
    return report_row(file, found.report, holds_book=found.holds_book)


def _inspect_row(file: Path, *, as_json: bool) -> FileRow:
    try:
        seen = inspect_file(file)
    except OSError as error:
        if as_json:
            print_json_error(file, error)
        return error_row(file, error)
    if as_json:
        print_json_line(file, inspection_json(seen))
    if isinstance(seen.opened, LorewellError):
        return error_row(file, seen.opened)
    return report_row(file, seen.opened.report, holds_book=seen.opened.holds_book)
