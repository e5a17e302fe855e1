"""`lorewell sillytavern run`: a chat file and books in, a trace or a table of turns out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from program import Lorewell
from world_info import expand

TIMERS = {"sticky": 2, "cooldown": 3}
BOOK: list[dict[str, Any]] = [
    {
        "key": ["地窖"],
        "comment": "规矩",
        "content": "不许点火，{{user}}。",
        "sticky": 2,
        "cooldown": 3,
    },
    {"key": ["甬道"], "comment": "伏兵", "content": "有人等着。", "delay": 6, "order": 90},
    {"key": ["码头"], "comment": "雾港", "content": "雾港归潮影管。", "order": 80, "position": 1},
    {"key": ["潮影"], "content": "潮影是守灯人。", "delayUntilRecursion": True},
    {"constant": True, "comment": "晴", "group": "天", "groupWeight": 1, "content": "晴。"},
    {"constant": True, "comment": "雨", "group": "天", "groupWeight": 0, "content": "雨。"},
    {"constant": True, "comment": "商队", "probability": 0, "content": "商队。"},
    {"key": ["石板"], "comment": "[red]旧稿", "content": "旧。", "disable": True},
    {"key": ["/灯[笼火]/u"], "keysecondary": ["船"], "comment": "灯笼", "content": "纸糊的。"},
    {"key": ["梯子"], "content": "梯\x1b[2J。\n很滑。", "position": 7, "outletName": "[b]梯"},
    {"key": ["脚步"], "content": "脚步。", "position": 4, "depth": 2, "role": 1},
]
SAID = (
    "翻开这块石板就是地窖。",
    "梯子滑得很，她把灯笼递给我。",
    "再往里是一条甬道，通到码头。",
    "甬道又长又冷，那头好像有光。",
    "我们贴着墙，从地窖的甬道往前摸。",
    "墙后面传来脚步声。",
    "我们出了地窖没有？",
    "没有，四面还是石头。",
)


@pytest.fixture(name="lorewell")
def make_lorewell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Lorewell:
    return Lorewell(tmp_path, monkeypatch, capfd)


def book(program: Lorewell, *entries: dict[str, Any], name: str = "雾.json") -> Path:
    numbered = {str(uid): expand({"uid": uid, **entry}) for uid, entry in enumerate(entries)}
    return program.file(name, {"entries": numbered})


def chat(program: Lorewell, *said: str, **metadata: object) -> Path:
    head = {"user_name": "旅人", "character_name": "阿黛", "chat_metadata": metadata}
    lines = [
        {"name": "阿黛" if number % 2 else "旅人", "is_user": number % 2 == 0, "mes": text}
        for number, text in enumerate(said)
    ]
    return program.file("chat.jsonl", "\n".join(map(json.dumps, [head, *lines])).encode())


def run(program: Lorewell, *said: str, options: tuple[str, ...] = ()) -> Any:
    files = ("--book", book(program, *BOOK), "--chat", chat(program, *said))
    return program("sillytavern", "run", *files, *options)


def test_trace_tells_why_loop_by_loop(lorewell: Lorewell) -> None:
    done = run(lorewell, *SAID, options=("--depth", "8"))
    assert (done.code, done.err) == (0, "")
    for told in (
        "雾 (global) 旅人 and 阿黛: 8 messages, the last 8 of them scanned",
        "7 of 11 entries active",
        "of 2048 tokens (cl100k_base)",
        "Loop 1: first scan",
        "雾.0 '地窖' in message 7 of 8 (旅人) in;",
        "雾.3 waits for recursion",
        "雾.4 constant drawn from group '天': ",
        "雾.5 constant lost group '天' to 雾.4",
        "雾.6 constant roll ",
        "雾.7 disabled [red]旧稿",
        "雾.8 '/灯[笼火]/u' in message 2 of 8 (阿黛) the secondary keys don't match",
        "active; next: recursion",
        "Loop 2: recursion",
        "雾.3 '潮影' in 雾.2 in;",
        "active; the scan ends",
        "Texts by place",
        "before the character 有人等着。 潮影是守灯人。 晴。",
        "不许点火，旅人。 after the character",
        "雾港归潮影管。 at depth 2",
        "at depth 2 as user 脚步。",
        "outlet [b]梯 梯\\x1b[2J。 很滑。",
        "规矩 8→10 规矩 8→11",
        "group_lost 1 雨",
        "disabled 1 [red]旧稿",
        "probability_failed 1 商队",
        "secondary_unsatisfied 1 灯笼",
    ):
        assert told in done.words, done.out


def test_macros_without_a_value_are_warnings(lorewell: Lorewell) -> None:
    entry = {"key": ["灯"], "comment": "钟", "content": "{{time}} {{model}}"}
    files = ("--book", book(lorewell, entry), "--chat", chat(lorewell, "灯"))
    done = lorewell("sillytavern", "run", *files)
    assert (done.code, done.err) == (0, "")
    for told in (
        "Warnings",
        "{{time}} stays as written: give `macros.time`. (/content)",
        "{{model}} has no value: give `macros.host.model`. (/content)",
    ):
        assert told in done.words, done.out
    assert "value_missing" not in done.words


def test_checks_are_told_once_and_not_in_every_loop(lorewell: Lorewell) -> None:
    done = run(lorewell, *SAID, options=("--depth", "8"))
    assert done.out.count("雾.7") == 1
    assert done.out.count("Loop") > 2


def test_budget_that_is_exceeded_is_told(lorewell: Lorewell) -> None:
    done = run(lorewell, *SAID, options=("--depth", "8", "--context", "100", "--budget", "20"))
    assert "of 20 tokens (cl100k_base), budget exceeded" in done.words
    assert "does not fit:" in done.words
    assert "the budget is already exceeded" in done.words
    assert "Loop 2" not in done.out


def test_tokens_are_counted_as_a_release_counts(lorewell: Lorewell) -> None:
    def used(*options: str) -> int:
        done = lorewell("sillytavern", "run", *files, "--json", *options)
        return int(done.json["budget"]["used"])

    lamp = {"constant": True, "content": "the lamp is lit"}
    files = ("--book", book(lorewell, lamp), "--chat", chat(lorewell, "灯"))
    assert used() == used("--version", "1.18") == used("--tokenizer", "gpt-4o") == 11
    assert used("--token-counting", "plain") == 5
    assert used("--tokenizer", "llama3") == 5
    assert used("--tokenizer", "llama3", "--version", "1.18") == 8
    assert used("--version", "1.18", "--token-counting", "plain", "--tokenizer", "llama3") == 5
    saved = str(lorewell.file("settings.json", {"token_counting": "plain", "version": "1.18"}))
    assert used("--settings", saved) == 5
    assert used("--settings", saved, "--token-counting", "sillytavern-1.19") == 11


def test_options_change_the_settings(lorewell: Lorewell) -> None:
    def active(*options: str) -> list[str]:
        done = lorewell("sillytavern", "run", *files, "--json", *options)
        return [entry["id"].rpartition(".")[2] for entry in done.json["activated"]]

    entries = [
        {"key": ["Lamp"], "content": "A wick."},
        {"key": ["wick"], "content": "x"},
        {"key": ["amp"], "content": "y"},
        {"key": ["old"], "content": "z"},
    ]
    said = ("an old story", "a lamp", "one", "two")
    files = ("--book", book(lorewell, *entries), "--chat", chat(lorewell, *said))
    assert active() == []
    assert active("--depth", "3") == ["0", "1"]
    assert active("--depth", "4", "--no-recursion") == ["0", "3"]
    assert active("--depth", "3", "--no-whole-words") == ["0", "2", "1"]
    assert active("--depth", "3", "--case") == []
    saved = lorewell.file("settings.json", {"world_info_depth": 3})
    assert active("--settings", str(saved)) == ["0", "1"]
    assert active("--settings", str(saved), "--depth", "1") == []
    whole = {"main_api": "x", "world_info_settings": {"world_info_depth": 3, "world_info": {}}}
    assert active("--settings", str(lorewell.file("whole.json", whole))) == ["0", "1"]


def test_card_brings_book_texts_and_name(lorewell: Lorewell) -> None:
    entry = {
        "id": 3,
        "keys": ["守灯人"],
        "content": "{{char}}和{{user}}，{{persona}}。",
        "enabled": True,
        "insertion_order": 1,
        "extensions": {"match_character_description": True},
    }
    card = {
        "spec": "chara_card_v2",
        "data": {
            "name": "哑女",
            "description": "守灯人",
            "character_book": {"name": "灯", "entries": [entry]},
        },
    }
    files = ("--card", lorewell.file("哑女.json", card), "--chat", chat(lorewell, "你好"))
    done = lorewell("sillytavern", "run", *files, "--user", "过客", "--persona", "瘸腿")
    assert "灯 (character) 过客 and 哑女: 1 messages" in done.words
    assert "'守灯人' in the character description" in done.words
    assert "哑女和过客，瘸腿。" in done.words
    renamed = lorewell("sillytavern", "run", *files, "--char", "阿黛", "--json")
    assert renamed.json["activated"][0]["content"].startswith("阿黛和旅人")
    bare = lorewell.file("bare.json", {**card, "data": {**card["data"], "character_book": None}})
    refused = lorewell("sillytavern", "run", "--card", bare, "--chat", chat(lorewell, "你好"))
    assert (refused.code, refused.err.count("\n")) == (2, 1)


def test_books_keep_what_they_are_bound_to(lorewell: Lorewell) -> None:
    files: list[str | Path] = ["--chat", chat(lorewell, "灯")]
    for name, option in {
        "g": "book",
        "c": "chat-book",
        "p": "persona-book",
        "h": "character-book",
    }.items():
        entry = {"key": ["灯"], "content": name}
        files += [f"--{option}", book(lorewell, entry, name=f"{name}.json")]
    done = lorewell("sillytavern", "run", *files, "--json")
    assert [entry["book"] for entry in done.json["activated"]] == ["c", "p", "h", "g"]


def test_timed_effects_of_the_chat_count_unless_it_is_fresh(lorewell: Lorewell) -> None:
    entry = {"key": ["地窖"], "content": "x", "cooldown": 5}
    world = book(lorewell, entry)
    first = lorewell(
        "sillytavern", "run", "--book", world, "--chat", chat(lorewell, "地窖"), "--json"
    )
    state = first.json["timed_state"]
    later = chat(lorewell, "地窖", "地窖", timedWorldInfo=state, world_info="地窖之书")
    done = lorewell("sillytavern", "run", "--book", world, "--chat", later)
    assert "cooldown 1 雾.0" in done.words
    assert "Timed effects of the chat file were applied; --fresh ignores them." in done.out
    assert done.err == ("chat.jsonl: its book 地窖之书 was not given; pass it with --chat-book\n")
    fresh = lorewell("sillytavern", "run", "--book", world, "--chat", later, "--fresh", "--json")
    assert len(fresh.json["activated"]) == 1


def test_hidden_messages_are_named_and_not_scanned(lorewell: Lorewell) -> None:
    hidden = {"name": "阿黛", "is_system": True, "mes": "地窖"}
    lines = "\n".join(map(json.dumps, [{"user_name": "旅人"}, hidden]))
    path = lorewell.file("chat.jsonl", lines.encode())
    done = lorewell("sillytavern", "run", "--book", book(lorewell, *BOOK), "--chat", path)
    assert "'地窖'" not in done.out
    assert "Hidden messages, not scanned: 1." in done.out


def test_watched_turns_show_timers_message_by_message(lorewell: Lorewell) -> None:
    done = run(lorewell, *SAID, options=("--watch-turns",))
    assert done.code == 0, done.err
    for told in (
        "1 旅人: 翻开这块石板就是地窖。 规矩 规矩 1→3 规矩 1→4",
        "规矩 (sticky)",
        "3→6 protected",
        "delayed: 伏兵",
        "6 阿黛: 墙后面传来脚步声。 规矩 规矩 6→8 规矩 6→9",
    ):
        assert told in done.words, done.out
    rows = [line.split()[0] for line in done.out.splitlines() if line.strip()[:1].isdigit()]
    assert rows == [str(number) for number in range(1, 9)]


def test_watched_turns_are_a_line_of_json_each(lorewell: Lorewell) -> None:
    done = run(lorewell, *SAID, options=("--watch-turns", "--json"))
    turns = [json.loads(line) for line in done.out.splitlines()]
    assert [turn["turn"] for turn in turns] == list(range(1, 9))
    assert [bool(turn["response"]["timed_state"]["sticky"]) for turn in turns] == [
        *(True, True, False, False, False, True, True, False)
    ]


def test_long_lists_are_cut(lorewell: Lorewell) -> None:
    many = [
        {"constant": True, "comment": f"第{n}", "content": "长" * 30, "delay": n % 2 * 9}
        for n in range(60)
    ]
    files = ("--book", book(lorewell, *many), "--chat", chat(lorewell, "灯"))
    watched = lorewell("sillytavern", "run", *files, "--watch-turns")
    assert watched.words.count("and 10 more") == 2
    traced = lorewell("sillytavern", "run", *files)
    assert "and 10 more" in traced.words
    assert "长" * 20 in traced.words
    assert "…" in traced.out


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("options", [("--depth", "8"), ("--watch-turns",)])
def test_tables_fit_the_terminal(
    lorewell: Lorewell, columns: int, options: tuple[str, ...]
) -> None:
    lorewell.monkeypatch.setenv("COLUMNS", str(columns))
    done = run(lorewell, *SAID, options=options)
    assert max(map(cell_len, done.out.splitlines())) <= columns


def test_long_lists_of_rules_are_cut(lorewell: Lorewell) -> None:
    native = lorewell.book(
        *({"id": f"e{n}", "content": "x", "constant": True, "required": True} for n in range(30))
    )
    done = lorewell("sillytavern", "run", "--book", native, "--chat", chat(lorewell, "灯"))
    assert done.words.endswith("and 10 more")


def test_seed_decides_the_rolls(lorewell: Lorewell) -> None:
    half = {"constant": True, "content": "x", "probability": 50}
    files = ("--book", book(lorewell, *[half] * 30), "--chat", chat(lorewell, "灯"), "--json")
    rolled = [
        tuple(
            entry["id"]
            for entry in lorewell("sillytavern", "run", *files, "--seed", seed).json["activated"]
        )
        for seed in ("雾", "雾", "2")
    ]
    assert rolled[0] == rolled[1] != rolled[2]


def test_settings_have_to_be_an_object(lorewell: Lorewell) -> None:
    done = run(lorewell, "灯", options=("--settings", str(lorewell.file("s.json", [1]))))
    assert (done.code, "/settings" in done.err) == (2, True)


def test_rules_that_sillytavern_does_not_know_are_named(lorewell: Lorewell) -> None:
    native = lorewell.book(
        {"id": "灯", "content": "x", "keys": ["灯"], "requires": ["油"]},
        {"id": "油", "content": "y", "required": True},
    )
    done = lorewell("sillytavern", "run", "--book", native, "--chat", chat(lorewell, "灯"))
    assert "Rules that SillyTavern ignores" in done.out
    assert "requires" in done.words
    assert "required" in done.words


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (("--depth", "-1"), 2, "/settings/world_info_depth"),
        (("--trigger", "boo"), 2, "/trigger"),
        (("--settings", "nope.json"), 4, "nope.json can't be read"),
        (("--tokenizer", "nope"), 2, "nope"),
        (("--tokenizer", "claude"), 2, "claude=FILE"),
        (("--version", "1.17"), 2, "/settings/version"),
        (("--token-counting", "1.19"), 2, "/settings/token_counting"),
        (("--chat-book", "nope.json"), 4, "nope.json can't be read"),
    ],
)
def test_what_can_not_be_done_is_one_line(
    lorewell: Lorewell, options: tuple[str, ...], code: int, told: str
) -> None:
    done = run(lorewell, "灯", options=options)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert told in done.err


def test_a_query_and_plain_messages_are_scanned(lorewell: Lorewell) -> None:
    files = ("--book", book(lorewell, {"uid": 0, "key": ["灯塔"], "content": "x"}))
    alone = lorewell("sillytavern", "run", *files, "--query", "去灯塔", "--json")
    assert json.loads(alone.out)["activated"][0]["key"] == "灯塔"
    messages = [
        {"role": "system", "content": "灯塔"},
        {"role": "user", "content": [{"type": "text", "text": "灯塔"}]},
        {"role": "assistant", "content": None},
        {"name": "阿黛", "mes": "好"},
    ]
    for document in (messages, {"messages": messages}):
        chat_file = lorewell.file("plain.json", document)
        done = lorewell("sillytavern", "run", *files, "--chat", chat_file, "--json")
        assert json.loads(done.out)["activated"][0]["hit"]["number"] == 0
        assert done.err == "plain.json: message 3 has no text and was skipped\n"
    none = lorewell("sillytavern", "run", *files)
    assert (none.code, "pass --chat, --query or both" in none.err) == (2, True)
    wrong = lorewell("sillytavern", "run", *files, "--chat", lorewell.file("no.json", {"a": 1}))
    assert (wrong.code, "is not a chat" in wrong.err) == (2, True)
