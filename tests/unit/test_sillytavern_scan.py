"""What a scan by SillyTavern's rules says of itself, and its odd corners."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lorewell import BookCreate, Entry
from lorewell.engine.sillytavern.activate import activate
from lorewell.engine.sillytavern.scan_entry import read_scan_entry
from lorewell.engine.sillytavern.sources import Attached, Library
from lorewell.engine.sillytavern.world import compile_stored, compile_world, world_entries
from lorewell.errors import ValidationFailedError
from lorewell.model.activate import AttachedBook, ForcedEntry, SillyTavernSettings
from lorewell.model.activated import Hit
from lorewell.model.parse import parse_model
from world_info import expand, library, names, reasons, request, scan


def only_hit(answer: Any) -> Hit | None:
    (entry,) = answer.activated
    return entry.hit


# Where keys are found


def test_hit_is_a_span_of_the_message_with_its_name() -> None:
    chat = [{"name": "旅人", "content": "old"}, {"name": "旅人", "content": "去雾谷吧"}]
    answer = activate(library({"0": {"key": ["雾谷"]}}), request(chat))
    assert only_hit(answer) == Hit("message", 1, (5, 7))
    assert "旅人: 去雾谷吧"[5:7] == "雾谷"


def test_hit_counts_the_blanks_before_a_message() -> None:
    assert only_hit(scan({"0": {"key": ["lamp"]}}, ["\n  lamp"])) == Hit("message", 0, (3, 7))


def test_hit_after_letters_that_grow_in_lower_case() -> None:
    answer = scan({"0": {"key": ["lamp"]}}, ["İİ lamp İ"])
    assert only_hit(answer) == Hit("message", 0, (3, 7))


def test_hit_at_the_very_end_after_letters_that_grow() -> None:
    assert only_hit(scan({"0": {"key": ["lamp"]}}, ["İ lamp"])) == Hit("message", 0, (2, 6))


@pytest.mark.parametrize("key", ["/l[a]mp/", "{{noop}}lamp"])
def test_hit_of_a_key_that_no_automaton_finds(key: str) -> None:
    answer = scan({"0": {"key": [key]}}, ["the lamp", "no"])
    assert only_hit(answer) == Hit("message", 0, (4, 8))


def test_hit_in_another_text() -> None:
    entries = {"0": {"key": ["น้ำ"], "matchScenario": True}}
    answer = scan(entries, ["x"], scan_texts={"scenario": "ดื่ม น้ำ"})
    assert only_hit(answer) == Hit("scenario", None, (5, 8))
    prompts = [{"name": "2", "value": "no", "scan": False}, {"name": "1", "value": "น้ำ"}]
    assert only_hit(scan(entries, prompts=prompts)) == Hit("prompt", 1, (0, 3))


def test_hit_in_recursion_names_the_waker() -> None:
    entries = {
        "0": {"key": ["go"], "content": "nothing", "order": 9},
        "1": {"key": ["go"], "content": "the warden", "order": 8},
        "2": {"key": ["warden"]},
    }
    woken = scan(entries, ["go"]).activated[2]
    assert woken.hit == Hit("recursion", 1, (12, 18), "b.1")
    assert woken.loop == 2


def test_blank_key_has_no_place_in_no_text() -> None:
    assert only_hit(scan({"0": {"key": [" "], "scanDepth": 0}}, ["x"])) is None
    assert only_hit(scan({"0": {"key": [" "]}}, ["x"])) == Hit("message", 0, (0, 0))


@pytest.mark.parametrize(
    ("key", "found"),
    [("/^$/", True), ("/x*/y", True), ("/x/", False), ("/(?!x)\\B/", True), ("/^(?=x)/", False)],
)
def test_regex_sees_an_empty_text_at_depth_0(key: str, *, found: bool) -> None:
    assert bool(scan({"0": {"key": [key], "scanDepth": 0}}, ["x"]).activated) == found


def test_refused_regex_is_plain_text_and_finds_nothing_at_depth_0() -> None:
    assert not scan({"0": {"key": ["/(/"], "scanDepth": 0}}, ["/(/"]).activated


def test_names_are_scanned_only_if_the_settings_say_so() -> None:
    chat = [{"name": "Alice", "content": "hi"}]
    entries = {"0": {"key": ["Alice"]}}
    off = {"world_info_include_names": False}
    assert names(scan(entries, chat)) == ["0"]
    assert names(scan(entries, chat, settings=off)) == []


def test_lone_surrogates_neither_hide_nor_break_anything() -> None:
    document = request(["the lamp"])
    odd = document.chat[0].model_construct(name=None, content="\ud800 the lamp")
    book = library({"0": {"key": ["lamp"]}, "1": {"key": ["\ud800"]}})
    answer = activate(book, document.model_copy(update={"chat": (odd,)}))
    assert names(answer) == ["0", "1"]


# Verdicts


def test_every_entry_has_a_verdict() -> None:
    entries = {
        "by key": {"key": ["灯"]},
        "constant": {"constant": True},
        "with secondary": {"key": ["灯"], "keysecondary": ["塔"]},
        "off": {"key": ["灯"], "disable": True},
        "without a hit": {"key": ["lamp"]},
        "without keys": {},
        "unlucky": {"key": ["灯"], "probability": 0},
        "for others": {"key": ["灯"], "characterFilter": {"names": ["x"]}},
        "for swipes": {"key": ["灯"], "triggers": ["swipe"]},
        "too early": {"key": ["灯"], "delay": 5},
    }
    assert reasons(scan(entries, ["灯"])) == {
        "by key": "primary",
        "constant": "constant",
        "with secondary": "secondary_unsatisfied",
        "off": "disabled",
        "without a hit": "not_triggered",
        "without keys": "no_keys",
        "unlucky": "probability_failed",
        "for others": "character_filter",
        "for swipes": "trigger_filter",
        "too early": "delay",
    }


def test_only_a_full_answer_explains() -> None:
    entries = {"0": {"key": ["a"]}}
    assert scan(entries, ["a"]).events
    short = scan(entries, ["a"], explain="selected")
    assert (short.events, short.loops, short.verdicts) == ((), (), ())
    assert names(short) == ["0"]


def test_entries_over_budget_say_so() -> None:
    entries = {uid: {"constant": True, "content": "word " * 20} for uid in "abc"}
    answer = scan(entries, context_tokens=120, message_tokens=0)
    assert reasons(answer) == {"a": "constant", "b": "budget_overflow", "c": "budget_refused"}
    assert (answer.budget.limit, answer.budget.used) == (30, 21)
    assert answer.budget.overflowed


def test_a_refused_entry_tells_what_it_would_have_cost() -> None:
    entries = {"a": {"constant": True, "content": "word " * 20}}
    answer = scan(entries, context_tokens=40, message_tokens=0)
    (event,) = [event for event in answer.events if event.kind == "budget_overflow"]
    assert (event.tokens, event.limit) == (21, 10)


def test_regex_that_runs_away_is_named() -> None:
    entries = {"0": {"key": ["/(a+)+$/"]}, "1": {"key": ["fox", "/(a+)+$/"]}}
    answer = scan(entries, ["a" * 40 + "! fox"])
    assert reasons(answer) == {"0": "regex_timeout", "1": "primary"}


def test_group_that_is_taken_names_the_holder() -> None:
    entries = {
        "a": {"key": ["go"], "content": "zeta", "order": 300},
        "b": {"key": ["zeta"], "group": "g"},
        "c": {"key": ["go"], "group": "g"},
    }
    answer = scan(entries, ["go"])
    (event,) = [event for event in answer.events if event.kind == "group_taken"]
    assert (event.loop, event.entry, event.group, event.winner) == (2, "b.b", "g", "b.c")


def test_answer_is_json() -> None:
    entries = {"0": {"key": ["灯"], "content": "塔", "position": 5, "sticky": 2}}
    answer = scan(entries, ["灯"], forced=[{"ref": "x.9"}])
    told = json.loads(answer.to_json())
    assert told["examples"] == [{"position": 0, "content": "塔"}]
    assert told["events"][0] == {"loop": 1, "kind": "loop", "number": 1}
    assert told["activated"][0]["hit"] == {"text": "message", "number": 0, "span": [0, 1]}
    nothing = json.loads(activate(Library([]), request([], forced=[{"ref": "b.0"}])).to_json())
    assert nothing["forced"] == [{"ref": "b.0", "override": {}, "entry": None}]
    with pytest.raises(TypeError):
        replace(answer, outlets={"x": {"a set"}}).to_json()  # type: ignore[dict-item]


# Chance


def test_draws_follow_from_the_seed() -> None:
    entries = {str(uid): {"constant": True, "probability": 50} for uid in range(20)}
    assert names(scan(entries, seed="a")) == names(scan(entries, seed="a"))
    assert names(scan(entries, seed="a")) != names(scan(entries, seed="b"))
    assert scan(entries).draws_used == 20


def test_draws_that_are_given_must_suffice() -> None:
    entries = {uid: {"constant": True, "probability": 50} for uid in "ab"}
    assert names(scan(entries, draws=[0.6, 0.5])) == ["b"]
    with pytest.raises(ValidationFailedError, match="more than 1"):
        scan(entries, draws=[0.6])


# Tokens


def test_a_counted_text_may_cost_something_extra() -> None:
    entries = {uid: {"constant": True, "content": "word"} for uid in "ab"}
    assert scan(entries, context_tokens=100, message_tokens=0).budget.used == 4
    assert scan(entries, context_tokens=100, message_tokens=7).budget.used == 11
    assert scan({"a": {"constant": True}}, context_tokens=100, message_tokens=7).budget.used == 8


def test_budget_above_100_percent_is_the_shipped_one() -> None:
    assert SillyTavernSettings(world_info_budget=101).world_info_budget == 25
    assert SillyTavernSettings(world_info_budget=100).world_info_budget == 100


# Books


def test_natively_written_entries_take_the_defaults() -> None:
    lamp = Entry(id="lamp", content="An oil lamp.", keys=["lamp"], audience=["tester"])
    answer = activate(
        Library([Attached("chat", compile_stored(BookCreate(name="Harbour", entries=[lamp])))]),
        request(["a lamp"]),
    )
    assert answer.world_info_before == "An oil lamp."
    (verdict,) = answer.verdicts
    assert (verdict.id, verdict.ignored_rules) == ("Harbour.lamp", ("audience",))


def test_entries_of_a_file_lack_what_the_file_lacks() -> None:
    raw = {"uid": 3, "key": ["lamp"], "content": "An oil lamp."}
    source = {"format": "st_world", "raw": raw}
    lamp = Entry(id="3", content="An oil lamp.", keys=["lamp"], source=source)
    world = compile_stored(BookCreate(name="Harbour", entries=[lamp]), name="港口")
    answer = activate(Library([Attached("chat", world)]), request(["a lamp"]))
    assert [entry.id for entry in answer.activated] == ["港口.3"]
    assert answer.world_info_before == ""


def test_world_file_is_walked_as_an_object() -> None:
    entries = {"b": {"uid": 1}, "10": {"uid": 2}, "9": {"uid": 3}}
    assert [entry["uid"] for entry in world_entries(entries)] == [3, 2, 1]


def test_own_world_field_renames_an_entry() -> None:
    world = compile_world("b", [expand({"uid": 1, "world": "other", "constant": True})])
    answer = activate(Library([Attached("global", world)]), request([]))
    assert [entry.id for entry in answer.activated] == ["other.1"]


def test_library_sorts_once_for_each_strategy() -> None:
    book = library({"0": {}})
    assert book.in_order(1) is book.in_order(1)
    assert book.in_order(7) is book.in_order(0)


@pytest.mark.parametrize(
    "document",
    [
        {"name": "b"},
        {"name": "b", "entries": {}, "book_id": "x"},
        {"entries": {}},
        {"name": "b", "entries": {}, "revision": 1},
    ],
)
def test_attached_book_is_inline_or_stored(document: dict[str, Any]) -> None:
    with pytest.raises(ValidationFailedError):
        parse_model(AttachedBook, document)
    assert parse_model(AttachedBook, {"book_id": "x", "revision": 1}).source == "global"
    assert parse_model(AttachedBook, {"name": "b", "entries": {"0": {"uid": 0}}}).entries


@pytest.mark.parametrize("document", [{}, {"ref": "b.0", "entry": {}}])
def test_forced_entry_is_named_or_given(document: dict[str, Any]) -> None:
    with pytest.raises(ValidationFailedError):
        parse_model(ForcedEntry, document)


# Odd values


def test_values_that_are_no_numbers_or_lists() -> None:
    lore = read_scan_entry({"scanDepth": "x", "order": [], "position": True, "selectiveLogic": 9})
    assert lore.id == "undefined.undefined"
    assert (lore.order, lore.position, lore.logic) == (0, None, -1)
    entries = {
        "0": {"key": ["a"], "scanDepth": "x"},
        "1": {"key": "a"},
        "2": {"key": ["a", 7], "group": 5, "selectiveLogic": 9, "keysecondary": ["a"]},
    }
    assert reasons(scan(entries, ["a"])) == {
        "0": "not_triggered",
        "1": "no_keys",
        "2": "secondary_unsatisfied",
    }


def test_weights_that_add_up_to_nothing_choose_nobody() -> None:
    entries = {uid: {"constant": True, "group": "g", "groupWeight": "x"} for uid in "ab"}
    assert names(scan(entries)) == ["a", "b"]


def test_orders_that_are_none_equal_every_other() -> None:
    world = compile_world(
        "b", [{"uid": uid, "constant": True, "order": order} for uid, order in enumerate("1x2")]
    )
    answer = activate(Library([Attached("global", world)]), request([]))
    assert names(answer) == ["0", "1", "2"]
    assert [entry.order for entry in answer.activated] == [1, None, 2]


def test_a_forced_copy_of_a_delayed_entry_leaves_its_group() -> None:
    late = {"uid": 1, "key": ["灯"], "group": "a", "delay": 9}
    book = [expand(late), expand({**late, "delay": None})]
    library_of_two = Library([Attached("global", compile_world("b", book))])
    answer = activate(library_of_two, request(["灯"], forced=[{"ref": "b.1"}]))
    assert [event.kind for event in answer.events] == ["loop", "delay", "external", "delay"]
    assert names(answer) == []


def test_entries_alike_in_everything_are_sticky_together() -> None:
    lamp = {"uid": 1, "key": ["灯"], "content": "An oil lamp.", "sticky": 3}
    book = Library([Attached("global", compile_world("b", [expand(lamp), expand(lamp)]))])
    first = activate(book, request(["灯"]))
    answer = activate(book, request(["灯", "…"], timed_state=first.timed_state))
    assert answer.loops[0].candidates == ("b.1", "b.1")
    assert names(answer) == ["1"]


def test_stored_effects_that_make_no_sense_end() -> None:
    state = {"sticky": {"b.0": {"hash": ["x"], "start": "y"}, "7": {}}, "cooldown": []}
    answer = scan({"0": {"key": ["a"]}}, ["b"], timed_state=state)
    assert answer.timed_state == {
        "sticky": {"7": {}, "b.0": state["sticky"]["b.0"]},
        "cooldown": {},
    }


def test_effect_of_an_entry_that_is_not_timed_ends() -> None:
    book = library({"0": {"key": ["a"], "group": 5, "constant": True}, "1": {"constant": True}})
    digest = book.in_order(1).entries[0].hash
    effect = {"hash": digest, "start": 1, "end": 9}
    answer = activate(book, request(["a", "b"], timed_state={"sticky": {"b.0": effect}}))
    assert answer.timed_state["sticky"] == {}
    assert answer.events[0].why == "not_configured"


def test_group_that_is_no_text_is_none() -> None:
    entries = {
        "0": {"constant": True, "group": 5, "content": "lamp", "order": 2},
        "1": {"key": ["lamp"], "group": "5"},
    }
    assert names(scan(entries)) == ["0", "1"]


@pytest.mark.parametrize(
    ("entries", "merged"),
    [
        ({}, "\nnote\n"),
        ({"0": {}}, "\nnote\n"),
        ({"0": {"constant": True, "position": 2, "content": "塔"}}, "塔\n\nnote\n"),
        ({"0": {"constant": True, "position": 3, "content": "塔"}}, "\nnote\n\n塔"),
    ],
)
def test_note_is_joined_to_its_entries_alone(entries: Any, merged: str) -> None:
    note = {"value": "\nnote\n"}
    assert scan(entries, authors_note=note).authors_note == merged
    assert scan(entries, authors_note={**note, "insert": False}).authors_note is None


def test_numbers_beyond_measure_break_no_answer() -> None:
    huge = 10**400
    entry = {
        "uid": huge,
        "constant": True,
        "order": huge,
        "position": 4,
        "depth": 10**30,
        "role": huge,
    }
    world = compile_world("b", [expand({**entry, "content": "塔", "sticky": huge})])
    state = {"sticky": {"x": {"hash": huge, "start": 0, "end": huge}}}
    answer = activate(
        Library([Attached("global", world)]),
        request(["x"], timed_state=state, forced=[{"entry": {"world": "b", "uid": 10**30}}]),
    )
    assert json.loads(answer.to_json())["depth_groups"][0]["depth"] == 1e30


def test_depths_and_roles_of_any_kind_make_groups_of_what_is_equal() -> None:
    depths = [1, [1, {"a": 2}], 1.0, [1, {"a": 2.0}], [1, {"a": 3}], True, "1", None, 4, None]
    entries = {
        str(uid): {"constant": True, "position": 4, "depth": depth, "content": str(uid)}
        for uid, depth in enumerate(depths)
    }
    groups = scan(entries, ["x"], settings={"world_info_budget": 100}).depth_groups
    assert [(group.depth, group.entries) for group in groups] == [
        (1, ("5", "2", "0")),
        ([1, {"a": 2}], ("3", "1")),
        ([1, {"a": 3}], ("4",)),
        ("1", ("6",)),
        (None, ("7",)),
        (4, ("9", "8")),
    ]
