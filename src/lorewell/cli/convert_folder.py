"""`lorewell convert` on a folder: one file for each book, beside one another as they were.

What is written is named after the file that it comes from, never after anything inside of it.
"""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import orjson

from lorewell.cli.failures import exit_code
from lorewell.cli.file_batch import (
    FAILED,
    NO_BOOK,
    FileRow,
    answer_each,
    ending,
    failed_row,
    gather,
    print_failure,
    print_line,
    print_summary,
)
from lorewell.cli.output_files import dumped
from lorewell.errors import ConflictError, LorewellError, ValidationFailedError
from lorewell.formats import ImportedBook, open_book
from lorewell.formats.export import export_book
from lorewell.formats.json_text import storable
from lorewell.formats.writing import write_below
from lorewell.model.imports import ExportFormat

_FIGURES = ("Entries", "Losses")
_KEPT = "kept"


def convert_folder(
    source: Path, output: Path, target: ExportFormat, *, replace: bool, as_json: bool
) -> int:
    """Write every book of a folder in a format, tell what became of each file, and return the code.

    Args:
        source: the folder that is read, with all that is below it.
        output: the folder that is written to; it may be inside the other one, and is not read then.
        target: the format.
        replace: whether files that are there are replaced; else they are kept, which is a failure.
        as_json: whether to print a line of JSON for each file in place of the table.

    Raises:
        ValidationFailedError: the folder to be written to is the other one, or holds it, or is a
            symbolic link.
    """
    if output.is_symlink():
        raise ValidationFailedError(
            "OUT must not be a symbolic link; give the folder that it leads to."
        )
    here, there = source.resolve(), output.resolve()
    if here.is_relative_to(there):
        raise ValidationFailedError("OUT must not be the folder that is read, nor hold it.")
    conversion = _Conversion(source, output, target, replace=replace, as_json=as_json)
    rows = answer_each(gather([source], without=there), conversion, as_json=as_json)
    if not as_json:
        print_summary(rows, _FIGURES, root=source, with_output=True)
    return ending(rows)


class _Conversion:
    """Converts one file after the other; remembers the names that it gave."""

    def __init__(
        self, source: Path, output: Path, target: ExportFormat, *, replace: bool, as_json: bool
    ) -> None:
        self._source = source
        self._output = output
        self._target = target
        self._replace = replace
        self._as_json = as_json
        self._taken: set[str] = set()

    def __call__(self, file: Path) -> FileRow:
        try:
            found = open_book(file)
        except (LorewellError, OSError) as error:
            return self._failed(failed_row(file, error), error)
        if found.holds_book:
            return self._convert(file, found)
        if self._as_json:
            print_line(file, orjson.dumps({"outcome": NO_BOOK, "output": None}))
        return FileRow(file=file, outcome=NO_BOOK, format=found.report.format, figures=(0, 0))

    def _convert(self, file: Path, found: ImportedBook) -> FileRow:
        exported = export_book(found.book, self._target)
        wanted, path = self._place(file)
        outcome = self._outcome(path)
        if outcome != _KEPT:
            try:
                name = path.relative_to(self._output)
                write_below(self._output, name, dumped(exported), replace=self._replace)
            except OSError as error:
                why = f"{path} can't be written: {error.strerror}"
                row = FileRow(file=file, outcome=FAILED, why=why, exit_code=exit_code(error))
                return self._failed(row, error)
        if self._as_json:
            about = {
                "outcome": outcome,
                "output": storable(str(path)),
                "format": self._target,
                "losses": [loss.model_dump() for loss in exported.losses],
            }
            print_line(file, orjson.dumps(about))
        shown = str(path.relative_to(self._output))
        is_kept = outcome == _KEPT
        return FileRow(
            file=file,
            outcome=outcome,
            format=found.report.format,
            figures=(len(found.book.entries), len(exported.losses)),
            output=shown if path.name == wanted else f"{shown} ({wanted} was taken)",
            why=f"{path} is there already; --replace replaces it." if is_kept else "",
            exit_code=exit_code(ConflictError("")) if is_kept else 0,
        )

    def _failed(self, row: FileRow, error: LorewellError | OSError) -> FileRow:
        if self._as_json:
            print_failure(row.file, error)
        return row

    def _place(self, file: Path) -> tuple[str, Path]:
        """Return the name that a file's book would have, and where it goes: two may want one."""
        folder = self._output / file.relative_to(self._source).parent
        wanted = f"{file.stem}.json"
        path, number = folder / wanted, 1
        while _compared(path) in self._taken:
            number += 1
            path = folder / f"{file.stem}-{number}.json"
        self._taken.add(_compared(path))
        return wanted, path

    def _outcome(self, path: Path) -> str:
        """Return what will become of a place."""
        if not os.path.lexists(path):
            return "written"
        return "replaced" if self._replace else _KEPT


def _compared(path: Path) -> str:
    """Return a path as file systems compare it that mind neither case nor accents' form."""
    return unicodedata.normalize("NFC", str(path)).casefold()
