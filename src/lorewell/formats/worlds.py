"""Opens files for the policy `sillytavern`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from lorewell.engine.sillytavern.sources import Attached
from lorewell.engine.sillytavern.world import compile_stored, compile_world, world_entries
from lorewell.engine.steps import Steps
from lorewell.errors import ImportInvalidError, MalformedJsonError
from lorewell.formats.detect import FileKind, find_kind
from lorewell.formats.files import MAX_FILE_BYTES, parse_file, read_bytes
from lorewell.formats.json_text import storable
from lorewell.formats.loading import open_bytes
from lorewell.formats.native import is_native
from lorewell.formats.notes import MAX_IMPORT_STEPS
from lorewell.model.activate import BookSource
from lorewell.model.text import check_object


def load_world(
    path: str | os.PathLike[str],
    *,
    source: BookSource = "global",
    name: str | None = None,
    steps: Steps | None = None,
) -> Attached:
    """Return the book in a file, ready for `activate`.

    Entries of valid world info are used unchanged, so that they have the hashes by which
    SillyTavern's timed effects identify them. Any other file, and world info that needs repairs,
    is read as `load_book` does, without its report.

    Args:
        path: the file; at most 16 MiB.
        source: what the book is bound to.
        name: the book's name in SillyTavern. By default, world info is named after its file, as in
            SillyTavern, and any other book has its own name.
        steps: the work budget, as for `import_file`.

    Raises:
        FileTooLargeError: the file is larger than 16 MiB.
        ImportInvalidError: the file is empty, a web page, truncated, damaged, of an unsupported
            kind, or holds no book; `details` hold the file's name as `file`.
        ValidationFailedError: the book breaks its schema; `faults` list the places.
        TooExpensiveError: reading the file exceeds the work budget.
        OSError: the file can't be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "雾隐渡.json")
    ...     _ = file.write_text('{"entries": {"4": {"uid": 4, "content": "A lamp."}}}')
    ...     book = load_world(file, source="chat")
    >>> book.source, book.world.name, book.world.entries[0].id
    ('chat', '雾隐渡', '雾隐渡.4')
    """
    data, file_name = read_bytes(path), Path(path).name
    steps = Steps(MAX_IMPORT_STEPS) if steps is None else steps
    entries = _raw_entries(data, steps)
    if entries is not None:
        book_name = storable(Path(path).stem) if name is None else name
        return Attached(source, compile_world(book_name, world_entries(entries)))
    found = open_bytes(data, name=file_name, steps=steps)
    if not found.holds_book:
        raise ImportInvalidError(f"{file_name} is a card without a lorebook.", file=file_name)
    return Attached(source, compile_stored(found.book, name=name))


def _raw_entries(data: bytes, steps: Steps) -> Mapping[str, Mapping[str, Any]] | None:
    """Return the entries of valid world info; None for any other file."""
    try:
        document = parse_file(data, steps)
    except MalformedJsonError:
        return None
    if find_kind(document) is not FileKind.ST_WORLD or is_native(document):
        return None
    entries = document["entries"]
    if not isinstance(entries, dict) or not all(isinstance(e, dict) for e in entries.values()):
        return None
    try:
        spend = partial(steps.spend, "values")
        check_object(entries, kib=2 * MAX_FILE_BYTES // 1024, spend=spend)
    except ValueError:  # text that can't be stored; an import repairs it
        return None
    return entries
