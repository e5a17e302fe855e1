"""`lorewell chat`: inputs by the line, replies, and what was injected."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from chat_upstream import ChatUpstream, Turn, chat_upstream_fixture  # noqa: F401  a fixture
from program import Done, Lorewell
from replica_books import constant, keyed
from world_info import expand

BELL = {"id": "bell", "title": "钟", "keys": ["钟", "bell"], "content": "钟归沈七管，{{user}}。"}
LAW = {"id": "law", "content": "入夜不点灯。", "constant": True}


@pytest.fixture(name="lorewell")
def make_lorewell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Lorewell:
    for name in ("LOREWELL_URL", "LOREWELL_API_KEY", "LOREWELL_TENANT"):
        monkeypatch.delenv(name, raising=False)
    return Lorewell(tmp_path, monkeypatch, capfd)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def chat(program: Lorewell, said: str, *args: str | Path, terminal: bool = False) -> Done:
    program.monkeypatch.setattr(sys, "stdin", Terminal(said) if terminal else io.StringIO(said))
    return program("chat", *args)


def test_each_reply_tells_what_was_injected_and_why(lorewell: Lorewell) -> None:
    book = lorewell.book(BELL, LAW, {"id": "tide", "keys": ["潮"], "content": "x"})
    done = chat(
        lorewell, "我敲钟。\n\n/why\n然后呢？\n/quit\n潮\n", "--book", book, "--user", "小明"
    )
    assert (done.code, done.err) == (0, "")
    first, bell, law, *rest = done.out.splitlines()
    assert first.startswith("你说：“我敲钟。”")
    assert bell.startswith("  + 钟: keyword '钟', ")
    assert bell.endswith(" tokens, before_character")
    assert law.startswith("  + law: constant, ")
    assert rest[:3] == ["bell: keyword '钟'", "law: constant", "tide: not_triggered"]
    assert rest[3].startswith("你说：“然后呢？”")
    assert "潮" not in done.out.replace("“潮", "")


def test_files_may_follow_the_rules_of_sillytavern_replica(lorewell: Lorewell) -> None:
    entries = [keyed("tower", "灯塔", position=4), constant("law"), constant("off", disable=True)]
    book = lorewell.file(
        "渡口.json", {"name": "渡口", "entries": [*entries, keyed("king", "king")]}
    )
    done = chat(lorewell, "去灯塔\n/why\n", "--book", book, "--policy", "replica")
    assert (done.code, done.err) == (0, "")
    _, law, tower, *rest = done.out.splitlines()
    assert law.startswith("  + law: constant, ")
    assert tower.startswith("  + tower: keyword '灯塔', ")
    assert tower.endswith(" tokens, at depth 1")
    assert rest == [
        "tower: keyword '灯塔'",
        "law: constant",
        "off: disabled",
        "king: not_triggered (keyword: no key was found)",
    ]
    refused = chat(lorewell, "", "--book", book, "--policy", "other")
    assert (refused.code, "--policy: " in refused.err) == (2, True)


def test_nothing_is_said_of_a_turn_before_there_is_one(lorewell: Lorewell) -> None:
    book = lorewell.book({"id": "tide", "keys": ["潮"], "content": "x"})
    done = chat(lorewell, "/why\nhello\n", "--book", book, "--strategy", "rules")
    assert done.out.splitlines() == [
        "no turn yet, or no book is bound",
        "You say: “hello”",
        "  no entries apply",
    ]


def test_sillytavern_books_are_told_in_their_own_terms(lorewell: Lorewell) -> None:
    entries = [
        {"key": ["钟"], "content": "钟声。", "position": 4, "depth": 2},
        {"key": ["钟"], "content": "批注。", "position": 2},
        {"key": ["潮"], "content": "潮。"},
    ]
    numbered = {str(uid): expand({"uid": uid, **each}) for uid, each in enumerate(entries)}
    book = lorewell.file("雾.json", {"entries": numbered})
    done = chat(lorewell, "钟\n/why\n", "--book", book, "--system", "沈七，守渡人。")
    assert "  + 雾.0: primary '钟', " in done.out
    assert "at depth 2" in done.out
    assert "the prompt has no place for it" in done.out
    assert "雾.2: not_triggered" in done.out


def test_a_terminal_is_greeted_and_a_failed_turn_ends_nothing(lorewell: Lorewell) -> None:
    must = {"id": "must", "keys": ["x"], "required": True, "content": "long " * 50}
    book = lorewell.book(must)
    given = ("--book", book, "--budget", "10")
    done = chat(lorewell, "one\ntwo\n/quit\n", *given, terminal=True)
    assert done.code == 0
    assert done.out.startswith(f"Books: {book.name}. Model: scripted. Commands: /why")
    assert done.err.count("lorewell: ") == 2
    piped = chat(lorewell, "one\n", *given)
    assert (piped.code, piped.err.count("lorewell: ")) == (2, 1)


def test_a_model_server_gets_the_prompt_and_its_key(
    lorewell: Lorewell, chat_upstream: ChatUpstream
) -> None:
    lorewell.monkeypatch.setenv("LOREWELL_UPSTREAM_API_KEY", "sk-hunter2")
    chat_upstream.reply("Bong.\n\x1b[2J Twice.")
    at = ("--upstream", chat_upstream.url, "--model", "m")
    done = chat(lorewell, "the bell\nagain\n", "--book", lorewell.book(LAW), *at)
    assert done.code == 0
    assert done.out.startswith("Bong.\n\\x1b[2J Twice.\n  + law: constant, ")
    first, second = chat_upstream.requests
    assert first.headers["authorization"] == "Bearer sk-hunter2"
    assert "入夜不点灯。" in str(first.body["messages"])
    assert [each["content"] for each in second.body["messages"]][-3:] == [
        "the bell",
        "Bong.\n\x1b[2J Twice.",
        "again",
    ]
    chat_upstream.behave()
    chat_upstream.do(Turn(status=401))
    done = chat(lorewell, "the bell\n", "--book", lorewell.book(LAW), *at)
    assert (done.code, "answered 401" in done.err, "hunter2" in done.err) == (7, True, False)


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("--book", "b.json", "--url", "http://localhost"),
        ("--url", "http://localhost"),
        ("--book", "b.json", "--prompt", "p"),
        ("--book", "b.json", "--model", "m"),
        ("--book", "b.json", "--upstream", "http://localhost"),
    ],
)
def test_options_that_do_not_fit_are_refused(lorewell: Lorewell, args: tuple[str, ...]) -> None:
    done = chat(lorewell, "hello\n", *args)
    assert (done.code, done.out) == (2, "")


def test_a_chat_takes_a_scene_state_and_table(lorewell: Lorewell) -> None:
    book = lorewell.book(
        {"id": "named", "constant": True, "content": "{{char}} {{user}}"},
        {"id": "storm", "constant": True, "content": "x", "conditions_text": ["tb.storm = true"]},
        {"id": "strong", "constant": True, "content": "x", "conditions_text": ["tb.力量 > 9"]},
    )
    bare = chat(lorewell, "x\n", "--book", book)
    assert "  ! 1 entry needs a name for {{char}} or {{user}}: give --char/--user" in bare.out
    names = {"names": {"char": "沈七", "user": "Old"}, "persona": "x"}
    scene = lorewell.file("scene.json", {**names, "state": {"storm": False}})
    state = lorewell.file("state.json", {"storm": True})
    given = ("--scene", scene, "--state", state, "--table", '{"力量": 15}', "--user", "小明")
    done = chat(lorewell, "x\n", "--book", book, *given)
    assert (done.code, done.err) == (0, "")
    assert [line.split(":")[0] for line in done.out.splitlines()[1:4]] == [
        *("  + named", "  + storm", "  + strong")
    ]
    assert "  ! The policy native does not use persona." in done.out


@pytest.mark.parametrize(
    ("document", "args", "says"),
    [
        ({"mood": 1}, (), "The scene in scene.json is not valid (at /mood: there is no such field"),
        ([], (), "The scene in scene.json is not valid"),
        ({"state": {"a": 1}}, ("--table", '{"a": 2}'), "/tables/a: is also given in state"),
        ({}, ("--table", "{"), "--table can't be read"),
        ({"names": 7}, ("--char", "x"), "at /names: "),
    ],
)
def test_a_broken_scene_is_refused_by_name(
    lorewell: Lorewell, document: object, args: tuple[str, ...], says: str
) -> None:
    book = lorewell.book(LAW)
    scene = lorewell.file("scene.json", document)
    done = chat(lorewell, "x\n", "--book", book, "--scene", scene, *args)
    assert (done.code, says in done.err) == (2, True), done.err
