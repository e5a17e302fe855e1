"""The texts of a character card that a scan uses."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lorewell.errors import ImportInvalidError, InvalidInputError
from lorewell.formats.decode import decode
from lorewell.formats.detect import CARDS, find_kind
from lorewell.formats.faults import naming
from lorewell.formats.files import read_bytes
from lorewell.formats.json_text import storable
from lorewell.formats.notes import ImportNotes


@dataclass(frozen=True, slots=True, kw_only=True)
class CardTexts:
    """The texts of a card; empty if it has none."""

    name: str
    description: str
    personality: str
    scenario: str
    creator_notes: str
    depth_prompt: str


def load_card_texts(path: str | os.PathLike[str]) -> CardTexts:
    """Return the texts of a character card in any container.

    Raises:
        FileTooLargeError: the file is larger than 16 MiB.
        ImportInvalidError: the file is not a card, or damaged; `details` hold its name as `file`.
        OSError: the file can't be read.

    Source: docs/rules/formats.md §2; the depth prompt is in `extensions.depth_prompt.prompt`.
    """
    data, name = read_bytes(path), storable(Path(path).name)
    try:
        document = decode(data, name=name, notes=ImportNotes()).document.value
    except InvalidInputError as error:
        raise naming(error, f"{name} can't be read", file=name) from error
    if not isinstance(document, dict) or find_kind(document) not in CARDS:
        raise ImportInvalidError(f"{name} is not a character card.", file=name)
    card = document["data"] if isinstance(document.get("data"), dict) else document
    return CardTexts(
        name=_text(card, "name"),
        description=_text(card, "description"),
        personality=_text(card, "personality"),
        scenario=_text(card, "scenario"),
        creator_notes=_text(card, "creator_notes"),
        depth_prompt=_text(card, "extensions", "depth_prompt", "prompt"),
    )


def _text(card: Mapping[str, Any], *steps: str) -> str:
    found: Any = card
    for step in steps:
        found = found.get(step) if isinstance(found, dict) else None
    return found if isinstance(found, str) else ""
