"""Puts a book into a card; everything else in the card stays (docs/rules/formats.md §4)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from lorewell.errors import ImportInvalidError, InvalidInputError, TooExpensiveError
from lorewell.formats.containers import png
from lorewell.formats.decode import CCV3, CHARA, decode_text
from lorewell.formats.detect import CARDS, FileKind, find_kind
from lorewell.formats.export.book import export_book
from lorewell.formats.files import check_size
from lorewell.formats.notes import ImportNotes
from lorewell.formats.registry import read_lorebook
from lorewell.model import BookCreate

_BOOK: Final = "character_book"
_KEYWORDS = frozenset([CHARA, CCV3])
Card = dict[str, Any]
# The members of a card V2 and their usual values.
_V2_MEMBERS: Final[Mapping[str, object]] = {
    **dict.fromkeys(("name", "description", "personality", "scenario"), ""),
    **dict.fromkeys(("first_mes", "mes_example", "creator_notes", "system_prompt"), ""),
    "post_history_instructions": "",
    "alternate_greetings": [],
    "tags": [],
    **dict.fromkeys(("creator", "character_version"), ""),
}
_V1_EXTENSIONS: Final = ("talkativeness", "fav")  # where SillyTavern keeps them in a card V2


def put_into_card(book: BookCreate, card: bytes) -> bytes:
    """Return a card with its lorebook replaced by this one.

    All other values of the card stay equal. In a PNG all other bytes stay too: only the chunks
    `chara` and `ccv3` are replaced. If the PNG has both, both get the book; a card V3 is written
    into both, so that every reader finds it. A card V1 becomes a card V2, because SillyTavern does
    not read a lorebook of V1; its members stay beside `data`, as SillyTavern writes them. A book
    without entries is not put into a card that has no lorebook.

    Args:
        book: the book; a card V3 gets it with `use_regex`.
        card: a card V1 to V3 as JSON or in a PNG; at most 16 MiB.

    Raises:
        FileTooLargeError: the card is larger than 16 MiB.
        ImportInvalidError: the file is not a card, damaged, or in another container.

    Source: docs/rules/formats.md §2 to §4.
    """
    check_size(card, "the card")
    if card.startswith(png.SIGNATURE):
        return _into_picture(book, card)
    return _dumped(_with_book(_card_in(card, ImportNotes()), book), indent=2)


def upgrades(book: BookCreate, card: bytes) -> bool:
    """Return whether `put_into_card` makes a card V2 of a card V1.

    Raises:
        FileTooLargeError, ImportInvalidError: as `put_into_card`.
    """
    check_size(card, "the card")
    found = (
        _cards_in(card).values()
        if card.startswith(png.SIGNATURE)
        else [_card_in(card, ImportNotes())]
    )
    return any(_is_upgraded(each, book) for each in found)


def _is_upgraded(card: Card, book: BookCreate) -> bool:
    has_book = read_lorebook(card, ImportNotes()).book is not None
    return find_kind(card) == FileKind.CARD_V1 and (has_book or bool(book.entries))


def _as_v2(card: Card) -> Card:
    """Return a card V1 as a card V2 without its lorebook. Source: docs/rules/formats.md §2, §5."""
    flat = {name: value for name, value in card.items() if name != _BOOK}
    data: Card = {name: card.get(name, usual) for name, usual in _V2_MEMBERS.items()}
    data["creator_notes"] = card.get("creator_notes", card.get("creatorcomment", ""))
    extensions = card.get("extensions")
    own = dict(extensions) if isinstance(extensions, Mapping) else {}
    data["extensions"] = {name: card[name] for name in _V1_EXTENSIONS if name in card} | own
    return {**flat, "spec": "chara_card_v2", "spec_version": "2.0", "data": data}


def _into_picture(book: BookCreate, picture: bytes) -> bytes:
    found = _cards_in(picture)
    cards = {keyword: _with_book(card, book) for keyword, card in found.items()}
    chara, ccv3 = cards.get(CHARA), cards.get(CCV3)
    if ccv3 is None and chara is not None and find_kind(chara) == FileKind.CARD_V3:
        ccv3 = chara
    first = chara if chara is not None else ccv3
    return png.replace_card(
        picture, chara=_dumped(first), ccv3=None if ccv3 is None else _dumped(ccv3)
    )


def _cards_in(picture: bytes) -> dict[str, Card]:
    """Return the valid cards in an image by keyword.

    Raises:
        ImportInvalidError: it has none.
    """
    notes = ImportNotes()
    texts = png.read_texts(picture, _KEYWORDS, notes)
    found: dict[str, Card] = {}
    fault: InvalidInputError | None = None
    seen: set[str] = set()
    for chunk in texts.chunks:
        if chunk.keyword in seen:  # the first one counts
            continue
        seen.add(chunk.keyword)
        try:
            found[chunk.keyword] = _card_in(png.payload(chunk, notes), notes)
        except InvalidInputError as error:
            fault = error
    if not found:
        raise fault or ImportInvalidError(
            "This PNG has no card data (expected a chara or ccv3 chunk)."
        )
    return found


def _card_in(data: bytes, notes: ImportNotes) -> Card:
    try:
        document = decode_text(data, notes).value
    except TooExpensiveError:
        raise
    except InvalidInputError as error:
        raise ImportInvalidError(
            f"A book can only be put into a card that is JSON or a PNG: {error}"
        ) from error
    if not isinstance(document, dict) or find_kind(document) not in CARDS:
        raise ImportInvalidError(
            "The file is not a character card, so a book can't be put into it."
        )
    return document


def _with_book(card: Card, book: BookCreate) -> Card:
    """Return the card with the book where readers look for it."""
    if _is_upgraded(card, book):
        card = _as_v2(card)
    lorebook = read_lorebook(card, ImportNotes())
    steps = lorebook.at
    if lorebook.book is None:
        if not book.entries:
            return card
        if isinstance(card.get("data"), Mapping):
            steps = ("data", _BOOK)
    is_v3 = find_kind(card) == FileKind.CARD_V3
    exported = export_book(book, "lorebook_v3" if is_v3 else "character_book").document
    return _replaced(card, steps, exported["data"] if is_v3 else exported)


def _replaced(card: Mapping[str, Any], steps: tuple[str, ...], value: object) -> Card:
    first, *rest = steps
    return {**card, first: _replaced(card[first], tuple(rest), value) if rest else value}


def _dumped(card: Card | None, indent: int | None = None) -> bytes:
    return json.dumps(card, ensure_ascii=False, indent=indent).encode()
