"""An entry as SillyTavern_replica holds it: its raw form, overlaid by what was changed since."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lorewell import Entry
from lorewell.formats.export.replica import rebuild, replica_document, replica_entry
from lorewell.model.parse import parse_model
from other_programs import read
from support import Document

KEYWORD = {"key": ["灯塔"], "keysecondary": ["海"], "selective": True, "未知": 1}
NEWER: Document = {
    "uid": "u1",
    "content": "灯。",
    "key": ["灯塔"],
    "trigger_config": {"triggers": {"keyword": [True, KEYWORD], "rag": [False, None]}, "v": 2},
    "position": "1",
    "order": "20",
    "disable": "false",
    "ноты": [1],
}
OLDER: Document = {"uid": 7, "content": "灯。", "activationType": "keyword", "key": "灯塔, 海"}
TEXTS = {"conditions": [{"text": "tb.力量 > 10"}], "variable_a": "x"}
ALONE: Document = {
    "uid": "u1",
    "content": "灯。",
    "trigger_config": {"triggers": {"condition": [True, TEXTS]}},
}


def entry_of(raw: Document, **changes: Any) -> Entry:
    """Return the raw entry as stored, then changed."""
    (entry,) = read({"entries": [raw, {"trigger_config": None}]}).book.entries[:1]
    return parse_model(Entry, entry.model_dump() | changes)


@pytest.mark.parametrize("raw", [NEWER, OLDER, ALONE, {}, {"uid": 1.5, "trigger_config": 3}])
def test_an_untouched_entry_is_raw_itself(raw: Document) -> None:
    rebuilt = rebuild(entry_of(raw))
    assert (rebuilt.raw, rebuilt.lost) == (raw, ())
    assert list(rebuilt.raw) == list(raw)


def differing(raw: Document, **changes: Any) -> Document:
    """Return the members that a change makes differ; check that raw is left alone."""
    before = copy.deepcopy(raw)
    shown = replica_entry(entry_of(raw, **changes))
    assert raw == before
    assert [name for name in raw if name not in shown] == []
    return {name: each for name, each in shown.items() if name not in raw or raw[name] != each}


def config(**pairs: object) -> Document:
    return {"trigger_config": {"triggers": pairs}}


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"content": "雾。"}, {"content": "雾。"}),
        ({"title": "灯"}, {"comment": "灯"}),
        ({"enabled": False}, {"disable": True}),
        ({"order": 5}, {"order": 5}),
        ({"probability": 50}, {"probability": 50}),
        ({"position": "after_examples"}, {"position": 3}),
        (
            {"position": "at_depth", "depth": 2, "role": "user"},
            {"position": 6, "depth": 2, "role": 1},
        ),
        ({"conflict_key": "group:港"}, {"group": ["港"]}),
        (
            {"conflict_key": "free"},
            {"group": ["free"], "extensions": {"lorewell": {"conflict_key": "free"}}},
        ),
        ({"requires": ["u2"]}, {"requires": ["u2"]}),
        ({"id": "u9"}, {"uid": "u9"}),
        ({"required": True}, {"extensions": {"lorewell": {"required": True}}}),
    ],
)
def test_a_change_is_shown_and_alone(changes: Document, shown: Document) -> None:
    assert differing(NEWER, **changes) == shown


def test_keys_change_where_the_trigger_has_them_and_in_the_older_copy() -> None:
    changed = differing(NEWER, keys=["lamp"], logic="not_all")
    keyword = {**KEYWORD, "key": ["lamp"], "selectiveLogic": 3}
    triggers = {"keyword": [True, keyword], "rag": [False, None]}
    assert changed == {"key": ["lamp"], "trigger_config": {"triggers": triggers, "v": 2}}


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"keys": ["灯"]}, {"key": ["灯"]}),
        ({"case_sensitive": True}, {"caseSensitive": True}),
        ({"keys": [], "secondary_keys": [], "constant": True}, {"activationType": "permanent"}),
        (
            {"conditions_text": ["tb.a = 1"]},
            {"extensions": {"lorewell": {"conditions_text": ["tb.a = 1"]}}},
        ),
    ],
)
def test_older_entries_change_at_their_top(changes: Document, shown: Document) -> None:
    assert differing(OLDER, **changes) == shown


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ({"activationType": "permanent"}, {"activationType": "keyword", "selective": False}),
        ({"activationType": "rag", "constant": True}, {"constant": False}),
        ({"constant": "true"}, {"constant": False, "selective": False}),
        (config(constant=[True, None, 9]), config(constant=[False, None, 9])),
        (
            {"constant": True, **config(constant=[True])},
            {"constant": False, **config(constant=[False, None])},
        ),
    ],
)
def test_constant_is_switched_off(raw: Document, shown: Document) -> None:
    assert differing(raw, constant=False) == shown


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ({}, {"constant": True}),
        ({"trigger_config": 3}, config(constant=[True, None])),
        (config(constant=[False, "x"]), config(constant=[True, None])),
    ],
)
def test_constant_is_switched_on(raw: Document, shown: Document) -> None:
    assert differing(raw, constant=True) == shown


def test_keys_beside_a_trigger_by_likeness_get_a_configuration() -> None:
    raw = {"activationType": "rag", "key": ["海"]}
    triggers = differing(raw, keys=["灯"])["trigger_config"]["triggers"]
    assert triggers["keyword"][:1] == [True]
    assert triggers["keyword"][1]["key"] == ["灯"]
    assert triggers["rag"][0] is True


def test_conditions_change_where_they_are_all_that_counts() -> None:
    changed = differing(ALONE, conditions_text=["tb.a≥1 且 tb.b=2", "tb.c = 3", "tb. ="])
    texts = ["tb.a >= 1", "tb.b = 2", "tb.c = 3", "tb. ="]
    listed = {"conditions": [{"text": text} for text in texts]}
    assert changed == config(condition=[True, listed])


OFF: Document = {"condition": [False, TEXTS]}
CONSTANT: Document = {**OFF, "constant": [True, None]}
KEYED: Document = {**OFF, "keyword": [True, {"key": ["灯"], "selective": False}]}
OR = "tb.a = 1 or tb.b = 2"


@pytest.mark.parametrize(
    ("changes", "pairs", "lost"),
    [
        ({"conditions_text": []}, CONSTANT, ()),
        ({"constant": False}, OFF, ("conditions_text",)),
        ({"constant": False, "keys": ["灯"]}, KEYED, ("conditions_text",)),
        ({"keys": ["灯"]}, {"condition": [True, TEXTS]}, ("keys",)),
        ({"conditions_text": [OR]}, CONSTANT, ("conditions_text",)),
        ({"conditions_text": ["tb.a=1 且 tb.b=2"] * 26}, CONSTANT, ("conditions_text",)),
        ({"conditions_text": ["not tb.a = 1"]}, CONSTANT, ("conditions_text",)),
    ],
)
def test_conditions_that_can_not_be_said_are_told(
    changes: Document, pairs: Document, lost: tuple[str, ...]
) -> None:
    rebuilt = rebuild(entry_of(ALONE, **changes))
    assert rebuilt.raw["trigger_config"]["triggers"] == pairs
    assert rebuilt.lost == lost


def test_conditions_make_a_keyword_entry_one_of_conditions_alone() -> None:
    rebuilt = rebuild(entry_of(NEWER, constant=True, conditions_text=["tb.a = 1"], keys=[]))
    triggers = rebuilt.raw["trigger_config"]["triggers"]
    assert [kind for kind, (on, _) in triggers.items() if on] == ["condition"]
    assert triggers["keyword"] == [False, KEYWORD]
    older = rebuild(entry_of(OLDER, constant=True, conditions_text=["tb.a = 1"], keys=[]))
    triggers = older.raw["trigger_config"]["triggers"]
    assert [kind for kind, (on, _) in triggers.items() if on] == ["condition"]


def test_a_system_message_of_its_own_stays_one_until_it_is_moved() -> None:
    raw = {"uid": "a", "position": "system_prompt", "depth": 9, "role": 1, **config()}
    assert differing(raw, content="x") == {"content": "x"}
    assert differing(raw, depth=3) == {"position": 6, "depth": 3, "role": 0}
    assert differing(raw, position="before_character") == {"position": 1, "depth": 0, "role": 0}


def test_the_other_end_of_the_author_s_note_is_remembered() -> None:
    raw = {"uid": "a", "position": 4, **config()}
    below = replica_entry(entry_of(raw, position="author_note_bottom"))
    assert below["position"] == 4
    again = entry_of(below)
    assert again.position == "author_note_bottom"
    assert replica_entry(again) == below
    above = replica_entry(entry_of(below, position="author_note_top"))
    assert entry_of(above).position == "author_note_top"


def test_the_block_is_what_counts_of_what_the_core_can_not_say() -> None:
    entry = entry_of({**NEWER, "group": ["a", "b"]})
    assert entry.replica is not None
    block = {name: each for name, each in entry.replica.items() if name != "group"}
    changed = entry.model_copy(update={"replica": {**block, "groupWeight": 5, "other": 1}})
    shown = replica_entry(changed)
    assert "group" not in shown
    assert shown["groupWeight"] == 5
    assert "other" not in shown


def test_other_entries_are_written_out() -> None:
    entry = Entry(
        id="lamp",
        title="灯",
        content="灯。",
        keys=("灯塔",),
        selective=True,
        logic="not_any",
        order=5,
        position="author_note_bottom",
        depth=3,
        role="user",
        conflict_key="group:港",
        requires=("oil",),
        replica={"ragConfig": {"threshold": 0.5}},
    )
    rebuilt = rebuild(entry)
    assert rebuilt.lost == ("position",)
    shown = dict(rebuilt.raw)
    triggers = shown.pop("trigger_config")["triggers"]
    assert shown == {
        "uid": "lamp",
        "content": "灯。",
        "comment": "灯",
        "position": 4,
        "order": 5,
        "disable": False,
        "probability": 100,
        "depth": 3,
        "role": 1,
        "group": ["港"],
        "requires": ["oil"],
        "ragConfig": {"threshold": 0.5},
        "extensions": {"lorewell": {"position": "author_note_bottom"}},
    }
    assert [kind for kind, (on, _) in triggers.items() if on] == ["keyword"]
    assert triggers["keyword"][1] == {
        "key": ["灯塔"],
        "keysecondary": [],
        "selective": True,
        "selectiveLogic": 2,
        "matchWholeWords": False,
        "caseSensitive": False,
    }


@pytest.mark.parametrize(
    ("theirs", "ours"), [(0, 1), (1, 0), (5, 2), (6, 3), (2, 4), (3, 4), (4, 6), (7, 7)]
)
def test_sillytavern_s_entries_have_the_numbers_of_that_program(theirs: int, ours: int) -> None:
    raw: Document = {"uid": 3, "key": ["灯"], "content": "灯。", "outletName": "棚"}
    raw |= {"position": theirs}
    raw |= {"group": "a,b", "groupWeight": 50, "selectiveLogic": 1}
    (entry,) = read({"entries": {"3": raw}}).book.entries
    shown = replica_entry(entry)
    assert (shown["uid"], shown["position"]) == ("3", ours)
    assert (shown["group"], shown["groupWeight"]) == (["a", "b"], 50)
    assert shown["trigger_config"]["triggers"]["keyword"][1]["selectiveLogic"] == 3


def test_what_is_no_place_for_our_fields_is_left_alone() -> None:
    rebuilt = rebuild(entry_of({**NEWER, "extensions": []}, required=True))
    assert (rebuilt.raw["extensions"], rebuilt.lost) == ([], ("required",))


def test_a_book_is_its_entries() -> None:
    book = read({"name": "港", "entries": [NEWER, OLDER]}).book
    assert replica_document(book) == {"name": "港", "entries": [NEWER, OLDER]}
