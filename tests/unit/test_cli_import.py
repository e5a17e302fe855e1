"""`lorewell show`, `lorewell import`, and `lorewell select` on files of other programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.cells import cell_len

from lorewell import BookCreate, SelectRequest, import_file, load_book, select
from lorewell.cli.book_contents import MAX_KEYS
from lorewell.cli.import_tables import MAX_LINES
from lorewell.model.parse import parse_json, parse_model
from pictures import png, text
from program import Lorewell

ROOT = Path(__file__).resolve().parents[2]
HARBOUR = ROOT / "examples" / "harbour.json"
ENTRIES = [
    {
        "id": 1,
        "comment": "The lamp",
        "keys": ["lamp", "灯"],
        "secondary_keys": ["oil"],
        "selective": True,
        "content": "A lamp.",
        "enabled": True,
        "insertion_order": "10",
    },
    {"id": 2, "content": "Old.", "keys": [], "enabled": False, "insertion_order": 1},
    {
        "id": 3,
        "content": "<% if %>",
        "constant": True,
        "enabled": True,
        "insertion_order": 1,
        "extensions": {"position": 4, "depth": 2, "role": 1},
    },
    {"id": 4, "content": "{{char}} waits.", "keys": ["wait"], "enabled": True, "extensions": {}},
]
CARD = {
    "spec": "chara_card_v2",
    "spec_version": "2.0",
    "data": {"name": "Oda", "character_book": {"description": "Of Oda.", "entries": ENTRIES}},
}


@pytest.fixture
def card(lorewell: Lorewell) -> Path:
    return lorewell.file("oda.png", png(text(CARD)))


def test_show_says_what_is_in_a_card(lorewell: Lorewell, card: Path) -> None:
    done = lorewell("show", card)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Oda\ncard_png: 4 entries, 3 enabled, 1 blocked\n")
    total = "188 tokens (cl100k_base), text 15 and wrappers 173; ~ counts macros unexpanded"
    assert f"{total}\nOf Oda.\n" in done.out
    book = load_book(card)
    assert f"1 lamp, 灯 after_character {book.entries[0].cost}" in done.words
    assert "The lamp and_any: oil" in done.words
    assert f"2 disabled after_character {book.entries[1].cost}" in done.words
    assert f"3 constant at_depth 2 {book.entries[2].cost}" in done.words
    assert "needs ejs as user template" in done.words
    assert "4 wait after_character ~" in done.words
    assert "Import warnings" in done.out
    assert "1 number_from_text: /data/character_book/entries/0/insertion_order:" in done.words


def test_show_says_what_is_in_a_book_of_our_own(lorewell: Lorewell) -> None:
    done = lorewell("show", HARBOUR)
    assert done.out.startswith("Saltglass Harbour 盐镜港\n25 entries, 24 enabled, 1 blocked\n")
    assert "chain required before_character" in done.words
    assert "Warnings" not in done.out
    path = lorewell.file("empty.json", {"name": "Empty"})
    assert lorewell("show", path).out == "Empty\n0 entries, 0 enabled\n0 tokens (cl100k_base)\n\n"


def test_show_tells_what_is_odd_and_cuts_long_lists(lorewell: Lorewell) -> None:
    keys = [f"key{number}" for number in range(MAX_KEYS + 3)]
    entry = {"id": "e", "content": "x", "keys": [*keys, " "]}
    outlet = {"content": "y", "position": "outlet", "outlet_name": "map"}
    book = {"name": "K", "description": "d" * 400, "entries": [entry, outlet]}
    done = lorewell("show", lorewell.file("book.json", book))
    assert f"key{MAX_KEYS - 1}, and 4 more" in done.words
    assert "e blank_key: a blank key never matches" in done.words
    assert "outlet" in done.words
    assert "d…" in done.out
    assert f"key{MAX_KEYS}," not in done.out


def test_show_as_json_has_all_but_the_texts(lorewell: Lorewell, card: Path) -> None:
    done = lorewell("show", card, "--json")
    shown = parse_json(done.out.encode())
    book = load_book(card)
    assert (shown["name"], shown["description"]) == ("Oda", "Of Oda.")
    assert shown["content_hash"] == book.content_hash
    assert shown["token_count"] == sum(entry["tokens"] for entry in shown["entries"])
    assert shown["entries"][0]["tokens"] == book.entries[0].cost
    texts = [book.cost_in("plain", entry.index) for entry in book.entries]
    assert [entry["text_tokens"] for entry in shown["entries"]] == texts
    assert shown["text_tokens"] == sum(texts)
    assert shown["entries"][2]["runtime_requirements"] == ["ejs"]
    assert shown["import_report"]["format"] == "card_png"
    assert shown["diagnostics"] == []
    assert "A lamp." not in done.out


def test_show_counts_with_the_tokenizer_that_is_asked_for(lorewell: Lorewell, card: Path) -> None:
    assert "(o200k_base)" in lorewell("show", card, "--tokenizer", "o200k_base").out


def test_import_reports(lorewell: Lorewell, card: Path) -> None:
    done = lorewell("import", card)
    assert (done.code, done.err) == (0, "")
    size = len(card.read_bytes())
    assert f"oda.png, {size} bytes, SHA-256 " in done.words
    assert "Blocked entries: kept, but never selected" in done.out
    assert "3 ejs" in done.words
    assert "number_from_text: " in done.words
    assert sorted(lorewell.folder.iterdir()) == [card]
    assert lorewell("import", HARBOUR).code == 0


def test_import_as_json_gives_a_book_of_our_own(lorewell: Lorewell, card: Path) -> None:
    printed = parse_json(lorewell("import", card, "--json").out.encode())
    found = import_file(card.read_bytes(), name=card.name)
    assert list(printed) == ["book", "import_report"]
    assert parse_model(BookCreate, printed["book"]) == found.book
    assert printed["import_report"] == json.loads(found.report.model_dump_json())
    saved = lorewell.file("saved.json", printed["book"])
    assert load_book(saved).content_hash == load_book(card).content_hash


def test_import_tells_losses_and_what_to_look_at(lorewell: Lorewell) -> None:
    content = "见 http://a.example\u202e {{roll}} {{x}}"
    entry = {"uid": 0, "key": ["灯"], "content": content, "z": [1]}
    entries = {"0": entry, "1": {**entry, "uid": 1, "content": "灯"}}
    done = lorewell("import", lorewell.file("world.json", {"entries": entries}))
    assert "z (array) 2 /entries/0/z unsupported: has no effect here" in done.words
    assert "Review before use: kept, but never run, fetched or obeyed here" in done.words
    assert "0 link: a link 1 /entries/0/content 2 http://a.example" in done.words
    assert r"\u202e" in done.words
    assert "\u202e" not in done.out
    plain = lorewell("import", lorewell.file("plain.json", {"entries": {"0": {"uid": 0}}}))
    assert "Losses" not in plain.out
    assert "To look at" not in plain.out


def test_titles_of_blocked_entries_and_long_warnings(lorewell: Lorewell) -> None:
    entry = {"uid": 0, "key": ["a"], "comment": "Mood\x1b[2J", "content": "<% %>", "order": 1}
    entries = {"a": entry, **{str(at): None for at in range(MAX_LINES + 5)}}
    done = lorewell("import", lorewell.file("world.json", {"entries": entries}))
    assert r"0 Mood\x1b[2J ejs" in done.words or r"0 ejs Mood\x1b[2J" in done.words
    assert "and 5 more" in done.out
    assert "\x1b" not in done.out


def test_card_without_a_book_is_reported_and_not_selected_from(lorewell: Lorewell) -> None:
    path = lorewell.file("oda.json", {"spec": "chara_card_v2", "data": {"name": "Oda"}})
    for command in ("show", "import"):
        assert "no_book: the card has no lorebook" in lorewell(command, path).words
    done = lorewell("select", "--book", path, "--query", "?")
    assert done == (2, "", "lorewell: oda.json is a card without a lorebook.\n")


def test_select_takes_a_card_and_a_strategy(lorewell: Lorewell, card: Path) -> None:
    asked = ["select", "--book", card, "--query", "the lamp needs oil", "--json"]
    for strategy in ("rules", "hybrid"):
        answer = parse_json(lorewell(*asked, "--strategy", strategy).out.encode())
        assert [block["entry_id"] for block in answer["blocks"]] == ["1"]
        book = load_book(card)
        request = {"books": [book.ref], "query": "the lamp needs oil", "strategy": strategy}
        expected = select([book], SelectRequest.model_validate(request))
        assert answer["degraded"] == list(expected.degraded)
    done = lorewell(*asked, "--strategy", "magic")
    assert (done.code, done.out) == (2, "")
    assert "(at /strategy: " in done.err


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_tables_keep_to_the_width(lorewell: Lorewell, card: Path, columns: int) -> None:
    lorewell.monkeypatch.setenv("COLUMNS", str(columns))
    for command, path in (("show", card), ("import", card), ("show", HARBOUR)):
        done = lorewell(command, path)
        assert max(map(cell_len, done.out.splitlines())) <= columns
        assert "\x1b" not in done.out


@pytest.mark.parametrize("command", ["show", "import"])
@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"<html>", "web page (HTML)"),
        (b"hello", "Invalid JSON"),
        (b'{"entries": {"0": ', "Invalid JSON"),
        (b'{"name": "K", "entries": [{"content": 1}]}', "/entries/0/content"),
        (b'{"entries": {"0": {"key": ["\\u0000"], "content": "x"}}}', ""),
    ],
)
def test_broken_file_is_one_line(lorewell: Lorewell, command: str, data: bytes, says: str) -> None:
    done = lorewell(command, lorewell.file("lo\nre.json", data))
    if not says:
        assert (done.code, done.err) == (0, "")
        return
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("lorewell: lo\\nre.json ")
    assert done.err.count("\n") == 1
    assert says in done.err


@pytest.mark.parametrize("command", ["show", "import"])
def test_exit_codes_are_those_of_select(lorewell: Lorewell, command: str) -> None:
    assert lorewell(command, lorewell.folder / "none.json").code == 4
    assert lorewell(command, lorewell.file("big", b" " * (16 * 2**20 + 1))).code == 6
    assert lorewell(command).code == 2


def test_folder_is_no_book_to_show(lorewell: Lorewell) -> None:
    assert lorewell("show", lorewell.folder).code == 1


def test_dependency_that_cannot_be_met_is_told_by_show(lorewell: Lorewell) -> None:
    book = {"name": "K", "entries": [{"id": "a", "content": "x", "requires": ["b"]}]}
    done = lorewell("show", lorewell.file("book.json", book))
    assert (done.code, done.out) == (2, "")
    assert "book.json has entries whose requires can't be met" in done.err


def test_show_names_regex_keys_that_never_match(lorewell: Lorewell) -> None:
    entry = {"uid": 0, "key": ["/(/", "/ok/"], "content": "C"}
    done = lorewell("show", lorewell.file("book.json", {"entries": {"0": entry}}), "--json")
    notes = parse_json(done.out.encode())["diagnostics"]
    assert [(note["entry_id"], note["code"]) for note in notes] == [("0", "regex_invalid")]
