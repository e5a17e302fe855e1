"""Cards in zip archives: how they may be packed, and what every kind of damage answers."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import struct
import tracemalloc
import zipfile
import zlib
from time import perf_counter
from typing import NamedTuple

import pytest
from hypothesis import example, given, strategies as st

from lorewell import ImportedBook, import_file
from lorewell.errors import ImportInvalidError, LorewellError
from lorewell.formats.containers.charx import MAX_CARD_BYTES, MAX_MEMBERS
from lorewell.formats.decode import decode
from lorewell.formats.notes import ImportNotes

ENTRY = {"id": 3, "keys": ["lamp"], "content": "灯。", "enabled": True, "insertion_order": 1}
DATA = {"name": "Oda", "character_book": {"name": "Harbour", "entries": [ENTRY]}}
CARD = json.dumps({"spec": "chara_card_v3", "spec_version": "3.0", "data": DATA}).encode()
METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
WIDE = 0xFFFFFFFF


def archive(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return an archive as the standard library writes it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as written:
        for name, content in members:
            written.writestr(zipfile.ZipInfo(name), content, method)
    return file.getvalue()


class Member(NamedTuple):
    """A member of a hand-made archive; None is filled in as it should be."""

    content: bytes = CARD
    name: bytes = b"card.json"
    packed: bytes | None = None
    method: int = 0
    flags: int = 0
    local_flags: int = 0
    crc: int | None = None
    real_bytes: int | None = None
    packed_bytes: int | None = None
    offset: int | None = None
    extra: bytes = b""
    comment: bytes = b""


def forged(
    *members: Member,
    count: int | None = None,
    size: int | None = None,
    offset: int | None = None,
    before_end: bytes = b"",
) -> bytes:
    """Return an archive with the given claims about itself."""
    body, listed = bytearray(), bytearray()
    for member in members:
        packed = member.content if member.packed is None else member.packed
        sizes = (
            zlib.crc32(member.content) if member.crc is None else member.crc,
            len(packed) if member.packed_bytes is None else member.packed_bytes,
            len(member.content) if member.real_bytes is None else member.real_bytes,
            len(member.name),
        )
        at = len(body) if member.offset is None else member.offset
        head = (b"PK\1\2", 20, 20, member.flags, member.method, 0, 0)
        tail = (len(member.extra), len(member.comment), 0, 0, 0, at)
        listed += struct.pack("<4s6H3L5H2L", *head, *sizes, *tail)
        listed += member.name + member.extra + member.comment
        local = (b"PK\3\4", 20, member.local_flags, member.method, 0, 0)
        body += struct.pack("<4s5H3L2H", *local, *sizes, 2)
        body += member.name + b"xx" + packed
    end = (
        *(0, 0, 0, len(members) if count is None else count),
        *(len(listed) if size is None else size, len(body) if offset is None else offset, 0),
    )
    return bytes(body + listed) + before_end + struct.pack("<4s4H2LH", b"PK\5\6", *end)


def lzma_packed(content: bytes, *, dictionary_bytes: int = 2**23, mark: bool = False) -> bytes:
    """Return content as method 14 packs it, with the dictionary that it claims to have."""
    alone = lzma.compress(content, lzma.FORMAT_ALONE)  # properties, size, data and a mark
    packed = b"\x09\x14\x05\0" + alone[:1] + struct.pack("<L", dictionary_bytes) + alone[13:]
    return packed if mark else packed[:-5]  # then the mark is no longer read, the content is


def read(data: bytes) -> ImportedBook:
    return import_file(data, name="card.charx")


def codes(found: ImportedBook) -> list[str]:
    return [warning.code for warning in found.report.warnings]


def contents(found: ImportedBook) -> list[str]:
    return [entry.content for entry in found.book.entries]


def refusal(data: bytes) -> str:
    with pytest.raises(ImportInvalidError) as caught:
        read(data)
    assert caught.value.code == "import_invalid"
    assert caught.value.details["file"] == "card.charx"
    return str(caught.value)


DEFLATED = zlib.compress(CARD, wbits=-15)
WIDE_EXTRA = struct.pack("<2H2Q", 1, 16, len(CARD), len(DEFLATED))


@pytest.mark.parametrize(
    "data",
    [
        *(archive(("card.json", CARD), method=method) for method in METHODS),
        archive(("assets/main.png", b"\x89PNG"), ("card.json", CARD), ("sub/card.json", b"{")),
        b"PK\3\4 some other data" + archive(("card.json", CARD)),
        archive(("card.json", CARD)) + b"\0" * 99,
        archive(("card.json", CARD)) + b"PK\5\6",
        archive(("card.json", CARD)) + b"PK\5\6" + b"\0" * 18,
        forged(Member(), before_end=b"a gap"),
        forged(Member(comment=b"about it", extra=b"\7\0\1\0x")),
        forged(Member(packed=bz2.compress(CARD), method=12)),
        forged(Member(packed=lzma_packed(CARD, mark=True), method=14, flags=2)),
        forged(Member(packed=lzma_packed(CARD), method=14)),
        forged(Member(packed=lzma_packed(CARD, dictionary_bytes=WIDE), method=14)),
        forged(Member(packed=lzma_packed(CARD, dictionary_bytes=0, mark=True), method=14)),
    ],
)
def test_card_is_found_however_it_is_packed(data: bytes) -> None:
    found = read(data)
    assert contents(found) == ["灯。"]
    assert found.report.warnings == ()
    assert decode(data, name="card.charx", notes=ImportNotes()).container == "charx"


@pytest.mark.parametrize("other", [b"", b"\7\0\2\0xx"])
def test_sizes_in_an_extra_field_count(other: bytes) -> None:
    """Some programs put them there for small members, too."""
    member = Member(packed=DEFLATED, method=8, real_bytes=WIDE, packed_bytes=WIDE)
    assert contents(read(forged(member._replace(extra=other + WIDE_EXTRA)))) == ["灯。"]
    offset = other + struct.pack("<2HQ", 1, 8, 0)
    assert contents(read(forged(Member(offset=WIDE, extra=offset)))) == ["灯。"]
    assert "truncated" in refusal(forged(member._replace(extra=other)))
    assert "larger than the limit" in refusal(
        forged(member._replace(packed_bytes=len(DEFLATED), extra=other + b"\1\0\x08\0short"))
    )


def test_end_record_for_huge_archives_counts() -> None:
    plain = forged(Member())
    *_, size, offset, _ = struct.unpack("<4s4H2LH", plain[-22:])
    wide = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, size, offset)
    wide += struct.pack("<4sLQL", b"PK\6\7", 0, len(plain) - 22, 1)
    for data in (
        forged(Member(), before_end=wide),
        forged(Member(), before_end=wide, count=0xFFFF, size=WIDE, offset=WIDE),
    ):
        assert read(data).report.warnings == ()
        assert contents(read(b"PK\3\4 in front" + data)) == ["灯。"]


@pytest.mark.parametrize(
    ("data", "code", "says"),
    [
        (forged(Member(crc=1)), "charx_crc", "checksum"),
        (forged(Member(real_bytes=5)), "charx_crc", "size"),
        (forged(Member(), Member(name=b"x"), count=1), "charx_miscounted", "declares 1 members"),
        (
            forged(Member(b"{"), Member()),
            "charx_repeated",
            "2 members of the archive have repeated",
        ),
        (
            archive(("card.json", CARD), ("module.risum", b"o\0")),
            "risu_module",
            "RisuAI module, whose lorebook was not read",
        ),
        (forged(Member(), Member(name=b"\x82")), None, ""),
        (forged(Member(), Member(name=b"a..b/..c")), None, ""),
        *(
            (forged(Member(), Member(b"", name)), "charx_unsafe_names", "of 1 members")
            for name in (
                b"/etc/x",
                b"../x",
                b"a/../../x",
                b"C:\\x",
                b"\\\\host\\x",
                b"a\\..",
                b"..",
            )
        ),
        (forged(Member(), Member(name=b"../\x82")), "charx_unsafe_names", "such as ../é;"),
        (forged(Member(), Member(name="/灯".encode(), flags=0x800)), "charx_unsafe_names", "/灯"),
        (forged(Member(), Member(name=b"/\0\xff", flags=0x800)), "charx_unsafe_names", "/\ufffd"),
        (forged(Member(), Member(name=b"/" * 999)), "charx_unsafe_names", "/…;"),
    ],
)
def test_oddity_beside_the_card_is_a_warning(data: bytes, code: str | None, says: str) -> None:
    found = read(data)
    assert contents(found) == ["灯。"]
    assert codes(found) == ([] if code is None else [code])
    assert all(says in warning.message for warning in found.report.warnings)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"PK\3\4", "truncated or damaged: its end record is missing"),
        (archive(("card.json", CARD))[:-30], "truncated or damaged: its end record is missing"),
        (archive(("card.json", CARD))[:-1], "truncated or damaged: its end record is missing"),
        (archive(), "The zip archive is empty"),
        (
            archive(("readme.txt", b"x"), ("sub/card.json", CARD)),
            "neither a charx",
        ),
        (archive(("Card.json", CARD)), "neither a charx"),
        (forged(Member(), count=2), "damaged: expected an entry of its directory at byte"),
        (forged(Member(), size=999, offset=999), "truncated or damaged: its end record is missing"),
        (forged(Member(flags=1)), "encrypted archives are not supported"),
        (forged(Member(local_flags=1)), "encrypted archives are not supported"),
        (forged(Member(offset=7)), "card.json is not at its offset"),
        (forged(Member(offset=WIDE)), "card.json is not at its offset"),
        (forged(Member(name=b"other"), Member(offset=0)), "card.json is not at its offset"),
        (forged(Member(packed_bytes=9999)), "data of card.json is truncated"),
        (forged(Member(real_bytes=MAX_CARD_BYTES + 1)), "card.json is larger than the limit"),
        (forged(Member(packed=b"\xff", method=8)), "compressed data of card.json is damaged"),
        (forged(Member(packed=DEFLATED[:-9], method=8)), "data of card.json is truncated"),
        (forged(Member(packed=b"no bzip2", method=12)), "compressed data of card.json is damaged"),
        (forged(Member(packed=bz2.compress(CARD)[:-9], method=12)), "is truncated"),
        (forged(Member(packed=b"", method=14)), "compressed data of card.json is damaged"),
        (forged(Member(packed=b"\0\0\5\0\x5d\0", method=14)), "card.json is damaged"),
        (forged(Member(packed=b"\0\0\5\0\xff" + b"\0" * 9, method=14)), "card.json is damaged"),
        (forged(Member(packed=b"\0\0\5\0\x2c" + b"\0" * 9, method=14)), "card.json is damaged"),
        (forged(Member(packed=lzma_packed(CARD)[:-40], method=14)), "is truncated"),
        (forged(Member(method=93)), "unsupported compression method 93"),
        (archive(("card.json", b"")), "card.json holds no card: The file is empty."),
        (archive(("card.json", b"hello")), "card.json holds no card: Invalid JSON"),
        (archive(("card.json", b'{"entries": {}}')), "card.json holds no card: the JSON is of"),
        (archive(("card.json", b"7")), "card.json holds no card: the JSON is of"),
    ],
)
def test_archive_without_a_sound_card_is_refused(data: bytes, says: str) -> None:
    assert says in refusal(data)


def test_head_of_the_card_must_be_there() -> None:
    data = b"PK\3\4 in front" + forged(Member())[1:]
    assert "card.json is not at its offset" in refusal(data)


def bomb(method: int, blanks: int) -> bytes:
    """Return blanks packed by a method, without holding them all at once."""
    packers = {
        8: lambda: zlib.compressobj(9, wbits=-15),
        12: bz2.BZ2Compressor,
        14: lambda: lzma.LZMACompressor(lzma.FORMAT_ALONE),
    }
    packer = packers[method]()
    block = b" " * 2**20
    packed = b"".join([packer.compress(block) for _ in range(blanks // len(block))])
    packed += packer.flush()
    if method == 14:
        return b"\x09\x14\x05\0" + packed[:5] + packed[13:]
    return packed


@pytest.mark.parametrize("method", [8, 12, 14])
@pytest.mark.parametrize("promised", [100, 2**26])
def test_bomb_is_stopped_at_the_limit_whatever_it_promises(method: int, promised: int) -> None:
    data = forged(Member(packed=bomb(method, 2**26), method=method, real_bytes=promised))
    assert len(data) < 2**20
    tracemalloc.start()
    start = perf_counter()
    try:
        assert "card.json is larger than the limit of 16 MiB." in refusal(data)
        elapsed_s = perf_counter() - start
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    print(f"64 MiB bomb, method {method}: {elapsed_s:.3f} s, {peak / 2**20:.0f} MiB")
    assert peak < 64 * 2**20
    assert elapsed_s < 3


def test_card_may_inflate_to_exactly_the_limit() -> None:
    full = CARD + b" " * (MAX_CARD_BYTES - len(CARD))
    assert contents(read(archive(("card.json", full)))) == ["灯。"]


def test_members_are_counted_before_they_are_read() -> None:
    empty = Member(b"", b"a")
    assert contents(read(forged(*[empty] * (MAX_MEMBERS - 1), Member()))) == ["灯。"]
    start = perf_counter()
    assert "has 60000 members; the limit is 10000" in refusal(forged(*[empty] * 60_000))
    many = forged(*[empty] * 60_000, Member(), count=2)
    assert "card.json is missing" in refusal(many)
    assert perf_counter() - start < 3


@pytest.mark.parametrize(
    "data", [b"PK\3\4" + b"PK\5\6" * 4_000_000, b"PK\3\4" + forged(Member())[-22:] * 700_000]
)
def test_false_end_records_take_little_time(data: bytes) -> None:
    start = perf_counter()
    assert "zip archive" in refusal(data)
    assert perf_counter() - start < 3


def test_module_alone_is_cut_off_or_refused_with_advice() -> None:
    assert "export the lorebook as JSON in RisuAI" in refusal(b"o\0\4\0\0\0abcd")
    for cut in (b"o\0", b"o\0\4\0\0", b"o\0\4\0\0\0abc", b"o\0\xff\xff\xff\xff"):
        assert "truncated" in refusal(cut)


@given(st.data())
def test_any_damage_to_an_archive_gives_a_book_or_an_error_of_ours(data: st.DataObject) -> None:
    method = data.draw(st.sampled_from(METHODS))
    whole = bytearray(archive(("a", b"x"), ("card.json", CARD), method=method))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=4))
    try:
        read(bytes(whole))
    except LorewellError as error:
        str(error).encode()


@given(st.sampled_from([b"PK\3\4", b"PK\5\6", b"o\0"]), st.binary(max_size=200))
@example(b"PK\3\4", b"PK\5\6" + b"\xff" * 18)
def test_any_bytes_behind_the_magic(magic: bytes, rest: bytes) -> None:
    with pytest.raises(LorewellError):
        read(magic + rest)
    with pytest.raises(LorewellError):
        read(magic + rest + forged(Member(), count=3))
