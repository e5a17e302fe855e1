"""`lorewell lint`: text, JSON and SARIF, exit codes, and fixes of files."""

from __future__ import annotations

import json
from pathlib import Path

from program import Lorewell

ODD = {
    "name": "Harbour",
    "entries": [
        {"id": "tower", "content": "守塔人从不入睡。", "keys": ["灯塔，灯室"]},
        {"id": "lamp", "content": "It burns.", "keys": ["light\u200bhouse"]},
    ],
}
CLEAN = {"name": "B", "entries": [{"id": "mill", "content": "Its wheel.", "keys": ["mill"]}]}


def dumped(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


def test_findings_are_lines_and_hidden_characters_escapes(lorewell: Lorewell) -> None:
    done = lorewell("lint", lorewell.file("b.json", dumped(ODD)))
    assert (done.code, done.err) == (1, "")
    first, second, total = done.out.splitlines()
    assert 'tower: warning LW003 key-separator: The key "灯塔，灯室"' in first
    assert r"light\u200bhouse" in second
    assert total == "2 found: 1 error, 1 warning, 0 info. --fix repairs 2 of them."


def test_a_clean_book_has_none(lorewell: Lorewell) -> None:
    done = lorewell("lint", lorewell.file("b.json", dumped(CLEAN)))
    assert (done.code, done.out) == (0, "Nothing found.\n")


def test_json_has_the_findings_of_the_route(lorewell: Lorewell) -> None:
    path = lorewell.file("b.json", dumped(ODD))
    done = lorewell("lint", path, "--format", "json", "--select", "LW003")
    found = json.loads(done.out)["findings"]
    assert [(each["code"], each["entry_id"], each["span"]) for each in found] == [
        ("LW003", "tower", [2, 3])
    ]
    assert found[0]["file"].endswith("b.json")


def test_sarif_names_the_files(lorewell: Lorewell) -> None:
    path = lorewell.file("b.json", dumped(ODD))
    log = json.loads(lorewell("lint", path, "--format", "sarif").out)
    results = log["runs"][0]["results"]
    assert [each["ruleId"] for each in results] == ["LW003", "LW010"]


def test_fix_repairs_the_file(lorewell: Lorewell) -> None:
    path = lorewell.file("b.json", dumped(ODD))
    done = lorewell("lint", path, "--fix")
    assert (done.code, done.out) == (0, "Nothing found.\n")
    entries = json.loads(Path(path).read_text(encoding="utf-8"))["entries"]
    assert entries[0] == {**ODD["entries"][0], "keys": ["灯塔", "灯室"]}  # type: ignore[dict-item]
    assert entries[1]["keys"] == ["lighthouse"]


def test_a_clean_file_is_not_written(lorewell: Lorewell) -> None:
    data = dumped(CLEAN)
    path = lorewell.file("b.json", data)
    lorewell("lint", path, "--fix")
    assert Path(path).read_bytes() == data


def test_state_and_request_are_files(lorewell: Lorewell) -> None:
    entry = {**CLEAN["entries"][0], "conditions_text": ["tb.hour > 3"]}  # type: ignore[dict-item]
    path = lorewell.file("b.json", dumped({**CLEAN, "entries": [entry]}))
    state = lorewell.file("state.json", b'{"day": 1}')
    assert "LW206" in lorewell("lint", path, "--state", state).out
    request = lorewell.file("request.json", b'{"token_budget": 20}')
    assert "LW702" in lorewell("lint", path, "--request", request).out


def test_unknown_words_are_refused(lorewell: Lorewell) -> None:
    path = lorewell.file("b.json", dumped(CLEAN))
    assert lorewell("lint", path, "--select", "LX").code == 2
    assert lorewell("lint", path, "--format", "xml").code == 2
    assert lorewell("lint", path, "--policy", "other").code == 2
