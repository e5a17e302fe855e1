"""What is in a file: every file is identified, by its bytes."""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from lorewell.errors import FileTooLargeError, LorewellError
from lorewell.formats import ImportedBook
from lorewell.formats.containers import charx
from lorewell.formats.files import MAX_FILE_BYTES
from lorewell.formats.inspection import MAX_PARTS, Container, inspect_bytes, inspect_file
from pictures import itxt, png, raw_text, text, ztxt

BOOK = {"name": "Oda's lamps", "entries": [{"keys": ["灯"], "content": "A lamp."}]}
CARD = {"spec": "chara_card_v3", "data": {"name": "Oda 🏮", "character_book": BOOK}}
BARE = {"spec": "chara_card_v2", "data": {"name": "Oda"}}


def dumped(document: object) -> bytes:
    return json.dumps(document).encode()


def archive(*names: str, **members: object) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        for name in names:
            packed.writestr(name, b"x")
        for name, content in members.items():
            packed.writestr(f"{name}.json", dumped(content))
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "container", "kind", "card_name"),
    [
        (png(text(CARD, "ccv3"), text(BARE)), "png", "card_v3_json", "Oda 🏮"),
        (png(text({"lorebookVersion": 5, "entries": []}, "naidata")), "png", "nai_lorebook", None),
        (b"\xff\xd8\xff" + archive(card=CARD), "jpeg", "card_v3_json", "Oda 🏮"),
        (archive(card=BARE), "zip", "card_v2_json", "Oda"),
        (dumped(BARE), "json", "card_v2_json", "Oda"),
        (dumped({"name": " ", "first_mes": "Hi."}), "json", "card_v1_json", None),
        (dumped({"entries": {"0": {"key": ["灯"]}}}), "json", "st_world", None),
        (dumped({"name": "N", "entries": [{"content": "x"}]}), "json", "native", None),
        ("\ufeff// 灯\n[{}]".encode(), "json", None, None),
        ('{"entries": {}}'.encode("utf-16"), "json", "st_world", None),
    ],
)
def test_bytes_tell_what_a_file_is(
    data: bytes, container: str, kind: str | None, card_name: str | None
) -> None:
    seen = inspect_bytes(data, name="any.thing")
    assert (seen.container, seen.kind, seen.card_name) == (container, kind, card_name)
    assert (seen.size_bytes, seen.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert isinstance(seen.opened, ImportedBook) == (kind is not None)


@pytest.mark.parametrize(
    ("data", "container", "kind", "code"),
    [
        (b"", "empty", None, "import_invalid"),
        (b"\xef\xbb\xbf \n", "empty", None, "import_invalid"),
        (b"<svg/>", "markup", None, "import_invalid"),
        ("灯。".encode(), "text", None, "unsupported_media_type"),
        (b"GIF89a\x00\xff", "unknown", None, "unsupported_media_type"),
        (b"\x00\x00\x00", "unknown", None, "unsupported_media_type"),
        (b"ab\xe7", "unknown", None, "unsupported_media_type"),
        (b"RIFF\x00\x00\x00\x00WAVE", "unknown", None, "import_invalid"),
        (b"RIFF\x00\x00\x00\x00WEBP", "webp", None, "import_invalid"),
        (b"\x6f\x00", "risum", None, "import_invalid"),
        (b"\x89PNG\n", "png", None, "import_invalid"),
        (b'{"entries": [', "json", None, "import_invalid"),
        (dumped({"type": "risuModule"}), "json", "risu_module", "import_invalid"),
        (dumped({"name": "N", "entries": [{"content": 1}]}), "json", "native", "validation_error"),
        (png(text({**BARE, "data": 3})), "png", "card_v2_json", "import_invalid"),
    ],
)
def test_what_is_no_book_is_answered_too(
    data: bytes, container: str, kind: str | None, code: str
) -> None:
    seen = inspect_bytes(data, name="x\x00.bin")
    assert isinstance(seen.opened, LorewellError)
    assert (seen.container, seen.kind, seen.opened.code) == (container, kind, code)
    assert seen.name == "x\ufffd.bin"


def test_text_chunks_are_listed_whether_they_are_read_or_not() -> None:
    value = b"eA=="
    chunks = [raw_text(value), ztxt(b"a" * 99, "parameters"), itxt(value, "ccv3")]
    seen = inspect_bytes(png(*chunks, raw_text(b"", "k" * 200)), name="oda.png")
    assert [(part.name, part.kind) for part in seen.parts] == [
        ("chara", "tEXt"),
        ("parameters", "zTXt"),
        ("ccv3", "iTXt"),
        ("k" * 80, "tEXt"),
    ]
    assert seen.parts[0].size_bytes == len(b"chara\0") + len(value)
    assert seen.part_count == 4


def test_many_parts_are_counted_and_the_first_ones_named() -> None:
    names = [f"assets/灯{number}\x1b" for number in range(MAX_PARTS + 5)]
    seen = inspect_bytes(archive(*names, card=CARD), name="oda.charx")
    assert seen.part_count == MAX_PARTS + 6
    assert [part.name for part in seen.parts] == names[:MAX_PARTS]
    assert {(part.kind, part.size_bytes) for part in seen.parts} == {("member", 1)}


def test_damaged_archive_names_no_members(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = archive("a", card=CARD)
    damaged = whole.replace(b"PK\x01\x02", b"PK\x09\x09").replace(b"PK\x09\x09", b"PK\x01\x02", 1)
    assert charx.list_members(damaged) == []
    assert charx.list_members(whole[:-1]) == []
    assert len(charx.list_members(whole)) == 2
    monkeypatch.setattr(charx, "MAX_MEMBERS", 1)
    assert charx.list_members(whole) == []


def test_file_that_is_too_large_is_told_by_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    with path.open("wb") as file:
        file.write(b'{"entries": "')
        file.write("灯".encode() * 30_000)  # the head ends within a character
        file.truncate(MAX_FILE_BYTES + 1)
    seen = inspect_file(path)
    assert isinstance(seen.opened, FileTooLargeError)
    assert (seen.container, seen.size_bytes, seen.sha256) == (
        Container.JSON,
        MAX_FILE_BYTES + 1,
        None,
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_pipe_that_does_not_end_has_no_size(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def pour() -> None:
        with suppress(BrokenPipeError), path.open("wb") as file:
            file.write(b"[" * (MAX_FILE_BYTES + 1_000_000))

    writer = threading.Thread(target=pour)
    writer.start()
    seen = inspect_file(path)
    writer.join()
    assert (seen.container, seen.size_bytes, seen.sha256) == (Container.JSON, None, None)


@given(
    st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF", b"PK\x03\x04", b"o\0", b"{"]),
    st.binary(max_size=200),
)
def test_any_bytes_are_answered(magic: bytes, rest: bytes) -> None:
    seen = inspect_bytes(magic + rest, name="any")
    assert seen.size_bytes == len(magic) + len(rest)
    assert seen.part_count >= len(seen.parts)


@given(st.data())
def test_damage_is_answered(data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from([archive("a", card=CARD), png(text(CARD), itxt(b"x", "y"))]))
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] + data.draw(st.binary(max_size=4)) + whole[at + 1 :]
    assert inspect_bytes(damaged, name="any").sha256 == hashlib.sha256(damaged).hexdigest()
