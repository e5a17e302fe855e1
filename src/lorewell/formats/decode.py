"""From the bytes of a file to the document in it, whatever wraps it.

Source: docs/rules/formats.md §0.1: magic bytes first, then text in the encoding of its mark, then
JSON. A file's name decides nothing, except that YAML has no other sign.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, NoReturn

from lorewell.errors import (
    ImportInvalidError,
    InvalidInputError,
    MalformedJsonError,
    TooExpensiveError,
    UnsupportedMediaTypeError,
)
from lorewell.formats.containers import charx, jpeg, png, webp
from lorewell.formats.detect import CARDS, FileKind, find_kind
from lorewell.formats.json_text import JsonDocument, first_character, read_json
from lorewell.formats.notes import ImportNotes
from lorewell.formats.yaml_text import read_yaml
from lorewell.model.parse import UTF_8_MARK

CCV3: Final = "ccv3"
CHARA: Final = "chara"
NAIDATA: Final = "naidata"
_KEYWORDS = frozenset([CCV3, CHARA, NAIDATA])

_UTF_16 = {codecs.BOM_UTF16_LE: "UTF-16-LE", codecs.BOM_UTF16_BE: "UTF-16-BE"}


# The words of `ImportReport.format` for cards in containers.
PNG_FORMAT: Final = "card_png"
WEBP_FORMAT: Final = "card_webp"
CHARX_FORMAT: Final = "charx"
RISUM_MAGIC: Final = b"\x6f\x00"
_RISUM_HEAD_BYTES = 6  # the magic bytes and the length of the main part


class DecodedFile(NamedTuple):
    """A document, and the report's word for the container that it came out of, if one counts.

    A NovelAI lorebook in a PNG is no card; its own word says more than the container's would.
    """

    document: JsonDocument
    container: str | None = None


def decode(data: bytes, *, name: str, notes: ImportNotes) -> DecodedFile:
    """Return the document in a file.

    Args:
        data: the whole file.
        name: of the file; only its ending counts, and only if it is YAML's.
        notes: takes every repair.

    Raises:
        ImportInvalidError: the file is empty, a web page, cut off, broken, of a kind that is not
            read, or a picture or archive without a card.
        UnsupportedMediaTypeError: it is neither text that begins like JSON nor of another kind
            that we know.
    """
    for magic, read in _CONTAINERS:
        if data.startswith(magic):
            return read(data, notes)
    if data.startswith(png.SIGNATURE[:4]):
        raise ImportInvalidError("The PNG's signature is damaged, as by a transfer as text.")
    if name.lower().endswith((".yaml", ".yml")):
        return DecodedFile(_decode_yaml(data, notes))
    try:
        return DecodedFile(decode_text(data, notes))
    except UnsupportedMediaTypeError as error:
        sentence = f"This is no picture, zip archive, RisuAI module or JSON: {error}"
        raise UnsupportedMediaTypeError(sentence) from error


def decode_text(data: bytes, notes: ImportNotes) -> JsonDocument:
    """Return the JSON document in bytes of text.

    Raises:
        ImportInvalidError: it is empty, a web page, or begins like JSON and is none.
        UnsupportedMediaTypeError: it does not even begin like JSON.
    """
    text, start = _text(data, notes)
    try:
        return read_json(text, notes)
    except MalformedJsonError as error:
        if start in "{[":
            raise ImportInvalidError(str(error)) from error
        raise UnsupportedMediaTypeError(str(error)) from error


def _decode_yaml(data: bytes, notes: ImportNotes) -> JsonDocument:
    """Return the document in bytes of JSON, or else of YAML."""
    text, start = _text(data, notes)
    if start in "{[":
        with suppress(MalformedJsonError):
            return read_json(text, notes)
    return read_yaml(text, notes)


def _text(data: bytes, notes: ImportNotes) -> tuple[str, str]:
    """Return the text in bytes, and its first character that is neither blank nor in a comment."""
    text = _decoded(data, notes)
    start = first_character(text, notes.steps)
    if not start:
        raise ImportInvalidError("The file is empty.")
    if start == "<":
        raise ImportInvalidError("This is an HTML page (a web page), not a lorebook.")
    return text, start


def _decoded(data: bytes, notes: ImportNotes) -> str:
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
        return data.decode().removeprefix(UTF_8_MARK)
    except UnicodeDecodeError as error:  # its place counts the mark, as "utf-8-sig" would not
        sentence = f"The text is not UTF-8 (byte {error.start})."
        sound = data[: error.start].decode().removeprefix(UTF_8_MARK)
        start = first_character(sound, notes.steps)
        if start and start in "{[<":
            raise ImportInvalidError(sentence) from error
        raise UnsupportedMediaTypeError(sentence) from error


def _in_png(data: bytes, notes: ImportNotes) -> DecodedFile:
    """Return the card in a PNG: of `ccv3` if that is sound, else of `chara`; else a NovelAI book.

    Source: docs/rules/formats.md §4, docs/rules/native.md §11.2.
    """
    texts = png.read_texts(data, _KEYWORDS, notes)
    chosen: dict[str, png.TextChunk] = {}
    for chunk in texts.chunks:
        if chunk.keyword in chosen:
            notes.add("png_repeated", f"there are several {chunk.keyword} chunks; the first counts")
        chosen.setdefault(chunk.keyword, chunk)
    if CCV3 in chosen and CHARA in chosen:
        attempt = ImportNotes(notes.steps)
        try:
            document = _card_in(chosen[CCV3], attempt)
        except InvalidInputError as error:
            notes.add("png_ccv3_broken", f"the ccv3 chunk can't be read, chara is: {error}")
        else:
            notes.extend(attempt)
            return DecodedFile(document, PNG_FORMAT)
    for keyword in (CHARA, CCV3):
        if keyword in chosen:
            return DecodedFile(_card_in(chosen[keyword], notes), PNG_FORMAT)
    if NAIDATA in chosen:
        return DecodedFile(_novelai_book_in(chosen[NAIDATA], notes))
    if texts.fault is not None:
        raise ImportInvalidError(f"{texts.fault} No card was found before that.")
    raise ImportInvalidError("This PNG has no card data (no chara, ccv3 or naidata chunk).")


def _card_in(chunk: png.TextChunk, notes: ImportNotes) -> JsonDocument:
    return _card(png.payload(chunk, notes), f"The {chunk.keyword} chunk", notes)


def _novelai_book_in(chunk: png.TextChunk, notes: ImportNotes) -> JsonDocument:
    """Return the lorebook that NovelAI put into a picture. Source: docs/rules/formats.md §4, §6."""
    what = f"The {chunk.keyword} chunk"
    data = png.payload(chunk, notes)
    return _document(data, f"{what} holds no NovelAI lorebook", {FileKind.NAI_LOREBOOK}, notes)


def _in_webp(data: bytes, notes: ImportNotes) -> DecodedFile:
    text = webp.read_card(data, notes)
    return DecodedFile(_card(text, "The comment in the WEBP's EXIF data", notes), WEBP_FORMAT)


def _in_jpeg(data: bytes, notes: ImportNotes) -> DecodedFile:
    return DecodedFile(_card(jpeg.read_card(data, notes), "card.json", notes), CHARX_FORMAT)


def _in_charx(data: bytes, notes: ImportNotes) -> DecodedFile:
    return DecodedFile(_card(charx.read_card(data, notes), "card.json", notes), CHARX_FORMAT)


def _in_risum(data: bytes, _notes: ImportNotes) -> NoReturn:
    """Refuse a RisuAI module, whose encoding is not documented.

    Source: docs/rules/formats.md §8.
    """
    size = int.from_bytes(data[2:_RISUM_HEAD_BYTES], "little")
    there = max(len(data) - _RISUM_HEAD_BYTES, 0)
    if len(data) < _RISUM_HEAD_BYTES or size > there:
        raise ImportInvalidError(
            "This looks like a RisuAI module, but the module is cut off"
            f" (it promises {size} bytes, {there} are there)."
        )
    raise ImportInvalidError(
        "This is a RisuAI module, which can't be read; export the lorebook as JSON in RisuAI."
    )


def _card(data: bytes, what: str, notes: ImportNotes) -> JsonDocument:
    """Return the card in the text that a container holds."""
    return _document(data, f"{what} holds no card", CARDS, notes)


def _document(
    data: bytes, complaint: str, kinds: Container[FileKind], notes: ImportNotes
) -> JsonDocument:
    """Return the JSON document in a text, which must be of one of the kinds.

    Raises:
        ImportInvalidError: it is none; the sentence begins with the complaint.
    """
    try:
        document = decode_text(data, notes)
    except TooExpensiveError:
        raise
    except InvalidInputError as error:
        raise ImportInvalidError(f"{complaint}: {error}") from error
    kind = find_kind(document.value)
    if kind is None or kind not in kinds:
        raise ImportInvalidError(f"{complaint}: its JSON is of another kind.")
    return document


_CONTAINERS: Sequence[tuple[bytes, Callable[[bytes, ImportNotes], DecodedFile]]] = (
    (png.SIGNATURE, _in_png),
    (jpeg.MAGIC, _in_jpeg),
    (webp.MAGIC, _in_webp),
    *((magic, _in_charx) for magic in charx.MAGICS),
    (RISUM_MAGIC, _in_risum),
)
