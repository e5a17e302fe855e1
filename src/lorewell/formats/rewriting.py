"""Writes a changed book back into the file that it came from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from lorewell.errors import ImportInvalidError
from lorewell.formats.decode import decode
from lorewell.formats.detect import FileKind
from lorewell.formats.export import export_book, put_into_card
from lorewell.formats.imported import ImportedBook
from lorewell.formats.native import FORMAT as NATIVE
from lorewell.formats.notes import ImportNotes
from lorewell.model import BookCreate, Entry
from lorewell.model.imports import ExportFormat

# Formats whose files can be written again, and the formats of their exports.
_SAME: Final[Mapping[str, ExportFormat]] = {
    FileKind.ST_WORLD: "st_world",
    FileKind.CHARACTER_BOOK: "character_book",
    FileKind.LOREBOOK_V3: "lorebook_v3",
    FileKind.REPLICA: "replica",
}


def rewrite(found: ImportedBook, changed: BookCreate, data: bytes) -> bytes:
    """Return a file with some fields of its entries changed; everything else stays.

    Members keep their order. A card, JSON or PNG, keeps everything but its lorebook.

    Args:
        found: the book as it was read.
        changed: the book with the same entries, of which some fields differ.
        data: the file.

    Raises:
        ImportInvalidError: files of this format can't be written; `convert` makes one that can.
    """
    word = found.report.format
    name = found.report.source_file.name
    if word.startswith("card_"):
        written = put_into_card(changed, data)
        if not written.startswith(b"{"):  # a picture
            return written
        document = json.loads(written)
    elif word in _SAME:
        document = export_book(changed, _SAME[word]).document
    elif word == NATIVE:
        document = _native(found.book, changed, data)
    else:
        raise ImportInvalidError(
            f"{name} has the format {word}, which can't be written; convert the book first.",
            file=name,
        )
    ordered = _in_order_of(_document(data), document)
    return (json.dumps(ordered, ensure_ascii=False, indent=2) + "\n").encode()


def _document(data: bytes) -> Any:  # noqa: ANN401  JSON
    return decode(data, name="book.json", notes=ImportNotes()).document.value


def _in_order_of(original: object, changed: object) -> object:
    """Return a JSON value with the members of its objects in the order of the original."""
    match original, changed:
        case dict(), dict():
            names = [name for name in original if name in changed]
            names += [name for name in changed if name not in original]
            return {name: _in_order_of(original.get(name), changed[name]) for name in names}
        case list(), list():
            rest = changed[len(original) :]
            return [*map(_in_order_of, original, changed), *rest]
        case _:
            return changed


def _native(book: BookCreate, changed: BookCreate, data: bytes) -> Any:  # noqa: ANN401  JSON
    document = _document(data)
    for raw, before, after in zip(document["entries"], book.entries, changed.entries, strict=True):
        for name in Entry.model_fields:
            value = getattr(after, name)
            if value != getattr(before, name):
                raw[name] = after.model_dump(mode="json", include={name})[name]
    return document
