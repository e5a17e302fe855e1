"""The policy `replica`: requests as they come in, what a log says, and large books."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from lorewell.engine.replica import activate, compile_world, log_lines, rag_queries
from lorewell.engine.replica.world import ReplicaWorld
from lorewell.engine.steps import Steps
from lorewell.errors import ValidationFailedError
from lorewell.model.parse import parse_model
from lorewell.model.replica import ReplicaRequest
from replica_books import (
    active,
    conditional,
    constant,
    decision,
    entry,
    keyed,
    trigger,
    turn,
)


def test_an_empty_request_has_no_books() -> None:
    for document in ({}, {"worldBookData": None, "mes": None, "chatHistory": None, "new": 1}):
        response = activate({}, parse_model(ReplicaRequest, document))
        assert (response.entries, response.warnings, response.stats.total) == ((), (), 0)


def test_messages_may_be_objects() -> None:
    request = parse_model(
        ReplicaRequest,
        {"chatHistory": ["一", {"mes": "二", "is_user": True}, {"content": "三", "role": "user"}]},
    )
    assert request.chat_history == ("一", "二", "三")


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"mes": 7}, "/mes"),
        ({"chatHistory": "x"}, "/chatHistory"),
        ({"chatHistory": [{"text": "x"}]}, "/chatHistory/0"),
        ({"worldBookData": []}, "/worldBookData"),
        ({"worldBookData": {"globalBooks": [{}]}}, "/worldBookData/globalBooks/0/id"),
        ({"worldBookData": {"characterBookId": 7}}, "/worldBookData/characterBookId"),
        ({"dynamicTableData": {"currentValues": [1]}}, "/dynamicTableData/currentValues"),
        ({"books": {"b": {"name": "\ud800"}}}, "/books/b/name"),
        ({"explain": "all"}, "/explain"),
        ([], ""),
    ],
)
def test_wrong_types_are_told_by_their_place(document: object, pointer: str) -> None:
    with pytest.raises(ValidationFailedError) as caught:
        parse_model(ReplicaRequest, document)
    assert pointer in [fault.pointer for fault in caught.value.faults]


def test_a_book_may_be_named_by_its_name_alone() -> None:
    document = {
        "worldBookData": {"globalBooks": [{"name": "雾隐渡"}]},
        "books": {"雾隐渡": {"name": "雾隐渡", "entries": [constant("a")]}},
    }
    response = activate({}, parse_model(ReplicaRequest, document))
    assert active(response) == ["a"]
    assert response.books[0].name == "雾隐渡"


def test_a_book_in_the_request_wins_over_a_stored_one() -> None:
    stored = compile_world({"entries": [constant("old")]}, book_id="b")
    document = {
        "worldBookData": {"globalBooks": [{"id": "b"}]},
        "books": {"b": {"entries": [constant("new")]}},
    }
    assert active(activate({"b": stored}, parse_model(ReplicaRequest, document))) == ["new"]


def test_what_is_no_entry_is_left_out_with_a_warning() -> None:
    world = compile_world({"entries": [7, constant("a")]}, book_id="b")
    assert [entry.spec.uid for entry in world.entries] == ["a"]
    assert [warning.code for warning in world.warnings] == ["entry_broken"]
    assert compile_world(None, book_id="b").flaw == "it is not an object"
    assert compile_world({"name": 3}, book_id="b").flaw == "it has no entries"


def test_odd_settings_of_triggers() -> None:
    keys_as_text = entry("a", trigger(keyword={"key": "灯塔, king", "selectiveLogic": "x"}))
    no_keys = entry("b", trigger(keyword=None))
    broken = entry("c", trigger(keyword={"key": 7}, condition={"conditions": 7}, logic={}))
    off = entry("d", {"triggers": {"keyword": [False, 7], "constant": [], "rag": [True, 7]}})
    unnamed = entry("e", trigger(condition={"variable_a": "", "operator": ">"}))
    response = turn([keys_as_text, no_keys, broken, off, unnamed], "the king")
    assert active(response) == ["a"]
    assert [(w.code, w.uid) for w in response.warnings] == [
        ("trigger_broken", "c"),
        ("trigger_broken", "c"),
        ("trigger_broken", "c"),
        ("trigger_broken", "d"),
        ("trigger_broken", "d"),
        ("condition_unreadable", "e"),
    ]


def test_a_key_with_a_line_break_lies_within_one_text() -> None:
    entries = [keyed("a", "灯塔\n渡口")]
    assert active(turn(entries, "灯塔", "渡口")) == []
    assert active(turn(entries, "渡口", "去灯塔\n渡口")) == ["a"]


def test_a_hit_that_would_cut_a_character_is_none() -> None:
    assert active(turn([keyed("a", "s", settings={"matchWholeWords": False})], "ß")) == []


def test_fewer_decisions_when_fewer_are_asked_for() -> None:
    entries = [constant("a"), keyed("b", "灯")]
    assert [d.uid for d in turn(entries, explain="selected").decisions] == ["a"]
    assert turn(entries, explain="none").decisions == ()


def test_a_log_tells_names_and_keys_and_no_texts() -> None:
    entries = [
        constant("a", content="SECRET {{x}}"),
        keyed("灯", "灯塔", position=4),
        conditional("c", "力量"),
    ]
    assert list(log_lines(turn(entries, "去灯塔", "灯塔"))) == [
        "[WorldBook] loaded b: 3 entries (global)",
        "[WorldBook-Check] constant a",
        "[WorldBook-Check] keyword 灯: 灯塔 in both texts",
        "[WorldBook-Check] not_triggered c",
        "[WorldBook] active a: constant, 角色定义之后",
        "[WorldBook] active 灯: keyword, 系统提示/作者注释",
        "[WorldBook] warning condition_unreadable: c",
        "[WorldBook] warning macro_unknown: a",
        "[WorldBook] total 2",
        "[WorldBook] 角色定义之后 (0): 1",
        "[WorldBook] 系统提示/作者注释 (4): 1",
        "[WorldBook] constant: 1",
        "[WorldBook] keyword: 1",
    ]


def test_a_response_keeps_integers_of_any_size() -> None:
    config = {"triggers": {"constant": [True, None]}, "later": 10**30}
    sent = json.loads(turn([entry("a", config)]).to_json())
    assert sent["entries"][0]["trigger_config"]["later"] == 10**30
    assert sent["decisions"] == [
        {
            "book_id": "b",
            "uid": "a",
            "active": True,
            "reason": "constant",
            "detail": None,
            "facts": {},
        }
    ]


def test_what_has_no_json_is_not_sent() -> None:
    (sent,) = turn([constant("a")]).entries
    broken = replace(turn([]), entries=(replace(sent, comment=object()),))
    with pytest.raises(TypeError):
        broken.to_json()


def test_sillytaverns_numbers_are_read_in_a_map_alone() -> None:
    raw = {"position": "x", "useProbability": False, "probability": 5, "key": ["灯"]}
    (entry,) = compile_world({"entries": {"0": raw}}, book_id="b").entries
    assert (entry.spec.position, entry.spec.probability) == (0, 100)
    listed = {"entries": [{"uid": "a", "position": 2, "key": ["灯"]}]}
    assert compile_world(listed, book_id="b").entries[0].spec.position == 2


def test_one_warning_for_all_books_without_vectors() -> None:
    near = entry("a", trigger(rag={"threshold": "x", "top_k": None, "query_template": 3}))
    books = {"b": {"entries": [near]}, "c": {"entries": [near]}}
    names = {"globalBooks": [{"id": "b"}, {"id": "c"}]}
    request = parse_model(ReplicaRequest, {"worldBookData": names, "books": books})
    assert [warning.code for warning in activate({}, request).warnings] == ["rag_unavailable"]


def test_two_may_require_one() -> None:
    entries = [constant("a", requires=["c"]), constant("b", requires=["c"]), keyed("c", "x")]
    response = turn(entries)
    assert active(response) == ["a", "b", "c"]
    assert decision(response, "c").facts.required_by == "a"


def test_whoever_lost_to_one_that_goes_stays() -> None:
    entries = [
        constant("top", group="h"),
        keyed("dep", "x", group="h"),
        keyed("proud", "灯", group="g", groupWeight=500, requires=["dep"]),
        keyed("modest", "灯", group="g"),
    ]
    response = turn(entries, "灯")
    assert active(response) == ["top", "modest"]
    assert [(lost.uid, lost.winner) for lost in response.suppressed] == [("dep", "top")]
    assert decision(response, "proud").reason == "dependency_unavailable"


def big_world(entries: int) -> ReplicaWorld:
    source = random.Random(5)
    return compile_world(
        {
            "entries": [
                keyed(f"e{i}", f"key{i}", f"钥匙{source.randrange(10**6)}", "the")
                if i % 1_000 == 0
                else keyed(f"e{i}", f"key{i}", f"钥匙{source.randrange(10**6)}")
                for i in range(entries)
            ]
        },
        book_id="b",
    )


def test_an_entry_without_a_key_in_sight_costs_no_search() -> None:
    world = big_world(2_000)
    idle = {entry.spec.uid: entry.idle for entry in world.entries}
    document = {"worldBookData": {"globalBooks": [{"id": "b"}]}, "mes": "the key7 of the gate"}
    response = activate({"b": world}, parse_model(ReplicaRequest, document))
    assert active(response) == ["e0", "e7", "e1000"]
    others = [each for each in response.decisions if not each.active]
    assert all(each is idle[each.uid] for each in others)


def test_a_whole_word_is_found_behind_many_parts_of_words() -> None:
    settings = {"matchWholeWords": True}
    found = turn([keyed("e", "fox", settings=settings)], "foxes " * 50 + "a fox")
    assert found.decisions[0].facts.span == (302, 305)
    parts = turn([keyed("e", "fox", settings=settings)], "foxes " * 50)
    assert parts.decisions[0].reason == "not_triggered"


def test_several_books_look_at_the_same_texts() -> None:
    books = {name: {"name": name, "entries": [keyed(name, "Fox")]} for name in ("a", "b")}
    document = {
        "worldBookData": {"globalBooks": [{"id": "a"}, {"id": "b"}]},
        "books": books,
        "mes": "a fox",
        "chatHistory": ["foxes"],
    }
    response = activate({}, parse_model(ReplicaRequest, document))
    assert [each.facts.found_in for each in response.decisions] == ["both", "both"]


def test_a_template_is_filled_once_for_all_entries_that_have_it() -> None:
    config = trigger(rag={"query_template": "about {{message}}"})
    document = {"name": "B", "entries": [entry("a", config), entry("b", config)]}
    steps = Steps()
    asked = parse_model(ReplicaRequest, {"mes": "m" * 90})
    world = compile_world(document, book_id="b")
    assert rag_queries([world], asked, steps=steps) == {"b": ("about " + "m" * 90,)}
    assert steps.chars == 96
