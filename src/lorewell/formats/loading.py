"""Opens book files: native books unchanged, any other by import."""

from __future__ import annotations

import os
from pathlib import Path

from lorewell.engine.native.compile import compile_book
from lorewell.engine.native.compiled import CompiledBook
from lorewell.engine.steps import Steps
from lorewell.engine.tokens import TokenCounter
from lorewell.errors import (
    ImportInvalidError,
    InvalidDependencyError,
    InvalidInputError,
    MalformedJsonError,
    TooExpensiveError,
)
from lorewell.formats.decode import decode_text
from lorewell.formats.faults import naming
from lorewell.formats.files import parse_file, read_bytes
from lorewell.formats.foreign import import_file
from lorewell.formats.imported import ImportedBook, imported
from lorewell.formats.native import FORMAT, is_native, read_native
from lorewell.formats.notes import ImportNotes


def load_book(
    path: str | os.PathLike[str],
    *,
    book_id: str | None = None,
    revision: int = 1,
    counter: TokenCounter | None = None,
    steps: Steps | None = None,
) -> CompiledBook:
    """Return the book in a file, compiled and ready for selection.

    A native book is read unchanged, and refused if anything in it is invalid. Any other file is
    read as `import_file` does, without its report; `open_book` returns it.

    Args:
        path: the file; at most 16 MiB.
        book_id: a UUID; by default derived from the content.
        revision: 1 or more.
        counter: counts tokens; by default in `cl100k_base`.
        steps: the work budget, as for `import_file`.

    Raises:
        FileTooLargeError: the file is larger than 16 MiB.
        ImportInvalidError: the file is empty, a web page, truncated, damaged, of an unsupported
            kind, or holds no book; `details` hold the file's name as `file`.
        ValidationFailedError: the book breaks its schema; `faults` list the places. Also if
            `book_id` is not a UUID or `revision` is below 1.
        InvalidDependencyError: `requires` names a missing entry or the entry itself, or forms a
            cycle.
        TooExpensiveError: reading the file exceeds the work budget.
        OSError: the file can't be read.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "harbour.json")
    ...     _ = file.write_text('{"name": "Harbour", "entries": [{"content": "A lamp."}]}')
    ...     book = load_book(file)
    >>> book.name, book.entry_count
    ('Harbour', 1)
    """
    found = open_book(path, steps=steps)
    name = Path(path).name
    if not found.holds_book:
        raise ImportInvalidError(f"{name} is a card without a lorebook.", file=name)
    try:
        return compile_book(found.book, book_id=book_id, revision=revision, counter=counter)
    except InvalidDependencyError as error:
        raise naming(error, f"{name} has entries with invalid requires", file=name) from error


def open_book(path: str | os.PathLike[str], *, steps: Steps | None = None) -> ImportedBook:
    """Return the book in a file, with its import report.

    Raises:
        FileTooLargeError, ImportInvalidError, ValidationFailedError, TooExpensiveError, OSError:
            as `load_book`.
    """
    return open_bytes(read_bytes(path), name=Path(path).name, steps=steps)


def open_bytes(data: bytes, *, name: str, steps: Steps | None = None) -> ImportedBook:
    """Return the book in the bytes of a file, as `open_book` does.

    Args:
        data: the whole file, at most 16 MiB.
        name: the file's name.
        steps: the work budget, as for `import_file`.

    Raises:
        ImportInvalidError, ValidationFailedError, TooExpensiveError: as `load_book`.
    """
    notes = ImportNotes(steps)
    try:
        document = parse_file(data, notes.steps)
    except MalformedJsonError as error:
        if _is_broken_native(data, notes.steps):
            raise ImportInvalidError(f"{name} can't be read: {error}", file=name) from error
        return import_file(data, name=name, steps=notes.steps)
    except InvalidInputError as error:
        raise naming(error, f"{name} can't be read", file=name) from error
    if not is_native(document):
        return import_file(data, name=name, steps=notes.steps)
    return imported(
        read_native(document, file_name=name, steps=notes.steps),
        format_word=FORMAT,
        notes=notes,
        data=data,
        file_name=name,
    )


def _is_broken_native(data: bytes, steps: Steps) -> bool:
    """Return whether a file with invalid JSON would be a native book after repairs.

    Foreign files are repaired; in a native book that would hide a mistake of its author.
    """
    try:
        return is_native(decode_text(data, ImportNotes(steps)).value)
    except TooExpensiveError:
        raise
    except InvalidInputError:
        return False
