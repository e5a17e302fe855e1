"""World files of SillyTavern_replica as books of ours."""

from __future__ import annotations

import pytest
from hypothesis import given

from other_programs import read, said, shapes, told
from property.test_import import taken
from support import Document

KEYWORD = {"key": ["灯塔", "lamp"], "keysecondary": ["海"], "selective": True, "selectiveLogic": 1}


def entry(*, triggers: object = None, **fields: object) -> Document:
    config = {"trigger_config": {"triggers": triggers or {"keyword": [True, KEYWORD]}}}
    usual = {"uid": "u1", "content": "灯。", "comment": "灯塔", "order": 20, "position": 1}
    return {**usual, **config, "disable": False, "group": None, **fields}


def world(*entries: object, **members: object) -> Document:
    return {"id": "b1", "name": "雾隐渡", "entries": list(entries), "version": 1, **members}


READ = {
    "id": "u1",
    "title": "灯塔",
    "content": "灯。",
    "order": 20,
    "depth": 4,
    "keys": ("灯塔", "lamp"),
    "secondary_keys": ("海",),
    "selective": True,
    "logic": "and_all",
}


def test_entry_is_read_into_native_fields_and_a_block() -> None:
    raw = entry()
    found = read(world(raw, createdAt=1.5))
    (lamp,) = found.book.entries
    assert said(lamp, "replica") == READ
    assert lamp.replica == {
        "trigger_config": raw["trigger_config"],
        "group": None,
        "position": 1,
    }
    assert lamp.source == {"format": "replica", "raw": raw}
    assert (found.report.format, found.book.name) == ("replica", "雾隐渡")
    assert found.book.metadata["raw"] == {"id": "b1", "version": 1, "createdAt": 1.5}
    assert told(found) == []


@pytest.mark.parametrize(
    ("position", "shown"),
    [
        (0, {"position": "after_character"}),
        ("after_char", {"position": "after_character"}),
        (1, {}),
        (2, {"position": "before_examples"}),
        (3, {"position": "after_examples"}),
        ("4", {"position": "author_note_top"}),
        (6, {"position": "at_depth"}),
        (7, {"position": "outlet", "outlet_name": "u1"}),
    ],
)
def test_positions_have_numbers_of_their_own(position: object, shown: Document) -> None:
    found = read(world(entry(position=position)))
    assert said(found.book.entries[0], "replica") == READ | shown
    replica = found.book.entries[0].replica
    assert replica is not None
    assert replica["position"] == position
    assert told(found) == []


def test_a_system_message_of_its_own_goes_to_depth_0() -> None:
    found = read(world(entry(position=5, depth=9, role=1)))
    (lamp,) = found.book.entries
    assert (lamp.position, lamp.depth, lamp.role) == ("at_depth", 0, "system")
    assert told(found) == [("u1", "position_changed")]


@pytest.mark.parametrize("position", [8, -1, "nowhere", [], True])
def test_an_unreadable_position_is_0(position: object) -> None:
    found = read(world(entry(position=position)))
    assert found.book.entries[0].position == "after_character"
    assert told(found) == [("u1", "wrong_type")]


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"disable": True}, {"enabled": False}),
        ({"order": None}, {"order": 0}),
        ({"probability": 30, "role": 2}, {"probability": 30, "role": "assistant"}),
        ({"group": ["港"]}, {"conflict_key": "group:港"}),
        ({"group": "港"}, {"conflict_key": "group:港"}),
        ({"triggers": {"constant": [True, None]}}, {"constant": True}),
        ({"triggers": {"constant": [True]}}, {"constant": True}),
        ({"triggers": {"keyword": [True, None]}}, {}),
        ({"triggers": {"keyword": [False, KEYWORD], "rag": None}}, {}),
    ],
)
def test_each_member_has_its_meaning(fields: Document, shown: Document) -> None:
    found = read(world(entry(**fields)))
    keywords = {"keys", "secondary_keys", "selective", "logic"}
    usual = {name: value for name, value in READ.items() if name not in keywords}
    if fields.get("triggers") == {"keyword": [True, None]}:
        shown = {**shown, "selective": True}
    expected = (usual if "triggers" in fields else READ) | shown
    assert said(found.book.entries[0], "replica") == expected
    assert told(found) == []


def test_several_groups_and_requirements_stay_as_they_are() -> None:
    found = read(world(entry(group=["a", "b"], requires=["u2"])))
    (lamp,) = found.book.entries
    assert lamp.conflict_key is None
    assert lamp.replica is not None
    assert lamp.replica["group"] == ["a", "b"]
    assert told(found) == [("u1", "several_groups"), ("u1", "not_kept")]


@pytest.mark.parametrize(
    ("fields", "shown", "codes"),
    [
        ({"activationType": "permanent"}, {"constant": True}, []),
        (
            {"activationType": "keyword", "key": "灯, 塔"},
            {"keys": ("灯", "塔"), "selective": True},
            [],
        ),
        ({"activationType": "rag"}, {}, ["ignored_field"]),
        (
            {
                "activationType": "logic",
                "logicExpression": {"variable1": "力量", "operator": "greater", "variable2": "9"},
            },
            {},
            ["ignored_field"],
        ),
        ({"activationType": "logic"}, {}, ["ignored_field", "condition_unreadable"]),
        ({"activationType": None, "constant": True}, {"constant": True}, []),
        ({"activationType": [], "key": ["灯"]}, {"keys": ("灯",), "selective": True}, []),
    ],
)
def test_older_entries_have_one_kind_of_trigger(
    fields: Document, shown: Document, codes: list[str]
) -> None:
    found = read({"entries": {"u": {"uid": "u", "trigger_config": None, **fields}}})
    usual = {"id": "u", "order": 0, "depth": 4, "position": "after_character"}
    assert said(found.book.entries[0], "replica") == usual | shown
    assert [code for _, code in told(found)] == codes


@pytest.mark.parametrize(
    ("config", "codes"),
    [
        ([], ["trigger_broken"]),
        ({"triggers": []}, ["trigger_broken"]),
        ({"triggers": {"constant": "true"}}, ["trigger_broken"]),
        ({"triggers": {"constant": [], "keyword": [1, KEYWORD]}}, ["trigger_broken"] * 2),
    ],
)
def test_broken_triggers_are_off(config: object, codes: list[str]) -> None:
    found = read(world(entry(trigger_config=config)))
    (lamp,) = found.book.entries
    assert (lamp.constant, lamp.keys) == (False, ())
    assert lamp.replica is not None
    assert lamp.replica["trigger_config"] == config
    assert [code for _, code in told(found)] == codes


def conditions(*texts: object) -> Document:
    listed = [{"text": text} for text in texts]
    return {"condition": [True, {"conditions": listed}]}


@pytest.mark.parametrize(
    "text",
    [
        "tb.力量 > 10",
        "tb.力量>=10.5",
        " tb.某 值 <= -3 ",
        "tb.力量 != 15",
        'tb.态度 == "友好"',
        'tb.态度 = "友好"',
        "tb.力量 = 15",
        'tb.态度 包括 "友"',
        "tb.态度 包括 “友”",
        "tb.力量 ＞ 10",
        "tb.力量 ≥ 10",
    ],
)
def test_condition_that_can_be_read_is_kept(text: str) -> None:
    found = read(world(entry(triggers=conditions(text))))
    assert told(found) == [("u1", "ignored_field")]


@pytest.mark.parametrize(
    "text",
    [
        "tb.力量 >",
        "tb.x = __import__('os')",
        "rm -rf /",
        'tb. 包括 "未闭合',
        "力量 > 10",
        "tb.力量 > 高",
        "tb.态度 包括 友好",
        "tb.x > 1 " + " " * 500,
        None,
        7,
    ],
)
def test_condition_that_cannot_be_read_is_named_and_never_run(text: object) -> None:
    found = read(world(entry(triggers=conditions("tb.a > 1", text))))
    assert told(found) == [("u1", "ignored_field"), ("u1", "condition_unreadable")]
    at = "/entries/0/trigger_config/triggers/condition/1/conditions/1: "
    assert found.report.warnings[1].message.startswith(at)


@pytest.mark.parametrize(
    ("settings", "readable"),
    [
        ({"variable_a": "力量", "operator": "大于", "variable_b": "10"}, True),
        ({"variable_a": " ", "operator": "=", "variable_b": ""}, False),
        ({"variable_a": "力量", "operator": "并非"}, False),
        ({"variable_a": 7, "operator": "="}, False),
        ({"variable_a": "力量", "operator": []}, False),
        ({"conditions": []}, True),
        ({}, False),
    ],
)
def test_older_conditions_are_three_parts(settings: Document, *, readable: bool) -> None:
    found = read(world(entry(triggers={"condition": [True, settings]})))
    codes = ["ignored_field"] if readable else ["ignored_field", "condition_unreadable"]
    assert [code for _, code in told(found)] == codes


def test_triggers_too_large_for_the_block_stay_in_raw() -> None:
    keys = [f"{at}" + "灯" * 199 for at in range(190)]
    found = read(world(entry(triggers={"keyword": [True, {"key": keys}]})))
    (lamp,) = found.book.entries
    assert (len(lamp.keys), lamp.replica) == (190, None)
    assert told(found) == [("u1", "not_kept")]


TRIGGERS = ["constant", "keyword", "condition", "rag"]
NAMES = [*entry(), "depth", "role", "probability", "activationType", "logicExpression", "key"]


@given(shapes(NAMES, lambda drawn: {"entries": [{"trigger_config": drawn}, {"x": drawn}]}))
def test_any_configuration_gives_a_book_or_an_error_of_ours(data: bytes) -> None:
    taken(data)


def _nested(drawn: object) -> object:
    pairs = {kind: [True, drawn] for kind in TRIGGERS}
    fields = drawn[0] if isinstance(drawn, list) and drawn and isinstance(drawn[0], dict) else {}
    pairs["condition"] = [True, {"conditions": drawn}]
    return {"entries": [{"trigger_config": {"triggers": pairs}}, {**fields}, {"uid": drawn}]}


@given(shapes(NAMES, _nested))
def test_any_values_give_a_book_or_an_error_of_ours(data: bytes) -> None:
    taken(data)
