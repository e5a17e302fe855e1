"""Characters of Pygmalion and TextGen, which have no lorebook (docs/rules/formats.md §5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lorewell.formats.detect import FileKind
from lorewell.formats.lorebook import Lorebook
from lorewell.formats.notes import ImportNotes


def read(document: Mapping[str, Any], _notes: ImportNotes) -> Lorebook:
    """Return a lorebook without a book, named after the character."""
    return Lorebook(
        format=FileKind.PYGMALION,
        source_format=FileKind.PYGMALION,
        form="card",
        book=None,
        card_name=document.get("char_name") or document.get("name"),
    )
