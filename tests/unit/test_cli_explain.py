"""`lorewell explain`, and the entries that `lorewell select` shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from program import Lorewell

BOOK = {
    "name": "雾隐渡",
    "entries": [
        {"id": "tower", "title": "灯塔", "content": "灯塔由哑女看守。", "keys": ["灯塔"]},
        {"id": "old", "title": "旧事", "content": "x", "keys": ["旧事"], "scan_depth": 1},
    ],
}
CHAT = [{"role": "assistant", "content": "旧事。"}, {"role": "user", "content": "去看海"}]


@pytest.fixture(name="lorewell")
def make_lorewell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Lorewell:
    return Lorewell(tmp_path, monkeypatch, capfd)


def explained(lorewell: Lorewell, *arguments: str | Path) -> dict[str, Any]:
    """Explain an entry, and return the answer."""
    book = lorewell.file("b.json", BOOK)
    done = lorewell("explain", book, *arguments, "--json")
    assert done.code == 0, done.err
    answer: dict[str, Any] = json.loads(done.out)
    return answer


def test_every_policy_explains_an_entry(lorewell: Lorewell) -> None:
    chat = lorewell.file("chat.json", CHAT)
    native = explained(lorewell, "old", "--chat", chat)
    assert [miss["kind"] for miss in native["near"]] == ["outside_window"]
    by_query = explained(lorewell, "tower", "--query", "灯 塔", "--policy", "sillytavern")
    assert (by_query["policy"], by_query["reason"]) == ("sillytavern", "not_triggered")
    replica = explained(lorewell, "old", "--chat", chat, "--policy", "replica")
    assert (replica["policy"], replica["selected"]) == ("replica", True)
    request = lorewell.file("r.json", {"query": "灯塔", "scan_depth": 1})
    assert explained(lorewell, "tower", "--request", request)["selected"]


def test_the_tables_show_gates_near_misses_and_changes(lorewell: Lorewell) -> None:
    chat, book = lorewell.file("chat.json", CHAT), lorewell.file("b.json", BOOK)
    done = lorewell("explain", book, "old", "--chat", chat)
    assert "is in a message that is not scanned: message 1" in done.words
    assert "/scan_depth = 2" in done.words
    cut = lorewell("explain", book, "old", "--chat", chat, "--steps", "0")
    assert "No change was found before the search ran out of steps." in cut.words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tower",), "Give one of --query, --chat and --request."),
        (("tower", "--query", "q", "--policy", "x"), "--policy must be"),
        (("nobody", "--query", "q"), "no book of the request has this entry"),
    ],
)
def test_invalid_options_are_refused(
    lorewell: Lorewell, arguments: tuple[str, ...], message: str
) -> None:
    refused = lorewell("explain", lorewell.file("b.json", BOOK), *arguments)
    assert (refused.code, message in refused.err) == (2, True)


def test_a_place_that_the_host_lacks_is_shown_as_a_change(lorewell: Lorewell) -> None:
    place = {"position": "outlet", "outlet_name": "港口", "keys": ["灯塔"]}
    book = lorewell.file("o.json", {"name": "B", "entries": [{"id": "a", "content": "x", **place}]})
    done = lorewell("explain", book, "a", "--query", "灯塔", "--json")
    edits = [edit for change in done.json["changes"] for edit in change["edits"]]
    (wider,) = [each["value"] for each in edits if each["path"] == "/placement_capabilities"]
    assert wider["outlets"] == ["港口"]
    shown = lorewell("explain", book, "a", "--query", "灯塔")
    assert (shown.code, shown.err) == (0, "")
    assert "/placement_capabilities" in shown.out


def test_select_reaches_every_entry_that_is_left_out(lorewell: Lorewell) -> None:
    entries = [{"id": f"e{n}", "title": f"题{n}", "content": "x"} for n in range(40)]
    book = lorewell.file("many.json", {"name": "Many", "entries": entries})
    some = lorewell("select", "--book", book, "--query", "灯", "--strategy", "rules")
    assert "and 20 more (--all lists them)" in some.words
    every = lorewell("select", "--book", book, "--query", "灯", "--strategy", "rules", "--all")
    assert "e39 题39" in every.words
    one = lorewell("select", "--book", book, "--query", "灯", "--entry", "e39")
    assert "e39 题39" in one.words
    missing = lorewell("select", "--book", book, "--query", "灯", "--entry", "nobody")
    assert missing.code == 2
