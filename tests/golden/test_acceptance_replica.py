"""The acceptance cases of the policy `replica` that concern the engine (docs/rules/replica.md §10).

Expectations are the contract's. Cases on routes, files and sockets are elsewhere.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from lorewell.engine.chance import roll
from lorewell.engine.replica import (
    RagScores,
    ReplicaDraft,
    ReplicaMessage,
    activate,
    assemble,
    compile_world,
    rag_queries,
)
from lorewell.engine.replica.entries import normalise
from lorewell.model.parse import parse_model
from lorewell.model.replica import ReplicaRequest
from replica_books import (
    Document,
    active,
    conditional,
    constant,
    decision,
    entry,
    keyed,
    trigger,
    turn,
    warned,
)

TABLE = {"力量": 15, "态度": "友好"}


def fires(text: str, table: dict[str, Any] | None = None) -> bool:
    return active(turn([conditional("c", text)], table=TABLE if table is None else table)) == ["c"]


def normal(**members: Any) -> Document:
    found, _ = normalise(members, uid="derived")
    return found.members()


def test_01_a_disabled_constant_is_inactive() -> None:
    response = turn([constant("a", disable=True), constant("b", disable="true")])
    assert active(response) == []
    assert [each.reason for each in response.decisions] == ["disabled", "disabled"]


def test_02_a_constant_needs_no_text() -> None:
    response = turn([constant("a")])
    assert active(response) == ["a"]
    assert response.entries[0].trigger_type == "constant"


def test_03_a_key_hits_in_the_users_text_and_in_the_oldest_message() -> None:
    entries = [keyed("a", "灯塔")]
    in_user = turn(entries, "去灯塔看看")
    assert active(in_user) == ["a"]
    facts = decision(in_user, "a").facts
    assert (facts.keys, facts.found_in, facts.message, facts.span) == (
        ("灯塔",),
        "user",
        None,
        (1, 3),
    )
    in_history = turn(entries, "好", "灯塔由哑女看守", "夜里", "她不说话")
    facts = decision(in_history, "a").facts
    assert (facts.found_in, facts.message, facts.span) == ("history", 0, (0, 2))
    assert decision(turn(entries, "灯塔", "灯塔"), "a").facts.found_in == "both"
    neither = turn(entries, "去渡口", "夜里")
    assert active(neither) == []
    assert decision(neither, "a").detail == "keyword: no key was found"


def test_04_case_counts_where_it_is_asked_for() -> None:
    exact = {"caseSensitive": True}
    entries = [keyed("loose", "King"), keyed("exact", "King", settings=exact)]
    assert active(turn(entries, "the king")) == ["loose"]
    assert active(turn(entries, "the King")) == ["loose", "exact"]


def test_05_whole_words_in_scripts_with_and_without_spaces() -> None:
    whole = {"matchWholeWords": True}
    entries = [keyed("king", "king", settings=whole), keyed("灯", "灯塔", settings=whole)]
    assert active(turn(entries, "kingdom")) == []
    assert active(turn(entries, "the kingdom, the king.")) == ["king"]
    assert active(turn(entries, "他走进灯塔大门")) == ["灯"]


def test_06_a_blank_key_never_fires() -> None:
    assert active(turn([keyed("a", "", " \u3000"), keyed("b")], "anything  at all")) == []


@pytest.mark.parametrize(
    ("operator", "true", "false"),
    [
        (">", "14", "15"),
        ("<", "16", "15"),
        (">=", "15", "15.5"),
        ("<=", "15", "14"),
        ("==", "15.0", "14"),
        ("!=", "14", "15"),
        ("=", "15", "5"),
        ("包括", '"5"', '"6"'),
    ],
)
def test_07_each_operator_is_true_and_false(operator: str, true: str, false: str) -> None:
    assert fires(f"tb.力量 {operator} {true}")
    assert not fires(f"tb.力量 {operator} {false}")


def test_07_the_examples_of_the_contract() -> None:
    assert fires("tb.力量 > 10")
    assert fires("tb.力量 >= 15")
    assert not fires("tb.力量 != 15")
    assert fires('tb.态度 = "友好"')
    assert fires('tb.态度 包括 "友"')
    assert not fires("tb.态度 > 3")
    assert not fires("tb.敏捷 != 1")
    assert not fires("力量 > 10")
    assert fires("tb.力量>10")


def test_08_both_conditions_are_needed() -> None:
    both = [conditional("c", "tb.力量 > 10", 'tb.态度 包括 "友好"')]
    assert active(turn(both, table={"力量": 15, "态度": "很友好"})) == ["c"]
    failed = turn(both, table={"力量": 15, "态度": "恶"})
    assert active(failed) == []
    facts = decision(failed, "c").facts
    assert (facts.condition, facts.value) == ('tb.态度 包括 "友好"', '态度 is "恶"')


@pytest.mark.parametrize("operator", [">", "<", ">=", "<=", "==", "!=", "=", "包括"])
def test_09_a_missing_field_is_false_for_every_operator(operator: str) -> None:
    assert not fires(f"tb.敏捷 {operator} 1")
    assert not fires(f"tb.敏捷 {operator} 1", {"敏捷": None})


def test_10_numeric_text_is_a_number() -> None:
    assert fires("tb.x > 10", {"x": "15"})
    assert not fires("tb.x > 10", {"x": "abc"})


def test_11_contains_in_text_and_in_a_list() -> None:
    assert fires('tb.x 包括 "灯"', {"x": "灯塔"})
    assert fires('tb.x 包括 "灯"', {"x": ["绳", "灯"]})
    assert not fires('tb.x 包括 "灯"', {"x": ["灯塔"]})
    assert not fires('tb.x 包括 "king"', {"x": "King"})


def test_12_a_malformed_condition_is_false_and_harms_nobody() -> None:
    response = turn(
        [conditional("bad", "力量 > 10"), conditional("good", "tb.力量 > 10"), constant("a")],
        table=TABLE,
    )
    assert active(response) == ["good", "a"]
    assert warned(response) == [("condition_unreadable", "bad")]
    assert "unreadable at 0" in str(decision(response, "bad").detail)
    many = turn([conditional("many", *["tb.力量 > 10"] * 51)], table=TABLE)
    assert active(many) == []
    assert warned(many) == [("condition_unreadable", "many")]
    long = turn([conditional("long", "tb.力量 != " + "长" * 500)], table=TABLE)
    assert warned(long) == [("condition_unreadable", "long")]


def test_13_nothing_is_executed(tmp_path: Any) -> None:
    mark = tmp_path / "mark"
    assert not fires('tb.x == __import__("os")', {"x": 1})
    assert not fires(f"tb.x == open({str(mark)!r}, 'w')", {"x": 1})
    assert fires('tb.x == __import__("os")', {"x": '__import__("os")'})
    assert not mark.exists()


def test_14_no_condition_never_fires() -> None:
    response = turn([conditional("c")])
    assert active(response) == []
    assert decision(response, "c").detail == "condition: there is none"


@pytest.mark.parametrize(
    ("given", "expected", "warns"),
    [
        ("4", 4, False),
        (7, 7, False),
        (3.0, 3, False),
        ("after_char", 0, False),
        ("before_char", 1, False),
        ("system_prompt", 5, False),
        ("at_depth", 6, False),
        ("x", 0, True),
        (9, 0, True),
        (-1, 0, True),
        (None, 0, True),
        (True, 0, True),
        (4.5, 0, True),
    ],
)
def test_15_positions_become_numbers(given: object, expected: int, *, warns: bool) -> None:
    response = turn([constant("a", position=given)])
    assert response.entries[0].position == expected
    assert warned(response) == ([("position_changed", "a")] if warns else [])


def test_16_content_becomes_text() -> None:
    assert normal(content=None)["content"] == ""
    assert normal()["content"] == ""
    assert normal(content={"灯": [1, True]})["content"] == '{"灯":[1,true]}'


def test_17_uids_become_text() -> None:
    assert normal(uid=7)["uid"] == "7"
    assert normal(uid=7.0)["uid"] == "7"
    assert normal(uid="")["uid"] == "derived"
    nameless: Document = {"content": "x", "constant": True}
    first, second = (turn([nameless, nameless]) for _ in range(2))
    assert active(first) == active(second), "no new ids from turn to turn"
    assert len(set(active(first))) == 2


def test_18_a_text_of_groups_becomes_labels() -> None:
    assert normal(group="a,b")["group"] == ["a", "b"]
    assert normal(group=" a , ,a")["group"] == ["a"]
    assert normal(group=["灯", "", 3])["group"] == ["灯"]
    assert [normal(group=empty)["group"] for empty in ("", [], None, {})] == [None] * 4


def test_18_flags_and_orders() -> None:
    assert [normal(disable=value)["disable"] for value in (True, "true", 1)] == [True] * 3
    assert [normal(disable=value)["disable"] for value in (False, "false", 0, None)] == [False] * 4
    orders = [("12", 12), (-3, -3), ("x", 0), (None, 0), (1.5, 0), (10**40, 0)]
    assert [normal(order=given)["order"] for given, _ in orders] == [order for _, order in orders]
    assert [normal(role=role)["role"] for role in ("assistant", 1, 9, None)] == [2, 1, 0, 0]
    assert [normal(depth=depth)["depth"] for depth in (None, -2, "3")] == [4, 0, 3]


def test_19_sorted_by_position_then_order_and_stable() -> None:
    response = turn(
        [
            constant("a", position=4, order=1),
            constant("b", position=1, order=5),
            constant("c", position=1),
            constant("d", position=1, order=0),
            constant("e"),
        ]
    )
    assert active(response) == ["e", "c", "d", "b", "a"]


def ask(books: dict[str, Any], **data: object) -> Any:
    request = parse_model(ReplicaRequest, {"worldBookData": data, "books": books})
    return activate({}, request)


def test_20_a_book_named_twice_counts_once() -> None:
    books = {"g": {"entries": [constant("a")]}}
    response = ask(books, globalBooks=[{"id": "g"}, {"id": "g"}], characterBookId="g")
    assert [(each.uid, each.source) for each in response.entries] == [("a", "global")]


def test_21_a_missing_or_broken_book_harms_no_other() -> None:
    books = {"g": {"entries": [constant("a")]}, "bad": {"entries": 7}, "worse": [1]}
    ids = [{"id": name} for name in ("nobody", "bad", "worse", "g")]
    response = ask(books, globalBooks=ids)
    assert active(response) == ["a"]
    codes = [(warning.code, warning.book_id) for warning in response.warnings]
    assert codes == [("book_not_found", "nobody"), ("book_broken", "bad"), ("book_broken", "worse")]


def test_22_a_characters_book_is_for_that_character_alone() -> None:
    books = {"mara": {"entries": [constant("m")]}, "ash": {"entries": [constant("a")]}}
    assert [(e.uid, e.source) for e in ask(books, characterBookId="ash").entries] == [
        ("a", "character")
    ]
    assert active(ask(books, characterBookId=None)) == []


def test_23_statistics_add_up() -> None:
    entries = [
        constant("a"),
        constant("b", position=4),
        keyed("k", "灯", position=4),
        conditional("c", "tb.力量 > 1", position=7),
    ]
    stats = turn(entries, "灯", table=TABLE).stats
    assert stats.total == 4
    assert [(p.position, p.label, p.count) for p in stats.by_position] == [
        (0, "角色定义之后", 1),
        (4, "系统提示/作者注释", 2),
        (7, "宏替换", 1),
    ]
    assert stats.by_trigger == {"constant": 2, "keyword": 1, "condition": 1}
    assert sum(p.count for p in stats.by_position) == sum(stats.by_trigger.values()) == stats.total


def test_24_the_message_is_there_even_if_it_is_empty() -> None:
    assert json.loads(turn([]).message()) == {"type": "worldbook_active", "entries": []}
    warned = turn([constant("a", content="{{unknown}}")])
    assert json.loads(warned.message())["warnings"] == json.loads(warned.to_json())["warnings"]
    message = json.loads(turn([constant("a", position=4, order=3)]).message())
    (sent,) = message["entries"]
    assert sent == {
        "uid": "a",
        "content": "C-a",
        "position": 4,
        "order": 3,
        "trigger_config": {"triggers": {"constant": [True, None]}},
        "comment": "",
        "disable": False,
        "probability": 100,
        "depth": 4,
        "role": 0,
        "group": None,
        "groupWeight": 100,
        "requires": [],
        "trigger_type": "constant",
        "position_label": "系统提示/作者注释",
        "book_id": "b",
        "source": "global",
    }


def test_27_one_of_several_triggers_is_enough() -> None:
    both = trigger(keyword={"key": ["灯塔"]}, condition={"conditions": [{"text": "tb.力量 > 10"}]})
    by_condition = turn([entry("a", both)], "渡口", table=TABLE)
    assert by_condition.entries[0].trigger_type == "condition"
    by_key = turn([entry("a", both)], "灯塔", table={})
    assert by_key.entries[0].trigger_type == "keyword"
    assert turn([entry("a", both)], "灯塔", table=TABLE).entries[0].trigger_type == "keyword"
    detail = decision(turn([entry("a", both)], "渡口", table={"力量": 3}), "a").detail
    assert detail == ("keyword: no key was found; condition: tb.力量 > 10 is false: 力量 is 3")


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"constant": True}, "constant"),
        ({"activationType": "permanent"}, "constant"),
        ({"key": ["灯塔"]}, "keyword"),
        ({"key": ["灯塔"], "activationType": "keyword"}, "keyword"),
        ({"key": ["灯塔"], "activationType": "rag"}, None),
        (
            {
                "activationType": "logic",
                "logicExpression": {"variable1": "力量", "operator": "greater", "variable2": 10},
            },
            "logic",
        ),
        ({"key": ["渡口"]}, None),
    ],
)
def test_28_triggers_of_the_older_form(members: Document, expected: str | None) -> None:
    response = turn([{"uid": "a", "content": "x", **members}], "灯塔", table=TABLE)
    assert [each.trigger_type for each in response.entries] == ([expected] if expected else [])


def test_28_a_broken_trigger_is_off_and_the_entry_no_constant() -> None:
    odd = {"triggers": {"constant": "yes", "keyword": [True, {"key": ["灯塔"]}]}}
    response = turn([entry("a", odd)], "灯塔")
    assert response.entries[0].trigger_type == "keyword"
    assert warned(response) == [("trigger_broken", "a")]
    for config in ([], "constant", {"triggers": 3}, {}):
        response = turn([{"uid": "a", "constant": True, "trigger_config": config}], "灯塔")
        assert active(response) == []
        assert ("trigger_broken", "a") in warned(response)
        assert decision(response, "a").reason == "no_trigger"


@pytest.mark.parametrize("operator", [">", "大于", "!=", "不等于", "=", "包括"])
@pytest.mark.parametrize("value", [10, "15", "友"])
def test_29_an_older_triple_is_its_text(operator: str, value: object) -> None:
    sign = {"大于": ">", "不等于": "!="}.get(operator, operator)
    triple = {"variable_a": "力量", "operator": operator, "variable_b": value}
    older = entry("c", trigger(condition=triple))
    assert active(turn([older], table=TABLE)) == active(
        turn([conditional("c", f"tb.力量 {sign} {value}")], table=TABLE)
    )
    listed = entry("c", trigger(condition={"conditions": [triple]}))
    assert active(turn([older], table=TABLE)) == active(turn([listed], table=TABLE))


@pytest.mark.parametrize(
    ("logic", "expected"),
    [
        (0, [False, True, True]),
        (1, [False, False, True]),
        (2, [True, False, False]),
        (3, [True, True, False]),
    ],
)
def test_30_secondary_keys(logic: int, expected: list[bool]) -> None:
    settings = {"keysecondary": ["夜", "雾"], "selectiveLogic": logic}
    texts = [("灯塔",), ("灯塔", "夜里"), ("灯塔", "夜里", "起雾")]
    entries = [keyed("a", "灯塔", settings=settings)]
    assert [active(turn(entries, *said)) == ["a"] for said in texts] == expected
    off = [keyed("a", "灯塔", settings={**settings, "selective": False})]
    assert all(active(turn(off, *said)) == ["a"] for said in texts)


def test_31_probability() -> None:
    thrown = roll("种子", "half")
    entries = [
        constant("never", probability=0),
        constant("always", probability=100),
        constant("below", probability=-5),
        constant("above", probability=500),
        constant("half", probability=thrown),
    ]
    response = turn(entries, seed="种子")
    assert active(response) == ["always", "above"]
    facts = decision(response, "half").facts
    assert (facts.roll, facts.needed) == (thrown, thrown)
    entries[-1]["probability"] = math.nextafter(thrown, 100)
    assert "half" in active(turn(entries, seed="种子"))


def rag(uid: str, **settings: object) -> Document:
    return entry(uid, trigger(rag=settings))


def near(*similarities: float, query: str = "灯") -> RagScores:
    return RagScores(similarities={("b", query): similarities})


def test_32_likeness_respects_threshold_and_number() -> None:
    entries = [rag("a", top_k=2), rag("b", top_k=2), rag("c", top_k=2), rag("d"), constant("e")]
    response = turn(entries, "灯", scores=near(0.8, 0.9, 0.85, 0.7, math.nan))
    assert active(response) == ["b", "c", "e"]
    assert decision(response, "a").detail == "rag: 3 is beyond the first 2"
    assert decision(response, "d").detail == "rag: 0.700000 is below 0.75"
    assert decision(response, "b").facts.similarity == 0.9
    assert warned(response) == []
    tied = turn([rag("z", top_k=1), rag("y", top_k=1)], "灯", scores=near(0.9, 0.9))
    assert active(tied) == ["y"]


def test_32_without_vectors_there_is_one_warning() -> None:
    entries = [rag("a"), rag("b"), constant("c")]
    for scores in (RagScores(degraded=("vector_disabled",)), RagScores()):
        response = turn(entries, "灯", scores=scores)
        assert active(response) == ["c"]
        assert warned(response) == [("rag_unavailable", None)]
    assert warned(turn([constant("c")])) == []


def test_32_queries_and_defaults_of_both_forms() -> None:
    entries = [
        rag("a", query_template="关于{{message}}的事"),
        rag("b"),
        {"uid": "c", "activationType": "rag", "ragConfig": {}},
    ]
    world = compile_world({"entries": entries}, book_id="b")
    request = ReplicaRequest(mes="灯")
    assert rag_queries([world], request) == {"b": ("关于灯的事", "灯")}
    scores = RagScores(
        similarities={("b", "灯"): (0.0, 0.72, 0.72), ("b", "关于灯的事"): (0.76, 0.0, 0.0)}
    )
    assert active(turn(entries, "灯", scores=scores)) == ["a", "c"]


@pytest.mark.parametrize(
    ("operator", "true", "false"),
    [
        ("equals", "15", "16"),
        ("not_equals", "16", "15"),
        ("contains", "5", "6"),
        ("not_contains", "6", "5"),
        ("greater", "tb.敏捷", "tb.力量"),
        ("less", 15.5, "tb.敏捷"),
    ],
)
def test_33_logic_expressions(operator: str, true: object, false: object) -> None:
    def holds(right: object, left: str = "力量") -> bool:
        expression = {"variable1": left, "operator": operator, "variable2": right}
        older = {"uid": "a", "activationType": "logic", "logicExpression": expression}
        return active(turn([older], table={"力量": 15, "敏捷": "8"})) == ["a"]

    assert holds(true)
    assert holds(true, "tb.力量")
    assert not holds(false)
    assert not holds(true, "缺"), "a missing field is false for the negations, too"
    assert not holds("tb.缺")


HISTORY = (ReplicaMessage("user", "一"), ReplicaMessage("assistant", "二"))


def test_34_depths_count_history_alone() -> None:
    entries = [
        constant("zero", position=6, depth=0, role=1),
        constant("one", position=6, depth=1, order=2),
        constant("first", position=6, depth=1, order=1),
        constant("beyond", position=6, depth=9, role=2),
        constant("note", position=4),
    ]
    messages, _ = assemble(ReplicaDraft(history=HISTORY, mes="三"), turn(entries).entries)
    assert messages == (
        ("assistant", "C-beyond"),
        ("user", "一"),
        ("system", "C-first"),
        ("system", "C-one"),
        ("assistant", "二"),
        ("user", "C-zero"),
        ("system", "C-note"),
        ("user", "三"),
    )


def test_34_places_in_the_prompt() -> None:
    entries = [constant(f"p{number}", position=number) for number in range(6)]
    draft = ReplicaDraft(character="角色", examples="示例", history=HISTORY, mes="三")
    messages, unplaced = assemble(draft, turn(entries).entries)
    assert [text for _, text in messages] == [
        "C-p5",
        "C-p1\n角色\nC-p0\nC-p2\n示例\nC-p3",
        "一",
        "二",
        "C-p4",
        "三",
    ]
    assert unplaced == ()
    assert assemble(ReplicaDraft(mes="三"), ()).messages == (("user", "三"),)


def test_35_markers_are_filled_where_the_host_wrote_them() -> None:
    entries = [
        constant("灯", position=7, content="[{{outlet::灯}} {{char}}]"),
        constant("rest", position=7),
    ]
    response = turn(entries, char="{{outlet::rest}}")
    assert response.unplaced == ("灯", "rest")
    draft = ReplicaDraft(
        character="{{outlet::灯}} {{outlet::nobody}}.",
        examples="{{outlet:: 灯 }}",
        history=(ReplicaMessage("user", "{{outlet::rest}}"),),
        mes="{{outlet::灯}}",
    )
    messages, unplaced = assemble(draft, response.entries)
    filled = "[{{outlet::灯}} {{outlet::rest}}]"
    assert [text for _, text in messages] == [
        f"{filled} .\n{filled}",
        "{{outlet::rest}}",
        "{{outlet::灯}}",
    ]
    assert unplaced == ("rest",)


def test_35_names_are_filled_in_and_others_are_left() -> None:
    response = turn([constant("a", content="{{char}}与{{user}}，{{time}}")], char="哑女")
    assert response.entries[0].content == "哑女与{{user}}，{{time}}"
    assert warned(response) == [("macro_unknown", "a"), ("value_missing", "a")]


def test_36_in_a_group_the_constant_wins_then_the_weight() -> None:
    entries = [
        keyed("heavy", "灯", group=["g"], groupWeight=900),
        constant("constant", group="g", groupWeight=1),
        keyed("light", "灯", group=["h"], order=1),
        keyed("weighty", "灯", group=["h", "i"], groupWeight=200, order=9),
        keyed("other", "灯", group=["i"], order=0),
    ]
    response = turn(entries, "灯")
    assert active(response) == ["constant", "weighty"]
    assert [(lost.uid, lost.winner) for lost in response.suppressed] == [
        ("heavy", "constant"),
        ("light", "weighty"),
        ("other", "weighty"),
    ]
    assert decision(response, "light").facts.winner == "weighty"


def test_36_a_loser_takes_its_dependencies_along() -> None:
    entries = [
        constant("wins", group="g"),
        keyed("loses", "灯", group="g", requires=["d"]),
        keyed("d", "绳", group="free"),
        keyed("late", "灯", group="free", groupWeight=1),
    ]
    response = turn(entries, "灯")
    assert active(response) == ["wins", "late"], "and the labels are free again"
    assert decision(response, "d").reason == "not_triggered"


def test_37_dependencies() -> None:
    entries = [
        constant("root", requires=["a"]),
        keyed("a", "x", requires=["b"], probability=0),
        keyed("b", "x", requires=["root", "a", "b"]),
        constant("torn", requires=["off"]),
        keyed("off", "x", disable=True),
        constant("lost", requires=["nobody"]),
        constant("deep", requires=["torn"]),
    ]
    response = turn(entries)
    assert active(response) == ["root", "a", "b"]
    assert [each.trigger_type for each in response.entries] == [
        "constant",
        "dependency",
        "dependency",
    ]
    assert decision(response, "a").facts.required_by == "root"
    missing = {uid: decision(response, uid).facts.missing for uid in ("torn", "lost", "deep")}
    assert missing == {"torn": "off", "lost": "nobody", "deep": "off"}
    assert [uid for _, uid in warned(response)] == ["torn", "lost", "deep"]


def test_37_at_most_50_come_along() -> None:
    def chain(length: int) -> list[Document]:
        links = [keyed(f"n{i}", "x", requires=[f"n{i + 1}"]) for i in range(length - 1)]
        return [constant("root", requires=["n0"]), *links, keyed(f"n{length - 1}", "x")]

    assert len(active(turn(chain(50)))) == 51
    assert active(turn(chain(51))) == []


def test_37_what_requires_a_loser_goes_too() -> None:
    entries = [
        constant("wins", group="g"),
        keyed("dep", "x", group="g"),
        keyed("root", "灯", requires=["dep"]),
    ]
    response = turn(entries, "灯")
    assert active(response) == ["wins"]
    assert decision(response, "root").facts.missing == "dep"
    assert decision(response, "root").reason == "dependency_unavailable"


def test_38_a_map_is_sillytaverns_form_and_a_list_the_internal_one() -> None:
    world_info = {"key": ["灯塔"], "content": "x", "position": 0, "selectiveLogic": 3}
    world = compile_world({"entries": {"7": world_info}}, book_id="b")
    (entry,) = world.entries
    assert (entry.spec.uid, entry.spec.position) == ("7", 1)
    assert entry.triggers.keyword is not None
    assert entry.triggers.keyword.logic == 1
    internal = compile_world({"entries": {"7": constant("a", position=5)}}, book_id="b")
    assert (internal.entries[0].spec.uid, internal.entries[0].spec.position) == ("a", 5)


EXAMPLE_BOOKS = {
    "G": {
        "name": "G",
        "entries": [
            constant("g1", position=0, order=100, content="Lamps burn oil."),
            keyed("g2", "灯塔", position=4, order=50),
            keyed("g3", "king", settings={"matchWholeWords": True}, position=0, order=10),
        ],
    },
    "C": {
        "name": "C",
        "entries": [
            conditional("c1", "tb.力量 > 10", 'tb.态度 包括 "友好"', position=4, order=20),
            constant("c2", disable=True),
            constant("c3", position="1"),
        ],
    },
}


def example(strength: int) -> Any:
    request = {
        "worldBookData": {"globalBooks": [{"id": "G", "name": "G"}], "characterBookId": "C"},
        "mes": "去灯塔看看",
        "chatHistory": ["The kingdom sleeps."],
        "dynamicTableData": {"currentValues": {"力量": strength, "态度": "很友好"}},
        "books": EXAMPLE_BOOKS,
    }
    return activate({}, parse_model(ReplicaRequest, request))


def test_41_the_example_of_the_contract() -> None:
    response = example(15)
    found = [(each.uid, each.position, each.order) for each in response.entries]
    assert found == [("g1", 0, 100), ("c3", 1, 0), ("c1", 4, 20), ("g2", 4, 50)]
    assert decision(response, "g3").detail == "keyword: no key was found"
    assert decision(response, "c2").reason == "disabled"
    stats = json.loads(response.to_json())["stats"]
    assert stats == {
        "total": 4,
        "by_position": [
            {"position": 0, "label": "角色定义之后", "count": 1},
            {"position": 1, "label": "角色定义之前", "count": 1},
            {"position": 4, "label": "系统提示/作者注释", "count": 2},
        ],
        "by_trigger": {"constant": 2, "keyword": 1, "condition": 1},
    }
    weaker = example(10)
    assert active(weaker) == ["g1", "c3", "g2"]
    assert weaker.stats.total == 3


def test_42_normalising_twice_changes_nothing() -> None:
    for raw in (
        {"uid": 7, "content": None, "position": "at_depth", "order": "3", "group": "a, b"},
        {"activationType": "rag", "ragConfig": {"threshold": "0.3"}, "requires": [1, "x", None]},
        {"activationType": "logic", "logicExpression": {"variable1": "x", "operator": "equals"}},
        {"trigger_config": 5, "probability": 900, "depth": "x", "role": "user", "disable": "true"},
    ):
        once, _ = normalise(raw, uid="u")
        again, odd = normalise(once.members(), uid="other")
        assert again == once
        assert odd == []
