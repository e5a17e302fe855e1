"""Imports files of any known format, by the rules of that format."""

from __future__ import annotations

from collections.abc import Callable

from lorewell.engine.steps import Steps
from lorewell.errors import InvalidInputError
from lorewell.formats.build import build_book
from lorewell.formats.decode import decode
from lorewell.formats.faults import naming
from lorewell.formats.files import check_size
from lorewell.formats.imported import ImportedBook, imported
from lorewell.formats.json_text import storable
from lorewell.formats.lorebook import Lorebook
from lorewell.formats.losses import holds_nothing
from lorewell.formats.notes import ImportNotes
from lorewell.formats.registry import read_lorebook
from lorewell.formats.replica_entries import read_worldbook
from lorewell.model.text import short_pointer

_MARKS = frozenset(["spec", "spec_version"])  # not losses: the entries' `source.format` keeps them


def import_file(data: bytes, *, name: str, steps: Steps | None = None) -> ImportedBook:
    """Return the lorebook in a file, with a report of warnings, losses and blocked entries.

    Reads SillyTavern's world info, bare `character_book`s, `lorebook_v3`, character cards V1 to V3
    as JSON, PNG, WebP and charx, also behind a JPEG, and the books of other programs. The content
    alone decides on the format; only YAML is recognized by the ending of the name. Nothing is
    fetched, run, opened or written. A native book is read by foreign rules here and loses the
    fields that they lack (warning `looks_native`); `load_book` reads it unchanged.

    Args:
        data: the whole file, at most 16 MiB.
        name: the file's name, for the report. It is also the name of a book without one, and with
            the ending .yaml or .yml the text may be YAML.
        steps: the work budget, which several files may share; by default 10,000,000 steps, four
            times the work of a real file of 16 MiB.

    Raises:
        FileTooLargeError: the file is larger than 16 MiB.
        TooExpensiveError: the file exceeds the work budget; `details` hold the kind of work.
        ImportInvalidError: the file is empty, a web page, damaged, of an unsupported kind, or
            holds no book; `details` hold the file's name as `file`.
        UnsupportedMediaTypeError: the kind of the file is unknown (also an ImportInvalidError).
        ValidationFailedError: the book breaks a limit; `faults` are pointers into the file.

    Source: docs/rules/native.md §11.

    >>> world = b'{"entries": {"7": {"uid": 7, "key": ["lamp"], "content": "A lamp."}}}'
    >>> found = import_file(world, name="harbour.json")
    >>> found.book.name, found.book.entries[0].keys, found.report.format
    ('harbour', ('lamp',), 'st_world')
    """
    return _import_by(read_lorebook, data, storable(name), steps)


def import_worldbook(
    data: bytes, *, name: str, new_id: Callable[[], str], steps: Steps | None = None
) -> ImportedBook:
    """Return the lorebook in a file, read as SillyTavern_replica reads its two forms.

    Args:
        data: the whole file, at most 16 MiB.
        name: the file's name.
        new_id: returns a new uid for an entry of the internal form without one.
        steps: as for `import_file`.

    Raises:
        FileTooLargeError, ImportInvalidError, UnsupportedMediaTypeError, ValidationFailedError,
            TooExpensiveError: as `import_file`.
    """

    def read(document: object, notes: ImportNotes) -> Lorebook:
        return read_worldbook(document, notes, new_id)

    return _import_by(read, data, storable(name), steps)


def _import_by(
    read: Callable[[object, ImportNotes], Lorebook],
    data: bytes,
    file_name: str,
    steps: Steps | None,
) -> ImportedBook:
    check_size(data, file_name)
    try:
        return _import(read, data, file_name, ImportNotes(steps))
    except InvalidInputError as error:
        raise naming(error, f"{file_name} can't be imported", file=file_name) from error


def _import(
    read: Callable[[object, ImportNotes], Lorebook], data: bytes, file_name: str, notes: ImportNotes
) -> ImportedBook:
    decoded = decode(data, name=file_name, notes=notes)
    lorebook = read(decoded.document.value, notes)
    _note_others(decoded.document.value, lorebook.at, notes)
    book = build_book(lorebook, file_name=file_name, depth=decoded.document.nesting, notes=notes)
    return imported(
        book,
        format_word=decoded.container or lorebook.format,
        notes=notes,
        data=data,
        file_name=file_name,
    )


def _note_others(document: object, steps: tuple[str, ...], notes: ImportNotes) -> None:
    """Note the values outside of the lorebook, which are not imported."""
    for at, step in enumerate(steps):
        if not isinstance(document, dict):
            return
        for name, value in document.items():
            notes.steps.spend("members")
            if name != step and name not in _MARKS and not holds_nothing(value):
                notes.lose(value, "not_taken", short_pointer(*steps[:at], name))
        document = document.get(step)
