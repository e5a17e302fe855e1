"""Books of cards that stand alone: bare, or wrapped as `lorebook_v3`.

Source: docs/rules/formats.md §2.1, §3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lorewell.errors import Fault, ImportInvalidError
from lorewell.formats.detect import FileKind, type_name
from lorewell.formats.lorebook import Lorebook
from lorewell.formats.notes import ImportNotes

# Names of our own format that no foreign one has; docs/rules/native.md §11.2.
_NATIVE_SIGNS = (
    "audience",
    "conditions",
    "requires",
    "conflict_key",
    "runtime_requirements",
    "prevent_recursion",
)


def read(document: Mapping[str, Any], notes: ImportNotes) -> Lorebook:
    """Return a bare book, whose `entries` is a list; says so where it looks like one of ours."""
    members = [entry for entry in document["entries"] if isinstance(entry, dict)]
    seen = [name for name in _NATIVE_SIGNS if any(name in entry for entry in members)]
    if seen:
        notes.add(
            "looks_native",
            f"it looks like a book in Lorewell's own format (it has {', '.join(seen)});"
            " as an imported file it is read by foreign rules and loses them",
        )
    return Lorebook(
        format=FileKind.CHARACTER_BOOK,
        source_format=FileKind.CHARACTER_BOOK,
        form="card",
        book=document,
    )


def read_lorebook_v3(document: Mapping[str, Any], _notes: ImportNotes) -> Lorebook:
    """Return the book in `data`.

    Raises:
        ImportInvalidError: `data` is no object.
    """
    book = document.get("data")
    if not isinstance(book, dict):
        fault = Fault("/data", f"data is missing: must be an object, is {type_name(book)}")
        raise ImportInvalidError.at(fault)
    return Lorebook(
        format=FileKind.LOREBOOK_V3,
        source_format=FileKind.LOREBOOK_V3,
        form="card",
        book=book,
        at=("data",),
    )
