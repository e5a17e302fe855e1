"""Books in our own format: a JSON file that holds a BookCreate (docs/rules/native.md §3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from lorewell.engine.steps import Steps
from lorewell.errors import ValidationFailedError
from lorewell.formats.detect import FileKind, find_kind
from lorewell.formats.faults import naming
from lorewell.model import BookCreate, Entry
from lorewell.model.parse import parse_model
from lorewell.model.text import spend_nothing

FORMAT: Final = "native"

_BOOK_NAMES = frozenset(BookCreate.model_fields)
_FOREIGN_BOOK_NAMES = frozenset(
    [
        "extensions",
        "is_creation",
        "originalData",
        "recursive_scanning",
        "recursiveScanning",
        "scan_depth",
        "scanDepth",
        "token_budget",
        "tokenBudget",
    ]
)
# Of an old card, which has `name` and `description` as a book of ours has.
_CARD_NAMES = frozenset(
    ["spec", "character_book", "first_mes", "mes_example", "personality", "scenario"]
)
# What world info and cards call the members of an entry; docs/rules/formats.md §1, §2.1.
_FOREIGN_NAMES = frozenset(
    [
        *("uid", "key", "keys", "keysecondary", "secondary_keys", "comment", "name", "content"),
        *("constant", "vectorized", "selective", "selectiveLogic", "addMemo", "order", "position"),
        *("disable", "enabled", "ignoreBudget", "excludeRecursion", "preventRecursion"),
        *("delayUntilRecursion", "probability", "useProbability", "depth", "outletName", "group"),
        *("groupOverride", "groupWeight", "scanDepth", "caseSensitive", "matchWholeWords"),
        *("useGroupScoring", "automationId", "role", "sticky", "cooldown", "delay"),
        *("displayIndex", "triggers", "characterFilter", "extensions", "insertion_order"),
        *("case_sensitive", "use_regex", "id", "priority"),
    ]
)
_OWN_NAMES = frozenset(Entry.model_fields)
_FOREIGN_ONLY = _FOREIGN_NAMES - _OWN_NAMES
_OWN_ONLY = _OWN_NAMES - _FOREIGN_NAMES


def is_native(document: object) -> bool:
    """Return whether a document is meant as a book of ours, valid or not.

    A book with a slip in it has to be told so, not read by foreign rules in silence. So a document
    is ours unless it is marked as another kind, or its names fit a foreign book better.

    >>> is_native({"name": "Harbour", "entries": [{"content": "A lamp.", "colour": "red"}]})
    True
    >>> is_native({"name": "Harbour", "entries": [{"keys": ["lamp"], "insertion_order": 1}]})
    False
    """
    if not isinstance(document, dict):
        return False
    match find_kind(document):
        case None:
            return not document or not _BOOK_NAMES.isdisjoint(document)
        case FileKind.CARD_V1:
            return _CARD_NAMES.isdisjoint(document)
        case FileKind.CHARACTER_BOOK:
            return _fits(document)
        case FileKind.ST_WORLD:
            entries = document["entries"]
            filled = isinstance(entries, dict) and entries
            return not filled and "name" in document and document.keys() <= _BOOK_NAMES
        case _:
            return False


def _fits(document: Mapping[str, Any]) -> bool:
    """Return whether a book whose entries are a list has our names rather than foreign ones."""
    leanings = [_leaning(entry) for entry in document["entries"] if isinstance(entry, dict)]
    foreign = sum(leaning > 0 for leaning in leanings)
    if foreign * 2 > len(leanings):
        return False
    own = any(leaning < 0 for leaning in leanings) or "metadata" in document
    return own or _FOREIGN_BOOK_NAMES.isdisjoint(document)


def _leaning(entry: Mapping[str, Any]) -> int:
    """Return how many more foreign names than own names an entry has, of those not shared."""
    return len(entry.keys() & _FOREIGN_ONLY) - len(entry.keys() & _OWN_ONLY)


def read_native(document: object, *, file_name: str, steps: Steps | None = None) -> BookCreate:
    """Return the book in a document of ours, as it is.

    Raises:
        ValidationFailedError: the book breaks its schema; `faults` name the places.
    """
    try:
        spend = spend_nothing if steps is None else partial(steps.spend, "values")
        return parse_model(BookCreate, document, spend=spend)
    except ValidationFailedError as error:
        raise naming(error, f"{file_name} is no valid book", file=file_name) from error
