"""Small pictures and archives with cards in them; PNG files sound or damaged as a test wants."""

from __future__ import annotations

import base64
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterable

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HEADER = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
_PIXEL = zlib.compress(b"\0\xff\xff\xff")


def chunk(kind: bytes, body: bytes, *, crc: int | None = None, size: int | None = None) -> bytes:
    """Return a chunk; its checksum and length are right unless given."""
    checksum = zlib.crc32(kind + body) if crc is None else crc
    length = len(body) if size is None else size
    return struct.pack(">I", length) + kind + body + struct.pack(">I", checksum)


def png(*before: bytes, after: Iterable[bytes] = (), end: bytes | None = None) -> bytes:
    """Return a picture of one pixel with chunks before and after its pixels."""
    parts = [chunk(b"IHDR", _HEADER), *before, chunk(b"IDAT", _PIXEL), *after]
    return SIGNATURE + b"".join(parts) + (chunk(b"IEND", b"") if end is None else end)


def encoded(document: object) -> bytes:
    """Return a document as base64 of its JSON."""
    return base64.b64encode(json.dumps(document).encode())


def text(document: object, keyword: str = "chara") -> bytes:
    """Return a tEXt chunk that holds a document."""
    return raw_text(encoded(document), keyword)


def raw_text(value: bytes, keyword: str = "chara", **damage: int) -> bytes:
    """Return a tEXt chunk that holds these bytes."""
    return chunk(b"tEXt", keyword.encode("latin-1") + b"\0" + value, **damage)


def ztxt(value: bytes, keyword: str = "chara") -> bytes:
    """Return a zTXt chunk that holds these bytes, deflated."""
    return chunk(b"zTXt", keyword.encode() + b"\0\0" + zlib.compress(value))


def itxt(value: bytes, keyword: str = "chara", *, deflated: bool = False) -> bytes:
    """Return an iTXt chunk that holds these bytes, with a language and a translated keyword."""
    body = zlib.compress(value) if deflated else value
    mark = b"\x01\0" if deflated else b"\0\0"
    return chunk(b"iTXt", keyword.encode() + b"\0" + mark + b"en\0Figur\0" + body)


def webp(document: object) -> bytes:
    """Return what there is of a WebP picture around the comment in its EXIF data: a document."""
    comment = b"ASCII\0\0\0" + json.dumps(document).encode()
    head = struct.pack("<2sHLH", b"II", 42, 8, 1)  # a directory of one field, and where it begins
    field = struct.pack("<HHLLL", 0x9286, 7, len(comment), len(head) + 16, 0)
    exif = head + field + comment
    body = b"WEBP" + struct.pack("<4sL", b"EXIF", len(exif)) + exif + b"\0" * (len(exif) % 2)
    return b"RIFF" + struct.pack("<L", len(body)) + body


def charx(document: object, *others: str) -> bytes:
    """Return a zip archive with a document as its card, and other members of these names."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("card.json"), json.dumps(document))
        for name in others:
            archive.writestr(zipfile.ZipInfo(name), b"#!/bin/sh\n")
    return file.getvalue()
