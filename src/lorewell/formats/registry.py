"""Which module reads which kind of document: a new format is one module and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from lorewell.errors import ImportInvalidError
from lorewell.formats import (
    agnai,
    aidungeon,
    cards,
    character_book,
    janitor,
    kobold,
    novelai,
    pygmalion,
    replica,
    risu,
    st_world,
)
from lorewell.formats.detect import Kind, detect
from lorewell.formats.lorebook import Lorebook
from lorewell.formats.notes import Notes

# Takes an object, or a list where `detect` tells the kind of lists: what a kind is decides.
Reader = Callable[[Any, Notes], Lorebook]

READERS: Final[Mapping[Kind, Reader]] = {
    Kind.ST_WORLD: st_world.read,
    Kind.CHARACTER_BOOK: character_book.read,
    Kind.LOREBOOK_V3: character_book.read_lorebook_v3,
    Kind.CARD_V1: cards.read_v1,
    Kind.CARD_V2: cards.read_v2,
    Kind.CARD_V3: cards.read_v3,
    Kind.NAI_LOREBOOK: novelai.read_book,
    Kind.NAI_STORY: novelai.read_story,
    Kind.AGNAI_MEMORY: agnai.read_memory,
    Kind.AGNAI_CHARACTER: agnai.read_character,
    Kind.RISU: risu.read,
    Kind.KOBOLD: kobold.read,
    Kind.AIDUNGEON_WI: aidungeon.read,
    Kind.JANITOR: janitor.read,
    Kind.PYGMALION: pygmalion.read,
    Kind.REPLICA: replica.read,
}


def read_lorebook(document: object, notes: Notes) -> Lorebook:
    """Return the lorebook in a document of any kind that we read.

    Raises:
        ImportInvalidError: it is of no known kind, of one that is not read yet, or broken.
    """
    kind = detect(document)
    reader = READERS.get(kind)
    if reader is None:
        raise ImportInvalidError(f"This is a file of the kind {kind.value}, which isn't read yet.")
    return reader(document, notes)
