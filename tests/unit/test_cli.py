"""The program as people and scripts meet it: tables, JSON, one line where something is wrong."""

import io
import json
import re
import sys
from pathlib import Path

import orjson
import pytest
from rich.cells import cell_len

from lorewell import SelectRequest, SelectResponse, load_book, select
from lorewell.cli.tables import MAX_ENTRIES_A_REASON
from lorewell.model.plain import plain
from program import Done, Lorewell

ROOT = Path(__file__).resolve().parents[2]
HARBOUR = ROOT / "examples" / "harbour.json"
TURN = ROOT / "examples" / "turn.json"
TOKENIZER = {
    "version": "1.0",
    "added_tokens": [],
    "pre_tokenizer": {"type": "WhitespaceSplit"},
    "model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"},
}


def row(done: Done, start: str) -> str:
    """Return the one line of the output that starts with the text, blanks squeezed."""
    rows = [line for line in done.out.splitlines() if line.strip().startswith(start)]
    assert len(rows) == 1, done.out
    return " ".join(rows[0].split())


# What the sample turn shows, by the start of the line. {cost} and the like come from the ledger:
# token figures hold the book's id, which changes with every word of the book.
SELECTED = {
    "chain": "before_character {cost} required: always selected",
    "pilot": "before_character {cost} keyword: 'pilot' in the query",
    "glass-bell": "before_character {cost} recursion: 'glass bell' in wreck",
    "守灯人": "before_character {cost} recursion: '守灯人' in 灯船",
    "red-lanterns": "before_character {cost} constant: needs no key",
    "pilots-guild": "after_character {cost} dependency: required by pilot",
    "wreck": "at_depth 2 {cost} keyword: 'wreck' in the query",
}
LEFT_OUT = {
    "old-price": "disabled 1 old-price Prices of last year",
    "twist": "audience_mismatch 1 twist For the planner alone",
    "regatta": "condition_failed 1 regatta Summer regatta: condition 0: season",
    "chart": "runtime_unsupported 1 chart Chart panel: kind:template; ejs",
    "gull": "probability 1 gull The lucky gull: roll 58.9 >= 50",
    "captain": "template_missing 1 captain The captain's oath: {{{{char}}}}",
    "burnt-board": "empty_content 1 burnt-board The burnt board",
    "sayings": "placement_unsupported 1 sayings Sayings: before_examples",
    "cargo": "not_triggered 2 cargo Night cargo: 'cargo' in message 2 of 2, secondary",
    "last-cheat": "dependency_unavailable 1 last-cheat The last cheat: burnt-board: empty_content",
    "old-master": "conflict 1 old-master Harbourmaster Fenn: beaten by new-master",
    "tariff": "budget_dropped 1 tariff Tariff of all goods: needs {tokens}, has {room}",
    "anthem": "constant_budget_dropped 1 anthem The harbour anthem: needs {tokens}, has {room}",
}


def sample_answer() -> SelectResponse:
    book = load_book(HARBOUR)
    document = {"books": [book.ref], **json.loads(TURN.read_bytes())}
    return select([book], SelectRequest.model_validate(document))


def test_sample_turn_shows_what_goes_in_and_why_the_rest_stays_out(lorewell: Lorewell) -> None:
    answer = sample_answer()
    done = lorewell("select", "--book", HARBOUR, "--request", TURN)
    assert (done.code, done.err) == (0, "")
    figures = f"11 of 25 entries selected, {answer.token_count} of 900 tokens (cl100k_base)"
    figures += ", strategy rules"  # a request file has the defaults of a request
    assert done.out.startswith(f"Saltglass Harbour 盐镜港\n{figures}\n")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    by_id = {decision.entry_id: decision for decision in answer.decisions}
    for entry_id, words in SELECTED.items():
        assert f"{entry_id} {words}".format(cost=by_id[entry_id].cost) in lines
    for entry_id, words in LEFT_OUT.items():
        line = words.format(**by_id[entry_id].facts._asdict())
        assert any(shown.startswith(line) for shown in lines), line
    rows = [line for line in lines if re.search(r" (before_|after_|at_depth).* \d+ [a-z]+: ", line)]
    assert [line.split()[0] for line in rows] == [block.entry_id for block in answer.blocks]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_tables_keep_to_the_width_and_hold_no_colour(lorewell: Lorewell, columns: int) -> None:
    lorewell.monkeypatch.setenv("COLUMNS", str(columns))
    done = lorewell("select", "--book", HARBOUR, "--request", TURN)
    assert max(map(cell_len, done.out.splitlines())) <= columns
    assert "\x1b" not in done.out
    assert "…" not in done.out
    assert "constant_budget_dropped" in done.out


def test_json_is_the_answer_of_the_library(lorewell: Lorewell) -> None:
    done = lorewell("select", "--book", HARBOUR, "--request", TURN, "--json")
    answer = sample_answer()
    head, _, duration = done.out.rpartition('"duration_ms":')
    assert (done.code, done.err) == (0, "")
    assert head == answer.to_json().decode().rpartition('"duration_ms":')[0]
    assert duration.endswith("}\n")
    assert float(duration.removesuffix("}\n")) > 0


def ledger(done: Done) -> dict[str, str]:
    """Return the reason of each entry in a JSON answer."""
    assert (done.code, done.err) == (0, "")
    return {item["entry_id"]: item["reason"] for item in orjson.loads(done.out)["decisions"]}


def test_query_alone_is_enough(lorewell: Lorewell) -> None:
    done = lorewell("select", "--book", HARBOUR, "--query", "An eel!", "--json")
    assert ledger(done)["eel"] == "keyword"


def test_options_fill_the_request(lorewell: Lorewell) -> None:
    book = lorewell.book(
        {"id": "kiln", "content": "{{char}} and {{user}}", "keys": ["kiln"]},
        {
            "id": "fire",
            "content": "Fire.",
            "constant": True,
            "conditions": [{"path": "lit", "op": "exists"}],
        },
        {"id": "luck", "content": "Luck.", "keys": ["kiln"], "probability": 3.98},
    )
    history = lorewell.file("history.json", [{"role": "user", "content": "The kiln."}])
    state = lorewell.file("state.json", {"lit": None})
    asked: list[str | Path] = [
        "select",
        "--book",
        book,
        "--query",
        "Go on.",
        "--history",
        history,
        "--state",
        state,
    ]
    names = ["--char", "Ilse", "--user", "", "--budget", "777", "--seed", "seed"]
    done = lorewell(*asked, *names, "--json")
    answer = orjson.loads(done.out)
    assert [block["content"] for block in answer["blocks"]] == ["Fire.", "Ilse and "]
    assert answer["token_budget"] == 777
    assert ledger(done) == {"kiln": "keyword", "fire": "constant", "luck": "probability"}
    shown = lorewell(*asked, *names)
    assert row(shown, "kiln").endswith("keyword: 'kiln' in message 1 of 1")


def test_recall_is_told_by_its_ranks(lorewell: Lorewell) -> None:
    gate = {"selective": True, "secondary_keys": ["夜"]}
    book = lorewell.book(
        {"id": "tower", "content": "灯塔"},
        {"id": "gated", "content": "灯塔 灯塔 灯塔", **gate},
        {"id": "third", "content": "雾里的灯塔 有人看守"},
    )
    asked = {"strategy": "hybrid", "recall_gate": "strict", "recall_limit": 1}
    request = lorewell.file("turn.json", {"query": "灯塔", **asked})
    done = lorewell("select", "--book", book, "--request", request)
    words = " ".join(done.out.split())
    assert "hybrid: score 0.0161, 2 by words" in words
    assert "gated: ranked, but gated, 1 by words, secondary and_any: none was found" in words
    assert "third: outranked, 3 by words" in words


def test_a_book_of_sillytavern_says_which_option_is_missing(lorewell: Lorewell) -> None:
    contents = ("{{char}} waits.", "{{user}}", "{{user}} and {{char}}", "{{roll:6}} {{user}}")
    entries = {
        str(uid): {"uid": uid, "key": ["lamp"], "content": content}
        for uid, content in enumerate(contents)
    }
    book = lorewell.file("world.json", {"entries": entries})
    done = lorewell("select", "--book", book, "--query", "the lamp")
    assert "0 of 4 entries selected" in done.words
    assert "3 entries need a name for {{char}} or {{user}}: give --char/--user" in done.words
    brief = lorewell.file("brief.json", {"query": "the lamp", "explain": "none"})
    assert "give --char/--user" in lorewell("select", "--book", book, "--request", brief).words
    named = lorewell("select", "--book", book, "--query", "lamp", "--char", "A", "--user", "B")
    assert "3 of 4 entries selected" in named.words
    assert "--char/--user" not in named.out


def test_options_win_over_the_request_file(lorewell: Lorewell) -> None:
    history = lorewell.file("history.json", [])
    asked: list[str | Path] = ["select", "--book", HARBOUR, "--request", TURN, "--json"]
    before = ledger(lorewell(*asked))
    after = ledger(lorewell(*asked, "--char", "Fenn", "--budget", "5000", "--history", history))
    assert (before["captain"], after["captain"]) == ("template_missing", "keyword")
    assert after["pilot"] == "keyword", "the user of the request file is kept"
    assert (before["tariff"], after["tariff"]) == ("budget_dropped", "not_triggered")
    assert after["anthem"] == "constant"


def test_request_may_name_its_books(lorewell: Lorewell) -> None:
    first = lorewell.book({"id": "a", "content": "A."}, name="First")
    second = lorewell.book({"id": "b", "content": "B."}, name="Second")
    wanted = load_book(second).book_id
    request = lorewell.file("turn.json", {"query": "?", "books": [{"book_id": wanted}]})
    books: list[str | Path] = ["--book", first, "--book", second]
    assert ledger(lorewell("select", *books, "--request", request, "--json")) == {
        "b": "not_triggered"
    }
    shown = lorewell("select", *books, "--request", request)
    assert shown.out.startswith("Second\n0 of 1 entries selected, 0 of 1500 tokens")
    assert "Selected" not in shown.out
    unknown = {"query": "?", "books": [{"book_id": wanted, "revision": 2}]}
    done = lorewell("select", *books, "--request", lorewell.file("turn.json", unknown))
    assert done == (4, "", f"lorewell: The book {wanted} has no revision 2.\n")


def test_entries_of_several_books_are_told_apart(lorewell: Lorewell) -> None:
    lamp = {
        "id": "lamp",
        "title": "Lamp",
        "content": "A lamp.",
        "keys": ["lamp"],
        "conflict_key": "l",
    }
    first = lorewell.book({**lamp, "priority": 1}, name="First")
    second = lorewell.book(lamp, name="Second")
    done = lorewell("select", "--book", first, "--book", second, "--query", "lamp")
    assert done.out.startswith("First, Second\n1 of 2 entries")
    assert row(done, "lamp").startswith("lamp (First) before_character")
    assert " lamp (Second) Lamp: beaten by lamp (First)" in row(done, "conflict")


def test_long_lists_are_cut(lorewell: Lorewell) -> None:
    entries = [{"content": "x", "keys": [" "]} for _ in range(MAX_ENTRIES_A_REASON + 5)]
    done = lorewell("select", "--book", lorewell.book(*entries), "--query", "?")
    assert row(done, "not_triggered").startswith("not_triggered 25 entry-0, entry-1,")
    assert "and 5 more" in " ".join(done.out.split())
    notes = done.out.partition("Book warnings")[2]
    assert "entry-19" in notes
    assert "blank_key: a blank key never matches" in notes
    assert "entry-20" not in notes
    assert "and 5 more" in notes


def test_what_was_not_asked_for_is_said(lorewell: Lorewell) -> None:
    book = lorewell.book({"content": "x", "constant": True, "keys": ["?"]}, {"content": "y"})
    request = lorewell.file("turn.json", {"query": "?", "explain": "selected"})
    done = lorewell("select", "--book", book, "--request", request)
    assert row(done, "entry-0").endswith("constant: needs no key; also '?' in the query")
    assert "explain is 'selected'" in done.out
    request = lorewell.file("turn.json", {"query": "?", "explain": "none"})
    done = lorewell("select", "--book", book, "--request", request)
    assert row(done, "entry-0") == "entry-0 before_character constant"


def test_outlet_shows_its_name(lorewell: Lorewell) -> None:
    entry = {"content": "x", "constant": True, "position": "outlet", "outlet_name": "map"}
    places = {"positions": ["outlet"], "outlets": ["map"]}
    request = lorewell.file("turn.json", {"query": "?", "placement_capabilities": places})
    done = lorewell("select", "--book", lorewell.book(entry), "--request", request)
    assert row(done, "map") == "map"


def test_book_cannot_write_to_the_terminal(lorewell: Lorewell) -> None:
    entry = {"id": "e", "title": "\x1b[2J\u202ea\nb[red]", "content": "x", "constant": True}
    book = lorewell.file("book.json", {"name": "N\x1b]0;title\x07", "entries": [entry]})
    done = lorewell("select", "--book", book, "--query", "?")
    assert not {"\x1b", "\x07", "\u202e"} & set(done.out)
    assert r"\x1b[2J\u202ea\nb[red]" in done.out


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("灯船 é 👩‍🚀", "灯船 é 👩‍🚀"),
        ("a\tb\r\n", r"a\tb\r\n"),
        ("\ud800", r"\ud800"),
        ("\x85\u2028", r"\x85\u2028"),
    ],
)
def test_plain_text_is_one_line(text: str, shown: str) -> None:
    assert plain(text) == shown


def one_line(done: Done, code: int, *words: str) -> None:
    """Check that the run failed with the code and one line on stderr that holds the words."""
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("lorewell: ")
    assert done.err.count("\n") == 1
    for word in words:
        assert word in done.err


@pytest.mark.parametrize(
    "data",
    [b"", b"<html>", b'{"name": "K', b"[]", b"[" * 300, b'{"name": NaN}', b"\xff\xfe{\x00}\x00"],
)
@pytest.mark.parametrize("option", ["--book", "--request", "--history", "--state"])
def test_broken_file_is_one_line(lorewell: Lorewell, option: str, data: bytes) -> None:
    files = {"--book": HARBOUR, option: lorewell.file("broken.json", data)}
    if "--request" not in files:
        files["--query"] = Path("?")
    if option == "--history" and data == b"[]":
        return
    done = lorewell("select", *(word for pair in files.items() for word in pair))
    one_line(done, 2)
    assert "broken.json" in done.err or "(at /state: " in done.err


def test_of_many_faults_the_line_tells_the_number(lorewell: Lorewell) -> None:
    done = lorewell("select", "--book", lorewell.book(*[{}] * 300), "--query", "?")
    one_line(done, 2)
    assert "; at /entries/9/content: must be given; and 290 more)" in done.err


def test_every_fault_is_in_the_line(lorewell: Lorewell) -> None:
    book = lorewell.book({"content": "x", "keys": "k"}, {"content": 1, "colour\n": "red"})
    done = lorewell("select", "--book", book, "--query", "?")
    places = [
        "Kiln Row.json is not a valid book (at /entries/0/keys: ",
        "; at /entries/1/content: ",
    ]
    one_line(done, 2, *places, r"; at /entries/1/colour\n: ")


def test_option_out_of_range_is_named(lorewell: Lorewell) -> None:
    done = lorewell("select", "--book", HARBOUR, "--query", "", "--budget", "-1")
    one_line(done, 2, "The request is not valid (at /token_budget: ", "at /query: ")


@pytest.mark.parametrize("content", [None, 3, "text"])
@pytest.mark.parametrize("option", ["history", "state"])
def test_file_of_the_wrong_kind_is_refused(
    lorewell: Lorewell, option: str, content: object
) -> None:
    path = lorewell.file("given.json", content)
    done = lorewell("select", "--book", HARBOUR, "--query", "?", f"--{option}", path)
    one_line(done, 2, f"(at /{option}: ")


def test_wrong_template_vars_are_refused_with_names_too(lorewell: Lorewell) -> None:
    request = lorewell.file("turn.json", {"query": "?", "template_vars": []})
    done = lorewell("select", "--book", HARBOUR, "--request", request, "--char", "Ilse")
    one_line(done, 2, "The request in turn.json is not valid (at /template_vars: ")


def test_same_book_twice_is_refused(lorewell: Lorewell) -> None:
    done = lorewell("select", "--book", HARBOUR, "--book", HARBOUR, "--query", "?")
    one_line(done, 2, "/books/1/book_id")


@pytest.mark.parametrize("options", [[], ["--query", "?", "--request", str(TURN)]])
def test_query_and_request_exclude_each_other(lorewell: Lorewell, options: list[str]) -> None:
    one_line(lorewell("select", "--book", HARBOUR, *options), 2, "either --query or --request")


@pytest.mark.parametrize("option", ["--book", "--request", "--history", "--state"])
def test_missing_file_is_4(lorewell: Lorewell, option: str) -> None:
    missing = lorewell.folder / "none.json"
    query = [] if option == "--request" else ["--query", "?"]
    done = lorewell("select", "--book", HARBOUR, *query, option, missing)
    one_line(done, 4, f"{missing} can't be read: ")


def test_folder_is_1(lorewell: Lorewell) -> None:
    one_line(lorewell("select", "--book", lorewell.folder, "--query", "?"), 1, "can't be read: ")


def test_large_file_is_6(lorewell: Lorewell) -> None:
    book = lorewell.file("large.json", b" " * (16 * 1024 * 1024 + 1))
    one_line(lorewell("select", "--book", book, "--query", "?"), 6, "large.json", "16 MiB")


def test_required_entry_without_room_is_2(lorewell: Lorewell) -> None:
    done = lorewell("select", "--book", HARBOUR, "--request", TURN, "--budget", "20")
    one_line(done, 2, "The required entry 'chain' needs ", " tokens, 20 are left.")


def test_tokenizer_may_be_named_or_a_file(lorewell: Lorewell) -> None:
    asked: list[str | Path] = [
        "select",
        "--book",
        HARBOUR,
        "--request",
        TURN,
        "--json",
        "--tokenizer",
    ]
    assert orjson.loads(lorewell(*asked, "o200k_base").out)["tokenizer"] == "o200k_base"
    path = lorewell.file("tokenizer.json", TOKENIZER)
    answer = orjson.loads(lorewell(*asked, path).out)
    assert answer["token_count"] == len(answer["context"].split())


def test_tokenizer_that_is_none(lorewell: Lorewell) -> None:
    asked: list[str | Path] = ["select", "--book", HARBOUR, "--request", TURN, "--tokenizer"]
    one_line(lorewell(*asked, "cl99k"), 2, "the tokenizer 'cl99k' can't be used", "cl100k_base")
    one_line(lorewell(*asked, TURN), 2, "turn.json' can't be used")


def test_tokenizer_file_without_the_extra(lorewell: Lorewell) -> None:
    lorewell.monkeypatch.setitem(sys.modules, "tokenizers", None)
    path = lorewell.file("tokenizer.json", TOKENIZER)
    done = lorewell("select", "--book", HARBOUR, "--request", TURN, "--tokenizer", path)
    one_line(done, 2, "lorewell[tokenizers]")


def test_version_is_one_line(lorewell: Lorewell) -> None:
    done = lorewell("--version")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("lorewell 0.")
    assert done.out.count("\n") == 1


def test_help_names_every_option(lorewell: Lorewell) -> None:
    done = lorewell("select", "--help")
    assert done.code == 0
    for option in ("book", "query", "request", "history", "state", "budget", "seed", "tokenizer"):
        assert f"--{option}" in done.out
    assert lorewell().code == 2
    assert lorewell("select", "--query", "?").code == 2


def test_terminal_that_lacks_characters_gets_marks(lorewell: Lorewell) -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    lorewell.monkeypatch.setattr(sys, "stdout", narrow)
    assert lorewell("select", "--book", HARBOUR, "--request", TURN).code == 0
    narrow.seek(0)
    assert "Saltglass Harbour ???" in narrow.read()
