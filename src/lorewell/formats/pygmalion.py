"""Pygmalion's and TextGen's characters, which hold no lorebook (docs/rules/formats.md §5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lorewell.formats.detect import Kind
from lorewell.formats.lorebook import Lorebook
from lorewell.formats.notes import Notes


def read(document: Mapping[str, Any], _notes: Notes) -> Lorebook:
    """Return that there is no book, and the character's name."""
    return Lorebook(
        format=Kind.PYGMALION,
        source_format=Kind.PYGMALION,
        form="card",
        book=None,
        card_name=document.get("char_name") or document.get("name"),
    )
