"""`lorewell convert`: one format into another, and a book into a card."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lorewell import import_file
from lorewell.cli.convert import MAX_LINES
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
    code, told, _ = lorewell(world, out, "--to", "st_world")
    assert code == 0
    assert "1 entries." in " ".join(told.split())
    assert "Losses" not in told
    assert document(out) == WORLD


def test_losses_are_listed(lorewell: Lorewell) -> None:
    world, out = lorewell.file("harbour.json", WORLD), lorewell.folder / "out.json"
    _, told, _ = lorewell(world, out, "--to", "character_book")
    assert "/entries/0/source/raw/odd" in told
    assert "odd (array)" in told
    assert "moved_to_extensions" in told
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
    code, told, _ = lorewell(world, out, "--to", "character_book", "--json")
    assert code == 0
    assert json.loads(told) == {
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
    _, told, _ = lorewell(world, lorewell.folder / "out.json", "--to", "lorebook_v3")
    assert "and 8 more" in told


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


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        ((), 2, "must be one of native, st_world, character_book, lorebook_v3"),
        (("--to", "yaml"), 2, "--to: must be one of"),
        (("--to", "native", "--into", "oda.json"), 2, "A card takes no other book"),
        (("--into", "harbour.json"), 2, "harbour.json can't take a book: This is no character"),
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
    code, _, told = lorewell(lorewell.file("oda.json", CARD), "out.json", "--to", "native")
    assert (code, told) == (2, "lorewell: oda.json is a card that holds no lorebook.\n")


def test_file_that_cant_be_written_is_named(lorewell: Lorewell) -> None:
    world = lorewell.file("harbour.json", WORLD)
    code, _, told = lorewell(world, lorewell.folder, "--to", "native")
    assert code == 1
    assert "can't be written" in told
