"""Pictures and archives with a card in them: how they are made, and changed behind their checksums.

A share of the changes puts lengths and checksums right again, so that readers go on to what is
inside; the rest is left as damaged as it is.
"""

from __future__ import annotations

import base64
import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Final, NamedTuple

import pictures
from deep.fuzzing.documents import CARD_DOCUMENTS, DOCUMENTS, as_bytes
from deep.fuzzing.json_mutator import OnBytes, card_payload
from lorewell.formats.detect import FileKind

JPEG: Final = b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0\xff\xd9"
RISUM_MAGIC: Final = b"\x6f\x00"
_METHODS: Final = (
    *(zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA),
)
_ZIP_MARKS: Final = (b"PK\1\2", b"PK\3\4", b"PK\5\6", b"PK\6\6", b"PK\6\7")
_KEYWORDS: Final = ("chara", "ccv3", "CHARA", "naidata", "Ccv3", "none", "chara-ext-asset_:1", "é")
_KINDS: Final = (b"tEXt", b"zTXt", b"iTXt", b"IEND", b"IDAT", b"eXIf", b"te1t")
_CODES: Final = (b"ASCII\0\0\0", b"UNICODE\0", bytes(8), b"JIS\0\0\0\0\0", b"")
_COMMENT, _EXIF_DIRECTORY = 0x9286, 0x8769
_NUMBERS: Final = (0, 1, 2, 7, 8, 255, 256, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0xFFFFFFFF)
_FIX_SHARE: Final = 0.7


class _Chunk(NamedTuple):
    kind: bytes
    body: bytes


Pack = Callable[[bytes, Random], bytes]
Chunks = list[_Chunk]


def _patched(data: bytes, at: int, chance: Random) -> bytes:
    """Return the data with an odd number written at a place."""
    size = chance.choice((1, 2, 4, 4, 8))
    number = chance.choice((*_NUMBERS, len(data), at)) & (256**size - 1)
    raw = number.to_bytes(size, chance.choice(("little", "big")))
    return data[:at] + raw + data[at + size :]


def _shuffled(chunks: Chunks, chance: Random, made: Callable[[], _Chunk]) -> None:
    """Take a chunk away, double, move or add one, in place."""
    at = chance.randrange(len(chunks) + 1)
    action = chance.randrange(4)
    if action == 0 or not chunks:
        chunks.insert(at, made())
    elif action == 1:
        chunks.insert(at, chance.choice(chunks))
    else:
        chunk = chunks.pop(chance.randrange(len(chunks)))
        if action == 2:
            chunks.insert(at, chunk)


# PNG


def _base64(payload: bytes, chance: Random) -> bytes:
    """Return a document as texts of pictures hold it: base64 in one of its forms, or plain."""
    form = chance.randrange(8)
    if form == 0:
        return payload
    digits = base64.b64encode(payload)
    if form == 1:
        return base64.urlsafe_b64encode(payload).rstrip(b"=")
    if form == 2:
        return b"\n".join(digits[at : at + 76] for at in range(0, len(digits), 76)) + b" "
    return digits


def _text_chunk(payload: bytes, chance: Random) -> _Chunk:
    keyword = chance.choice(_KEYWORDS[: chance.choice((2, len(_KEYWORDS)))])
    value = _base64(payload, chance)
    made = chance.choice(
        (
            pictures.raw_text(value, keyword),
            pictures.ztxt(value, keyword),
            pictures.itxt(value, keyword),
            pictures.itxt(value, keyword, deflated=True),
        )
    )
    return _Chunk(made[4:8], made[8:-4])


def _png_chunks(data: bytes) -> Chunks:
    chunks, at = [], len(pictures.SIGNATURE)
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        chunks.append(_Chunk(data[at + 4 : at + 8], data[at + 8 : at + 8 + size]))
        at += 12 + size
    return chunks


def mutate_png(data: bytes, max_size: int, chance: Random, on_bytes: OnBytes) -> bytes:
    """Return a picture with other chunks, or with other bytes in one or anywhere."""
    action = chance.randrange(10)
    if action < 2:
        return on_bytes(data, max_size)
    if action == 2:
        return _patched(data, chance.randrange(len(data) + 1), chance)
    chunks = _png_chunks(data)
    if action < 6 or not chunks:
        _shuffled(chunks, chance, lambda: _text_chunk(card_payload(chance, on_bytes), chance))
    else:
        at = chance.randrange(len(chunks))
        chunk = chunks[at]
        if action == 6:
            chunks[at] = chunk._replace(kind=chance.choice(_KINDS))
        else:
            chunks[at] = chunk._replace(body=on_bytes(chunk.body, max_size))
    crc = None if chance.random() < _FIX_SHARE else 0
    body = b"".join(pictures.chunk(*chunk, crc=crc) for chunk in chunks)
    return (pictures.SIGNATURE + body)[:max_size]


# WEBP


def _riff(chunks: Chunks) -> bytes:
    body = b"WEBP" + b"".join(
        kind + struct.pack("<L", len(body)) + body + b"\0" * (len(body) % 2)
        for kind, body in chunks
    )
    return b"RIFF" + struct.pack("<L", len(body)) + body


def _tiff(comment: bytes, order: str, *, below: bool = False) -> bytes:
    """Return TIFF data with a user's comment, in its first directory or the one below that."""
    mark = b"II*\0" if order == "<" else b"MM\0*"
    field = struct.Struct(order + "2H2L")
    head = mark + struct.pack(order + "L", 8)
    if below:
        head += struct.pack(order + "H", 1) + field.pack(_EXIF_DIRECTORY, 4, 1, 26) + bytes(4)
    start = len(head) + 18
    head += struct.pack(order + "H", 1) + field.pack(_COMMENT, 7, len(comment), start) + bytes(4)
    return head + comment


def _exif_chunk(payload: bytes, chance: Random) -> _Chunk:
    text = payload
    code = chance.choice(_CODES)
    if code == _CODES[1]:
        encoding = chance.choice(("utf-16", "utf-16-le", "utf-16-be"))
        text = payload.decode("utf-8", "replace").encode(encoding)
    elif chance.random() < 0.3:
        text = ",".join(map(str, payload)).encode()
    mark = chance.choice((b"", b"Exif\0\0"))
    tiff = _tiff(code + text, chance.choice("<>"), below=chance.random() < 0.4)
    return _Chunk(b"EXIF", mark + tiff)


def _riff_chunks(data: bytes) -> Chunks:
    chunks, at = [], 12
    while at + 8 <= len(data):
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        chunks.append(_Chunk(data[at : at + 4], data[at + 8 : at + 8 + size]))
        at += 8 + size + size % 2
    return chunks


def mutate_webp(data: bytes, max_size: int, chance: Random, on_bytes: OnBytes) -> bytes:
    """Return a picture with another comment, or with other numbers or bytes around it."""
    action = chance.randrange(10)
    if action < 2:
        return on_bytes(data, max_size)
    if action == 2:
        return _patched(data, chance.randrange(len(data) + 1), chance)
    chunks = _riff_chunks(data)
    if action < 6 or not chunks:
        _shuffled(chunks, chance, lambda: _exif_chunk(card_payload(chance, on_bytes), chance))
    else:
        at = chance.randrange(len(chunks))
        body = chunks[at].body
        head_bytes = min(len(body), 64)  # where the directories are
        if action == 6:
            body = on_bytes(body, max_size)
        elif action == 7:
            body = body[:head_bytes] + on_bytes(body[head_bytes:], max_size)
        else:
            body = _patched(body, chance.randrange(head_bytes + 1), chance)
        chunks[at] = chunks[at]._replace(body=body)
    return _riff(chunks)[:max_size]


# Archives


def archive(payload: bytes, method: int, *others: tuple[str, bytes]) -> bytes:
    """Return an archive with card.json behind other members; `card.jsoN` becomes a second one."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as written:
        for name, content in (*others, ("card.json", payload)):
            written.writestr(zipfile.ZipInfo(name), content, method)
    return file.getvalue().replace(b"card.jsoN", b"card.json")


def _wide_end(data: bytes) -> bytes:
    """Return an archive whose end record stands behind a wide one that says the same."""
    at = data.rfind(_ZIP_MARKS[2])
    if at < 0:
        return data
    _, _, _, _, count, size, offset, _ = struct.unpack("<4s4H2LH", data[at : at + 22].ljust(22))
    wide = struct.pack("<4sQ2H2L4Q", _ZIP_MARKS[3], 44, 45, 45, 0, 0, count, count, size, offset)
    return data[:at] + wide + struct.pack("<4sLQL", _ZIP_MARKS[4], 0, at, 1) + data[at:]


def _wide_member(data: bytes) -> bytes:
    """Return an archive of one member whose sizes and place stand in its extra field."""
    at, end = data.find(_ZIP_MARKS[0]), len(data) - 22
    head, name = bytearray(data[at : at + 46]), data[at + 46 : end]
    packed_bytes, real_bytes, offset = struct.unpack("<2L14xL", head[20:46])
    field = struct.pack("<2H3Q", 1, 24, real_bytes, packed_bytes, offset)
    head[20:28], head[30:32], head[42:46] = b"\xff" * 8, b"\x1c\0", b"\xff" * 4
    size = struct.pack("<L", len(head) + len(name) + len(field))
    return data[:at] + head + name + field + data[end : end + 12] + size + data[end + 16 :]


def _fresh_archive(chance: Random, on_bytes: OnBytes) -> bytes:
    payload, method = card_payload(chance, on_bytes), chance.choice(_METHODS)
    if chance.random() < 0.2:
        return _wide_member(archive(payload, method))
    names = ("card.jsoN", "module.risum", "../up", "C:\\x", "assets/图.png", "x_meta/1.json")
    others = [(name, b"x") for name in names if chance.random() < 0.2]
    return archive(payload, method, *others)


def _mark_places(data: bytes) -> Iterator[int]:
    for mark in _ZIP_MARKS:
        at = data.find(mark)
        while at >= 0:
            yield at
            at = data.find(mark, at + 1)


def mutate_archive(data: bytes, max_size: int, chance: Random, on_bytes: OnBytes) -> bytes:
    """Return an archive made anew, or one with odd numbers in its records, or other bytes."""
    action = chance.randrange(10)
    if action < 2:
        return on_bytes(data, max_size)
    if action < 4:
        data = _fresh_archive(chance, on_bytes)
    elif action == 4:
        data = _wide_end(data)
    elif action == 5:
        data += chance.choice((b"\0" * 30, b"PK\5\6", data, bytes(22)))
    else:
        places = [*_mark_places(data)]
        for _ in range(chance.choice((1, 1, 2, 4)) if places else 0):
            data = _patched(data, chance.choice(places) + chance.randrange(4, 56), chance)
    return data[:max_size]


def mutate_jpeg(data: bytes, max_size: int, chance: Random, on_bytes: OnBytes) -> bytes:
    """Return a picture with another archive behind it."""
    at = data.find(b"PK")
    at = len(data) if at < 0 else at
    picture = JPEG if chance.random() < 0.2 else data[:at]
    behind = mutate_archive(data[at:], max_size, chance, on_bytes)
    return (picture + behind)[:max_size]


def mutate_risum(data: bytes, max_size: int, _chance: Random, on_bytes: OnBytes) -> bytes:
    """Return a RisuAI module with other bytes behind its mark."""
    return (RISUM_MAGIC + on_bytes(data.removeprefix(RISUM_MAGIC), max_size))[:max_size]


# Seeds


def _cards() -> Sequence[bytes]:
    return [as_bytes(document) for document in CARD_DOCUMENTS]


def png_seeds() -> Iterator[bytes]:
    """Yield pictures with cards and a book in all kinds of text chunks."""
    for card in _cards():
        digits = base64.b64encode(card)
        yield pictures.png(pictures.raw_text(digits), pictures.raw_text(digits, "ccv3"))
        yield pictures.png(pictures.ztxt(digits, "ccv3"), after=[pictures.itxt(digits)])
    book = DOCUMENTS[FileKind.NAI_LOREBOOK][0]
    yield pictures.png(pictures.text(book, "naidata"))
    yield pictures.png(pictures.itxt(_cards()[0], deflated=True)) + b"behind"


def webp_seeds() -> Iterator[bytes]:
    """Yield pictures with a card in their EXIF data, as text and as numbers."""
    head = [_Chunk(b"VP8X", bytes(10)), _Chunk(b"VP8 ", b"odd")]
    for card in _cards():
        for comment, order in ((_CODES[0] + card, "<"), (_CODES[2] + card, ">")):
            yield _riff([*head, _Chunk(b"EXIF", _tiff(comment, order))])
    numbers = ",".join(map(str, _cards()[0])).encode()
    yield _riff([_Chunk(b"EXIF", b"Exif\0\0" + _tiff(_CODES[0] + numbers, ">", below=True))])
    wide = _CODES[1] + _cards()[1].decode().encode("utf-16")
    yield _riff([_Chunk(b"EXIF", _tiff(wide, "<"))])


def archive_seeds() -> Iterator[bytes]:
    """Yield archives by every method of packing, one of them with wide numbers."""
    for card, method in zip(_cards(), (*_METHODS, *_METHODS), strict=False):
        yield archive(card, method, ("assets/图.png", zlib.compress("灯".encode())))
    yield _wide_end(archive(_cards()[0], zipfile.ZIP_STORED, ("module.risum", b"\x6f\0")))
    yield _wide_member(archive(_cards()[0], zipfile.ZIP_DEFLATED))
    yield _wide_end(_wide_member(archive(_cards()[1], zipfile.ZIP_BZIP2)))


def jpeg_seeds() -> Iterator[bytes]:
    """Yield pictures with an archive behind them."""
    for data in archive_seeds():
        yield JPEG + data


def risum_seeds() -> Iterator[bytes]:
    """Yield a module that is whole, and one that is cut off."""
    yield RISUM_MAGIC + (5).to_bytes(4, "little") + "箱.".encode() + bytes(3)
    yield RISUM_MAGIC + b"\xff\0\0"
