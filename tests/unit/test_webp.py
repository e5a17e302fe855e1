"""Cards in WEBP pictures: where the comment may stand, and that no offset is trusted."""

from __future__ import annotations

import json
import struct
from time import perf_counter
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from lorewell import ImportedBook, import_file
from lorewell.errors import ImportInvalidError, LorewellError
from lorewell.formats.decode import decode
from lorewell.formats.notes import ImportNotes

ENTRY = {"id": 3, "keys": ["lamp"], "content": "灯。", "enabled": True, "insertion_order": 1}
CARD = {"name": "Oda", "first_mes": "?", "character_book": {"entries": [ENTRY]}}
JSON = json.dumps(CARD, ensure_ascii=False)
TEXT = JSON.encode()
NUMBERS = ",".join(str(byte) for byte in TEXT).encode()
ASCII, UNICODE, NONE = b"ASCII\0\0\0", b"UNICODE\0", b"\0" * 8
COMMENT, EXIF, ORIENTATION = 0x9286, 0x8769, 0x0112


class Field(NamedTuple):
    """A field of a directory; a value of more than four bytes is put behind the directories."""

    tag: int
    value: bytes
    type: int = 7
    size: int | None = None
    offset: int | None = None


def tiff(*fields: Field, order: str = "<", below: tuple[Field, ...] | None = None) -> bytes:
    """Return TIFF data with a directory, and one below it if fields for that are given."""
    mark = b"II*\0" if order == "<" else b"MM\0*"
    if below is not None:
        fields = (*fields, Field(EXIF, b"", 4, 1, 8 + 6 + 12 * (len(fields) + 1)))
    directories = [fields] if below is None else [fields, below]
    end = 8 + sum(6 + 12 * len(directory) for directory in directories)
    head, values = bytearray(mark + struct.pack(order + "L", 8)), bytearray()
    for directory in directories:
        head += struct.pack(order + "H", len(directory))
        for field in directory:
            size = len(field.value) if field.size is None else field.size
            head += struct.pack(order + "2HL", field.tag, field.type, size)
            if field.offset is not None or len(field.value) > 4:
                place = end + len(values) if field.offset is None else field.offset
                head += struct.pack(order + "L", place)
                values += field.value
            else:
                head += field.value.ljust(4, b"\0")
        head += b"\0" * 4
    return bytes(head + values)


def chunk(name: bytes, body: bytes, size: int | None = None) -> bytes:
    length = len(body) if size is None else size
    return name + struct.pack("<L", length) + body + b"\0" * (len(body) % 2)


def webp(*chunks: bytes) -> bytes:
    body = b"WEBP" + chunk(b"VP8X", b"\0" * 10) + chunk(b"VP8 ", b"odd") + b"".join(chunks)
    return b"RIFF" + struct.pack("<L", len(body)) + body


def commented(comment: bytes, *, mark: bytes = b"Exif\0\0", **damage: Any) -> bytes:
    return webp(chunk(b"EXIF", mark + tiff(Field(COMMENT, comment, **damage))))


def read(data: bytes) -> ImportedBook:
    return import_file(data, name="card.webp")


def refusal(data: bytes) -> str:
    with pytest.raises(ImportInvalidError) as caught:
        read(data)
    assert caught.value.code == "import_invalid"
    assert caught.value.details["file"] == "card.webp"
    return str(caught.value)


def exif(body: bytes) -> bytes:
    return webp(chunk(b"EXIF", body))


FIELD = Field(COMMENT, ASCII + TEXT)
OTHER = Field(ORIENTATION, b"\1\0", 3, 1)


@pytest.mark.parametrize(
    "data",
    [
        commented(ASCII + TEXT),
        commented(NONE + TEXT),
        commented(TEXT),
        commented(ASCII + TEXT + b"\0\0"),
        commented(ASCII + NUMBERS),
        commented(ASCII + NUMBERS.replace(b",", b", ") + b",\n"),
        commented(NUMBERS),
        commented(ASCII + TEXT, mark=b""),
        commented(ASCII + TEXT, type=2),
        commented(ASCII + TEXT, type=1),
        exif(tiff(OTHER, FIELD, order=">")),
        exif(tiff(OTHER, below=(OTHER, FIELD))),
        exif(tiff(OTHER, below=(FIELD,), order=">")),
        exif(tiff(FIELD, below=(Field(COMMENT, b"{"),))),
        webp(chunk(b"EXIF", tiff(FIELD)), chunk(b"EXIF", b"?"), b"VP8"),
    ],
)
def test_card_is_found_wherever_it_may_stand(data: bytes) -> None:
    found = read(data)
    assert [entry.content for entry in found.book.entries] == ["灯。"]
    assert found.report.warnings == ()
    assert decode(data, name="card.webp", notes=ImportNotes()).container == "card_webp"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (webp(chunk(b"EXIF", tiff(FIELD), size=99_999)), "webp_damaged"),
        (commented(ASCII + TEXT.replace(b"}]", b"},]")), "json_trailing_commas"),
        (commented(UNICODE + JSON.encode("utf-16-le")), "utf16"),
        (commented(UNICODE + JSON.encode("utf-16-be")), "utf16"),
        (commented(UNICODE + JSON.encode("utf-16-be") + b"\0\0"), "utf16"),
        (commented(UNICODE + JSON.encode("utf-16-le") + b"\0\0"), "utf16"),
        (commented(UNICODE + JSON.encode("utf-16")), "utf16"),
    ],
)
def test_oddity_of_the_card_is_a_warning(data: bytes, code: str) -> None:
    found = read(data)
    assert [entry.content for entry in found.book.entries] == ["灯。"]
    assert [warning.code for warning in found.report.warnings] == [code]


NO_CARD = "no card in the EXIF data"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"RIFF", "not a WEBP image"),
        (b"RIFF\0\0\0\0WAVEfmt ", "not a WEBP image"),
        (webp(), "This WEBP has no card data (expected an EXIF chunk)"),
        (webp()[:-3], "The WEBP is truncated (chunk 'VP8 ' declares 3 bytes, 1 are present)"),
        (webp(chunk(b"XMP\xff", b"", size=2**32 - 1)), "declares 4294967295 bytes"),
        (webp(b"E"), "no card data (expected an EXIF chunk)"),
        (webp(b"EXIF"), NO_CARD),
        (exif(b""), NO_CARD),
        (exif(b"Exif\0\0II*\0"), NO_CARD),
        (exif(b"II*\0\0\0\0\0" + b"\1\0" * 99), NO_CARD),
        (exif(b"II*\0\xff\xff\xff\xff" + b"\1\0" * 99), NO_CARD),
        (exif(b"II*\0\x08\0\0\0\xff\xff\x86\x92\7\0\xff\xff"), NO_CARD),
        (exif(b"II+\0\x08\0\0\0"), NO_CARD),
        (exif(tiff(OTHER)), NO_CARD),
        (exif(tiff(OTHER, below=(OTHER,))), NO_CARD),
        (exif(tiff(Field(EXIF, b"", 4, 1, 8))), NO_CARD),
        (commented(ASCII + TEXT, size=2**32 - 1), NO_CARD),
        (commented(ASCII + TEXT, offset=2**32 - 1), NO_CARD),
        (commented(ASCII + TEXT, type=4), NO_CARD),
        (commented(b""), "the comment is empty"),
        (commented(ASCII + b" \0"), "the comment is empty"),
        (commented(UNICODE), "holds no card: The file is empty."),
        (commented(b"{}"), "holds no card: the JSON is of another kind"),
        (commented(b"7"), "holds no card: "),
        (commented(ASCII + b"123,256"), "its numbers are not bytes"),
        (commented(ASCII + b"1,2,,3"), "holds no card: "),
        (commented(ASCII + b"\xff\xfe\xff"), "holds no card: "),
        (commented(ASCII + b"Taken at the harbour."), "holds no card: Invalid JSON"),
        (commented(ASCII + b'{"entries": {}}'), "holds no card: the JSON is of another kind"),
    ],
)
def test_picture_without_a_sound_card_is_refused(data: bytes, says: str) -> None:
    assert says in refusal(data)


def test_numbers_are_read_across_pieces() -> None:
    text = json.dumps({**CARD, "description": "灯" * 60_000}).encode()
    data = commented(ASCII + ",".join(str(byte) for byte in text).encode())
    assert [entry.content for entry in read(data).book.entries] == ["灯。"]


@pytest.mark.parametrize(
    "data",
    [
        commented(ASCII + b"0," * 2_000_000),
        webp(b"abcd\0\0\0\0" * 2_000_000),
        exif(tiff(*[OTHER] * 65_535)),
    ],
    ids=["numbers", "chunks", "fields"],
)
def test_large_nonsense_takes_little_time(data: bytes) -> None:
    start = perf_counter()
    refusal(data)
    elapsed_s = perf_counter() - start
    print(f"{len(data) / 2**20:.1f} MiB: {elapsed_s:.2f} s")
    assert elapsed_s < 8


@given(st.binary(max_size=120))
def test_any_bytes_as_exif(body: bytes) -> None:
    for start in (b"", b"Exif\0\0", b"II*\0", b"MM\0*\0\0\0\x08", b"II*\0\x08\0\0\0\1\0\x86\x92"):
        with pytest.raises(LorewellError):
            read(exif(start + body))


@given(st.binary(max_size=60), st.data())
def test_any_damage_to_a_picture_gives_a_book_or_an_error_of_ours(
    rest: bytes, data: st.DataObject
) -> None:
    with pytest.raises(LorewellError):
        read(b"RIFF\0\0\0\0WEBP" + rest)
    whole = bytearray(exif(tiff(OTHER, below=(FIELD,))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, min(len(whole) - 1, 120)))
        whole[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=4))
    try:
        read(bytes(whole))
    except LorewellError as error:
        str(error).encode()
