"""The scene: what it accepts, where its members go, and what a policy can't use."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from lorewell import SelectRequest
from lorewell.app.sillytavern.activation import KeptActivation
from lorewell.errors import ValidationFailedError
from lorewell.model import ActivateRequest, PreviewRequest, ReplicaRequest
from lorewell.model.parse import parse_model
from lorewell.model.scene import Scene, members_of, merge_scenes
from lorewell.model.scene_fields import FIELDS, for_request, unused_members, with_scene
from replica_books import conditional, constant, turn
from support import BOOK_ID, ask, chosen, compiled, decision_of, entry, reasons
from world_info import names, reasons as verdicts, scan

FULL: dict[str, Any] = {
    "state": {"weather": {"storm": True}},
    "tables": {"力量": 15},
    "names": {"char": "Mara", "user": "Ann", "group": "Mara, Ode"},
    "character": {
        "name": "Mara the Elder",
        "file": "mara.png",
        "tags": ["sea"],
        "description": "Keeps the toll.",
        "personality": "สุขุม",
        "scenario": "A pier.",
        "depth_prompt": "Short lines.",
    },
    "persona": "A ferryman.",
    "note": {"text": "Be brief.", "position": "in_chat", "depth": 2, "role": "system"},
    "trigger": "swipe",
    "chat_length": 30,
    "seed": "s",
    "time": "2026-01-31T20:15:00+08:00",
    "timezone": "Asia/Tokyo",
    "group_members": [{"name": "Mara"}, {"name": "灯", "muted": True}],
    "messages": [{"content": "Hello 🌊", "role": "user"}],
    "chat_id": "pier",
    "variables": {"local": {"visits": 2}, "global": {"naïve": "ß"}},
    "host": {"model": "m", "is_mobile": False},
    "audience": "cast",
    "tokenizer": "cl100k_base",
    "enabled": True,
}
NATIVE = {"books": [{"book_id": BOOK_ID}], "query": "?"}
REQUESTS: dict[Any, Any] = {
    "native": (SelectRequest, NATIVE),
    "sillytavern": (ActivateRequest, {"context_tokens": 9}),
    "replica": (ReplicaRequest, {}),
}


def scene(**members: Any) -> Scene:
    return parse_model(Scene, members)


def refused(model: Any, document: dict[str, Any]) -> list[str]:
    with pytest.raises(ValidationFailedError) as error:
        parse_model(model, document)
    return [f"{each.pointer}: {each.detail}" for each in error.value.faults]


def test_every_member_has_a_row_in_the_table_of_fields() -> None:
    assert [each.name for each in members_of(scene(**FULL))] == list(FIELDS)


@pytest.mark.parametrize(
    ("document", "at"),
    [
        ({"mood": 1}, "/mood"),
        ({"names": {"bot": "x"}}, "/names/bot"),
        ({"character": {"tags": ["a", 7]}}, "/character/tags/1"),
        ({"note": {"depth": -1}}, "/note/depth"),
        ({"note": {"position": "above"}}, "/note/position"),
        ({"trigger": "again"}, "/trigger"),
        ({"chat_length": "7"}, "/chat_length"),
        ({"time": "2026-01-31 20:15"}, "/time"),
        ({"time": "2026-13-31T20:15:00Z"}, "/time"),
        ({"time": "2026-02-30T20:15:00Z"}, "/time"),
        ({"timezone": "Mars/Olympus"}, "/timezone"),
        ({"timezone": "+24:00"}, "/timezone"),
        ({"group_members": [{"muted": True}]}, "/group_members/0/name"),
        ({"messages": [{"content": "x", "role": "bot"}]}, "/messages/0/role"),
        ({"chat_id": 7}, "/chat_id"),
        ({"variables": []}, "/variables"),
        ({"variables": {"global": {str(n): 1 for n in range(1_001)}}}, "/variables/global"),
        ({"host": {"phone": True}}, "/host/phone"),
        ({"state": []}, "/state"),
        ({"state": {"a": 1}, "tables": {"b": 1, "a": 1}}, "/tables/a"),
        ({"state": {"a": "x" * 200_000}, "tables": {"b": "x" * 100_000}}, ""),
        ({"audience": ""}, "/audience"),
        ({"enabled": "yes"}, "/enabled"),
    ],
)
def test_a_scene_is_strict_and_names_the_place(document: dict[str, Any], at: str) -> None:
    (found,) = refused(Scene, document)
    assert found.startswith(f"{at}: ")


@pytest.mark.parametrize(
    "variables", [{"session": {}}, {"local": {"": "x"}}, {"local": {"a": True}}, {"global": []}]
)
def test_variables_are_texts_and_numbers_by_scope_and_name(variables: Any) -> None:
    faults = refused(Scene, {"variables": variables})
    assert all(each.startswith("/variables/") for each in faults)


@pytest.mark.parametrize("policy", REQUESTS)
def test_a_scene_gives_the_same_request_as_the_fields_of_the_policy(policy: Any) -> None:
    model, base = REQUESTS[policy]
    own: dict[str, dict[str, Any]] = {
        "native": {
            "state": {"weather": {"storm": True}, "力量": 15},
            "template_vars": {"char": "Mara", "user": "Ann"},
            "seed": "s",
            "audience": "cast",
        },
        "sillytavern": {
            "macros": {
                "char": "Mara",
                "user": "Ann",
                "persona": "A ferryman.",
                "description": "Keeps the toll.",
                "personality": "สุขุม",
                "scenario": "A pier.",
                "depth_prompt": "Short lines.",
                "time": "2026-01-31T20:15:00+08:00",
                "timezone": "Asia/Tokyo",
                "group_members": [{"name": "Mara"}, {"name": "灯", "muted": True}],
                "messages": [{"content": "Hello 🌊", "role": "user"}],
                "chat_id": "pier",
                "host": {"model": "m", "is_mobile": False},
            },
            "variables": {"local": {"visits": 2}, "global": {"naïve": "ß"}},
            "scan_texts": {
                "persona_description": "A ferryman.",
                "character_description": "Keeps the toll.",
                "character_personality": "สุขุม",
                "character_depth_prompt": "Short lines.",
                "scenario": "A pier.",
            },
            "character": {"avatar": "mara.png", "tags": ["sea"]},
            "authors_note": {"value": "Be brief."},
            "trigger": "swipe",
            "chat_length": 30,
            "seed": "s",
        },
        "replica": {
            "dynamicTableData": {"currentValues": {"weather.storm": True, "力量": 15}},
            "char": "Mara",
            "user": "Ann",
            "seed": "s",
        },
    }
    given = parse_model(model, {**base, "scene": FULL})
    assert with_scene(given, given.scene, policy) == parse_model(model, {**base, **own[policy]})


def test_what_a_policy_cannot_use_is_listed() -> None:
    full = scene(**FULL)
    assert unused_members(full, "native") == (
        *("names.group", "character.file", "character.tags", "character.description"),
        *("character.personality", "character.scenario", "character.depth_prompt", "persona"),
        *("note", "trigger", "chat_length", "time", "timezone", "group_members", "messages"),
        *("chat_id", "variables", "host", "tokenizer"),
    )
    assert unused_members(full, "sillytavern") == (
        *("state", "tables", "names.group", "audience", "tokenizer"),
    )
    assert unused_members(None, "replica") == ()


@pytest.mark.parametrize(
    ("policy", "own", "given", "expected"),
    [
        ("native", {"state": {}}, {"tables": {"a": 1}}, "/scene/tables: is also given in state"),
        (
            "native",
            {"template_vars": {"char": "A"}},
            {"character": {"name": "A"}},
            "/scene/character/name: is also given in template_vars.char",
        ),
        ("native", {"seed": "0"}, {"seed": "0"}, "/scene/seed: is also given in seed"),
        (
            "sillytavern",
            {"macros": {"persona": ""}},
            {"persona": "x"},
            "/scene/persona: is also given in macros.persona",
        ),
        (
            "sillytavern",
            {"authors_note": {"value": "x"}},
            {"note": {}},
            "/scene/note: is also given in authors_note.value",
        ),
        (
            "sillytavern",
            {"character": {"avatar": "a.png"}},
            {"character": {"file": "b.png"}},
            "/scene/character/file: is also given in character.avatar",
        ),
        (
            "sillytavern",
            {"macros": {"time": "2026-01-31T20:15:00Z"}},
            {"time": "2026-01-31T20:15:00Z"},
            "/scene/time: is also given in macros.time",
        ),
        (
            "sillytavern",
            {"variables": {}},
            {"variables": {"local": {}}},
            "/scene/variables: is also given in variables",
        ),
        (
            "replica",
            {"dynamicTableData": {"currentValues": {}}},
            {"state": {}},
            "/scene/state: is also given in dynamicTableData.currentValues",
        ),
        ("replica", {"user": "A"}, {"names": {"user": "B"}}, "/scene/names/user: is also"),
    ],
)
def test_a_value_given_twice_is_refused(
    policy: str, own: dict[str, Any], given: dict[str, Any], expected: str
) -> None:
    model, base = REQUESTS[policy]
    (found,) = refused(model, {**base, **own, "scene": given})
    assert found.startswith(expected)
    parse_model(model, {**base, **own})
    parse_model(model, {**base, "scene": given})


def test_null_and_other_members_of_the_same_object_are_not_given_twice() -> None:
    parse_model(ReplicaRequest, {"char": None, "scene": {"names": {"char": "A"}}})
    document = {**NATIVE, "template_vars": {"user": "A"}, "scene": {"names": {"char": "B"}}}
    request = parse_model(SelectRequest, document)
    moved = with_scene(request, request.scene, "native")
    assert moved.template_vars == {"user": "A", "char": "B"}


def test_previews_have_a_scene_too() -> None:
    document = {"books": [{"book": {"name": "B", "entries": []}}], "query": "?"}
    assert parse_model(PreviewRequest, {**document, "scene": {"seed": "1"}}).scene is not None
    both = {**document, "seed": "1", "scene": {"seed": "1"}}
    assert refused(PreviewRequest, both) == ["/scene/seed: is also given in seed"]


def test_a_request_of_an_interface_gives_way_to_the_scene() -> None:
    document = {"macros": {"char": "A", "user": "U"}, "seed": "0", "context_tokens": 9}
    given = scene(names={"char": "B"}, seed="1", tokenizer="cl100k_base", note={"text": "x"})
    made = for_request(document, given, "sillytavern")
    request = parse_model(ActivateRequest, made)
    moved = with_scene(request, request.scene, "sillytavern")
    assert (moved.macros.char, moved.macros.user, moved.seed) == ("B", "U", "1")
    assert unused_members(request.scene, "sillytavern") == ()  # the interface counts by it
    assert document["macros"] == {"char": "A", "user": "U"}
    native = for_request(NATIVE, given, "native")["scene"]
    assert isinstance(native, Scene)
    assert native.note is None


def test_a_kept_turn_opens_though_the_service_set_what_the_scene_gives() -> None:
    document = {"context_tokens": 9, "scene": {"seed": "1", "chat_length": 3}}
    request = parse_model(ActivateRequest, document)
    kept = KeptActivation(request.model_copy(update={"seed": "2", "chat_length": 5}))
    opened = KeptActivation.from_members(json.loads(json.dumps(kept.to_members()))).request
    assert opened.scene == request.scene
    moved = with_scene(opened, opened.scene, "sillytavern")
    assert (moved.seed, moved.chat_length) == ("1", 3)


NAMED = st.fixed_dictionaries(
    {},
    optional={
        "names": st.fixed_dictionaries(
            {}, optional={"char": st.sampled_from("灯ab"), "user": st.sampled_from("灯ab")}
        ),
        "state": st.dictionaries(st.sampled_from("xy"), st.integers(0, 2), max_size=2),
        "seed": st.sampled_from("01"),
        "note": st.fixed_dictionaries({"text": st.sampled_from("nm")}),
        "enabled": st.booleans(),
    },
)


@given(st.lists(NAMED, max_size=4))
def test_each_value_comes_from_the_highest_layer_that_gives_it(layers: list[Any]) -> None:
    merged = merge_scenes(*(scene(**each) for each in layers))
    found = {} if merged is None else {each.name: each.value for each in members_of(merged)}
    expected: dict[str, object] = {}
    for layer in layers:
        for member in members_of(scene(**layer)):
            expected.setdefault(member.name, member.value)
    assert found == expected
    if merged is not None:  # what is given can be sent again
        assert parse_model(Scene, merged.model_dump(exclude_unset=True)) == merged


def test_an_upper_state_replaces_the_tables_of_lower_layers() -> None:
    merged = merge_scenes(scene(state={"a": 1}), scene(tables={"a": 2}))
    assert merged is not None
    assert merged.values == {"a": 1}


# The policies


def test_native_entries_follow_the_scene() -> None:
    book = compiled(
        [
            entry("named", constant=True, content="{{char}} waits for {{user}}."),
            entry("storm", constant=True, conditions_text=["tb.weather.storm = true"]),
            entry("strong", constant=True, conditions_text=["tb.力量 > 10"]),
            entry("cast", constant=True, audience=["cast"]),
        ]
    )
    assert chosen(ask(book, "?", scene=FULL)) == ["cast"]  # all others are for the actor
    actor = {name: value for name, value in FULL.items() if name != "audience"}
    answer = ask(book, "?", scene=actor)
    texts = {block.entry_id: block.content for block in answer.blocks}
    assert texts["named"] == "Mara waits for Ann."
    assert {"storm", "strong"} <= texts.keys()
    unused = [each.member for each in answer.warnings]
    assert (unused[0], unused[-1], len(unused)) == ("names.group", "tokenizer", 19)
    direct = ask(
        book,
        "?",
        state={"weather": {"storm": True}, "力量": 15},
        template_vars={"char": "Mara", "user": "Ann"},
        seed="s",
    )
    assert direct.selection_fingerprint == answer.selection_fingerprint
    assert direct.blocks == answer.blocks
    assert b'"code":"scene_unused"' in answer.to_json()


def test_no_lore_is_selected_if_the_scene_is_off() -> None:
    book = compiled([entry("rule", required=True), entry("lamp", "lamp")])
    answer = ask(book, "lamp", scene={"enabled": False})
    assert (chosen(answer), answer.context) == ([], "")
    assert reasons(answer) == {"rule": "disabled", "lamp": "disabled"}
    assert decision_of(answer, "lamp").detail == "the scene adds no lore"
    assert answer.selection_fingerprint != ask(compiled([]), "lamp").selection_fingerprint
    assert chosen(ask(book, "lamp", scene={"enabled": True})) == ["lamp", "rule"]


def test_a_native_entry_without_a_name_is_a_warning() -> None:
    book = compiled(
        [
            entry("lamp", "lamp", content="{{user}} lit it."),
            entry("gate", "gate", content="{{char}}"),
            entry("roll", "lamp", content="{{roll:6}} {{user}}"),
        ]
    )
    answer = ask(book, "Who lit the lamp?")
    assert reasons(answer)["lamp"] == "template_missing"
    (warning,) = answer.warnings
    assert (warning.code, warning.entry) == ("value_missing", f"{BOOK_ID}:1:lamp")
    assert warning.message == "{{user}} has no value: give the name of the user."
    assert ask(book, "Who lit the lamp?", explain="none").warnings == answer.warnings
    assert ask(book, "Who lit the lamp?", template_vars={"user": ""}).warnings == ()


def test_warnings_about_entries_are_counted_above_a_hundred() -> None:
    book = compiled([entry(f"e{n}", constant=True, content="{{char}}") for n in range(150)])
    warnings = ask(book, "?").warnings
    assert len(warnings) == 101
    assert (warnings[-1].message, warnings[-1].entry) == ("50 more entries lack a name.", None)


def test_sillytavern_entries_follow_the_scene() -> None:
    entries = {
        "name": {"content": "{{char}}/{{user}}/{{persona}}", "constant": True},
        "filter": {"constant": True, "characterFilter": {"names": ["mara"]}},
        "tag": {"constant": True, "characterFilter": {"tags": ["sky"]}},
        "swipe": {"constant": True, "triggers": ["swipe"]},
        "persona": {"key": ["ferryman"], "matchPersonaDescription": True},
        "note": {"key": ["x"], "constant": True, "position": 2, "content": "Top"},
        "delay": {"constant": True, "delay": 30},
        "long": {"constant": True, "delay": 31},
    }
    answer = scan(entries, ["Hello"], scene=FULL)
    active = names(answer)
    assert sorted(active) == sorted(["name", "filter", "swipe", "persona", "note", "delay"])
    assert verdicts(answer)["tag"] == "tag_filter"
    assert answer.activated[active.index("name")].content == "Mara/Ann/A ferryman."
    assert answer.authors_note == "Top\nBe brief."
    assert [each.member for each in answer.warnings] == [
        *("state", "tables", "names.group", "audience", "tokenizer")
    ]


def test_macros_read_the_scene() -> None:
    content = "{{time}}|{{group}}|{{groupNotMuted}}|{{lastMessage}}|{{getvar::visits}}|{{model}}"
    entries = {"all": {"content": content, "constant": True}}
    answer = scan(entries, ["Hello"], scene=FULL)
    assert answer.activated[0].content == "9:15 PM|Mara, 灯|Mara|Hello 🌊|2|m"


def test_a_scene_that_is_off_keeps_the_timers() -> None:
    entries = {"lamp": {"key": ["lamp"], "sticky": 5}}
    lit = scan(entries, ["lamp"])
    assert lit.timed_state["sticky"]
    answer = scan(entries, ["lamp", "dark"], timed_state=lit.timed_state, scene={"enabled": False})
    assert (names(answer), answer.timed_state) == ([], lit.timed_state)


def test_replica_entries_follow_the_scene() -> None:
    entries = [
        constant("named", content="{{char}}、{{user}}"),
        conditional("strong", "tb.力量 > 10"),
        conditional("storm", "tb.weather.storm = true"),
    ]
    document = {"scene": FULL, "dynamicTableData": None}
    answer = turn(entries, **document)
    assert {each.uid: each.content for each in answer.entries} == {
        "named": "Mara、Ann",
        "strong": "C-strong",
        "storm": "C-storm",
    }
    assert {each.code for each in answer.warnings} == {"scene_unused"}
    off = turn(entries, **{**document, "scene": {"enabled": False}})
    assert (off.entries, off.warnings) == ((), ())


def test_a_replica_entry_without_a_name_is_a_warning() -> None:
    answer = turn([constant("a", content="{{ User }} {{time}}")])
    found = [(each.code, each.uid, each.message) for each in answer.warnings]
    assert ("value_missing", "a", "{{ User }} has no value: give the name of the user.") in found
