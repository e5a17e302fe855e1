"""`lorewell replay`, `diff` and `plan`, and the chats that they read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lorewell.cli.replays import DIFFERS
from lorewell.errors import ImportInvalidError
from lorewell.formats.chats import load_spoken
from program import Lorewell

TOWER = {"id": "tower", "title": "灯塔", "content": "灯塔由哑女看守。", "keys": ["灯塔"]}
SAID = ["去灯塔看看", "ประภาคาร", "灯塔亮了"]


def chat(lorewell: Lorewell, *texts: str) -> Path:
    return lorewell.file("chat.json", [{"role": "user", "content": text} for text in texts])


def lines(lorewell: Lorewell, *args: str | Path) -> list[Any]:
    done = lorewell(*args, "--json")
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def test_a_line_for_each_turn_then_the_entries(lorewell: Lorewell) -> None:
    book = lorewell.book(TOWER, {"id": "ë", "content": "x"})
    asked = ("--book", book, "--chat", chat(lorewell, *SAID), "--seed", "种")
    settings = lorewell.file("s.json", {"strategy": "rules", "scan_depth": 1})
    *turns, rest = lines(lorewell, "replay", *asked, "--settings", settings)
    assert [each["messages"] for each in turns] == [1, 2, 3]
    assert [[use["entry_id"] for use in each["used"]] for each in turns] == [
        ["tower"],
        [],
        ["tower"],
    ]
    assert [bool(each["left"]) for each in turns] == [False, True, False]
    assert [each["seed"] for each in turns] == ["种:1", "种:2", "种:3"]
    tower, other = rest["entries"]
    assert (tower["turns"], tower["first"], tower["longest_silence"]) == (2, 1, 1)
    assert (other["turns"], other["why"]) == (0, "not_triggered")


@pytest.mark.parametrize("policy", ["native", "sillytavern", "replica"])
def test_every_policy_shows_its_turns(lorewell: Lorewell, policy: str) -> None:
    asked = ("--book", lorewell.book(TOWER), "--chat", chat(lorewell, *SAID))
    done = lorewell("replay", *asked, "--policy", policy)
    assert done.code == 0, done.err
    assert "Turn by turn" in done.out
    assert "tower 灯塔" in done.words


def test_diff_counts_and_exits(lorewell: Lorewell) -> None:
    old = lorewell.book(TOWER, name="Old")
    new = lorewell.book({**TOWER, "keys": ["塔楼"]}, name="New")
    settings = lorewell.file("s.json", {"strategy": "rules", "scan_depth": 1})
    asked = ("--chat", chat(lorewell, *SAID), "--settings", settings, "--exit-code")
    done = lorewell("diff", old, new, *asked)
    assert done.code == DIFFERS
    assert done.words.startswith("2 of 3 turns change; 灯塔 no longer fires in 2; -")
    same = lorewell("diff", old, old, *asked)
    assert (same.code, same.words) == (0, "0 of 3 turns change")
    edited = lorewell.book({**TOWER, "content": "灯塔空着。"}, name="Edited")
    assert "灯塔 has another text in 2" in lorewell("diff", old, edited, *asked).words


def test_diff_without_a_chat_has_both_values(lorewell: Lorewell) -> None:
    old = lorewell.book(TOWER, name="Old")
    document = {"name": "Old", "entries": [{**TOWER, "priority": 3}]}
    new = lorewell.file("new.json", document)
    assert "changed tower priority 0 3" in lorewell("diff", old, new).words
    found = lorewell("diff", old, new, "--json").json
    assert found["changed"][0]["values"] == [{"name": "priority", "before": 0, "after": 3}]
    assert lorewell("diff", old, new, "--exit-code").code == DIFFERS
    assert lorewell("diff", old, old, "--exit-code").words == "The books are the same."


def test_plan_has_costs_and_the_curve(lorewell: Lorewell) -> None:
    rule = {"id": "rule", "content": "Nobody swims.", "keys": ["swim"], "constant": True}
    asked = ("--book", lorewell.book(TOWER, rule), "--chat", chat(lorewell, *SAID))
    (plan,) = lines(lorewell, "plan", *asked)
    assert [each["entry_id"] for each in plan["idle"]] == ["rule"]
    assert plan["curve"][0] == {
        "budget": 0,
        "uses": 0,
        "tokens": 0,
        "fullest": 0,
        "failed": 0,
        "joined": [],
        "dropped": [],
    }
    assert plan["curve"][-1]["uses"] == sum(each["turns"] for each in plan["entries"])
    assert "Always in, but their keys are never found: rule ×3" in lorewell("plan", *asked).words


def test_a_chat_without_turns_and_a_bad_option_are_refused(lorewell: Lorewell) -> None:
    silent = lorewell.file("silent.json", [{"role": "assistant", "content": "灯塔"}])
    asked = ("replay", "--book", lorewell.book(TOWER), "--chat")
    assert lorewell(*asked, silent).code == 2
    assert lorewell(*asked, silent, "--every-message").code == 0
    settings = lorewell.file("s.json", {"scan_depth": -1})
    assert "scan_depth" in lorewell(*asked, chat(lorewell, "灯"), "--settings", settings).err
    assert lorewell(*asked, chat(lorewell, "灯"), "--policy", "x").code == 2


def test_chats_of_every_kind_are_read(tmp_path: Path) -> None:
    silly = [
        {"user_name": "旅人", "character_name": "阿黛"},
        {"name": "阿黛", "mes": "你醒了？"},
        {"name": "旅人", "is_user": True, "mes": "这是哪？"},
    ]
    texts = {
        "chat.jsonl": "\n".join(map(json.dumps, silly)),
        "list.json": json.dumps(silly[1:]),
        "openai.json": json.dumps(
            {
                "messages": [
                    {"role": "assistant", "name": "阿黛", "content": "你醒了？"},
                    {"role": "tool", "content": "{}"},
                    {
                        "role": "user",
                        "name": "旅人",
                        "content": [{"type": "text", "text": "这是哪？"}],
                    },
                ]
            },
            indent=1,
        ),
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        found = load_spoken(path)
        assert [(line.role, line.name, line.content) for line in found.lines] == [
            ("assistant", "阿黛", "你醒了？"),
            ("user", "旅人", "这是哪？"),
        ]
        assert (found.user, found.char) == ("旅人", "阿黛")
        assert bool(found.warnings) == (name == "openai.json")


@pytest.mark.parametrize("text", ["3", "{}", '{"messages": 1}', "[", ""])
def test_other_files_are_no_chats(tmp_path: Path, text: str) -> None:
    path = tmp_path / "chat.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ImportInvalidError):
        load_spoken(path)
