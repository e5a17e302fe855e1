"""Books in our own format: a JSON file that holds a BookCreate (spec/native.md §3.1)."""

from __future__ import annotations

import os
from pathlib import Path

from lorewell.engine.compile import compile_book
from lorewell.engine.compiled import CompiledBook
from lorewell.engine.tokens import TokenCounter
from lorewell.errors import ImportInvalidError, InvalidDependencyError, ValidationFailedError
from lorewell.formats.faults import naming
from lorewell.formats.files import load_json
from lorewell.model import BookCreate
from lorewell.model.parse import parse_model


def load_book(
    path: str | os.PathLike[str],
    *,
    book_id: str | None = None,
    revision: int = 1,
    counter: TokenCounter | None = None,
) -> CompiledBook:
    """Return the book in a native JSON file, compiled and ready for selection.

    Args:
        path: the file; at most 16 MiB of UTF-8, with or without a byte order mark.
        book_id: a UUID; without it one is derived from the content.
        revision: 1 or more.
        counter: counts tokens; `cl100k_base` if not given.

    Raises:
        FileTooLargeError: the file is larger than 16 MiB.
        ImportInvalidError: the file is empty, a web page, cut off, otherwise no JSON, or its JSON
            is no object; `details` hold the file's name as `file`.
        ValidationFailedError: the book breaks its schema; `faults` name every place. Also when
            `book_id` is no UUID or `revision` is below 1.
        InvalidDependencyError: `requires` names a missing entry or the entry itself, or closes a
            circle.
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
    document = load_json(path)
    name = Path(path).name
    if not isinstance(document, dict):
        raise ImportInvalidError(f"{name} holds no book: a book is a JSON object.", file=name)
    try:
        book = parse_model(BookCreate, document)
    except ValidationFailedError as error:
        raise naming(error, f"{name} is no valid book", file=name) from error
    try:
        return compile_book(book, book_id=book_id, revision=revision, counter=counter)
    except InvalidDependencyError as error:
        raise naming(error, f"{name} has entries whose requires can't be met", file=name) from error
