"""Text chunks of a PNG: found, checked, decoded and replaced without trusting a length or a size.

Source: the PNG specification, §5 and §11.3.4; docs/rules/formats.md §4; docs/rules/native.md §11.2.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from lorewell.engine.steps import Steps
from lorewell.errors import ImportInvalidError
from lorewell.formats.containers.inflating import inflate
from lorewell.formats.containers.part import MAX_PART_NAME_CHARS, ContainerPart
from lorewell.formats.json_text import storable
from lorewell.formats.notes import ImportNotes

MAX_CHUNKS = 100_000  # real pictures have a few thousand
SIGNATURE = b"\x89PNG\r\n\x1a\n"
MAX_INFLATED_BYTES = 16 * 1024 * 1024  # docs/rules/native.md §11.2
_HEAD_BYTES = 8  # length and type
_CRC_BYTES = 4
_BYTES_A_STEP = 100
_END = b"IEND"
_TEXT_CHUNKS = frozenset([b"tEXt", b"zTXt", b"iTXt"])
_CARD_KEYWORDS = frozenset([b"chara", b"ccv3"])
_TYPE = re.compile(rb"[A-Za-z]{4}")
_BLANKS = b" \t\n\r\x0b\x0c"
_DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_NO_DIGIT = re.compile(rb"[^A-Za-z0-9+/_\s-]")
_URL_ALPHABET = bytes.maketrans(b"-_", b"+/")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextChunk:
    """A text chunk as it stands in the file.

    Attributes:
        keyword: in lower case, as readers of cards compare it.
        text: the value, still deflated if `deflated`.
        deflated: whether it has to be inflated.
    """

    keyword: str
    text: bytes
    deflated: bool


class PngTexts(NamedTuple):
    """The text chunks of a PNG in the order of the file, and where it is cut off, if it is."""

    chunks: tuple[TextChunk, ...]
    fault: str | None


class _Span(NamedTuple):
    """Where a chunk is: half-open, from its length to its checksum."""

    type: bytes
    start: int
    end: int
    after_end: bool  # whether it stands behind the end of the picture


class _Chunk(NamedTuple):
    type: bytes
    body: bytes
    sound: bool  # whether the checksum is right


def read_texts(data: bytes, keywords: frozenset[str], notes: ImportNotes) -> PngTexts:
    """Return the text chunks with one of the keywords; the rest of a picture is passed over.

    A wrong checksum, chunks after the end and a file that is cut off are noted; only what is
    really there is read.

    Args:
        data: a file that begins with `SIGNATURE`.
        keywords: in lower case.
        notes: takes the oddities.
    """
    reader = _Reader(data, notes.steps)
    found: list[TextChunk] = []
    for span in reader.spans():
        if span.type not in _TEXT_CHUNKS:
            continue
        chunk = _chunk(data, span)
        text = _text_chunk(chunk)
        if text is None or text.keyword not in keywords:
            continue
        if not chunk.sound:
            notes.add("png_crc", f"the checksum of the {text.keyword} chunk is wrong")
        if span.after_end:
            notes.add("png_after_end", f"the {text.keyword} chunk stands after the PNG's end")
        found.append(text)
    if reader.trailing:
        notes.add("png_trailing_bytes", f"{reader.trailing} bytes follow the PNG's end")
    if reader.fault is not None and found:
        notes.add("png_damaged", reader.fault)
    return PngTexts(tuple(found), reader.fault)


def list_texts(data: bytes) -> Iterator[ContainerPart]:
    """Yield every text chunk of a PNG, whatever its keyword, as far as the file is sound.

    Args:
        data: a file that begins with `SIGNATURE`.
    """
    for span in _Reader(data, Steps()).spans():
        if span.type in _TEXT_CHUNKS:
            start, end = span.start + _HEAD_BYTES, span.end - _CRC_BYTES
            head = data[start : min(end, start + MAX_PART_NAME_CHARS)]
            keyword = storable(head.partition(b"\0")[0].decode("latin-1"))
            yield ContainerPart(keyword, span.type.decode(), end - start)


class _Reader:
    """Walks over the chunks; `fault` and `trailing` are known when it has come to the end."""

    def __init__(self, data: bytes, steps: Steps) -> None:
        self._data = data
        self._steps = steps
        self.fault: str | None = None
        self.trailing = 0

    def spans(self) -> Iterator[_Span]:
        """Yield where each chunk is, in the order of the file."""
        at = len(SIGNATURE)
        ended = False
        count = 0
        while at < len(self._data):
            start = at
            count += 1
            self._steps.spend("chunks")
            if count > MAX_CHUNKS:
                self.fault = f"The PNG has more than {MAX_CHUNKS:,} chunks, the limit."
                return
            size = int.from_bytes(self._data[at : at + 4], "big")
            kind = self._data[at + 4 : at + _HEAD_BYTES]
            fault = self._fault(at, kind, size)
            if fault is not None:
                self._stop(at, fault, ended=ended)
                return
            at += _HEAD_BYTES + size + _CRC_BYTES
            yield _Span(kind, start, at, ended)
            ended = ended or kind == _END
        if not ended:
            self.fault = "The PNG is cut off: its end (chunk IEND) is missing."

    def _fault(self, at: int, kind: bytes, size: int) -> str | None:
        if len(kind) < 4:  # noqa: PLR2004  the four letters of a type
            return f"The PNG is cut off at byte {at}, in the head of a chunk."
        if not _TYPE.fullmatch(kind):
            return f"The PNG is damaged: at byte {at} there is no chunk."
        there = len(self._data) - at - _HEAD_BYTES
        if size + _CRC_BYTES > there:
            promise = (
                f"chunk {kind.decode()} promises {size} bytes and a checksum, {there} are there"
            )
            return f"The PNG is cut off ({promise})."
        return None

    def _stop(self, at: int, fault: str, *, ended: bool) -> None:
        if ended:
            self.trailing = len(self._data) - at
        else:
            self.fault = fault


def _chunk(data: bytes, span: _Span) -> _Chunk:
    body = data[span.start + _HEAD_BYTES : span.end - _CRC_BYTES]
    crc = int.from_bytes(data[span.end - _CRC_BYTES : span.end], "big")
    return _Chunk(span.type, body, _crc(span.type, body) == crc)


def _crc(kind: bytes, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(kind))


def _text_chunk(chunk: _Chunk) -> TextChunk | None:
    """Return the parts of a text chunk; None where it is too short to have them."""
    keyword, mark, rest = chunk.body.partition(b"\0")
    if not mark:
        return None
    deflated = False
    if chunk.type == b"zTXt":
        deflated, rest = True, rest[1:]  # one method is defined
    elif chunk.type == b"iTXt":
        deflated = rest[:1] == b"\x01"
        *_, rest = rest[2:].split(b"\0", 2)  # language and translated keyword stand before it
    return TextChunk(keyword=keyword.decode("latin-1").lower(), text=rest, deflated=deflated)


def payload(chunk: TextChunk, notes: ImportNotes) -> bytes:
    """Return the document in a text chunk: inflated, and out of its base64.

    White space, missing padding and the URL alphabet are taken; plain JSON is taken and noted.

    Raises:
        ImportInvalidError: the chunk is empty, inflates to more than 16 MiB, or is neither base64
            nor JSON.
    """
    name = f"{chunk.keyword} chunk"
    text = _inflated(chunk.text, name, notes.steps) if chunk.deflated else chunk.text
    notes.steps.spend("bytes", len(text) // _BYTES_A_STEP)
    digits = text.translate(None, _BLANKS)
    if not digits:
        raise ImportInvalidError(f"The {name} is empty.")
    if digits[:1] in {b"{", b"["}:
        notes.add("png_raw_json", f"the {name} holds plain JSON, not base64")
        return text
    digits = digits.rstrip(b"=")
    if digits.translate(None, _DIGITS):
        wrong = _NO_DIGIT.search(text)
        at = wrong.start() if wrong else 0
        raise ImportInvalidError(f"The {name} is not valid base64 (offset {at}).")
    digits = digits.translate(_URL_ALPHABET)
    if len(digits) % 4 == 1:
        raise ImportInvalidError(f"The {name} is not valid base64: a character is missing.")
    return base64.b64decode(digits + b"=" * (-len(digits) % 4))


def _inflated(deflated: bytes, name: str, steps: Steps) -> bytes:
    """Return the inflated bytes; the limit is counted while inflating, whatever was promised."""
    inflater = zlib.decompressobj()
    try:
        text = inflate(inflater, deflated, limit_bytes=MAX_INFLATED_BYTES, steps=steps)
    except zlib.error as error:
        raise ImportInvalidError(f"The compressed text of the {name} is damaged.") from error
    if len(text) > MAX_INFLATED_BYTES:
        limit = f"{MAX_INFLATED_BYTES // 1024**2} MiB"
        raise ImportInvalidError(
            f"The compressed text of the {name} is larger than the limit of {limit}.",
            limit_bytes=MAX_INFLATED_BYTES,
        )
    if not inflater.eof:
        raise ImportInvalidError(f"The compressed text of the {name} is cut off.")
    return text


def replace_card(png: bytes, *, chara: bytes, ccv3: bytes | None) -> bytes:
    """Return a picture with these cards in place of all that it had.

    Every text chunk with the keyword `chara` or `ccv3` goes, whatever its kind, its case and its
    place: a reader prefers `ccv3`, and an old one would hide the new card. New ones are put before
    the picture's end. All other bytes stay as they are: chunks that nobody knows, wrong checksums,
    and what follows the picture.

    Args:
        png: a whole picture; not changed.
        chara: the card for readers of V1 and V2, as JSON in UTF-8.
        ccv3: the card V3, likewise; None writes no such chunk.

    Raises:
        ImportInvalidError: it is no PNG, or it is cut off or damaged before its end.

    Source: docs/rules/formats.md §4.
    """
    if not png.startswith(SIGNATURE):
        raise ImportInvalidError("This is no PNG picture.")
    cards = _card_chunk(b"chara", chara) + (b"" if ccv3 is None else _card_chunk(b"ccv3", ccv3))
    reader = _Reader(png, Steps())
    kept: list[bytes] = []
    done = 0  # up to here, all is kept or left out
    for span in reader.spans():
        if span.type == _END and not span.after_end:
            kept += (png[done : span.start], cards)
            done = span.start
        elif _holds_card(png, span):
            kept.append(png[done : span.start])
            done = span.end
    if reader.fault is not None:
        raise ImportInvalidError(f"{reader.fault} No card can be put into it.")
    return b"".join((*kept, png[done:]))


def _holds_card(png: bytes, span: _Span) -> bool:
    if span.type not in _TEXT_CHUNKS:
        return False
    keyword, _, _ = png[span.start + _HEAD_BYTES : span.end - _CRC_BYTES].partition(b"\0")
    return keyword.lower() in _CARD_KEYWORDS


def _card_chunk(keyword: bytes, card: bytes) -> bytes:
    """Return a tEXt chunk that holds a card as base64."""
    body = keyword + b"\0" + base64.b64encode(card)
    size, crc = (number.to_bytes(4, "big") for number in (len(body), _crc(b"tEXt", body)))
    return size + b"tEXt" + body + crc
