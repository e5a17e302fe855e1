"""Pygmalion's and TextGen's characters: recognised, and without a book."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from lorewell import load_book
from lorewell.errors import ImportInvalidError
from other_programs import read, shapes, warnings_of
from property.test_import import taken
from support import Document


@pytest.mark.parametrize(
    "document",
    [
        {"char_name": "Oda", "char_greeting": "Hello."},
        {"name": "Oda", "context": "Oda's Persona: a pilot.", "greeting": "Hello."},
        {"name": "Oda", "greeting": "Hello."},
        {"char_name": "", "name": "Oda"},
    ],
)
def test_character_holds_no_book(document: Document) -> None:
    found = read(document)
    assert (found.report.format, found.book.name) == ("pygmalion", "Oda")
    assert warnings_of(found) == [(None, "no_book")]
    assert not found.holds_book


def test_character_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "oda.json"
    path.write_text('{"char_name": "Oda"}')
    with pytest.raises(ImportInvalidError, match=r"oda\.json is a card without a lorebook"):
        load_book(path)


def test_card_with_a_book_is_no_pygmalion() -> None:
    found = read({"char_name": "Oda", "name": "Oda", "character_book": {"entries": []}})
    assert found.report.format == "card_v1_json"


@given(shapes(["name"], lambda drawn: {"char_name": drawn}))
def test_any_values_give_a_book_or_an_error_of_ours(data: bytes) -> None:
    taken(data)
