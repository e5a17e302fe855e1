"""A new card in an old picture: the old one is gone for good, all else is byte for byte there."""

from __future__ import annotations

import base64
import json
import zlib
from time import perf_counter

import pytest
from hypothesis import given, strategies as st

from lorewell import import_file
from lorewell.errors import ImportInvalidError
from lorewell.formats.containers.png import MAX_CHUNKS, payload, read_texts, replace_card
from lorewell.formats.decode import decode
from lorewell.formats.notes import ImportNotes
from pictures import SIGNATURE, chunk, encoded, itxt, png, raw_text, text, ztxt

KEYWORDS = frozenset(["chara", "ccv3"])
OLD = {"name": "Old", "first_mes": "?"}


def card(version: int, content: str) -> bytes:
    entry = {"keys": ["lamp"], "content": content, "insertion_order": 1, "enabled": True}
    data = {"name": "Oda", "character_book": {"entries": [entry]}}
    return json.dumps({"spec": f"chara_card_v{version}", "data": data}).encode()


V2, V3 = card(2, "Two."), card(3, "Three.")
OLD_CHUNKS = [
    text(OLD),
    text(OLD, "CCV3"),
    ztxt(encoded(OLD), "Ccv3"),
    itxt(encoded(OLD), "ChArA"),
    itxt(encoded(OLD), "ccv3", deflated=True),
    raw_text(b"????", crc=7),
    chunk(b"zTXt", b"chara\0\0no deflate"),
    chunk(b"tEXt", b"chara"),
]
FOREIGN_CHUNKS = [
    chunk(b"acTL", b"\0" * 8),
    chunk(b"tEXt", b"Title\0A lamp", crc=1),
    chunk(b"tEXt", b"no keyword"),
    chunk(b"tEXt", b"chara2\0x"),
    text({"old": True}, "risuai"),
    text({"asset": 1}, "chara-ext-asset_:0"),
    ztxt(b"x", "naidata"),
    itxt("灯".encode(), "Comment"),
    chunk(b"eXIf", b"chara\0x"),
    chunk(b"zzZz", b"", crc=0),
]


@pytest.mark.parametrize("old", OLD_CHUNKS)
@pytest.mark.parametrize("place", ["before", "after", "behind"])
def test_old_card_goes_wherever_it_stands(old: bytes, place: str) -> None:
    picture = {
        "before": png(old),
        "after": png(after=[old]),
        "behind": png(end=chunk(b"IEND", b"") + old + b"tail"),
    }[place]
    new = replace_card(picture, chara=V2, ccv3=V3)
    tail = b"tail" if place == "behind" else b""
    assert new == png(after=[text(json.loads(V2)), text(json.loads(V3), "ccv3")]) + tail


def test_new_cards_are_read_and_the_newer_one_wins() -> None:
    picture = png(text(OLD), text(OLD, "ccv3"), text(OLD))
    both = import_file(replace_card(picture, chara=V2, ccv3=V3), name="card.png")
    assert [entry.content for entry in both.book.entries] == ["Three."]
    one = replace_card(picture, chara=V2, ccv3=None)
    assert [entry.content for entry in import_file(one, name="card.png").book.entries] == ["Two."]
    assert both.report.warnings == import_file(one, name="card.png").report.warnings == ()
    assert b"ccv3" not in one
    assert decode(one, name="card.png", notes=ImportNotes()).container == "card_png"


@pytest.mark.parametrize(
    ("picture", "says"),
    [
        (b"", "not a PNG"),
        (b"\xff\xd8\xff", "not a PNG"),
        (SIGNATURE, "IEND) is missing. A card can't be put into it."),
        (png(text(OLD), end=b""), "IEND) is missing"),
        (png()[:40], "truncated"),
        (png(b"\0\0\0\1\0\0\0\0----"), "expected a chunk"),
    ],
)
def test_picture_without_an_end_is_refused(picture: bytes, says: str) -> None:
    with pytest.raises(ImportInvalidError) as caught:
        replace_card(picture, chara=V2, ccv3=None)
    assert says in str(caught.value)
    assert caught.value.code == "import_invalid"


ANY_CHUNK = st.one_of(
    st.sampled_from(OLD_CHUNKS),
    st.sampled_from(FOREIGN_CHUNKS),
    st.builds(
        lambda kind, body, crc: chunk(kind, b"x" + body, crc=crc),
        st.sampled_from([b"IDAT", b"fdAT", b"tEXt", b"iTXt", b"prVt"]),
        st.binary(max_size=20),
        st.none() | st.integers(0, 2**32 - 1),
    ),
)
PARTS = st.lists(ANY_CHUNK, max_size=6)


def without_cards(chunks: list[bytes]) -> bytes:
    return b"".join(part for part in chunks if part not in OLD_CHUNKS)


@given(PARTS, PARTS, st.binary(max_size=20), st.binary(max_size=40), st.none() | st.binary())
def test_all_but_the_card_stays_byte_for_byte(
    inside: list[bytes], behind: list[bytes], tail: bytes, chara: bytes, ccv3: bytes | None
) -> None:
    end = chunk(b"IEND", b"")
    picture = png(*inside, end=end + b"".join(behind) + b"\0" + tail)
    cards = [chunk(b"tEXt", b"chara\0" + base64.b64encode(chara))]
    if ccv3 is not None:
        cards.append(chunk(b"tEXt", b"ccv3\0" + base64.b64encode(ccv3)))
    kept = SIGNATURE + png(without_cards(inside), end=b"")[len(SIGNATURE) :]
    new = replace_card(picture, chara=chara, ccv3=ccv3)
    assert new == kept + b"".join(cards) + end + without_cards(behind) + b"\0" + tail
    assert replace_card(new, chara=chara, ccv3=ccv3) == new
    found = read_texts(new, KEYWORDS, ImportNotes())
    assert [each.keyword for each in found.chunks] == ["chara", "ccv3"][: len(cards)]
    if chara:
        assert payload(found.chunks[0], ImportNotes()) == chara


@given(st.binary(max_size=80))
def test_any_bytes_are_taken_or_refused(rest: bytes) -> None:
    try:
        new = replace_card(SIGNATURE + rest, chara=b"{}", ccv3=None)
    except ImportInvalidError:
        return
    assert len(new) > len(SIGNATURE + rest)


def test_many_chunks_take_little_time() -> None:
    picture = png(chunk(b"prVt", b"") * 90_000, text(OLD) * 9_000)
    start = perf_counter()
    new = replace_card(picture, chara=V2, ccv3=V3)
    elapsed_s = perf_counter() - start
    print(f"{len(picture) / 2**20:.1f} MiB: {elapsed_s:.2f} s")
    assert elapsed_s < 4
    assert len(new) < len(picture)
    assert zlib.crc32(new[: 12 * 90_000]) == zlib.crc32(picture[: 12 * 90_000])


def test_too_many_chunks_are_refused() -> None:
    picture = png(chunk(b"prVt", b"") * MAX_CHUNKS)
    with pytest.raises(ImportInvalidError, match=r"more than 100,000 chunks \(the limit\)"):
        replace_card(picture, chara=V2, ccv3=V3)


@pytest.mark.parametrize("keyword", ["naidata", "NaiData"])
def test_lorebook_of_novelai_is_handed_on(keyword: str) -> None:
    book = {"lorebookVersion": 5, "entries": []}
    decoded = decode(png(text(book, keyword)), name="book.png", notes=ImportNotes())
    assert decoded.document.value == book
    assert decoded.container is None


@pytest.mark.parametrize("other", [{"entries": {}}, OLD, 7])
def test_other_json_is_no_lorebook_of_novelai(other: object) -> None:
    with pytest.raises(ImportInvalidError, match="naidata chunk holds no NovelAI lorebook"):
        decode(png(text(other, "naidata")), name="book.png", notes=ImportNotes())
