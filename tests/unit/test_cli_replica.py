"""`lorewell replica activate`: books and a turn in, tables or JSON out."""

from __future__ import annotations

from pathlib import Path

import pytest

from program import Lorewell
from replica_books import conditional, constant, entry, keyed, trigger

ENTRIES = [
    keyed("tower", "灯塔", "夜", comment="灯塔\x1b[2J", position=4, order=50),
    conditional("strong", "tb.力量 > 10", position=6, depth=2),
    constant("law", group="g", requires=["oath"]),
    constant("oath", disable=False, probability=0),
    keyed("rival", "灯塔", group="g"),
    keyed("king", "king"),
    constant("off", disable=True),
    entry("near", trigger(rag={})),
    entry("odd", {"triggers": {"keyword": "x"}}),
]
TURN = {"mes": "去灯塔", "chatHistory": ["夜深了。", {"mes": "灯塔。"}], "seed": "七"}


@pytest.fixture(name="lorewell")
def make_lorewell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Lorewell:
    return Lorewell(tmp_path, monkeypatch, capfd, columns=300)


def world(program: Lorewell, *entries: object, name: str = "雾隐渡") -> Path:
    return program.file(f"{name}.json", {"name": name, "entries": entries})


def test_tables_tell_entries_figures_and_reasons(lorewell: Lorewell) -> None:
    request = lorewell.file("turn.json", TURN)
    book = world(lorewell, *ENTRIES)
    done = lorewell("replica", "activate", book, "--request", request, "--table", '{"力量": 15}')
    assert (done.code, done.err) == (0, "")
    assert "4 of 9 entries active, 2 messages of history" in done.words
    for line in (
        "tower 系统提示/作者注释 (4) 50 keyword: '灯塔', '夜' in the user's text and the history",
        "灯塔\\x1b[2J",
        "strong 深度插入 (6) 0 condition",
        "depth 2",
        "oath 角色定义之后 (0) 0 dependency: required by law",
        "角色定义之后 (0) 2",
        "dependency 1",
        "total 4",
        "conflict 1 rival: it lost to law",
        "disabled 1 off",
        "not_triggered 2 king: keyword: no key was found",
        "near: rag: there is no similarity",
        "no_trigger 1 odd",
        "odd trigger_broken: ",
        "rag_unavailable: ",
    ):
        assert line in done.words
    assert "\x1b[2J" not in done.out


def test_books_are_global_then_the_characters(lorewell: Lorewell) -> None:
    one, two = world(lorewell, constant("a")), world(lorewell, constant("b"), name="角色")
    named = {"worldBookData": {"globalBooks": [{"id": "none"}]}, "explain": "selected"}
    request = lorewell.file("turn.json", named)
    args = ("replica", "activate", one, one, "--character-book", two, "--request", request)
    answer = lorewell(*args, "--json").json
    assert [(each["id"], each["source"]) for each in answer["books"]] == [
        *(("雾隐渡", "global"), ("雾隐渡 (2)", "global"), ("角色", "character")),
    ]
    assert [each["code"] for each in answer["warnings"]] == ["book_not_found"]
    shown = lorewell(*args).words
    assert "雾隐渡 (global), 雾隐渡 (2) (global), 角色 (character)" in shown
    assert "b (角色)" in shown
    assert "explain is 'selected'" in shown
    assert "no books 0 of 0 entries active" in lorewell("replica", "activate").words


def test_roll_and_history_are_told(lorewell: Lorewell) -> None:
    entries = [keyed("in", "灯", probability=99.9), keyed("out", "灯", probability=0.1)]
    request = lorewell.file("turn.json", {"chatHistory": ["x", "灯"]})
    done = lorewell("replica", "activate", world(lorewell, *entries), "--request", request)
    assert "keyword: '灯' in message 1 of the history, roll " in done.words
    assert " < 99.9" in done.words
    assert "out: keyword, roll " in done.words
    assert " >= 0.1" in done.words


def test_many_are_cut_short(lorewell: Lorewell) -> None:
    entries = [entry(f"e{n}", {"triggers": {"keyword": "x"}}) for n in range(25)]
    done = lorewell("replica", "activate", world(lorewell, *entries))
    assert done.words.count("and 5 more") == 2


def test_text_may_be_said_on_the_line(lorewell: Lorewell) -> None:
    request = lorewell.file("turn.json", TURN)
    book = world(lorewell, *ENTRIES)
    answer = lorewell(
        *("replica", "activate", book, "--request", request, "--mes", "king?", "--json")
    ).json
    assert "king" in [each["uid"] for each in answer["entries"]]


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        ({"mes": 7}, "The turn is not valid (at /mes"),
        ([], "The turn is not valid (at /:"),
        ({"worldBookData": 7}, "/worldBookData"),
        ({"worldBookData": {"globalBooks": 7}}, "/worldBookData/globalBooks"),
    ],
)
def test_what_is_wrong_with_a_turn_is_said(lorewell: Lorewell, turn: object, said: str) -> None:
    done = lorewell("replica", "activate", "--request", lorewell.file("turn.json", turn))
    assert done.code == 2
    assert said in done.err
