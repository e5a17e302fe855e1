"""SillyTavern's world info: an object whose `entries` is a map (docs/rules/formats.md §1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lorewell.formats.detect import FileKind
from lorewell.formats.lorebook import Lorebook
from lorewell.formats.notes import ImportNotes


def read(document: Mapping[str, Any], _notes: ImportNotes) -> Lorebook:
    """Return the world as a lorebook; the copy in `originalData` is kept but not read."""
    return Lorebook(
        format=FileKind.ST_WORLD, source_format=FileKind.ST_WORLD, form="world_info", book=document
    )
