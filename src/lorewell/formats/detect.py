"""Detects the kind of a JSON document by its content alone; the first matching test decides.

Source: docs/rules/formats.md §0.1, with the same order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from lorewell.engine.replica.positions import BY_WORD
from lorewell.errors import Fault, ImportInvalidError
from lorewell.model.text import pointer

Members = Mapping[str, Any]

CARD_SPEC: Final = re.compile(r"chara_card_v(\d{1,9})")
_CARD_TEXTS = frozenset(["first_mes", "description", "personality", "scenario", "mes_example"])
_REPLICA_MARKS = frozenset(["trigger_config", "activationType"])
_TEXTGEN_TEXTS = frozenset(["context", "greeting"])
_EXPECTED = (
    "spec (a character card or lorebook_v3), entries (a lorebook), character_book,"
    " name with first_mes (an old card), or the marks of other programs' files"
)


class FileKind(StrEnum):
    """A kind of document. The values are those of `ImportReport.format`."""

    ST_WORLD = "st_world"
    CHARACTER_BOOK = "character_book"
    LOREBOOK_V3 = "lorebook_v3"
    CARD_V1 = "card_v1_json"
    CARD_V2 = "card_v2_json"
    CARD_V3 = "card_v3_json"
    NAI_LOREBOOK = "nai_lorebook"
    NAI_STORY = "nai_story"
    AGNAI_MEMORY = "agnai_memory"
    AGNAI_CHARACTER = "agnai_character"
    RISU = "risu"
    RISU_MODULE = "risu_module"
    KOBOLD = "kobold"
    AIDUNGEON_WI = "aidungeon_wi"
    JANITOR = "janitor"
    PYGMALION = "pygmalion"
    REPLICA = "replica"
    BACKYARD = "backyard"
    TAVERN_HELPER = "tavern_helper"


CARDS: Final = frozenset([FileKind.CARD_V1, FileKind.CARD_V2, FileKind.CARD_V3])


def type_name(value: object) -> str:
    """Return the JSON type of a value, for messages.

    >>> type_name(7)
    'a number'
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "a text"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case _:
            return "an object"


def find_object(document: Members, *steps: str) -> Members | None:
    """Return the object at these steps; None if it is absent or empty.

    Raises:
        ImportInvalidError: the value is not an object.

    >>> find_object({"data": {"character_book": {"entries": []}}}, "data", "character_book")
    {'entries': []}
    """
    found: Any = document
    for step in steps:
        found = found.get(step) if isinstance(found, dict) else None
    if isinstance(found, dict):
        return found
    if not found:  # null, and [] or "", which programs write for an empty object
        return None
    fault = Fault(pointer(*steps), f"must be an object, is {type_name(found)}")
    raise ImportInvalidError.at(fault)


def detect(document: object) -> FileKind:
    """Return the kind of a document.

    Raises:
        ImportInvalidError: the kind is unknown.

    >>> detect({"spec": "chara_card_v2", "data": {}}).value
    'card_v2_json'
    """
    kind = find_kind(document)
    if kind is None:
        why = f"expected {_EXPECTED}"
        if not isinstance(document, dict):
            why = f"the top level is {type_name(document)}, expected an object or a list of entries"
        raise ImportInvalidError(f"No book found: unknown lorebook or card format ({why}).")
    return kind


def find_kind(document: object) -> FileKind | None:
    """Return the kind of a document; None if it is unknown."""
    if isinstance(document, dict):
        return next((kind for test in _TESTS if (kind := test(document)) is not None), None)
    if isinstance(document, list):
        first = next((item for item in document if isinstance(item, dict)), {})
        return _of_list(first)
    return None


def _by_spec(document: Members) -> FileKind | None:
    spec = document.get("spec")
    if spec == "lorebook_v3":
        return FileKind.LOREBOOK_V3
    card = CARD_SPEC.fullmatch(spec) if isinstance(spec, str) else None
    if card is None:
        return None
    cards = (FileKind.CARD_V1, FileKind.CARD_V1, FileKind.CARD_V2, FileKind.CARD_V3)
    return cards[min(int(card[1]), len(cards) - 1)]  # a newer card is read as the newest known one


def _by_program(document: Members) -> FileKind | None:
    """Return the kind by the marks that programs put into their files."""
    if "lorebookVersion" in document:
        return FileKind.NAI_LOREBOOK
    if "storyContainerVersion" in document or "scenarioVersion" in document:
        return FileKind.NAI_STORY
    kinds = {"memory": FileKind.AGNAI_MEMORY, "character": FileKind.AGNAI_CHARACTER}
    types = {"risu": FileKind.RISU, "risuModule": FileKind.RISU_MODULE}
    for name, words in (("kind", kinds), ("type", types)):
        word = document.get(name)
        if isinstance(word, str) and word in words:
            return words[word]
    if "loreItems" in document:
        return FileKind.BACKYARD
    saved = document.keys() & {"actions", "savedsettings", "current_wi"}
    if "gamestarted" in document or (saved and "worldinfo" in document):
        return FileKind.KOBOLD
    return None


def _by_entries(document: Members) -> FileKind | None:
    if "entries" not in document:
        return None
    entries = document["entries"]
    items = entries.values() if isinstance(entries, dict) else entries
    found = [item for item in _iterable(items) if isinstance(item, dict)]
    first = found[0] if found else {}
    if any(not _REPLICA_MARKS.isdisjoint(item) for item in found):
        return FileKind.REPLICA
    if any(map(_is_from_tavern_helper, found)):
        return FileKind.TAVERN_HELPER
    if isinstance(entries, dict) and _is_from_replica(first):
        return FileKind.REPLICA
    if "folders" in document and first.keys() & {"folder", "wpp", "title"}:
        return FileKind.KOBOLD
    return FileKind.CHARACTER_BOOK if isinstance(entries, list) else FileKind.ST_WORLD


def _is_from_tavern_helper(item: Members) -> bool:
    strategy = item.get("strategy")
    return isinstance(strategy, dict) and not strategy.keys().isdisjoint({"type", "keys"})


def _is_from_replica(first: Members) -> bool:
    """Return whether SillyTavern_replica exported this entry of a map for SillyTavern.

    It writes names for positions and lists for groups, which SillyTavern itself can't read.
    """
    position = first.get("position")
    words = isinstance(position, str) and position in BY_WORD
    return words and isinstance(first.get("group", ""), list | None)


def _iterable(items: object) -> Iterable[object]:
    return items if isinstance(items, Iterable) and not isinstance(items, str) else ()


def _by_parts(document: Members) -> FileKind | None:
    """Return the kind of a card without a `spec`."""
    data = document.get("data")
    if isinstance(data, dict) and "character_book" in data:
        return FileKind.CARD_V2
    if "character_book" in document:
        return FileKind.CARD_V1
    if "char_name" in document:
        return FileKind.PYGMALION
    if "name" in document and document.keys() & _CARD_TEXTS:
        return FileKind.CARD_V1
    if "name" in document and document.keys() & _TEXTGEN_TEXTS:
        return FileKind.PYGMALION
    return None


def _of_list(first: Members) -> FileKind | None:
    key = first.get("key")
    if _is_from_tavern_helper(first):
        return FileKind.TAVERN_HELPER
    if isinstance(first.get("keys"), str) and first.keys() & {"entry", "value"}:
        return FileKind.AIDUNGEON_WI
    if isinstance(key, str) and first.keys() & {"insertorder", "alwaysActive"}:
        return FileKind.RISU
    if isinstance(key, list) and first.keys() & {"keysRaw", "activationMode"}:
        return FileKind.JANITOR
    if isinstance(key, str) and "content" in first:
        return FileKind.KOBOLD
    return None


_TESTS: Sequence[Callable[[Members], FileKind | None]] = (
    _by_spec,
    _by_program,
    _by_entries,
    _by_parts,
)
