"""Agnai's memory books as books of ours."""

from __future__ import annotations

import pytest
from hypothesis import given

from lorewell.errors import ImportInvalidError
from other_programs import read, said, shapes, warnings_of
from property.test_import import taken

ENTRY = {
    "name": "灯台",
    "entry": "An oil lamp.",
    "keywords": ["lamp", "灯"],
    "priority": 7,
    "weight": 3,
    "enabled": False,
}
READ = {
    "id": "entry-0",
    "title": "灯台",
    "content": "An oil lamp.",
    "keys": ("lamp", "灯"),
    "priority": 7,
    "order": 3,
    "enabled": False,
    "match_whole_words": True,
}


def test_memory_book_is_read_into_native_fields() -> None:
    document = {"kind": "memory", "name": "港", "description": "A port.", "entries": [ENTRY]}
    found = read({**document, "scan_depth": 50})
    assert (found.report.format, found.book.name, found.book.description) == (
        *("agnai_memory", "港", "A port."),
    )
    (entry,) = found.book.entries
    assert said(entry) == READ
    assert entry.source == {"format": "agnai_memory", "raw": ENTRY, "three_valued": True}
    assert found.book.metadata["raw"] == {"kind": "memory", "scan_depth": 50}
    assert warnings_of(found) == []


def test_a_cards_names_beside_agnais_count_where_agnai_has_none() -> None:
    raw = {
        **ENTRY,
        "enabled": True,
        "id": 4,
        "keys": ["other"],
        "content": "Other.",
        "insertion_order": 9,
        "secondary_keys": ["oil"],
        "selective": True,
        "constant": True,
        "case_sensitive": True,
        "position": 1,
    }
    (entry,) = read({"kind": "memory", "entries": [raw]}).book.entries
    assert said(entry, "enabled") == {
        **{name: value for name, value in READ.items() if name != "enabled"},
        "id": "4",
        "secondary_keys": ("oil",),
        "selective": True,
        "constant": True,
        "case_sensitive": True,
        "position": "after_character",
    }
    card = {"kind": "memory", "entries": [{"content": "Own.", "keys": ["a"], "position": 7}]}
    found = read({**card, "name": " "})
    assert said(found.book.entries[0]) == {
        "id": "entry-0",
        "content": "Own.",
        "keys": ("a",),
        "match_whole_words": True,
    }
    assert warnings_of(found) == [("entry-0", "wrong_type")]


def test_character_gives_its_book() -> None:
    document = {"kind": "character", "name": "Oda", "characterBook": {"entries": [ENTRY]}}
    found = read(document)
    assert (found.report.format, found.book.name) == ("agnai_character", "Oda")
    assert said(found.book.entries[0]) == READ
    assert warnings_of(found) == []
    assert warnings_of(read({"kind": "character", "name": "Oda"})) == [(None, "no_book")]
    with pytest.raises(ImportInvalidError, match=r"/characterBook: must be an object, is a text"):
        read({**document, "characterBook": "x"})


NAMES = [*ENTRY, "keys", "content", "position", "constant", "id", "case_sensitive", "selective"]


@given(shapes(NAMES, lambda drawn: {"kind": "memory", "entries": drawn}))
def test_any_values_give_a_book_or_an_error_of_ours(data: bytes) -> None:
    taken(data)


@given(shapes(["entries", "name"], lambda drawn: {"kind": "character", "characterBook": drawn}))
def test_any_character_gives_a_book_or_an_error_of_ours(data: bytes) -> None:
    taken(data)
