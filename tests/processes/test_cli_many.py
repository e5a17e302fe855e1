"""`lorewell import` and `lorewell inspect` on many files: a bar, one table, bounded memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from lorewell.cli import file_batch
from pictures import chunk, png, text
from process import environment
from program import Done, Lorewell

# The peak is that of the program's own memory: rusage would count that of what started it, too.
MEASURED = """
from pathlib import Path
from lorewell.cli.main import main
try:
    main()
finally:
    status = Path("/proc/self/status").read_text()
    print("peak", status.partition("VmHWM:")[2].split()[0])
"""
BOOK = {"entries": [{"keys": "lamp, 灯", "content": "A lamp."}, {"content": "x", "enabled": False}]}
CARD = {"spec": "chara_card_v2", "data": {"name": "Oda", "character_book": BOOK}}
BARE = {"spec": "chara_card_v2", "data": {"name": "Oda"}}
CARDS = 200
PICTURE_BYTES = 1_500_000


@pytest.fixture
def folder(lorewell: Lorewell) -> Path:
    """A folder with what folders hold: cards, a book, broken and foreign files, hidden ones."""
    files = {
        "b/守灯人 🏮.png": png(text(CARD)),
        "b/a.json": json.dumps(BARE).encode(),
        "a.png": png(),
        "z\x1b[2J\u202e.json": json.dumps({"entries": {"0": {"content": "<% %>"}}}).encode(),
        "notes.txt": "灯".encode(),
        ".hidden.json": b"{}",
        ".git/config": b"x",
    }
    top = lorewell.folder / "in"
    for name, content in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (lorewell.folder / "out.json").write_bytes(b"{}")
    (top / "link.json").symlink_to(lorewell.folder / "out.json")
    (top / "up").symlink_to(lorewell.folder)
    return top


def lines(done: Done) -> list[Any]:
    return [json.loads(line) for line in done.out.splitlines()]


@pytest.mark.parametrize("command", ["import", "inspect"])
def test_folder_is_told_in_one_table(lorewell: Lorewell, folder: Path, command: str) -> None:
    done = lorewell(command, folder)
    assert (done.code, done.err) == (2, "")
    rows = [" ".join(line.split()) for line in done.out.splitlines() if line.strip()]
    assert rows[1] == "File Format Entries Enabled Blocked Warnings Outcome"
    assert rows[3:9] == [
        "a.png failed",
        "notes.txt failed",
        r"z\x1b[2J\u202e.json st_world 1 1 1 1 ok",
        "b/a.json card_v2_json 0 0 0 1 no_book",
        "b/守灯人 🏮.png card_png 2 1 0 1 ok",
        "5 files: 2 failed, 2 ok, 1 no_book 3 2 1 3",
    ]
    assert rows[9].startswith("a.png: import_invalid: This PNG has no card data")
    assert rows[10].startswith("notes.txt: unsupported_media_type: This is not an image")
    assert len(rows) == 11


def test_named_files_are_taken_in_their_order(lorewell: Lorewell, folder: Path) -> None:
    hidden, link = folder / ".hidden.json", folder / "link.json"
    done = lorewell("import", folder / "b", link, hidden, lorewell.folder / "none.json", "--json")
    assert [Path(each["file"]).name for each in lines(done)] == [
        *("a.json", "守灯人 🏮.png", "link.json", ".hidden.json", "none.json"),
    ]
    assert lines(done)[-1]["error"] == {"code": None, "message": "No such file or directory"}
    assert done.code == 2  # of the first that failed, link.json


def test_code_is_that_of_the_first_file_that_failed(lorewell: Lorewell, folder: Path) -> None:
    none, broken, good = lorewell.folder / "none", folder / "a.png", folder / "b"
    for command in ("import", "inspect"):
        assert lorewell(command, good, none, broken).code == 4
        assert lorewell(command, broken, none).code == 2
        assert lorewell(command, good).code == 0
        assert lorewell(command, good, "--json").code == 0


def test_import_prints_a_line_of_json_for_each_file(lorewell: Lorewell, folder: Path) -> None:
    done = lorewell("import", folder, "--json")
    assert (done.code, done.err) == (2, "")
    broken, foreign, world, bare, card = lines(done)
    path = folder / "b" / "守灯人 🏮.png"
    assert card == {"file": str(path), **lorewell("import", path, "--json").json}
    assert broken["file"] == str(folder / "a.png")
    assert broken["error"]["code"] == "import_invalid"
    assert broken["error"]["message"].startswith("a.png can't be imported: This PNG has")
    assert foreign["error"]["code"] == "unsupported_media_type"
    assert world["import_report"]["runtime_blocked_count"] == 1
    assert bare["import_report"]["warnings"][0]["code"] == "no_book"


def test_inspect_prints_a_line_of_json_for_each_file(lorewell: Lorewell, folder: Path) -> None:
    shown = lines(lorewell("inspect", folder, lorewell.folder / "none", "--json"))
    for each in shown[:-1]:
        assert each == json.loads(lorewell("inspect", each["file"], "--json").out)
    assert [each["container"] for each in shown[:-1]] == ["png", "text", "json", "json", "png"]
    assert shown[-1]["error"] == {"code": None, "message": "No such file or directory"}


def test_folder_without_files_says_so(lorewell: Lorewell) -> None:
    empty = lorewell.folder / "empty"
    (empty / "below").mkdir(parents=True)
    assert lorewell("import", empty) == (0, "No files found.\n", "")
    assert lorewell("inspect", empty, "--json") == (0, "", "")


def test_folder_that_cannot_be_listed_is_told(lorewell: Lorewell, folder: Path) -> None:
    scandir = os.scandir

    def refusing(path: Path) -> Any:
        if path.name == "b":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    lorewell.monkeypatch.setattr(file_batch.os, "scandir", refusing)
    done = lorewell("inspect", folder)
    assert "b: can't be read: " in done.out
    assert "4 files: 3 failed, 1 ok" in done.words


@pytest.mark.parametrize("columns", [80, 120])
def test_table_keeps_to_the_width(lorewell: Lorewell, folder: Path, columns: int) -> None:
    lorewell.monkeypatch.setenv("COLUMNS", str(columns))
    table, _, _ = lorewell("import", folder).out.partition("a.png: ")
    assert max(map(cell_len, table.splitlines())) <= columns
    assert "\x1b" not in table


def test_bar_is_drawn_where_it_is_forced(lorewell: Lorewell, folder: Path) -> None:
    lorewell.monkeypatch.setenv("FORCE_COLOR", "1")
    done = lorewell("import", folder, "--json")
    assert "5/5" in done.err
    assert "\x1b[2J" not in done.err
    assert [*map(json.loads, done.out.splitlines())]


def read_all(terminal: int) -> str:
    """Return all that a program wrote to its terminal; its end is an error on Linux."""
    printed = b""
    while True:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:
            piece = b""
        if not piece:
            return printed.decode()
        printed += piece


@pytest.mark.skipif(sys.platform != "linux", reason="a terminal and the memory of a process")
def test_many_cards_show_progress_and_need_little_memory(tmp_path: Path) -> None:
    import pty  # noqa: PLC0415  not on Windows

    pixels = chunk(b"IDAT", os.urandom(PICTURE_BYTES))
    for number in range(CARDS):
        data = png(pixels, text({**CARD, "data": {**CARD["data"], "name": f"灯{number} 🏮"}}))
        cut = number % 20 == 19
        (tmp_path / f"灯 {number:03} 🏮.png").write_bytes(data[: len(data) // 2 if cut else None])
    peaks = []
    for folder in (next(tmp_path.iterdir()), tmp_path):
        terminal, other = pty.openpty()
        done = subprocess.Popen(
            [sys.executable, "-c", MEASURED, "inspect", str(folder)],
            env=environment() | {"TERM": "xterm", "COLUMNS": "100", "PYTHONUTF8": "1"},
            stdout=subprocess.PIPE,
            stderr=other,
        )
        os.close(other)
        printed = read_all(terminal)
        out = done.communicate()[0].decode()
        os.close(terminal)
        peaks.append(int(out.split()[-1]) * 1024)
    assert done.returncode == 2
    assert f"{CARDS}/{CARDS}" in printed
    assert printed.count("Reading") > 3
    assert f"{CARDS} files: 190 ok, 10 failed" in " ".join(out.split())
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert total > 250_000_000
    assert peaks[1] < peaks[0] + total / 10, peaks
