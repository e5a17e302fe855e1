"""Cards in pictures: where the card may stand, and what every kind of damage answers."""

from __future__ import annotations

import base64
import json
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from functools import cache
from time import perf_counter

import pytest

from lorewell import ImportedBook, import_file
from lorewell.errors import ImportInvalidError, UnsupportedMediaTypeError
from lorewell.formats.containers.png import MAX_INFLATED_BYTES
from pictures import SIGNATURE, chunk, encoded, itxt, png, raw_text, text, ztxt

ENTRY = {"id": 3, "keys": ["lamp"], "content": "灯。", "enabled": True, "insertion_order": 1}
BOOK = {"name": "Harbour", "entries": [ENTRY]}


def card(version: int = 2, **data: object) -> dict[str, object]:
    members = {"name": "Oda", "character_book": BOOK, **data}
    return {"spec": f"chara_card_v{version}", "spec_version": f"{version}.0", "data": members}


CARD = card()


def read(data: bytes) -> ImportedBook:
    return import_file(data, name="card.png")


def codes(found: ImportedBook) -> list[str]:
    return [warning.code for warning in found.report.warnings]


def refusal(data: bytes) -> str:
    with pytest.raises(ImportInvalidError) as caught:
        read(data)
    assert caught.value.code == "import_invalid"
    assert caught.value.details["file"] == "card.png"
    assert str(caught.value).startswith("card.png can't be imported: ")
    return str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        png(after=[text(CARD)]),
        png(text(CARD)),
        png(text(CARD, "Chara")),
        png(text(CARD, "ccv3")),
        png(ztxt(encoded(CARD))),
        png(itxt(encoded(CARD))),
        png(itxt(encoded(CARD), deflated=True)),
        png(chunk(b"acTL", b"\0" * 8), text(CARD), text(CARD, "ccv3")),
        png(raw_text(base64.urlsafe_b64encode(json.dumps(CARD).encode()).rstrip(b"="))),
        png(raw_text(b"\r\n".join(encoded(CARD)[at : at + 76] for at in range(0, 999, 76)))),
        png(text(CARD), text({"name": "not lore"}, "chara-ext-asset_:0")),
        png(chunk(b"tEXt", b"no keyword"), chunk(b"iTXt", b"chara"), text(CARD)),
    ],
)
def test_card_is_found_wherever_it_may_stand(data: bytes) -> None:
    found = read(data)
    assert found.report.format == "card_png"
    assert [entry.content for entry in found.book.entries] == ["灯。"]
    assert found.book.name == "Harbour"
    assert found.report.warnings == ()
    assert found.holds_book


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (png(raw_text(json.dumps(CARD).encode())), "png_raw_json"),
        (png(raw_text(encoded(CARD), crc=1)), "png_crc"),
        (png(end=chunk(b"IEND", b"") + text(CARD)), "png_after_end"),
        (png(text(CARD)) + b"\0" * 777, "png_trailing_bytes"),
        (png(text(CARD)) + b"\0" * 3, "png_trailing_bytes"),
        (png(text(CARD), text({"name": "Old", "first_mes": ""})), "png_repeated"),
        (png(text(CARD), end=b""), "png_damaged"),
        (png(text(CARD), end=b"\0\0"), "png_damaged"),
        (png(text(CARD))[:-30], "png_damaged"),
        (png(text(CARD), b"\0\0\0\x01\1234x0000"), "png_damaged"),
        (png(raw_text(b"????", "ccv3"), text(CARD)), "png_ccv3_broken"),
        (png(text({"hello": 1}, "ccv3"), text(CARD)), "png_ccv3_broken"),
        (png(text(7, "ccv3"), text(CARD)), "png_ccv3_broken"),
        (png(ztxt(b" " * (MAX_INFLATED_BYTES + 1), "ccv3"), text(CARD)), "png_ccv3_broken"),
    ],
)
def test_damage_beside_the_card_is_a_warning(data: bytes, code: str) -> None:
    found = read(data)
    assert [entry.content for entry in found.book.entries] == ["灯。"]
    assert codes(found) == [code]


def test_newer_card_wins_and_only_its_repairs_are_told() -> None:
    newer = card(3, character_book={"entries": [{**ENTRY, "content": "New."}, None]})
    found = read(png(text(CARD), text(newer, "ccv3")))
    assert [entry.content for entry in found.book.entries] == ["New."]
    assert found.book.entries[0].source["format"] == "chara_card_v3"
    assert codes(found) == ["entry_skipped"]
    comma = json.dumps(newer).replace("null]", "null,]").encode()
    found = read(png(text(CARD), raw_text(comma, "ccv3")))
    assert codes(found) == ["png_raw_json", "json_trailing_commas", "entry_skipped"]


def test_first_of_equal_chunks_counts() -> None:
    stale = {"name": "Old", "first_mes": "?"}
    assert codes(read(png(text(stale), text(CARD)))) == ["png_repeated", "no_book"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (png(), "has no card data (expected a chara, ccv3 or naidata chunk)"),
        (png(text({}, "Title")), "has no card data"),
        (png()[:50], "truncated (chunk IDAT declares 12 bytes and a checksum, 9 are present)"),
        (
            png()[:60],
            "truncated at byte 57, in the head of a chunk. No card was found",
        ),
        (png(raw_text(b"AAAA", size=2**31 - 16)), "chunk tEXt declares 2147483632 bytes"),
        (SIGNATURE, "its end (chunk IEND) is missing. No card was found before that."),
        (SIGNATURE + b"\0\0\0\1\0\0\0\0----", "expected a chunk at byte 8"),
        (SIGNATURE[:4] + b"\n\x1a\n" + png()[7:], "signature is damaged"),
        (
            png(raw_text(b"@@@not base64!!!===")),
            "chara chunk is not valid base64 (at offset 0).",
        ),
        (png(raw_text(b"YW=JjZGU=")), "not valid base64 (at offset 2)"),
        (png(raw_text(b"YWJjZ")), "it is truncated"),
        (png(raw_text(base64.b64encode(b"hello, I am no JSON"))), "line 1, column 1"),
        (png(raw_text(base64.b64encode(b'{"spec": '))), "The chara chunk holds no card: "),
        (png(raw_text(base64.b64encode(b"\xff\xfe\xff"))), "The chara chunk holds no card: "),
        (png(raw_text(b"")), "The chara chunk is empty."),
        (png(raw_text(b" \n")), "The chara chunk is empty."),
        (png(raw_text(b"bnVsbA==")), "the JSON is of another kind"),
        (png(text({"entries": {}})), "the JSON is of another kind"),
        (png(ztxt(b" " * (MAX_INFLATED_BYTES + 1))), "larger than the limit of 16 MiB"),
        (png(chunk(b"zTXt", b"chara\0\0no deflate")), "of the chara chunk is damaged"),
        (png(chunk(b"zTXt", b"chara\0\0" + zlib.compress(b"{}")[:-3])), "chunk is truncated"),
        (png(raw_text(b"!", "ccv3"), raw_text(b"?")), "The chara chunk is not valid base64"),
        (png(raw_text(b"!", "ccv3")), "The ccv3 chunk is not valid base64"),
    ],
)
def test_picture_without_a_sound_card_is_refused(data: bytes, says: str) -> None:
    assert says in refusal(data)


def test_text_may_inflate_to_exactly_the_limit() -> None:
    value = encoded(CARD)
    assert read(png(ztxt(value + b" " * (MAX_INFLATED_BYTES - len(value))))).holds_book


def test_every_cut_of_a_picture_is_read_or_refused() -> None:
    whole = png(text(CARD), text(card(3), "ccv3"), after=[ztxt(b"x", "other")])
    for size in range(len(whole)):
        try:
            found = read(whole[:size])
        except ImportInvalidError:
            continue
        assert [entry.content for entry in found.book.entries] == ["灯。"]


@cache
def bomb(inflated_bytes: int) -> bytes:
    """Return deflated blanks without holding them all at once."""
    deflater = zlib.compressobj(9)
    block = b" " * 2**20
    parts = [deflater.compress(block) for _ in range(inflated_bytes // len(block))]
    return b"".join(parts) + deflater.flush()


@pytest.mark.parametrize(
    "wrap",
    [
        lambda deflated: chunk(b"zTXt", b"chara\0\0" + deflated),
        lambda deflated: chunk(b"iTXt", b"chara\0\x01\0\0\0" + deflated),
    ],
)
def test_bomb_is_stopped_at_the_limit(wrap: Callable[[bytes], bytes]) -> None:
    data = png(wrap(bomb(2**28)))
    assert len(data) < 2**19
    tracemalloc.start()
    start = perf_counter()
    try:
        assert "larger than the limit" in refusal(data)
        elapsed_s = perf_counter() - start
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    print(f"256 MiB bomb: {elapsed_s:.3f} s, {peak / 2**20:.0f} MiB")
    assert peak < 64 * 2**20
    assert elapsed_s < 1


def test_unknown_bytes_are_of_no_known_kind() -> None:
    with pytest.raises(UnsupportedMediaTypeError) as caught:
        import_file(b"\x7fELF" + struct.pack("<Q", 2**63), name="lore")
    assert caught.value.code == "unsupported_media_type"
