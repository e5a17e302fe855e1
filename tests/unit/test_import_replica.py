"""World files of SillyTavern_replica as books of ours."""

from __future__ import annotations

import pytest
from hypothesis import given

from lorewell import compile_book
from other_programs import read, said, shapes, warnings_of
from property.test_import import taken
from support import BOOK_ID, Document, ask, decision_of

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
    assert warnings_of(found) == []


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
    assert warnings_of(found) == []


def test_a_system_message_of_its_own_goes_to_depth_0() -> None:
    found = read(world(entry(position=5, depth=9, role=1)))
    (lamp,) = found.book.entries
    assert (lamp.position, lamp.depth, lamp.role) == ("at_depth", 0, "system")
    assert warnings_of(found) == [("u1", "position_changed")]


@pytest.mark.parametrize("position", [8, -1, "nowhere", [], True])
def test_an_unreadable_position_is_0(position: object) -> None:
    found = read(world(entry(position=position)))
    assert found.book.entries[0].position == "after_character"
    assert warnings_of(found) == [("u1", "wrong_type")]


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
    assert warnings_of(found) == []


def test_several_groups_and_requirements_stay_as_they_are() -> None:
    found = read(world(entry(group=["a", "b"], requires=["u2"])))
    (lamp,) = found.book.entries
    assert lamp.conflict_key is None
    assert lamp.replica is not None
    assert lamp.replica["group"] == ["a", "b"]
    assert lamp.replica["requires"] == ["u2"]
    assert warnings_of(found) == [("u1", "several_groups"), ("u1", "ignored_field")]


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
        ({"activationType": "logic"}, {}, ["trigger_broken"]),
        (
            {"activationType": "logic", "logicExpression": {"variable1": "a", "operator": []}},
            {},
            ["trigger_broken"],
        ),
        ({"activationType": None, "constant": True}, {"constant": True}, []),
        ({"activationType": [], "key": ["灯"]}, {"keys": ("灯",), "selective": True}, []),
    ],
)
def test_older_entries_have_one_kind_of_trigger(
    fields: Document, shown: Document, codes: list[str]
) -> None:
    found = read({"entries": [{"uid": "u", "trigger_config": None, **fields}]})
    usual = {"id": "u", "order": 0, "depth": 4, "position": "after_character"}
    assert said(found.book.entries[0], "replica") == usual | shown
    assert [code for _, code in warnings_of(found)] == codes


def conditions(*texts: object) -> Document:
    listed = [{"text": text} for text in texts]
    return {"condition": [True, {"conditions": listed}]}


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
    assert [code for _, code in warnings_of(found)] == codes


@pytest.mark.parametrize(
    ("text", "native"),
    [
        ("tb.力量 > 10", None),
        ("tb.力量>=10.5", None),
        (" tb.某 值 <= -3 ", None),
        ('tb.态度 == "友好"', None),
        ("tb.态度 包括 “友”", None),
        ("tb.力量 ＞ 10", None),
        ("tb.力量 ≥ 10", None),
        ("tb.态度 包括 友好", None),
        ("tb.x = __import__('os')", "tb.x = \"__import__('os')\""),
        ("tb.a > 1 且 tb.b > 2", 'tb.a > "1 且 tb.b > 2"'),  # no "and" there: it is the value
    ],
)
def test_conditions_alone_are_those_of_a_constant_entry(text: str, native: str | None) -> None:
    found = read(world(entry(triggers=conditions("tb.a > 1", text))))
    (lamp,) = found.book.entries
    assert (lamp.constant, lamp.conditions_text) == (True, ("tb.a > 1", native or text))
    assert warnings_of(found) == []


@pytest.mark.parametrize(
    "others",
    [
        {"keyword": [True, KEYWORD]},
        {"constant": [True, None]},
        {"rag": [True, None]},
        {"logic": [True, {"variable1": "a", "operator": "equals", "variable2": "1"}]},
    ],
)
def test_conditions_beside_another_trigger_can_not_be_said(others: Document) -> None:
    found = read(world(entry(triggers={**conditions("tb.a > 1"), **others})))
    (lamp,) = found.book.entries
    assert lamp.conditions_text == ()
    assert lamp.constant is ("constant" in others)
    assert ("u1", "ignored_field") in warnings_of(found)


def test_a_keyword_trigger_without_keys_is_no_other_trigger() -> None:
    keyword = {"keyword": [True, {"key": [" "]}]}
    found = read(world(entry(triggers={**conditions("tb.a > 1"), **keyword})))
    assert found.book.entries[0].conditions_text == ("tb.a > 1",)


@pytest.mark.parametrize(
    "text", ["tb.力量 >", "rm -rf /", 'tb. 包括 "未闭合', "力量 > 10", None, 7]
)
def test_condition_that_cannot_be_read_is_named_and_never_holds(text: object) -> None:
    found = read(world(entry(triggers=conditions("tb.a > 1", text))))
    assert warnings_of(found) == [("u1", "condition_unreadable")]
    at = "/entries/0/trigger_config/triggers/condition/1/conditions/1: "
    assert found.report.warnings[0].message.startswith(at)
    response = ask(compile_book(found.book, book_id=BOOK_ID), "x", state={"a": 5})
    assert decision_of(response, "u1").reason == "condition_failed"


@pytest.mark.parametrize("texts", [["not tb.a = 1"], ["tb.x > 1 " + " " * 500], ["tb.a=1"] * 51])
def test_condition_that_would_hold_here_but_not_there_keeps_the_entry_out(
    texts: list[str],
) -> None:
    found = read(world(entry(triggers=conditions(*texts))))
    (lamp,) = found.book.entries
    assert (lamp.constant, lamp.conditions_text) == (False, ())
    assert warnings_of(found) == [("u1", "ignored_field"), ("u1", "condition_unreadable")]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"variable_a": "力量", "operator": "大于", "variable_b": "10"}, "tb.力量 > 10"),
        ({"variable_a": "tb.力量", "operator": "=", "variable_b": 7}, "tb.力量 = 7"),
        ({"variable_a": " ", "operator": "=", "variable_b": "1"}, None),
        ({"variable_a": "力量", "operator": "并非"}, None),
        ({"variable_a": 7, "operator": []}, None),
    ],
)
def test_older_conditions_are_three_parts(settings: Document, text: str | None) -> None:
    found = read(world(entry(triggers={"condition": [True, settings]})))
    (lamp,) = found.book.entries
    if text is None:
        assert [code for _, code in warnings_of(found)][-1] == "condition_unreadable"
    else:
        assert (lamp.constant, lamp.conditions_text, warnings_of(found)) == (True, (text,), [])


@pytest.mark.parametrize("settings", [{"conditions": []}, {}])
def test_no_conditions_never_hold(settings: Document) -> None:
    found = read(world(entry(triggers={"condition": [True, settings]})))
    assert found.book.entries[0].constant is False
    assert warnings_of(found) == [("u1", "ignored_field")]


@pytest.mark.parametrize(
    ("fields", "shown", "codes"),
    [
        ({"disable": "true"}, {"enabled": False}, ["flag_from_text"]),
        ({"disable": "yes"}, {}, ["flag_from_text"]),
        ({"disable": 1}, {"enabled": False}, ["flag_from_number"]),
        ({"disable": []}, {}, ["wrong_type"]),
        ({"order": "7"}, {"order": 7}, ["number_from_text"]),
        ({"order": 2.5}, {"order": 0}, ["wrong_type"]),
        ({"order": 20.0}, {}, []),
        ({"order": 10**7}, {"order": 10**6}, ["clamped"]),
        ({"probability": 120}, {}, ["clamped"]),
        ({"probability": "50"}, {"probability": 50}, ["number_from_text"]),
        ({"depth": 2.5}, {}, ["wrong_type"]),
        ({"depth": 20_000}, {"depth": 10_000}, ["clamped"]),
        ({"role": 9}, {}, ["wrong_type"]),
        ({"role": "user"}, {"role": "user"}, []),
        ({"content": 7}, {"content": "7"}, ["text_from_number"]),
        ({"content": ["灯"]}, {"content": '["灯"]'}, ["wrong_type"]),
        ({"group": {"a": 1}}, {}, ["wrong_type"]),
        ({"group": "g" * 195}, {}, ["group_too_long"]),
        (
            {"group": "港", "groupWeight": 50},
            {"conflict_key": "group:港"},
            ["group_weight_ignored"],
        ),
        ({"position": None}, {"position": "after_character"}, ["wrong_type"]),
    ],
)
def test_odd_values_count_as_in_their_own_program(
    fields: Document, shown: Document, codes: list[str]
) -> None:
    found = read(world(entry(**fields)))
    assert said(found.book.entries[0], "replica") == READ | shown
    assert [code for _, code in warnings_of(found)] == codes


def test_a_depth_below_0_is_0() -> None:
    found = read(world(entry(depth=-1)))
    assert found.book.entries[0].depth == 0
    assert warnings_of(found) == [("u1", "clamped")]


@pytest.mark.parametrize(
    ("settings", "shown", "codes"),
    [
        ({"key": ["灯", 7, None]}, {"keys": ("灯",)}, ["wrong_type"]),
        ({"key": "灯, 塔"}, {"keys": ("灯", "塔")}, []),
        ({"key": {"a": 1}}, {"keys": ()}, ["trigger_broken"]),
        ({"selectiveLogic": 9}, {"logic": "and_any"}, ["wrong_type"]),
        ({"selectiveLogic": "2"}, {"logic": "not_any"}, ["number_from_text"]),
        ({"caseSensitive": "true"}, {"case_sensitive": True}, ["flag_from_text"]),
        ({"selective": False, "keysecondary": ["海"]}, {"secondary_keys": ("海",)}, []),
        ({"key": [str(at) for at in range(201)]}, {}, ["keys_cut"]),
    ],
)
def test_settings_of_a_keyword_trigger(
    settings: Document, shown: Document, codes: list[str]
) -> None:
    found = read(world(entry(triggers={"keyword": [True, settings]})))
    (lamp,) = found.book.entries
    assert {name: getattr(lamp, name) for name in shown} == shown
    assert [code for _, code in warnings_of(found)] == codes


def test_a_map_is_read_by_its_names_and_sillytavern_s_numbers() -> None:
    """Case 38. What has a trigger of its own was only put into the map."""
    plain = {"key": ["海"], "content": "潮。", "position": 0, "selectiveLogic": 3}
    document = {"entries": {"u1": entry(), "u2": plain}}
    found = read(document)
    lamp, tide = found.book.entries
    assert said(lamp, "replica") == READ
    assert (tide.id, tide.position, tide.logic) == ("u2", "before_character", "and_all")
    assert warnings_of(found) == [(None, "entries_map")]
    assert found.report.format == "replica"


def test_a_name_in_a_map_that_is_no_id_is_lost_at_the_entry() -> None:
    found = read({"entries": {"a\x7f": {"content": "x"}, "b": entry()}})
    assert [each.id for each in found.book.entries] == ["a\ufffd", "u1"]
    assert [(loss.pointer, loss.kind, loss.why) for loss in found.report.losses] == [
        ("/entries/a\x7f", "object", "odd_id")
    ]


def test_what_that_program_writes_for_sillytavern_is_read_as_its_own() -> None:
    lamp = {"uid": "u1", "key": ["灯"], "content": "灯。", "position": "system_prompt"}
    found = read({"name": "港", "entries": {"u1": {**lamp, "group": ["a"], "order": 9}}})
    assert found.report.format == "replica"
    assert found.book.entries[0].conflict_key == "group:a"
    assert found.book.entries[0].depth == 0
    world_info = read({"name": "港", "entries": {"u1": {**lamp, "group": "a"}}})
    assert world_info.report.format == "st_world"


def test_an_entry_later_in_the_list_shows_whose_file_it_is() -> None:
    found = read(world({}, entry()))
    assert (found.report.format, len(found.book.entries)) == ("replica", 2)


def test_triggers_too_large_for_the_block_stay_in_raw() -> None:
    keys = [f"{at}" + "灯" * 199 for at in range(190)]
    found = read(world(entry(triggers={"keyword": [True, {"key": keys}]})))
    (lamp,) = found.book.entries
    assert (len(lamp.keys), lamp.replica) == (190, None)
    assert warnings_of(found) == [("u1", "not_kept")]


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
