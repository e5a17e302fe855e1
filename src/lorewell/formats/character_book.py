"""Stand-alone books of cards: bare, or wrapped as `lorebook_v3`.

Source: docs/rules/formats.md §2.1, §3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lorewell.errors import Fault, ImportInvalidError
from lorewell.formats.detect import FileKind, type_name
from lorewell.formats.lorebook import Lorebook
from lorewell.formats.notes import ImportNotes

# Names that only native entries have; docs/rules/native.md §11.2.
_NATIVE_SIGNS = (
    "audience",
    "conditions",
    "requires",
    "conflict_key",
    "runtime_requirements",
    "prevent_recursion",
)


def read(document: Mapping[str, Any], notes: ImportNotes) -> Lorebook:
    """Return a bare book, whose `entries` is a list; note if it looks like a native one."""
    members = [entry for entry in document["entries"] if isinstance(entry, dict)]
    found = [name for name in _NATIVE_SIGNS if any(name in entry for entry in members)]
    if found:
        notes.add(
            "looks_native",
            f"this looks like a native Lorewell book (it has {', '.join(found)});"
            " an import reads it by foreign rules and drops them",
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
        ImportInvalidError: `data` is not an object.
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
