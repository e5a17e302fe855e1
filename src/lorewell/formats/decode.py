"""Decodes the bytes of a file to the document in it, through any container.

Magic bytes come first, then text in the encoding of its byte order mark, then JSON. A file's name
counts only for YAML, which has no other sign.

Source: docs/rules/formats.md §0.1.
"""

from __future__ import annotations

import codecs
import re
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


# Values of `ImportReport.format` for cards in containers.
PNG_FORMAT: Final = "card_png"
WEBP_FORMAT: Final = "card_webp"
CHARX_FORMAT: Final = "charx"
RISUM_MAGIC: Final = b"\x6f\x00"
_MANIFEST: Final = "manifest.json"  # of an archive of Backyard
_BACKYARD_CHARACTER: Final = re.compile(r"characters/[^/]{1,200}/character\.json")
_RISUM_HEAD_BYTES = 6  # the magic bytes and the length of the main part


class DecodedFile(NamedTuple):
    """A document out of a file.

    Attributes:
        document: the document.
        container: the report's `format` for a card in a container; None if the format of the
            document counts, as for a NovelAI lorebook in a PNG.
    """

    document: JsonDocument
    container: str | None = None


def decode(data: bytes, *, name: str, notes: ImportNotes) -> DecodedFile:
    """Return the document in a file.

    Args:
        data: the whole file.
        name: the file's name; only the endings of YAML count.
        notes: collects the repairs.

    Raises:
        ImportInvalidError: the file is empty, a web page, truncated, damaged, of an unsupported
            kind, or an image or archive without a card.
        UnsupportedMediaTypeError: the file is neither text that begins like JSON nor of another
            known kind.
    """
    for magic, read in _CONTAINERS:
        if data.startswith(magic):
            return read(data, notes)
    if data.startswith(png.SIGNATURE[:4]):
        raise ImportInvalidError(
            "The PNG's signature is damaged; the file may have been transferred as text."
        )
    if name.lower().endswith((".yaml", ".yml")):
        return DecodedFile(_decode_yaml(data, notes))
    try:
        return DecodedFile(decode_text(data, notes))
    except UnsupportedMediaTypeError as error:
        sentence = f"This is not an image, zip archive, RisuAI module or JSON file: {error}"
        raise UnsupportedMediaTypeError(sentence) from error


def decode_text(data: bytes, notes: ImportNotes) -> JsonDocument:
    """Return the JSON document in bytes of text.

    Raises:
        ImportInvalidError: it is empty, a web page, or begins like JSON but is invalid.
        UnsupportedMediaTypeError: it does not begin like JSON.
    """
    text, start = _text(data, notes)
    try:
        return read_json(text, notes)
    except MalformedJsonError as error:
        if start in "{[":
            raise ImportInvalidError(str(error)) from error
        raise UnsupportedMediaTypeError(str(error)) from error


def _decode_yaml(data: bytes, notes: ImportNotes) -> JsonDocument:
    """Return the document in bytes of JSON or YAML."""
    text, start = _text(data, notes)
    if start in "{[":
        with suppress(MalformedJsonError):
            return read_json(text, notes)
    return read_yaml(text, notes)


def _text(data: bytes, notes: ImportNotes) -> tuple[str, str]:
    """Return the text, and its first character that is neither blank nor in a comment."""
    text = _decoded(data, notes)
    start = first_character(text, notes.steps)
    if not start:
        raise ImportInvalidError("The file is empty.")
    if start == "<":
        raise ImportInvalidError("This is a web page (HTML), not a lorebook.")
    return text, start


def _decoded(data: bytes, notes: ImportNotes) -> str:
    """Return the text, in the encoding of its byte order mark or in UTF-8."""
    encoding = _UTF_16.get(data[:2])
    if encoding is not None:
        try:
            text = data[2:].decode(encoding)
        except UnicodeDecodeError as error:
            message = f"Invalid {encoding} at byte {error.start + 2}."
            raise ImportInvalidError(message) from error
        notes.add("utf16", f"the text is {encoding}; other programs expect UTF-8")
        return text
    try:
        return data.decode().removeprefix(UTF_8_MARK)
    except UnicodeDecodeError as error:  # its offset counts the mark, unlike that of "utf-8-sig"
        sentence = f"Invalid UTF-8 at byte {error.start}."
        valid = data[: error.start].decode().removeprefix(UTF_8_MARK)
        start = first_character(valid, notes.steps)
        if start and start in "{[<":
            raise ImportInvalidError(sentence) from error
        raise UnsupportedMediaTypeError(sentence) from error


def _in_png(data: bytes, notes: ImportNotes) -> DecodedFile:
    """Return the card of `ccv3` if it is valid, else that of `chara`; else a NovelAI lorebook.

    Source: docs/rules/formats.md §4, docs/rules/native.md §11.2.
    """
    texts = png.read_texts(data, _KEYWORDS, notes)
    chosen: dict[str, png.TextChunk] = {}
    for chunk in texts.chunks:
        if chunk.keyword in chosen:
            message = f"there are several {chunk.keyword} chunks; the first one was read"
            notes.add("png_repeated", message)
        chosen.setdefault(chunk.keyword, chunk)
    if CCV3 in chosen and CHARA in chosen:
        attempt = ImportNotes(notes.steps)
        try:
            document = _card_in(chosen[CCV3], attempt)
        except InvalidInputError as error:
            notes.add("png_ccv3_broken", f"the ccv3 chunk is invalid, so chara was read: {error}")
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
    raise ImportInvalidError("This PNG has no card data (expected a chara, ccv3 or naidata chunk).")


def _card_in(chunk: png.TextChunk, notes: ImportNotes) -> JsonDocument:
    return _card(png.payload(chunk, notes), f"The {chunk.keyword} chunk", notes)


def _novelai_book_in(chunk: png.TextChunk, notes: ImportNotes) -> JsonDocument:
    """Return the lorebook that NovelAI put into an image.

    Source: docs/rules/formats.md §4, §6.
    """
    what = f"The {chunk.keyword} chunk"
    data = png.payload(chunk, notes)
    return _document(data, f"{what} holds no NovelAI lorebook", {FileKind.NAI_LOREBOOK}, notes)


def _in_webp(data: bytes, notes: ImportNotes) -> DecodedFile:
    text = webp.read_card(data, notes)
    return DecodedFile(_card(text, "The comment in the WEBP's EXIF data", notes), WEBP_FORMAT)


def _in_jpeg(data: bytes, notes: ImportNotes) -> DecodedFile:
    return DecodedFile(_card(jpeg.read_card(data, notes), "card.json", notes), CHARX_FORMAT)


def _in_zip(data: bytes, notes: ImportNotes) -> DecodedFile:
    """Return the card of a charx, or the character of a byaf."""
    archive = charx.open_archive(data, notes)
    manifest = archive.read(_MANIFEST, notes)
    if manifest is not None:
        return DecodedFile(_backyard_character(archive, manifest, notes))
    return DecodedFile(_card(charx.card_of(archive, notes), "card.json", notes), CHARX_FORMAT)


def _backyard_character(
    archive: charx.Archive, manifest: bytes, notes: ImportNotes
) -> JsonDocument:
    """Return the first character of an archive of Backyard.

    Raises:
        ImportInvalidError: the archive has none, or one that is damaged.

    Source: docs/rules/formats.md §11.
    """
    listed = decode_text(manifest, notes).value
    paths = listed.get("characters") if isinstance(listed, dict) else None
    named = [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []
    found = [name for name in archive.names if _BACKYARD_CHARACTER.fullmatch(name)]
    path = next((path for path in named if path in found), next(iter(found), None))
    data = None if path is None else archive.read(path, notes)
    if path is None or data is None:
        raise ImportInvalidError("This archive of Backyard (.byaf) holds no character.")
    if len(found) > 1:
        notes.add("not_kept", f"the archive holds {len(found)} characters; {path} is read")
    what = f"{path} of Backyard's archive holds no character"
    return _document(data, what, {FileKind.BACKYARD}, notes)


def _in_risum(data: bytes, _notes: ImportNotes) -> NoReturn:
    """Refuse a RisuAI module: its encoding is not documented.

    Source: docs/rules/formats.md §8.
    """
    size = int.from_bytes(data[2:_RISUM_HEAD_BYTES], "little")
    there = max(len(data) - _RISUM_HEAD_BYTES, 0)
    if len(data) < _RISUM_HEAD_BYTES or size > there:
        raise ImportInvalidError(
            "This looks like a RisuAI module, but it is truncated"
            f" (it declares {size} bytes, {there} are present)."
        )
    raise ImportInvalidError(
        "RisuAI modules are not supported; export the lorebook as JSON in RisuAI."
    )


def _card(data: bytes, what: str, notes: ImportNotes) -> JsonDocument:
    """Return the card in a text out of a container."""
    return _document(data, f"{what} holds no card", CARDS, notes)


def _document(
    data: bytes, complaint: str, kinds: Container[FileKind], notes: ImportNotes
) -> JsonDocument:
    """Return the JSON document in a text; it must be of one of the kinds.

    Raises:
        ImportInvalidError: it is not; the message begins with the complaint.
    """
    try:
        document = decode_text(data, notes)
    except TooExpensiveError:
        raise
    except InvalidInputError as error:
        raise ImportInvalidError(f"{complaint}: {error}") from error
    kind = find_kind(document.value)
    if kind is None or kind not in kinds:
        raise ImportInvalidError(f"{complaint}: the JSON is of another kind.")
    return document


_CONTAINERS: Sequence[tuple[bytes, Callable[[bytes, ImportNotes], DecodedFile]]] = (
    (png.SIGNATURE, _in_png),
    (jpeg.MAGIC, _in_jpeg),
    (webp.MAGIC, _in_webp),
    *((magic, _in_zip) for magic in charx.MAGICS),
    (RISUM_MAGIC, _in_risum),
)
