"""`lorewell inspect` on one file: a few lines for people, one object for programs."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile

import pytest
from rich.cells import cell_len

from lorewell.cli.inspections import CONTAINERS, KINDS
from lorewell.formats.detect import FileKind
from lorewell.formats.files import MAX_FILE_BYTES
from lorewell.formats.inspection import MAX_PARTS, Container
from pictures import png, raw_text, text
from program import Lorewell

ENTRIES = [
    {"keys": "lamp, 灯", "content": "A lamp.", "insertion_order": "10"},
    {"keys": [], "content": "Old.", "enabled": False},
    {"keys": ["x"], "content": "<% if %>"},
]
CARD = {
    "spec": "chara_card_v2",
    "data": {"name": "Oda 灯\x1b[2J", "character_book": {"name": "Lamps", "entries": ENTRIES}},
}
BARE = {"spec": "chara_card_v2", "data": {"name": "Oda"}}


def test_card_is_told_in_a_few_lines(lorewell: Lorewell) -> None:
    data = png(text(CARD), raw_text(b"Steps: 20", "parameters"))
    done = lorewell("inspect", lorewell.file("小田 🏮.png", data))
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        r"Oda 灯\x1b[2J",
        "PNG picture: a character card V2 (card_png)",
        f"小田 🏮.png, {len(data)} bytes",
        f"SHA-256 {hashlib.sha256(data).hexdigest()}",
        f"Text chunks: chara (tEXt, {len(text(CARD)) - 12} bytes), parameters (tEXt, 20 bytes)",
        "Lorebook: Lamps",
        "3 entries, 2 enabled, 1 blocked",
        "Warnings: 1 keys_split, 1 number_from_text",
    ]


def test_card_as_json_has_the_same(lorewell: Lorewell) -> None:
    path = lorewell.file("oda.png", png(text(CARD)))
    shown = lorewell("inspect", path, "--json").json
    assert shown == {
        "file": str(path),
        "container": "png",
        "kind": "card_v2_json",
        "card_name": "Oda 灯\x1b[2J",
        "format": "card_png",
        "book_name": "Lamps",
        "holds_book": True,
        "entry_count": 3,
        "enabled_count": 2,
        "runtime_blocked_count": 1,
        "warnings": {"keys_split": 1, "number_from_text": 1},
        "parts": [{"name": "chara", "kind": "tEXt", "size_bytes": len(text(CARD)) - 12}],
        "part_count": 1,
        "source_file": lorewell("import", path, "--json").json["import_report"]["source_file"],
        "error": None,
    }


def test_card_without_a_book_is_read(lorewell: Lorewell) -> None:
    path = lorewell.file("oda.json", BARE)
    done = lorewell("inspect", path)
    assert done.code == 0
    assert done.out.startswith("Oda\nJSON: a character card V2 (card_v2_json)\n")
    assert done.out.endswith("No lorebook\nWarnings: 1 no_book\n")
    shown = lorewell("inspect", path, "--json").json
    assert (shown["format"], shown["entry_count"]) == ("card_v2_json", 0)
    assert (shown["warnings"], shown["holds_book"]) == ({"no_book": 1}, False)
    assert (shown["card_name"], shown["book_name"]) == ("Oda", None)


def test_book_of_our_own_has_no_warnings(lorewell: Lorewell) -> None:
    done = lorewell("inspect", lorewell.book({"content": "灯"}))
    assert done.out.startswith("Kiln Row\nJSON: a book in Lorewell's own format (native)\n")
    assert done.out.endswith("1 entries, 1 enabled, 0 blocked\nWarnings: none\n")


@pytest.mark.parametrize(
    ("content", "what", "code", "says", "ends"),
    [
        (b"", "empty file", "import_invalid", "The file is empty.", 2),
        (b"<html>", "HTML or XML", "import_invalid", "web page (HTML)", 2),
        (b"GIF89a\xff", "unknown content", "unsupported_media_type", "Invalid UTF-8", 2),
        (png(), "PNG picture\n", "import_invalid", "no card data", 2),
        ({"type": "risuModule"}, "JSON: a RisuAI module\n", "import_invalid", "module is", 2),
        (b"[" + b" " * MAX_FILE_BYTES, "JSON\n", "file_too_large", "larger than 16 MiB", 6),
    ],
)
def test_file_without_a_book_is_told_with_the_reason(
    lorewell: Lorewell, content: object, what: str, code: str, says: str, ends: int
) -> None:
    path = lorewell.file("lo\nre.bin", content)
    done = lorewell("inspect", path)
    assert (done.code, done.err) == (ends, "")
    assert done.out.startswith(rf"lo\nre.bin{chr(10)}{what}")
    assert f"Not readable as a book: {code}\n" in done.out
    assert says in done.words
    printed = lorewell("inspect", path, "--json")
    assert printed.code == ends
    shown = json.loads(printed.out)
    assert shown["error"]["code"] == code
    assert says in shown["error"]["message"]
    assert (shown["format"], shown["book_name"], shown["warnings"]) == (None, None, {})
    assert shown["source_file"]["size"] == path.stat().st_size


def test_file_that_is_not_there_is_one_line(lorewell: Lorewell) -> None:
    done = lorewell("inspect", lorewell.folder / "none.png")
    assert (done.code, done.out) == (4, "")
    assert done.err.endswith("none.png can't be read: No such file or directory\n")
    assert lorewell("inspect").code == 2


def test_members_of_an_archive_are_named_and_nothing_else(lorewell: Lorewell) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("../evil\x1b[2J.txt", b"x")
        archive.writestr("card.json", json.dumps(BARE))
    path = lorewell.file("oda.charx", file.getvalue())
    done = lorewell("inspect", path)
    assert "zip archive: a character card V2 (charx)" in done.out
    size = len(json.dumps(BARE))
    assert rf"members: ../evil\x1b[2J.txt (1 bytes), card.json ({size} bytes)" in done.words
    assert "charx_unsafe_names" in done.out
    assert list(lorewell.folder.iterdir()) == [path]


def test_long_lists_of_parts_are_cut(lorewell: Lorewell) -> None:
    chunks = [raw_text(b"", f"k{number}") for number in range(MAX_PARTS + 3)]
    done = lorewell("inspect", lorewell.file("oda.png", png(text(CARD), *chunks)))
    assert f"k{MAX_PARTS - 2} (tEXt, " in done.words
    assert "and 4 more" in done.words


@pytest.mark.parametrize("columns", [40, 80])
def test_lines_keep_to_the_width(lorewell: Lorewell, columns: int) -> None:
    lorewell.monkeypatch.setenv("COLUMNS", str(columns))
    done = lorewell("inspect", lorewell.file("oda.png", png(text(CARD))))
    assert max(map(cell_len, done.out.splitlines())) <= columns


def test_every_container_and_kind_has_its_words() -> None:
    assert set(CONTAINERS) == set(Container)
    assert set(KINDS) == {"native", *FileKind}
