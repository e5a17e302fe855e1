"""From the bytes of a file to the document in it, whatever wraps it.

Source: spec/formats.md §0.1: magic bytes first, then text in the encoding that its mark names,
then JSON. No name of a file decides, but for YAML, which nothing else tells.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Final, NamedTuple

from lorewell.errors import (
    ImportInvalidError,
    InvalidInputError,
    MalformedJsonError,
    UnsupportedMediaTypeError,
)
from lorewell.formats.containers import png
from lorewell.formats.detect import CARDS, find_kind
from lorewell.formats.json_text import Document, first_character, read_json
from lorewell.formats.notes import Notes

CCV3: Final = "ccv3"
CHARA: Final = "chara"
NAIDATA: Final = "naidata"
_KEYWORDS = frozenset([CCV3, CHARA, NAIDATA])

# Containers that are known by their first bytes and not read yet.
_UNREAD: Sequence[tuple[bytes, str]] = (
    (b"\xff\xd8\xff", "This is a JPEG picture; that kind isn't read yet."),
    (b"RIFF", "This is a RIFF file, as a WEBP picture is; that kind isn't read yet."),
    (b"PK\x03\x04", "This is a zip archive, as a .charx is; that kind isn't read yet."),
    (b"PK\x05\x06", "This is an empty zip archive."),
    (b"\x6f\x00", "This is a RisuAI module, which can't be read; export its lorebook as JSON."),
)
_UTF_16 = {codecs.BOM_UTF16_LE: "UTF-16-LE", codecs.BOM_UTF16_BE: "UTF-16-BE"}


class Decoded(NamedTuple):
    """A document, and whether it came out of a PNG."""

    document: Document
    from_png: bool


def decode(data: bytes, *, name: str, notes: Notes) -> Decoded:
    """Return the JSON document in a file.

    Args:
        data: the whole file.
        name: of the file; only looked at for the ending of a YAML file.
        notes: takes every repair.

    Raises:
        ImportInvalidError: the file is empty, a web page, cut off, broken, of a kind that is not
            read yet, or a picture without a card.
        UnsupportedMediaTypeError: it is neither text that begins like JSON nor of another kind
            that we know.
    """
    if data.startswith(png.SIGNATURE):
        return Decoded(_card_in_png(data, notes), from_png=True)
    if data.startswith(png.SIGNATURE[:4]):
        raise ImportInvalidError("The PNG's signature is damaged, as by a transfer as text.")
    for magic, sentence in _UNREAD:
        if data.startswith(magic):
            raise ImportInvalidError(sentence)
    if name.lower().endswith((".yaml", ".yml")):
        raise ImportInvalidError("This is a YAML file; that kind isn't read yet.")
    return Decoded(decode_text(data, notes), from_png=False)


def decode_text(data: bytes, notes: Notes) -> Document:
    """Return the JSON document in bytes of text.

    Raises:
        ImportInvalidError: it is empty, a web page, or begins like JSON and is none.
        UnsupportedMediaTypeError: it does not even begin like JSON.
    """
    text = _text(data, notes)
    start = first_character(text)
    if not start:
        raise ImportInvalidError("The file is empty.")
    if start == "<":
        raise ImportInvalidError("This is an HTML page (a web page), not a lorebook.")
    try:
        return read_json(text, notes)
    except MalformedJsonError as error:
        if start in "{[":
            raise ImportInvalidError(str(error)) from error
        raise UnsupportedMediaTypeError(str(error)) from error


def _text(data: bytes, notes: Notes) -> str:
    """Return the text in bytes, in the encoding that a byte order mark names, or in UTF-8."""
    encoding = _UTF_16.get(data[:2])
    if encoding is not None:
        try:
            text = data[2:].decode(encoding)
        except UnicodeDecodeError as error:
            where = f"byte {error.start + 2}"
            raise ImportInvalidError(f"The text is not {encoding} ({where}).") from error
        notes.add("utf16", f"the text is {encoding}; UTF-8 is what other programs read")
        return text
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        sentence = f"The text is not UTF-8 (byte {error.start})."
        start = first_character(data[: error.start].decode("utf-8-sig"))
        if start and start in "{[<":
            raise ImportInvalidError(sentence) from error
        raise UnsupportedMediaTypeError(sentence) from error


def _card_in_png(data: bytes, notes: Notes) -> Document:
    """Return the card in a PNG: of `ccv3` if that is sound, else of `chara`.

    Source: spec/formats.md §4, spec/native.md §11.2.
    """
    texts = png.read_texts(data, _KEYWORDS, notes)
    chosen: dict[str, png.TextChunk] = {}
    for chunk in texts.chunks:
        if chunk.keyword in chosen:
            notes.add("png_repeated", f"there are several {chunk.keyword} chunks; the first counts")
        chosen.setdefault(chunk.keyword, chunk)
    if CCV3 in chosen and CHARA in chosen:
        attempt = Notes()
        try:
            document = _card(chosen[CCV3], attempt)
        except InvalidInputError as error:
            notes.add("png_ccv3_broken", f"the ccv3 chunk can't be read, chara is: {error}")
        else:
            notes.extend(attempt)
            return document
    for keyword in (CHARA, CCV3):
        if keyword in chosen:
            return _card(chosen[keyword], notes)
    if NAIDATA in chosen:
        raise ImportInvalidError("This is a NovelAI lorebook as PNG; that kind isn't read yet.")
    if texts.fault is not None:
        raise ImportInvalidError(f"{texts.fault} No card was found before that.")
    raise ImportInvalidError("This PNG has no card data (no chara, ccv3 or naidata chunk).")


def _card(chunk: png.TextChunk, notes: Notes) -> Document:
    """Return the card in a text chunk."""
    what = f"The {chunk.keyword} chunk"
    data = png.payload(chunk, notes)
    try:
        document = decode_text(data, notes)
    except InvalidInputError as error:
        raise ImportInvalidError(f"{what} holds no card: {error}") from error
    if find_kind(document.value) not in CARDS:
        raise ImportInvalidError(f"{what} holds no card: its JSON is of another kind.")
    return document
