"""The readers of each kind of document: a new format is one module and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from lorewell.formats import (
    agnai,
    aidungeon,
    backyard,
    cards,
    character_book,
    janitor,
    kobold,
    novelai,
    pygmalion,
    replica,
    risu,
    st_world,
    tavern_helper,
)
from lorewell.formats.detect import FileKind, detect
from lorewell.formats.lorebook import Lorebook
from lorewell.formats.notes import ImportNotes

Reader = Callable[[Any, ImportNotes], Lorebook]
"""Reads a document: an object, or a list for the kinds that `detect` finds in lists."""

READERS: Final[Mapping[FileKind, Reader]] = {
    FileKind.ST_WORLD: st_world.read,
    FileKind.CHARACTER_BOOK: character_book.read,
    FileKind.LOREBOOK_V3: character_book.read_lorebook_v3,
    FileKind.CARD_V1: cards.read_v1,
    FileKind.CARD_V2: cards.read_v2,
    FileKind.CARD_V3: cards.read_v3,
    FileKind.NAI_LOREBOOK: novelai.read_book,
    FileKind.NAI_STORY: novelai.read_story,
    FileKind.AGNAI_MEMORY: agnai.read_memory,
    FileKind.AGNAI_CHARACTER: agnai.read_character,
    FileKind.RISU: risu.read,
    FileKind.RISU_MODULE: risu.read_module,
    FileKind.KOBOLD: kobold.read,
    FileKind.AIDUNGEON_WI: aidungeon.read,
    FileKind.JANITOR: janitor.read,
    FileKind.PYGMALION: pygmalion.read,
    FileKind.REPLICA: replica.read,
    FileKind.BACKYARD: backyard.read,
    FileKind.TAVERN_HELPER: tavern_helper.read,
}


def read_lorebook(document: object, notes: ImportNotes) -> Lorebook:
    """Return the lorebook in a document of any supported kind.

    Raises:
        ImportInvalidError: the kind is unknown, or the document is damaged.
    """
    return READERS[detect(document)](document, notes)
