"""Real files, read and written again in their own format: nothing is lost, nothing is added.

The files are other people's; tests/golden/test_corpus.py says where they are looked for.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from golden.test_corpus import CORPUS, Item, params
from lorewell import BookCreate, import_file
from lorewell.errors import LorewellError
from lorewell.formats.containers import png
from lorewell.formats.decode import CCV3, CHARA, decode_text
from lorewell.formats.export import export_book, put_into_card
from lorewell.formats.notes import ImportNotes
from lorewell.formats.registry import read_lorebook
from lorewell.model.sillytavern import SillyTavernBlock

BOOKS = ("st_world", "character_book")
CARDS = ("card_v1_json", "card_v2_json", "card_v3_json")


def document(data: bytes) -> Any:
    return decode_text(data, ImportNotes()).value


def cards(picture: bytes) -> dict[str, Any]:
    """Return the documents of a picture by keyword, the first of each."""
    chunks = png.read_texts(picture, frozenset([CHARA, CCV3]), ImportNotes()).chunks
    return {
        chunk.keyword: document(png.payload(chunk, ImportNotes())) for chunk in reversed(chunks)
    }


def without_cards(picture: bytes) -> list[bytes]:
    """Return the chunks of a picture but those of cards, and what is around them."""
    at, found = len(png.SIGNATURE), [picture[: len(png.SIGNATURE)]]
    while at < len(picture):
        end = at + 12 + int.from_bytes(picture[at : at + 4], "big")
        keyword = picture[at + 8 : end].partition(b"\0")[0].lower()
        is_text = picture[at + 4 : at + 8] in {b"tEXt", b"zTXt", b"iTXt"}
        if not (is_text and keyword in {b"chara", b"ccv3"}):
            found.append(picture[at:end])
        at = end
    return found


def book_of(card: Any) -> Any:
    return read_lorebook(card, ImportNotes()).book


def without_book(card: Any) -> Any:
    """Return the card without the member of its book."""
    data = card.get("data", {})
    plain = {name: value for name, value in data.items() if name != "character_book"}
    return {name: value for name, value in card.items() if name != "character_book"} | (
        {"data": plain} if "data" in card else {}
    )


def meaning(book: BookCreate) -> list[dict[str, Any]]:
    unlike: Any = {"source": True, "sillytavern": {"add_memo", "display_index"}}
    usual = SillyTavernBlock().model_dump(exclude=unlike["sillytavern"])
    dumped = [entry.model_dump(exclude=unlike) for entry in book.entries]
    return [{**entry, "sillytavern": entry["sillytavern"] or usual} for entry in dumped]


@pytest.mark.parametrize(("path", "_item"), params(*BOOKS))
def test_untouched_book_comes_back(path: Path, _item: Item) -> None:
    data = path.read_bytes()
    found = import_file(data, name=path.name)
    word: Any = path.parent.name
    exported = export_book(found.book, word)
    assert exported.document == document(data)
    assert exported.losses == ()


@pytest.mark.parametrize(("path", "_item"), params(*CARDS))
def test_untouched_card_comes_back(path: Path, _item: Item) -> None:
    data = path.read_bytes()
    try:
        found = import_file(data, name=path.name)
    except LorewellError:
        with pytest.raises(LorewellError) as caught:
            put_into_card(import_file(b'{"entries": []}', name="a").book, data)
        assert caught.value.code == "import_invalid"
        return
    before, after = document(data), document(put_into_card(found.book, data))
    if before.get("spec") == after.get("spec"):
        assert after == before
        return
    assert "data" not in before  # a card V1 with a book becomes V2
    assert after["data"]["character_book"] == before["character_book"]
    assert without_book(after).items() >= without_book(before).items()


@pytest.mark.parametrize(("path", "_item"), params("card_png"))
def test_untouched_picture_comes_back(path: Path, _item: Item) -> None:
    data = path.read_bytes()
    found = import_file(data, name=path.name)
    before, written = cards(data), put_into_card(found.book, data)
    after = cards(written)
    taken = before[CCV3 if CCV3 in before else CHARA]
    assert without_cards(written) == without_cards(data)
    for keyword, card in after.items():
        assert book_of(card) == book_of(taken)
        assert without_book(card) == without_book(before.get(keyword, taken))
    assert set(before) <= set(after)
    assert import_file(written, name=path.name).book == found.book


@pytest.mark.parametrize(("path", "_item"), params(*BOOKS, *CARDS, "card_png"))
@pytest.mark.parametrize("target", ["st_world", "character_book", "lorebook_v3"])
def test_converted_book_means_the_same(path: Path, _item: Item, target: Any) -> None:
    try:
        book = import_file(path.read_bytes(), name=path.name).book
    except LorewellError:
        return
    written = export_book(book, target).document
    again = import_file(json.dumps(written).encode(), name=path.name).book
    assert again.name == book.name
    assert again.description == book.description
    assert meaning(again) == meaning(book)


def test_corpus_has_every_folder_that_is_walked() -> None:
    if CORPUS.exists():
        assert all((CORPUS / folder).is_dir() for folder in (*BOOKS, *CARDS, "card_png"))
