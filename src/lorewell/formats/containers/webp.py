"""The card in a WEBP image: the user comment of its EXIF data, without trusting any offset.

Source: the WebP container specification (RIFF chunks); TIFF 6.0, section 2; Exif 2.32, §4.6.5
(UserComment); docs/rules/formats.md §4.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from lorewell.engine.steps import Steps
from lorewell.errors import ImportInvalidError
from lorewell.formats.notes import ImportNotes

MAGIC: Final = b"RIFF"
MAX_CHUNKS: Final = 100_000  # real images have a handful, animations a few thousand
_Order: TypeAlias = Literal["little", "big"]

_FORM = b"WEBP"
_CHUNKS_START = 12  # after the mark, the length and the form
_HEAD_BYTES = 8  # name and length of a chunk
_EXIF_MARK = b"Exif\0\0"  # some writers leave it out
_ORDERS: dict[bytes, _Order] = {b"II*\0": "little", b"MM\0*": "big"}
_FIELD_BYTES = 12
_USER_COMMENT = 0x9286
_EXIF_DIRECTORY = 0x8769  # the directory of the comment in Exif; cards have it one level above
_BYTE_TYPES = frozenset([1, 2, 7])  # BYTE, ASCII, UNDEFINED: one byte each
_INLINE_BYTES = 4  # values up to this length are stored in place of their offset

_CODE_BYTES = 8
_UNICODE = b"UNICODE\0"
_CODES = frozenset([b"ASCII\0\0\0", bytes(_CODE_BYTES)])
_BLANKS_AND_COMMAS = b", \t\n\r\x0b\x0c"
_OF_NUMBERS = b"0123456789" + _BLANKS_AND_COMMAS
_NUMBERS = re.compile(rb"\s*+\d{1,3}\s*+(?:,\s*+\d{1,3}\s*+)*+,?\s*+")
_PIECE_CHARS = 65_536  # numbers are converted to bytes in pieces of about this size
_BYTES_A_STEP = 10


class _Field(NamedTuple):
    """A field of a TIFF directory.

    Attributes:
        tag: its meaning.
        type: type of its values.
        size: number of its values, as declared.
        value: four bytes: the offset of its values, or short values themselves.
    """

    tag: int
    type: int
    size: int
    value: bytes


def is_webp(data: bytes) -> bool:
    """Return whether this is a WEBP image, by its first bytes."""
    return data.startswith(MAGIC) and data[8:_CHUNKS_START] == _FORM


def read_card(data: bytes, notes: ImportNotes) -> bytes:
    """Return the text of the card in a WEBP: JSON in UTF-8, or in UTF-16 with a byte order mark.

    Args:
        data: a file that begins with `MAGIC`.
        notes: collects the oddities.

    Raises:
        ImportInvalidError: the file is not a WEBP, or has no card.
    """
    if not is_webp(data):
        raise ImportInvalidError("This is a RIFF file, but not a WEBP image.")
    exif = _exif(data, notes)
    comment = _user_comment(exif.removeprefix(_EXIF_MARK))
    if comment is None:
        raise ImportInvalidError("This WEBP has no card in the EXIF data (no readable comment).")
    text = _text(comment)
    if not text:
        raise ImportInvalidError("This WEBP has no card in the EXIF data: the comment is empty.")
    numbers = None if text.translate(None, _OF_NUMBERS) else _from_numbers(text, notes.steps)
    return text if numbers is None else numbers


def _exif(data: bytes, notes: ImportNotes) -> bytes:
    """Return the first EXIF chunk."""
    at = _CHUNKS_START
    count = 0
    while at < len(data):
        count += 1
        notes.steps.spend("chunks")
        if count > MAX_CHUNKS:
            message = f"The WEBP has more than {MAX_CHUNKS:,} chunks (the limit)."
            raise ImportInvalidError(message, limit_chunks=MAX_CHUNKS)
        name = data[at : at + 4]
        size = int.from_bytes(data[at + 4 : at + _HEAD_BYTES], "little")
        at += _HEAD_BYTES
        present = max(len(data) - at, 0)
        if name == b"EXIF":
            if size > present:
                message = f"chunk EXIF declares {size} bytes, {present} are present"
                notes.add("webp_damaged", message)
            return data[at : at + size]
        if size > present:
            what = f"chunk {name.decode('ascii', 'replace')!r} declares {size} bytes"
            raise ImportInvalidError(
                f"The WEBP is truncated ({what}, {present} are present)."
                " No card was found before that."
            )
        at += size + size % 2  # chunks begin at even offsets
    raise ImportInvalidError("This WEBP has no card data (expected an EXIF chunk).")


def _user_comment(tiff: bytes) -> bytes | None:
    """Return the comment of the first directory, else that of the Exif directory, else None."""
    order = _ORDERS.get(tiff[:4])
    if order is None:
        return None
    below = b""
    for field in _fields(tiff, tiff[4:8], order):
        if field.tag == _USER_COMMENT:
            return _value(tiff, field, order)
        if field.tag == _EXIF_DIRECTORY:
            below = field.value
    for field in _fields(tiff, below, order):
        if field.tag == _USER_COMMENT:
            return _value(tiff, field, order)
    return None


def _fields(tiff: bytes, offset: bytes, order: _Order) -> Iterator[_Field]:
    """Yield the fields of a directory that are present, whatever number it declares."""
    start = int.from_bytes(offset, order)
    if not start:  # there is no such directory; offset 0 is the head of the data
        return
    count = int.from_bytes(tiff[start : start + 2], order)
    present = (len(tiff) - start - 2) // _FIELD_BYTES
    for number in range(min(count, present)):
        at = start + 2 + number * _FIELD_BYTES
        yield _Field(
            tag=int.from_bytes(tiff[at : at + 2], order),
            type=int.from_bytes(tiff[at + 2 : at + 4], order),
            size=int.from_bytes(tiff[at + 4 : at + 8], order),
            value=tiff[at + 8 : at + _FIELD_BYTES],
        )


def _value(tiff: bytes, field: _Field, order: _Order) -> bytes | None:
    """Return the bytes of a field; None if it has another type or is truncated."""
    if field.type not in _BYTE_TYPES:
        return None
    if field.size <= _INLINE_BYTES:
        return field.value[: field.size]
    start = int.from_bytes(field.value, order)
    value = tiff[start : start + field.size]
    return value if len(value) == field.size else None


def _text(comment: bytes) -> bytes:
    """Return a comment without its character code, which some writers leave out."""
    code = comment[:_CODE_BYTES]
    if code == _UNICODE:
        text = comment[_CODE_BYTES:].rstrip(b"\0")
        text += b"\0" * (len(text) % 2)  # it was half of the last character
        if text[:2] in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}:
            return text
        # JSON begins with ASCII: the zero byte shows the order, which Exif leaves open.
        return (codecs.BOM_UTF16_BE if text[:1] == b"\0" else codecs.BOM_UTF16_LE) + text
    return (comment[_CODE_BYTES:] if code in _CODES else comment).strip(b"\0 \t\r\n")


def _from_numbers(text: bytes, steps: Steps) -> bytes | None:
    """Return the bytes that are written as decimal numbers, separated by commas.

    Return None if the text is anything else.

    Raises:
        ImportInvalidError: a number is larger than 255.
    """
    found = bytearray()
    at = 0
    try:
        while at < len(text):  # in pieces: a list of all numbers takes 20 times the text's memory
            end = text.find(b",", at + _PIECE_CHARS)
            end = len(text) if end < 0 else end
            steps.spend("bytes", 1 + (end - at) // _BYTES_A_STEP)
            if not _NUMBERS.fullmatch(text, at, end):
                return None
            found += bytes(map(int, text[at:end].rstrip(_BLANKS_AND_COMMAS).split(b",")))
            at = end + 1
    except ValueError as error:
        sentence = "This WEBP has no card in the EXIF data: its numbers are not bytes (0 to 255)."
        raise ImportInvalidError(sentence) from error
    return bytes(found)
