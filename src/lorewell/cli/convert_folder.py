"""`lorewell convert` on a folder: one output file for each book, in the same subfolders.

An output file is named after its input file, never after anything inside it.
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
    batch_exit_code,
    error_row,
    find_files,
    print_json_error,
    print_json_line,
    print_summary,
    process_files,
)
from lorewell.cli.output_files import encode_export
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
    """Convert every book of a folder, report each file, and return the exit code.

    Args:
        source: the folder to read, with its subfolders.
        output: the folder to write to. Inside `source` it is not read.
        target: the format to write.
        replace: whether existing files are replaced; else they are kept, which counts as a failure.
        as_json: whether to print a line of JSON per file instead of the table.

    Raises:
        ValidationFailedError: `output` is a symbolic link, or `source` or a folder above it.
    """
    if output.is_symlink():
        raise ValidationFailedError(
            "OUT must not be a symbolic link; give the folder that it points to."
        )
    here, there = source.resolve(), output.resolve()
    if here.is_relative_to(there):
        raise ValidationFailedError("OUT must be neither IN nor a folder above it.")
    conversion = _Conversion(source, output, target, replace=replace, as_json=as_json)
    rows = process_files(find_files([source], without=there), conversion, as_json=as_json)
    if not as_json:
        print_summary(rows, _FIGURES, root=source, with_output=True)
    return batch_exit_code(rows)


class _Conversion:
    """Converts one file after the other, and keeps the names of their outputs apart."""

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
            return self._failed(error_row(file, error), error)
        if found.holds_book:
            return self._convert(file, found)
        if self._as_json:
            print_json_line(file, orjson.dumps({"outcome": NO_BOOK, "output": None}))
        return FileRow(file=file, outcome=NO_BOOK, format=found.report.format, figures=(0, 0))

    def _convert(self, file: Path, found: ImportedBook) -> FileRow:
        exported = export_book(found.book, self._target)
        default_name, path = self._output_path(file)
        outcome = self._outcome(path)
        if outcome != _KEPT:
            try:
                name = path.relative_to(self._output)
                write_below(self._output, name, encode_export(exported), replace=self._replace)
            except OSError as error:
                why = f"{path} can't be written: {error.strerror}"
                row = FileRow(file=file, outcome=FAILED, why=why, exit_code=exit_code(error))
                return self._failed(row, error)
        if self._as_json:
            members = {
                "outcome": outcome,
                "output": storable(str(path)),
                "format": self._target,
                "losses": [loss.model_dump() for loss in exported.losses],
            }
            print_json_line(file, orjson.dumps(members))
        shown = str(path.relative_to(self._output))
        is_kept = outcome == _KEPT
        return FileRow(
            file=file,
            outcome=outcome,
            format=found.report.format,
            figures=(len(found.book.entries), len(exported.losses)),
            output=shown if path.name == default_name else f"{shown} ({default_name} was taken)",
            why=f"{path} exists; pass --replace to overwrite it." if is_kept else "",
            exit_code=exit_code(ConflictError("")) if is_kept else 0,
        )

    def _failed(self, row: FileRow, error: LorewellError | OSError) -> FileRow:
        if self._as_json:
            print_json_error(row.file, error)
        return row

    def _output_path(self, file: Path) -> tuple[str, Path]:
        """Return the default name of a file's output, and its path, numbered if that is taken."""
        folder = self._output / file.relative_to(self._source).parent
        default_name = f"{file.stem}.json"
        path, number = folder / default_name, 1
        while _comparable(path) in self._taken:
            number += 1
            path = folder / f"{file.stem}-{number}.json"
        self._taken.add(_comparable(path))
        return default_name, path

    def _outcome(self, path: Path) -> str:
        """Return the outcome of writing to a path: `written`, `replaced` or `kept`."""
        if not os.path.lexists(path):
            return "written"
        return "replaced" if self._replace else _KEPT


def _comparable(path: Path) -> str:
    """Return the key of a path on a file system that ignores case and Unicode normal forms."""
    return unicodedata.normalize("NFC", str(path)).casefold()
