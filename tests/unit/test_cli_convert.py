"""`lorewell convert`: one format into another, and a book into a card."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lorewell import import_file
from lorewell.cli.import_tables import MAX_LINES
from pictures import png, text
from program import Done, Lorewell
from support import Document

ENTRIES = {"5": {"uid": 5, "key": ["lamp"], "content": "灯", "order": "10", "odd": [1]}}
WORLD = {"entries": ENTRIES, "name": "Harbour"}
CARD = {"spec": "chara_card_v2", "data": {"name": "Oda", "first_mes": "Hi."}}


class Convert(Lorewell):
    """The command `convert` alone."""

    def __call__(self, *args: str | Path) -> Done:
        return super().__call__("convert", *args)


@pytest.fixture
def lorewell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Lorewell:
    return Convert(tmp_path, monkeypatch, capfd)


def document(path: Path) -> Document:
    found: Document = json.loads(path.read_bytes())
    return found


def test_world_comes_back_as_it_was(lorewell: Lorewell) -> None:
    world, out = lorewell.file("harbour.json", WORLD), lorewell.folder / "out.json"
    code, printed, _ = lorewell(world, out, "--to", "st_world")
    assert code == 0
    assert "1 entries." in " ".join(printed.split())
    assert "Losses" not in printed
    assert document(out) == WORLD


def test_losses_are_listed(lorewell: Lorewell) -> None:
    world, out = lorewell.file("harbour.json", WORLD), lorewell.folder / "out.json"
    _, printed, _ = lorewell(world, out, "--to", "character_book")
    assert "/entries/0/source/raw/odd" in printed
    assert "odd (array)" in printed
    assert "moved_to_extensions" in printed
    (entry,) = document(out)["entries"]
    assert entry == {
        "id": 5,
        "keys": ["lamp"],
        "content": "灯",
        "insertion_order": 10,
        "enabled": True,
        "extensions": {"odd": [1], "position": 0},
        "position": "before_char",
    }
    code, printed, _ = lorewell(world, out, "--to", "character_book", "--json")
    assert code == 0
    assert json.loads(printed) == {
        "format": "character_book",
        "losses": [
            {
                "pointer": "/entries/0/source/raw/odd",
                "field": "odd",
                "kind": "array",
                "why": "moved_to_extensions",
            }
        ],
    }


def test_many_losses_are_counted(lorewell: Lorewell) -> None:
    odd = {f"odd{at}": None for at in range(MAX_LINES + 7)}
    world = lorewell.file("harbour.json", {"entries": {"5": {**ENTRIES["5"], **odd}}})
    _, printed, _ = lorewell(world, lorewell.folder / "out.json", "--to", "lorebook_v3")
    assert "and 8 more" in printed


def test_our_own_format_can_be_opened_again(lorewell: Lorewell) -> None:
    world, out = lorewell.file("harbour.json", WORLD), lorewell.folder / "own.json"
    lorewell(world, out, "--to", "native")
    assert document(out)["entries"][0]["id"] == "5"
    back = lorewell.folder / "back.json"
    lorewell(out, back, "--to", "st_world")
    assert document(back) == WORLD


def test_book_is_put_into_a_card(lorewell: Lorewell) -> None:
    world, card = lorewell.file("harbour.json", WORLD), lorewell.file("oda.png", png(text(CARD)))
    out = lorewell.folder / "new.png"
    code, _, _ = lorewell(world, out, "--into", card)
    assert code == 0
    assert import_file(out.read_bytes(), name="new.png").book.entries[0].content == "灯"
    code, _, _ = lorewell(world, card, "--into", card, "--to", "character_book")
    assert card.read_bytes() == out.read_bytes()


def test_a_card_v1_becomes_v2_and_the_command_says_so(lorewell: Lorewell) -> None:
    world = lorewell.file("harbour.json", WORLD)
    card = lorewell.file("old.json", {"name": "Oda", "first_mes": "Hi."})
    out = lorewell.folder / "new.json"
    code, said, _ = lorewell(world, out, "--into", card)
    assert (code, "old.json is a card V1; new.json is a card V2" in said) == (0, True)
    done = lorewell(world, out, "--into", card, "--json")
    assert json.loads(done.out)["upgraded"] is True


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        ((), 2, "must be one of native, st_world, character_book, lorebook_v3, replica"),
        (("--to", "yaml"), 2, "--to: must be one of"),
        (("--to", "native", "--into", "oda.json"), 2, "--into writes the format character_book"),
        (("--into", "harbour.json"), 2, "harbour.json can't take a book: The file is not"),
        (("--into", "absent.json"), 4, "absent.json can't be read"),
    ],
)
def test_what_cant_be_done_is_said(
    lorewell: Lorewell, args: tuple[str, ...], code: int, says: str
) -> None:
    world = lorewell.file("harbour.json", WORLD)
    lorewell.file("oda.json", CARD)
    lorewell.monkeypatch.chdir(lorewell.folder)
    done = lorewell(world, "out.json", *args)
    assert done[0] == code
    assert says in done[2]
    assert not (lorewell.folder / "out.json").exists()


def test_card_without_a_book_is_refused(lorewell: Lorewell) -> None:
    code, _, printed = lorewell(lorewell.file("oda.json", CARD), "out.json", "--to", "native")
    assert (code, printed) == (2, "lorewell: oda.json is a card that holds no lorebook.\n")


def test_file_that_cant_be_written_is_named(lorewell: Lorewell) -> None:
    world = lorewell.file("harbour.json", WORLD)
    code, _, printed = lorewell(world, lorewell.folder, "--to", "native")
    assert code == 1
    assert "can't be written" in printed


@pytest.fixture
def cards(lorewell: Lorewell) -> Path:
    """A folder whose books want the same names, with what is no book among them."""
    top = lorewell.folder / "cards"
    book = {"name": "../../evil", "entries": [{"keys": ["lamp"], "content": "灯"}]}
    card = png(text({**CARD, "data": {"name": "/etc/evil", "character_book": book}}))
    files = {
        "小田 🏮.png": card,
        "小田 🏮.json": json.dumps(WORLD).encode(),
        "MIRA.png": card,
        "mira.json": json.dumps({**WORLD, "odd": 1}).encode(),
        "bare.json": json.dumps(CARD).encode(),
        "broken.png": card[:40],
        "below/a\x1b[2J.png": card,
    }
    (top / "below").mkdir(parents=True)
    for name, content in files.items():
        (top / name).write_bytes(content)
    return top


def written(folder: Path) -> set[str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix() for path in files}


NAMES = {"小田 🏮.json", "小田 🏮-2.json", "MIRA.json", "mira-2.json", "below/a\x1b[2J.json"}


def test_folder_becomes_a_folder_of_books(lorewell: Lorewell, cards: Path) -> None:
    before, out = written(cards), lorewell.folder / "new" / "books"
    done = lorewell(cards, out, "--to", "st_world")
    assert (done.code, done.err) == (2, "")
    assert written(out) == NAMES
    assert written(cards) == before
    assert document(out / "小田 🏮.json") == WORLD  # before the picture, by its name
    (entry,) = document(out / "小田 🏮-2.json")["entries"].values()
    assert entry["content"] == "灯"
    rows = [" ".join(line.split()) for line in done.out.splitlines() if line.strip()]
    assert rows[1] == "File Format Entries Losses Outcome Written to"
    assert rows[3:-2] == [
        "MIRA.png card_png 1 0 written MIRA.json",
        "bare.json card_v2_json 0 0 no_book",
        "broken.png failed",
        "mira.json st_world 1 0 written mira-2.json (mira.json was taken)",
        "小田 🏮.json st_world 1 0 written 小田 🏮.json",
        "小田 🏮.png card_png 1 0 written 小田 🏮-2.json (小田 🏮.json was taken)",
        r"below/a\x1b[2J.png card_png 1 0 written below/a\x1b[2J.json",
    ]
    assert rows[-2] == "7 files: 5 written, 1 no_book, 1 failed 5 0"
    assert rows[-1].startswith("broken.png: import_invalid: The PNG is truncated")
    assert set(lorewell.folder.iterdir()) == {cards, lorewell.folder / "new"}


def test_what_is_there_is_kept_unless_it_is_to_be_replaced(lorewell: Lorewell, cards: Path) -> None:
    (cards / "broken.png").unlink()
    out = lorewell.folder / "books"
    (out / "below").mkdir(parents=True)
    (out / "MIRA.json").write_text("mine", encoding="utf-8")
    done = lorewell(cards, out, "--to", "native")
    assert done.code == 5
    assert "6 files: 4 written, 1 kept, 1 no_book" in done.words
    assert "MIRA.json exists; pass --replace to overwrite it." in done.out
    assert (out / "MIRA.json").read_text(encoding="utf-8") == "mine"
    assert lorewell(cards, out, "--to", "native").code == 5
    done = lorewell(cards, out, "--to", "native", "--replace")
    assert done.code == 0
    assert "6 files: 5 replaced, 1 no_book" in done.words
    assert written(out) == NAMES
    assert document(out / "MIRA.json")["name"] == "../../evil"


def test_folder_as_json_is_a_line_for_each_file(lorewell: Lorewell, cards: Path) -> None:
    out = lorewell.folder / "books"
    (out / "below").mkdir(parents=True)
    (out / "below" / "a\x1b[2J.json").write_bytes(b"")
    done = lorewell(cards, out, "--to", "character_book", "--json")
    first, bare, broken, mira, *_, below = map(json.loads, done.out.splitlines())
    name = cards / "MIRA.png"
    assert first == {
        "file": str(name),
        "outcome": "written",
        "output": str(out / "MIRA.json"),
        "format": "character_book",
        "losses": [],
    }
    assert bare == {"file": str(cards / "bare.json"), "outcome": "no_book", "output": None}
    assert broken["error"]["code"] == "import_invalid"
    assert mira["losses"][0]["pointer"] == "/entries/0/source/raw/odd"
    assert (below["outcome"], below["file"]) == ("kept", str(cards / "below" / "a\x1b[2J.png"))


def test_folder_may_be_written_into_itself_and_is_not_read_again(
    lorewell: Lorewell, cards: Path
) -> None:
    for _ in range(2):
        lorewell(cards, cards / "out", "--to", "st_world", "--replace")
    assert written(cards / "out") == NAMES


def test_place_that_cannot_be_written_fails_for_that_file_alone(
    lorewell: Lorewell, cards: Path
) -> None:
    out = lorewell.folder / "books"
    out.mkdir()
    (out / "below").write_bytes(b"in the way")
    done = lorewell(cards, out, "--to", "st_world")
    assert "7 files: 4 written, 2 failed, 1 no_book" in done.words
    assert r"below/a\x1b[2J.json can't be written: " in done.out
    done = lorewell(cards / "below", out / "below", "--to", "st_world", "--json")
    assert json.loads(done.out)["error"]["code"] is None
    assert done.code == 1


@pytest.mark.parametrize("out", [".", "..", "below/.."])
def test_folder_is_not_written_over_itself(lorewell: Lorewell, cards: Path, out: str) -> None:
    before = written(cards)
    done = lorewell(cards, cards / out, "--to", "native")
    assert (done.code, done.out) == (2, "")
    assert "OUT must be neither IN nor a folder above it" in done.err
    assert written(cards) == before


def test_folder_is_not_put_into_a_card(lorewell: Lorewell, cards: Path) -> None:
    done = lorewell(cards, lorewell.folder / "x", "--into", cards / "mira.json")
    assert (done.code, done.out) == (2, "")
    assert "--into needs one book, and IN is a folder" in done.err


def test_input_is_not_written_over(lorewell: Lorewell) -> None:
    world = lorewell.file("harbour.json", WORLD)
    for out in (world, lorewell.folder / "." / "harbour.json"):
        done = lorewell(world, out, "--to", "native")
        assert (done.code, done.out) == (2, "")
        assert "OUT must not be the same file as IN." in done.err
    os.link(world, lorewell.folder / "same.json")
    assert lorewell(world, lorewell.folder / "same.json", "--to", "native").code == 2
    assert document(world) == WORLD


@pytest.mark.parametrize("leads_to", ["victim.json", "nowhere.json"])
def test_link_in_place_of_out_is_refused(lorewell: Lorewell, leads_to: str) -> None:
    world, out = lorewell.file("harbour.json", WORLD), lorewell.folder / "out.json"
    lorewell.file("victim.json", "mine")
    out.symlink_to(leads_to)
    done = lorewell(world, out, "--to", "native")
    assert (done.code, done.out) == (1, "")
    assert "out.json can't be written: it is a symbolic link, which is not followed." in done.err
    assert document(lorewell.folder / "victim.json") == "mine"
    assert not (lorewell.folder / "nowhere.json").exists()


def test_folder_is_not_written_through_links(lorewell: Lorewell, cards: Path) -> None:
    elsewhere, out = lorewell.folder / "elsewhere", lorewell.folder / "out"
    elsewhere.mkdir()
    out.symlink_to(elsewhere)
    done = lorewell(cards, out, "--to", "native")
    assert (done.code, done.out) == (2, "")
    assert "OUT must not be a symbolic link; give the folder that it points to." in done.err
    out.unlink()
    out.mkdir()
    (out / "below").symlink_to(elsewhere)
    (out / "MIRA.json").symlink_to(elsewhere / "mira")
    done = lorewell(cards, out, "--to", "native")
    assert "7 files: 3 written, 2 failed, 1 kept" in done.words
    assert "out/below is a symbolic link, which is not followed" in done.out
    done = lorewell(cards, out, "--to", "native", "--replace")
    assert "7 files: 3 failed, 3 replaced, 1 no_book" in done.words
    assert "MIRA.json can't be written: it is a symbolic link, which is not followed" in done.out
    assert list(elsewhere.iterdir()) == []
