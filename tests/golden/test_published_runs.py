"""Runs of SillyTavern's own scan that a Chinese article about it published.

How books and chats are built, and what came out, is the article's: which key of which entry is in
which message, flags, figures, timers. The texts are ours. A test's numbers are thus no output of
this engine.
"""

from __future__ import annotations

from typing import Any

import pytest

from lorewell.engine.sillytavern.activate import activate
from lorewell.engine.sillytavern.sources import Attached, Library
from lorewell.engine.sillytavern.turns import replay
from lorewell.engine.sillytavern.world import compile_world
from lorewell.model.activated import SillyTavernResponse
from world_info import Entries, expand, library, names, request, scan

CONTEXT = 3795
SENTENCE = "雾港的海堤由守夜人看着。"  # 18 tokens

# A town, its monsters, a refuge, a craft. The first, second and fourth have their third and
# second keys in the opening; only the first one's text names the refuge.
BAY: Entries = {
    "0": {"key": ["雾港", "海湾", "码头"], "content": "渔人都躲进避风亭。" + SENTENCE * 14},
    "1": {"key": ["潮影", "海兽", "水怪"], "content": "潮影只在退潮时上岸。" + SENTENCE * 9},
    "2": {"key": ["避风亭", "石亭"], "content": "石亭里永远有一盏灯。" + SENTENCE * 9},
    "3": {"key": ["本领", "织网"], "content": "她会织网，也会治伤。" + SENTENCE * 4},
}
OPENING = (
    {"name": "阿黛", "content": "你醒了？码头上的人说，海兽把你的船掀翻了。我织网的时候看见了你。"},
    {"name": "旅人", "content": "谢谢你……这码头外面怎么会有水怪？"},
)


def first_turn(**settings: Any) -> SillyTavernResponse:
    """Return the first turn of the story, with the book bound to the character, as a dry run."""
    world = compile_world("雾港", [expand({"uid": int(uid), **BAY[uid]}) for uid in BAY])
    asked = request(OPENING, context_tokens=CONTEXT, settings=settings, dry_run=True)
    return activate(Library([Attached("character", world)]), asked)


def shown_events(answer: SillyTavernResponse) -> list[tuple[object, ...]]:
    """Return what the article shows of a scan's log."""
    shown = ("loop", "primary", "added", "delay_until_recursion", "delay")
    return [
        (event.kind, *(() if event.entry is None else (event.entry.rpartition(".")[2],)))
        + (() if event.key is None else (event.key,))
        for event in answer.events
        if event.kind in shown
    ]


def test_first_turn_finds_three_by_key_and_the_fourth_by_recursion() -> None:
    answer = first_turn()
    assert shown_events(answer) == [
        ("loop",),
        ("primary", "0", "码头"),
        ("primary", "1", "海兽"),
        ("primary", "3", "织网"),
        ("added", "0"),
        ("added", "1"),
        ("added", "3"),
        ("loop",),
        ("primary", "2", "避风亭"),
        ("added", "2"),
        ("loop",),
    ]
    assert names(answer) == ["0", "1", "3", "2"]
    assert (answer.budget.limit, answer.budget.overflowed) == (949, False)
    assert [(loop.next, loop.active) for loop in answer.loops] == [
        ("recursion", 3),
        ("recursion", 4),
        ("stop", 4),
    ]


def test_first_turn_without_recursion_lacks_the_fourth() -> None:
    answer = first_turn(world_info_recursive=False)
    assert names(answer) == ["0", "1", "3"]
    assert [(loop.next, loop.active) for loop in answer.loops] == [("stop", 3)]
    assert answer.budget.limit == 949


def test_budget_of_a_tenth_stops_at_the_first_that_does_not_fit() -> None:
    """The third would fit, and stays out as well; nothing recurses any more."""
    answer = first_turn(world_info_budget=10)
    assert names(answer) == ["0"]
    assert (answer.budget.limit, answer.budget.overflowed) == (380, True)
    assert [(len(loop.successful), loop.active, loop.next) for loop in answer.loops] == [
        (3, 1, "stop")
    ]
    overflow = next(event for event in answer.events if event.kind == "budget_overflow")
    assert (overflow.limit, overflow.number, overflow.entry) == (380, 1, "雾港.1")
    assert names(first_turn(world_info_budget=25)) == ["0", "1", "3", "2"]
    alone = {uid: BAY[uid] for uid in ("0", "3")}
    fits = scan(alone, OPENING, context_tokens=CONTEXT, settings={"world_info_budget": 10})
    assert names(fits) == ["0", "3"]


CHAIN: Entries = {
    "0": {"key": ["盐滩"], "content": "盐滩的尽头埋着锚冢。"},
    "1": {"key": ["锚冢"], "content": "锚冢底下睡着潮影。"},
    "2": {"key": ["潮影"], "content": "潮影原是守灯人。", "delayUntilRecursion": True},
}


def chain(message: str, **first: Any) -> SillyTavernResponse:
    entries = {**CHAIN, "0": {**CHAIN["0"], **first}}
    return scan(entries, [message], context_tokens=CONTEXT, dry_run=True)


def test_chain_is_followed_from_text_to_text() -> None:
    answer = chain("盐滩离这里有多远？")
    assert names(answer) == ["0", "1", "2"]
    assert shown_events(answer) == [
        ("loop",),
        ("primary", "0", "盐滩"),
        ("delay_until_recursion", "2"),
        ("added", "0"),
        ("loop",),
        ("primary", "1", "锚冢"),
        ("added", "1"),
        ("loop",),
        ("primary", "2", "潮影"),
        ("added", "2"),
        ("loop",),
    ]
    assert [loop.active for loop in answer.loops] == [1, 2, 3, 3]


def test_chain_ends_at_a_text_that_wakes_nobody() -> None:
    answer = chain("盐滩离这里有多远？", preventRecursion=True)
    assert shown_events(answer) == [
        ("loop",),
        ("primary", "0", "盐滩"),
        ("delay_until_recursion", "2"),
        ("added", "0"),
    ]


def test_what_waits_for_recursion_does_not_come_when_it_is_named() -> None:
    answer = chain("潮影究竟是什么？")
    assert names(answer) == []
    assert shown_events(answer) == [("loop",), ("delay_until_recursion", "2")]


@pytest.mark.parametrize(
    ("message", "uid"), [("小米新手机哪天开卖？", "maker"), ("田里的小米熟了。", "grain")]
)
def test_secondary_keys_tell_one_word_from_the_other(message: str, uid: str) -> None:
    both = {"key": ["小米"], "keysecondary": ["手机", "发布会"], "content": "……"}
    entries = {"maker": {**both, "selectiveLogic": 0}, "grain": {**both, "selectiveLogic": 2}}
    assert names(scan(entries, [message])) == [uid]


# By seed of the article: which weather won of 60 : 30 : 10, and whether the traders of 30 % came.
WEATHERS = {"晴": 0.3, "雨": 0.75, "雾": 0.95}  # a draw in the share of each
PUBLISHED_ROLLS = ("雾", "晴*", "晴", "雨", "晴*", "雨*", "雨", "雨", "雨", "晴")


@pytest.mark.parametrize("published", sorted(set(PUBLISHED_ROLLS)))
def test_group_draws_one_weather_and_the_traders_roll_for_themselves(published: str) -> None:
    weights = {"晴": 60, "雨": 30, "雾": 10}
    entries: Entries = {
        **{
            name: {"constant": True, "group": "天", "groupWeight": w} for name, w in weights.items()
        },
        "商队": {"constant": True, "probability": 30},
    }
    weather, met = published[0], published.endswith("*")
    answer = scan(entries, draws=[WEATHERS[weather], 0.2 if met else 0.6])
    assert names(answer) == [weather, *(["商队"] if met else [])]
    assert answer.draws_used == 2


TIMED: Entries = {
    "0": {"key": ["地窖"], "content": "地窖里不许点火。", "sticky": 2, "cooldown": 3},
    "1": {"key": ["甬道"], "content": "甬道里有人等着。", "delay": 6},
}
DESCENT = (
    "翻开这块石板就是地窖。",
    "梯子滑得很，她把灯笼递给我。",
    "再往里是一条甬道。",
    "甬道又长又冷，那头好像有光。",
    "我们贴着墙，从地窖的甬道往前摸。",
    "墙后面传来脚步声。",
    "我们出了地窖没有？",
    "没有，四面还是石头。",
)
# Active; sticky from and to; cooldown from and to, and whether it is protected.
PUBLISHED_TURNS: tuple[tuple[list[str], Any, Any], ...] = (
    (["0"], (1, 3), (1, 4, False)),
    (["0"], (1, 3), (1, 4, False)),
    ([], None, (3, 6, True)),
    ([], None, (3, 6, True)),
    ([], None, (3, 6, True)),
    (["0", "1"], (6, 8), (6, 9, False)),
    (["0"], (6, 8), (6, 9, False)),
    ([], None, (8, 11, True)),
)


def effects(answer: SillyTavernResponse) -> tuple[object, object]:
    """Return the timers of the first entry."""
    sticky = answer.timed_state["sticky"].get("b.0")
    cooldown = answer.timed_state["cooldown"].get("b.0")
    return (
        sticky and (sticky["start"], sticky["end"]),
        cooldown and (cooldown["start"], cooldown["end"], cooldown["protected"]),
    )


def test_timed_effects_over_eight_messages() -> None:
    turns = list(replay(library(TIMED), request(DESCENT)))
    assert [(names(turn), *effects(turn)) for turn in turns] == list(PUBLISHED_TURNS)


def test_swipe_starts_the_timers_anew() -> None:
    books = library(TIMED)
    first = activate(books, request(DESCENT[:1]))
    again = activate(books, request(DESCENT[:1], timed_state=first.timed_state))
    removed = [(event.timer, event.why) for event in again.events if event.kind == "timed_removed"]
    assert removed == [("sticky", "chat_not_advanced"), ("cooldown", "chat_not_advanced")]
    assert [event for event in shown_events(again) if event[0] == "delay"] == [("delay", "1")] * 2
    assert names(again) == names(first) == ["0"]
    assert again.timed_state == first.timed_state
    assert effects(again) == ((1, 3), (1, 4, False))


def test_six_constants_go_to_six_places() -> None:
    places: dict[str, dict[str, Any]] = {
        "前": {"position": 0},
        "后": {"position": 1},
        "注": {"position": 2},
        "深": {"position": 4, "depth": 2, "role": 0},
        "近": {"position": 4, "depth": 0, "role": 1},
        "例": {"position": 5},
    }
    entries = {name: {"constant": True, "content": name, **at} for name, at in places.items()}
    answer = scan(entries, OPENING, authors_note={"value": "阿黛话不多。"}, dry_run=True)
    assert (answer.world_info_before, answer.world_info_after) == ("前", "后")
    assert answer.authors_note == "注\n阿黛话不多。"
    assert [(g.depth, g.role, g.entries) for g in answer.depth_groups] == [
        (2, 0, ("深",)),
        (0, 1, ("近",)),
    ]
    assert [(each.position, each.content) for each in answer.examples] == [(0, "例")]
