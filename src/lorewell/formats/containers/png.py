"""Reads and replaces text chunks of a PNG, without trusting any declared length or size.

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

MAX_CHUNKS = 100_000  # real images have a few thousand
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
    """A text chunk of a file.

    Attributes:
        keyword: in lower case, as readers of cards compare it.
        text: the value.
        deflated: whether the value is compressed.
    """

    keyword: str
    text: bytes
    deflated: bool


class PngTexts(NamedTuple):
    """The text chunks of a PNG in the order of the file, and why reading stopped early, if so."""

    chunks: tuple[TextChunk, ...]
    fault: str | None


class _Span(NamedTuple):
    """The span of a chunk, half-open, from its length to its checksum."""

    type: bytes
    start: int
    end: int
    after_end: bool  # whether it follows the end of the image


class _Chunk(NamedTuple):
    type: bytes
    body: bytes
    is_intact: bool  # whether the checksum is right


def read_texts(data: bytes, keywords: frozenset[str], notes: ImportNotes) -> PngTexts:
    """Return the text chunks with one of the keywords; the rest of the image is skipped.

    A wrong checksum, chunks after the end and a truncated file are noted.

    Args:
        data: a file that begins with `SIGNATURE`.
        keywords: in lower case.
        notes: collects the oddities.
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
        if not chunk.is_intact:
            notes.add("png_crc", f"the checksum of the {text.keyword} chunk is wrong")
        if span.after_end:
            notes.add("png_after_end", f"the {text.keyword} chunk follows the end of the PNG")
        found.append(text)
    if reader.trailing:
        notes.add("png_trailing_bytes", f"{reader.trailing} bytes follow the end of the PNG")
    if reader.fault is not None and found:
        notes.add("png_damaged", reader.fault)
    return PngTexts(tuple(found), reader.fault)


def list_texts(data: bytes) -> Iterator[ContainerPart]:
    """Yield every text chunk of a PNG, up to the first damage.

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
    """Walks over the chunks; `fault` and `trailing` are set when it reaches the end."""

    def __init__(self, data: bytes, steps: Steps) -> None:
        self._data = data
        self._steps = steps
        self.fault: str | None = None
        self.trailing = 0

    def spans(self) -> Iterator[_Span]:
        """Yield the span of each chunk, in the order of the file."""
        at = len(SIGNATURE)
        ended = False
        count = 0
        while at < len(self._data):
            start = at
            count += 1
            self._steps.spend("chunks")
            if count > MAX_CHUNKS:
                self.fault = f"The PNG has more than {MAX_CHUNKS:,} chunks (the limit)."
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
            self.fault = "The PNG is truncated: its end (chunk IEND) is missing."

    def _fault(self, at: int, kind: bytes, size: int) -> str | None:
        if len(kind) < 4:  # noqa: PLR2004  the four letters of a type
            return f"The PNG is truncated at byte {at}, in the head of a chunk."
        if not _TYPE.fullmatch(kind):
            return f"The PNG is damaged: expected a chunk at byte {at}."
        present = len(self._data) - at - _HEAD_BYTES
        if size + _CRC_BYTES > present:
            what = f"chunk {kind.decode()} declares {size} bytes and a checksum"
            return f"The PNG is truncated ({what}, {present} are present)."
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
    """Return the parts of a text chunk; None if it is too short to have them."""
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
    """Return the document in a text chunk, decompressed and decoded from base64.

    White space, missing padding and the URL alphabet are accepted; plain JSON is accepted and
    noted.

    Raises:
        ImportInvalidError: the chunk is empty, decompresses to more than 16 MiB, or is neither
            base64 nor JSON.
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
        raise ImportInvalidError(f"The {name} is not valid base64 (at offset {at}).")
    digits = digits.translate(_URL_ALPHABET)
    if len(digits) % 4 == 1:
        raise ImportInvalidError(f"The {name} is not valid base64: it is truncated.")
    return base64.b64decode(digits + b"=" * (-len(digits) % 4))


def _inflated(deflated: bytes, name: str, steps: Steps) -> bytes:
    """Return the decompressed bytes, up to the limit."""
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
        raise ImportInvalidError(f"The compressed text of the {name} is truncated.")
    return text


def replace_card(png: bytes, *, chara: bytes, ccv3: bytes | None) -> bytes:
    """Return an image with its cards replaced.

    Every text chunk with the keyword `chara` or `ccv3` is removed, whatever its type, case and
    place: readers prefer `ccv3`, so that an old one would hide the new card. The new chunks are
    written before the end of the image. All other bytes stay: unknown chunks, wrong checksums, and
    data after the image.

    Args:
        png: a whole image; not changed.
        chara: the card for readers of V1 and V2, as JSON in UTF-8.
        ccv3: the card V3, also as JSON; None writes no such chunk.

    Raises:
        ImportInvalidError: the file is not a PNG, or is truncated or damaged before its end.

    Source: docs/rules/formats.md §4.
    """
    if not png.startswith(SIGNATURE):
        raise ImportInvalidError("The file is not a PNG image.")
    cards = _card_chunk(b"chara", chara) + (b"" if ccv3 is None else _card_chunk(b"ccv3", ccv3))
    reader = _Reader(png, Steps())
    kept: list[bytes] = []
    done = 0  # all bytes before it are kept or left out
    for span in reader.spans():
        if span.type == _END and not span.after_end:
            kept += (png[done : span.start], cards)
            done = span.start
        elif _holds_card(png, span):
            kept.append(png[done : span.start])
            done = span.end
    if reader.fault is not None:
        raise ImportInvalidError(f"{reader.fault} A card can't be put into it.")
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
