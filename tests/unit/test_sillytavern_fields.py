"""Reading foreign entries: both dialects, and every mended value named.

Source: docs/rules/native.md §11.4.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from lorewell import BookCreate
from lorewell.engine.sillytavern.entry import Form, ReadEntry, Repair, import_entry, read_entry
from lorewell.engine.sillytavern.entry.dynamic import in_table_order
from lorewell.engine.sillytavern.entry.fields import DEFAULT_BLOCK, LACKING, MAX_GROUP_NAME, member
from lorewell.engine.sillytavern.entry.table import (
    MAX_DEPTH,
    MAX_LEVEL,
    MAX_OUTLET_CHARS,
    MAX_SCAN_DEPTH,
    MAX_TITLE_CHARS,
    TABLE,
)
from lorewell.engine.sillytavern.entry.values import split_keys
from lorewell.errors import ValidationFailedError
from lorewell.model import Entry, SillyTavernBlock
from lorewell.model.parse import parse_model

INFINITE = float("1e999")


def world(**raw: object) -> dict[str, Any]:
    return read_entry(raw, form="world_info").core


def card(**raw: object) -> dict[str, Any]:
    return read_entry(raw, form="card").core


def needed_by(read: ReadEntry) -> tuple[str, ...]:
    return in_table_order(need.requirement for need in read.needs)


def repairs(form: Form = "world_info", **raw: object) -> list[tuple[str, str]]:
    return [(each.pointer, each.code) for each in read_entry(raw, form=form).repairs]


def block(form: Form = "world_info", **raw: object) -> dict[str, Any]:
    return read_entry(raw, form=form).block


def test_an_empty_world_entry_means_the_defaults() -> None:
    read = read_entry({}, form="world_info")
    assert read.core == {
        "title": "",
        "content": "",
        "keys": (),
        "secondary_keys": (),
        "enabled": True,
        "constant": False,
        "selective": False,
        "logic": "and_any",
        "order": 100,
        "priority": 0,
        "position": "before_character",
        "depth": 4,
        "role": "system",
        "outlet_name": None,
        "probability": 100,
        "scan_depth": None,
        "case_sensitive": None,
        "match_whole_words": None,
        "exclude_recursion": False,
        "prevent_recursion": False,
        "conflict_key": None,
    }
    assert (read.block, read.needs, read.repairs) == ({}, (), ())


def test_an_empty_card_entry_differs_in_its_place_alone() -> None:
    assert card() == world() | {"position": "after_character"}


def test_the_tables_defaults_are_those_of_the_block() -> None:
    assert SillyTavernBlock().model_dump() == DEFAULT_BLOCK
    assert parse_model(SillyTavernBlock, dict(DEFAULT_BLOCK)) == SillyTavernBlock()
    names = {field.name for field in TABLE if field.place == "block"}
    assert names | {"inherit"} == set(SillyTavernBlock.model_fields)


def test_every_core_name_of_the_table_is_a_field_of_the_entry() -> None:
    assert set(world()) <= set(Entry.model_fields)


def test_the_tables_bounds_are_those_of_the_entry() -> None:
    bounds = {
        "title": "t" * MAX_TITLE_CHARS,
        "order": MAX_LEVEL,
        "priority": -MAX_LEVEL,
        "depth": MAX_DEPTH,
        "scan_depth": MAX_SCAN_DEPTH,
        "position": "outlet",
        "outlet_name": "o" * MAX_OUTLET_CHARS,
        "conflict_key": "group:" + "g" * MAX_GROUP_NAME,
    }
    assert Entry(content="", **bounds).model_dump(include=set(bounds)) == bounds
    for name, value in bounds.items():
        if name != "position":
            more = value + value[:1] if isinstance(value, str) else value * 2
            with pytest.raises(ValidationFailedError, match=name):
                parse_model(Entry, {"content": "", **bounds, name: more})


BOTH: list[tuple[dict[str, Any], dict[str, Any], str, object]] = [
    ({"key": ["灯"]}, {"keys": ["灯"]}, "keys", ("灯",)),
    ({"keysecondary": ["塔"]}, {"secondary_keys": ["塔"]}, "secondary_keys", ("塔",)),
    ({"comment": "โคมไฟ"}, {"name": "โคมไฟ"}, "title", "โคมไฟ"),
    ({"comment": "лампа"}, {"comment": "лампа"}, "title", "лампа"),
    ({"content": "ランプ 🏮"}, {"content": "ランプ 🏮"}, "content", "ランプ 🏮"),
    ({"constant": True}, {"constant": True}, "constant", True),
    ({"selective": True}, {"selective": True}, "selective", True),
    ({"order": 7}, {"insertion_order": 7}, "order", 7),
    ({"disable": True}, {"enabled": False}, "enabled", False),
    ({"disable": False}, {"enabled": True}, "enabled", True),
    ({"disable": None}, {"enabled": None}, "enabled", True),
    ({"probability": 12.5}, {"extensions": {"probability": 12.5}}, "probability", 12.5),
    ({"depth": 0}, {"extensions": {"depth": 0}}, "depth", 0),
    ({"selectiveLogic": 3}, {"extensions": {"selectiveLogic": 3}}, "logic", "and_all"),
    ({"selectiveLogic": 1}, {"extensions": {"selective_logic": 1}}, "logic", "not_all"),
    ({"selectiveLogic": 2}, {"key_logic": "NOT_ANY"}, "logic", "not_any"),
    ({"scanDepth": 0}, {"extensions": {"scan_depth": 0}}, "scan_depth", 0),
    ({"caseSensitive": True}, {"extensions": {"case_sensitive": True}}, "case_sensitive", True),
    ({"caseSensitive": True}, {"case_sensitive": True}, "case_sensitive", True),
    ({"matchWholeWords": True}, {"whole_words_only": True}, "match_whole_words", True),
    ({"role": 2}, {"extensions": {"role": 2}}, "role", "assistant"),
    ({"role": None}, {"extensions": {"role": None}}, "role", "system"),
    ({"role": "User"}, {"extensions": {"role": "user"}}, "role", "user"),
    ({"group": "港"}, {"extensions": {"group": "港"}}, "conflict_key", "group:港"),
    ({"group": " a ,"}, {"extensions": {"group": " a ,"}}, "conflict_key", "group: a "),
    ({"group": "a,b"}, {"extensions": {"group": "a,b"}}, "conflict_key", None),
    ({"priority": 5}, {"priority": 5}, "priority", 5),
    ({"position": 4}, {"extensions": {"position": 4}}, "position", "at_depth"),
    ({"position": 0}, {"position": "before_char"}, "position", "before_character"),
    ({"position": 1}, {"position": "after_char"}, "position", "after_character"),
    (
        {"position": "after_char_defs"},
        {"position": "After Char Defs"},
        "position",
        "after_character",
    ),
    (
        {"excludeRecursion": True},
        {"extensions": {"exclude_recursion": True}},
        "exclude_recursion",
        True,
    ),
]


@pytest.mark.parametrize(("in_world", "in_card", "name", "value"), BOTH)
def test_each_dialect_says_it_in_its_own_words_and_in_the_others(
    in_world: dict[str, Any], in_card: dict[str, Any], name: str, value: object
) -> None:
    for raw in (in_world, in_card):
        for form in ("world_info", "card"):
            assert read_entry(raw, form=form).core[name] == value


PLACES = [
    *("before_character", "after_character", "author_note_top", "author_note_bottom"),
    *("at_depth", "before_examples", "after_examples", "outlet"),
]


@pytest.mark.parametrize(("number", "position"), list(enumerate(PLACES)))
def test_positions_are_sillytaverns_numbers(number: int, position: str) -> None:
    assert world(position=number, outletName="棚")["position"] == position
    other = {"outlet_name": "棚", "position": number}
    assert card(extensions=other, position="before_char")["position"] == position


def test_the_forms_own_dialect_comes_first() -> None:
    raw = {"order": 1, "insertion_order": 2, "key": ["a"], "keys": ["b"]}
    assert (world(**raw)["order"], world(**raw)["keys"]) == (1, ("a",))
    assert (card(**raw)["order"], card(**raw)["keys"]) == (2, ("b",))
    assert card(extensions={"position": 5}, position=0)["position"] == "before_examples"
    assert world(extensions={"position": 5}, position=0)["position"] == "before_character"


def test_null_is_no_value_so_the_other_name_counts() -> None:
    assert world(order=None, insertion_order=2)["order"] == 2
    assert card(case_sensitive=True, extensions={"case_sensitive": None})["case_sensitive"]
    assert card(name="", comment="灯")["title"] == "灯"
    assert card(extensions=None, content=None)["content"] == ""
    assert card(extensions=[1])["depth"] == 4


def test_null_means_as_the_settings_say_in_world_info_whatever_stale_copies_say() -> None:
    raw = {"caseSensitive": None, "extensions": {"case_sensitive": True}}
    assert not world(**raw)["case_sensitive"]
    assert card(**raw)["case_sensitive"]


def test_flags_that_follow_the_settings_are_told_from_false_ones() -> None:
    assert world(caseSensitive=None)["case_sensitive"] is None
    assert world(caseSensitive=False)["case_sensitive"] is False
    assert card(whole_words_only=False)["match_whole_words"] is False
    assert card()["match_whole_words"] is None
    assert block(caseSensitive=True, matchWholeWords=False) == {}


def test_only_a_null_enabled_is_worth_a_word() -> None:
    assert repairs("card", enabled=None) == [("/enabled", "null_value")]
    assert repairs(disable=None, order=None, position=None, role=None, sticky=None) == [
        ("/disable", "null_value")
    ]


def test_an_unused_probability_is_100() -> None:
    assert world(probability=30, useProbability=False)["probability"] == 100
    assert world(probability=30, useProbability=None)["probability"] == 30
    assert block(probability=30, useProbability=False) == {"use_probability": False}


def test_an_outlet_needs_a_name() -> None:
    assert world(position=7, outletName="棚")["outlet_name"] == "棚"
    assert world(position=0, outletName="棚")["outlet_name"] is None
    read = read_entry({"position": 7, "outletName": ""}, form="world_info")
    assert (read.core["position"], read.core["outlet_name"]) == ("before_character", None)
    assert needed_by(read) == ("outlet_name",)
    assert [(r.pointer, r.code) for r in read.repairs] == [("/position", "outlet_without_name")]


FIELD_REQUIREMENTS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"sticky": 2}, ("sticky",)),
    ({"sticky": 0, "cooldown": None, "delay": -3}, ()),
    ({"delay": 1, "cooldown": "2"}, ("cooldown", "delay")),
    ({"delayUntilRecursion": True}, ("delay_until_recursion",)),
    ({"delayUntilRecursion": 2}, ("delay_until_recursion",)),
    ({"delayUntilRecursion": "true"}, ("delay_until_recursion",)),
    ({"delayUntilRecursion": False}, ()),
    ({"delayUntilRecursion": "false"}, ()),
    ({"triggers": ["swipe"]}, ("generation_trigger",)),
    ({"triggers": []}, ()),
    ({"characterFilter": {"names": ["Мара"]}}, ("character_filter",)),
    ({"characterFilter": {"tags": [7]}, "sticky": 1}, ("sticky", "character_filter")),
    ({"characterFilter": {"isExclude": True, "names": [], "tags": []}}, ()),
    ({"characterFilter": None}, ()),
    ({"extensions": {"sticky": 4}}, ("sticky",)),
]


@pytest.mark.parametrize(("raw", "needed"), FIELD_REQUIREMENTS)
def test_fields_that_the_native_policy_lacks_are_requirements(
    raw: dict[str, Any], needed: tuple[str, ...]
) -> None:
    for form in ("world_info", "card"):
        assert needed_by(read_entry(raw, form=form)) == needed


BLOCKS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"sticky": 999, "cooldown": 0}, {"sticky": 999}),
    ({"delayUntilRecursion": True}, {"delay_until_recursion": True}),
    ({"delayUntilRecursion": "3"}, {"delay_until_recursion": 3}),
    ({"group": "a, b"}, {"group": "a, b"}),
    ({"group": ", ,"}, {}),
    ({"group": ","}, {}),
    ({"group": "長" * 195}, {"group": "長" * 195}),
    ({"groupWeight": 1, "groupOverride": True}, {"group_weight": 1, "group_override": True}),
    ({"useGroupScoring": False}, {"use_group_scoring": False}),
    ({"matchScenario": True}, {"match_scenario": True}),
    ({"addMemo": True, "displayIndex": 3}, {"add_memo": True, "display_index": 3}),
    ({"triggers": ["normal", 5]}, {"triggers": ("normal", "5")}),
    (
        {"characterFilter": {"isExclude": "true", "names": ["麻拉"], "tags": None}},
        {"character_filter": {"is_exclude": True, "names": ("麻拉",), "tags": ()}},
    ),
]


@pytest.mark.parametrize(("raw", "expected"), BLOCKS)
def test_the_block_holds_what_differs_from_its_default(
    raw: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = block(**raw)
    assert found == expected
    stored = parse_model(Entry, {"content": "", "sillytavern": found}).sillytavern
    shown = stored.model_dump() if stored else dict(DEFAULT_BLOCK)
    assert {name: value for name, value in shown.items() if value != DEFAULT_BLOCK[name]} == found


MENDED: list[tuple[dict[str, Any], str, object, list[tuple[str, str]]]] = [
    ({"order": "100"}, "order", 100, [("/order", "number_from_text")]),
    ({"order": " -7.5 "}, "order", -8, [("/order", "number_from_text"), ("/order", "rounded")]),
    ({"order": 2.0}, "order", 2, []),
    ({"order": 10**4000}, "order", 1_000_000, [("/order", "clamped")]),
    ({"order": "ten"}, "order", 100, [("/order", "wrong_type")]),
    ({"order": "１０"}, "order", 100, [("/order", "wrong_type")]),
    ({"order": ""}, "order", 100, [("/order", "wrong_type")]),
    ({"order": True}, "order", 100, [("/order", "wrong_type")]),
    ({"order": INFINITE}, "order", 100, [("/order", "wrong_type")]),
    ({"probability": 101}, "probability", 100, [("/probability", "clamped")]),
    ({"probability": "12.5"}, "probability", 12.5, [("/probability", "number_from_text")]),
    ({"depth": -1}, "depth", 0, [("/depth", "clamped")]),
    ({"scanDepth": 500}, "scan_depth", 100, [("/scanDepth", "clamped")]),
    ({"scanDepth": {}}, "scan_depth", None, [("/scanDepth", "wrong_type")]),
    ({"disable": "false"}, "enabled", True, [("/disable", "flag_from_text")]),
    ({"disable": "1"}, "enabled", False, [("/disable", "flag_from_text")]),
    ({"constant": "False"}, "constant", False, [("/constant", "flag_from_text")]),
    ({"constant": 0}, "constant", False, [("/constant", "flag_from_number")]),
    ({"constant": 2}, "constant", True, [("/constant", "flag_from_number")]),
    ({"constant": "maybe"}, "constant", False, [("/constant", "wrong_type")]),
    ({"constant": INFINITE}, "constant", False, [("/constant", "wrong_type")]),
    ({"constant": []}, "constant", False, [("/constant", "wrong_type")]),
    ({"comment": 5}, "title", "5", [("/comment", "text_from_number")]),
    ({"comment": 5.0}, "title", "5", [("/comment", "text_from_number")]),
    ({"comment": 0.5}, "title", "0.5", [("/comment", "text_from_number")]),
    ({"comment": False}, "title", "", [("/comment", "wrong_type")]),
    ({"comment": "長" * 501}, "title", "長" * 500, [("/comment", "cut")]),
    ({"content": ["x"]}, "content", "", [("/content", "wrong_type")]),
    ({"key": "灯, ,塔"}, "keys", ("灯", "塔"), [("/key", "keys_split")]),
    ({"key": {"0": "a"}}, "keys", (), [("/key", "wrong_type")]),
    (
        {"key": ["灯", 7, None, True, [], {}, INFINITE, ""]},
        "keys",
        ("灯", "7", ""),
        [
            ("/key/1", "text_from_number"),
            *[(f"/key/{index}", "wrong_type") for index in (2, 3, 4, 5, 6)],
        ],
    ),
    ({"keys": "a,b"}, "keys", ("a", "b"), [("/keys", "keys_split")]),
    ({"position": 8}, "position", "before_character", [("/position", "wrong_type")]),
    ({"position": -1}, "position", "before_character", [("/position", "wrong_type")]),
    ({"position": 0.5}, "position", "before_character", [("/position", "wrong_type")]),
    ({"position": "above"}, "position", "before_character", [("/position", "wrong_type")]),
    ({"position": "4"}, "position", "at_depth", [("/position", "number_from_text")]),
    (
        {"position": "before_char"},
        "position",
        "before_character",
        [("/position", "word_from_text")],
    ),
    ({"role": 3}, "role", "system", [("/role", "wrong_type")]),
    ({"selectiveLogic": "AND_ALL"}, "logic", "and_all", [("/selectiveLogic", "word_from_text")]),
    ({"extensions": {"depth": "x"}}, "depth", 4, [("/extensions/depth", "wrong_type")]),
    ({"group": "a"}, "conflict_key", "group:a", [("/group", "group_weight_ignored")]),
    ({"group": "a,b"}, "conflict_key", None, [("/group", "several_groups")]),
    ({"group": "é" * 195}, "conflict_key", None, [("/group", "group_too_long")]),
    ({"groupWeight": 1}, "order", 100, []),
    ({"useGroupScoring": True}, "order", 100, [("/useGroupScoring", "ignored_field")]),
    ({"useGroupScoring": False}, "order", 100, []),
    ({"automationId": "ai"}, "order", 100, [("/automationId", "ignored_field")]),
    ({"vectorized": True}, "order", 100, [("/vectorized", "ignored_field")]),
    ({"ignoreBudget": True}, "order", 100, [("/ignoreBudget", "ignored_field")]),
    ({"triggers": ["quiet", "a" * 101, *["b"] * 60]}, "order", 100, [("/triggers", "cut")]),
    ({"characterFilter": []}, "order", 100, [("/characterFilter", "wrong_type")]),
    (
        {"characterFilter": {"isExclude": "?", "names": "Мара", "tags": [None, "t"]}},
        "order",
        100,
        [
            ("/characterFilter/isExclude", "wrong_type"),
            ("/characterFilter/names", "wrong_type"),
            ("/characterFilter/tags/0", "wrong_type"),
        ],
    ),
]


@pytest.mark.parametrize(("raw", "name", "value", "expected"), MENDED)
def test_odd_values_are_mended_in_the_open(
    raw: dict[str, Any], name: str, value: object, expected: list[tuple[str, str]]
) -> None:
    assert world(**raw)[name] == value
    assert type(world(**raw)[name]) is type(value)
    assert repairs(**raw) == expected


def test_a_cards_own_texts_for_positions_need_no_mending() -> None:
    assert repairs("card", position="before_char", key_logic="AND_ALL") == []
    assert repairs("card", position="at depth") == [("/position", "word_from_text")]


def test_a_repair_is_a_sentence_that_quotes_the_value_in_short() -> None:
    read = read_entry({"order": "百" * 99, "depth": [], "role": {}}, form="world_info")
    shown = [
        repair.message.removeprefix("Invalid value ").partition(";")[0] for repair in read.repairs
    ]
    assert shown == ['"' + "百" * 39 + "…", "a list", "an object"]
    null = read_entry({"key": [None, True]}, form="world_info").repairs
    assert [repair.message for repair in null] == [
        "null is not a text and is left out.",
        "true is not a text and is left out.",
    ]


@pytest.mark.parametrize(
    ("listed", "keys"),
    [
        ("/Test[,;]/, plain", ("/Test[,;]/", "plain")),
        ("  灯 ,塔,, ランプ\u3000", ("灯", "塔", "ランプ")),
        ("/a\\/,b/gi , c", ("/a\\/,b/gi", "c")),
        ("/usr/bin/, x", ("/usr/bin/", "x")),
        ("/open, x", ("/open", "x")),
        ("a/b,c/d", ("a/b", "c/d")),
        ("//, x", ("//", "x")),
        ("/a,\nb/", ("/a,\nb/",)),
        ("x", ("x",)),
        (" , ", ()),
        ("", ()),
    ],
)
def test_a_comma_list_of_keys_is_cut_outside_of_regexes(listed: str, keys: tuple[str, ...]) -> None:
    assert split_keys(listed) == keys


@pytest.mark.parametrize(
    "piece", [",", " ", "/", "/a b,", "/,", "\\/,", "/\\", "/a/ ", "/x/!,", "灯,"]
)
def test_hostile_comma_lists_take_linear_time(piece: str) -> None:
    start = time.perf_counter()
    split_keys("/" + piece * (200_000 // len(piece)))
    assert time.perf_counter() - start < 2  # quadratic time would be minutes


def test_keys_and_content_out_of_bounds_are_left_for_the_model_to_refuse() -> None:
    for raw in ({"key": ["k" * 501]}, {"key": ["k"] * 201}, {"content": "c" * 200_001}):
        entry = import_entry(raw, form="world_info", entry_id="0", source_format="st_world").entry
        with pytest.raises(ValidationFailedError, match="entries/0/"):
            parse_model(BookCreate, {"name": "B", "entries": [entry]})


def test_an_import_is_ready_for_a_book() -> None:
    raw = {"key": ["灯"], "content": "<% go() %>", "sticky": 2, "order": "9", "x": {"y": [1]}}
    imported = import_entry(raw, form="world_info", entry_id="3", source_format="st_world")
    assert imported.repairs == (
        Repair("/order", "number_from_text", 'The text "9" is read as a number.'),
    )
    entry = parse_model(BookCreate, {"name": "B", "entries": [imported.entry]}).entries[0]
    assert (entry.id, entry.kind, entry.order) == ("3", "template", 9)
    assert entry.runtime_requirements == ("ejs", "sticky")
    assert entry.source == {"format": "st_world", "raw": raw, "three_valued": True}
    assert entry.sillytavern == SillyTavernBlock(sticky=2)


def test_an_import_of_nothing_has_no_block() -> None:
    imported = import_entry({}, form="card", entry_id="entry-0", source_format="chara_card_v2")
    assert "sillytavern" not in imported.entry
    assert (imported.entry["kind"], imported.entry["runtime_requirements"]) == ("lore", ())


def test_a_block_that_says_nothing_is_not_stored() -> None:
    assert Entry(content="", sillytavern=SillyTavernBlock()).sillytavern is None
    listed = Entry(
        content="",
        sillytavern=SillyTavernBlock(inherit=("match_whole_words", "case_sensitive")),
    )
    assert listed.sillytavern is None


@pytest.mark.parametrize(
    "members",
    [
        {"inherit": ["case_sensitive", "case_sensitive"]},
        {"inherit": ["order"]},
        {"sticky": 0},
        {"sticky": True},
        {"delay_until_recursion": -1},
        {"delay_until_recursion": 1.5},
        {"group_weight": -1},
        {"triggers": "normal"},
        {"character_filter": {"names": [1]}},
        {"unknown": 1},
    ],
)
def test_a_block_is_checked(members: dict[str, Any]) -> None:
    with pytest.raises(ValidationFailedError, match="/sillytavern/"):
        parse_model(Entry, {"content": "", "sillytavern": members})


def test_null_and_a_missing_member_are_told_apart() -> None:
    assert member({"a": {"b": None}}, "a/b") is None
    assert member({"a": {"b": None}}, "a/c") is LACKING
    assert member({"a": "text"}, "a/b") is LACKING
