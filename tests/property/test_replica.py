"""The policy `replica` on random books: what holds for every turn."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given, strategies as st

from lorewell.engine.replica import RagScores, activate, compile_world
from lorewell.engine.replica.entries import normalise
from lorewell.model.parse import parse_model
from lorewell.model.replica import ReplicaRequest, ReplicaResponse

UIDS = ["a", "b", "灯", "é", "7", "z z"]
WORDS = st.sampled_from(["lamp", "Lamp", "lamps", "king", "灯塔", "灯", "ประภาคาร", "🗡️", "e\u0301"])
SENTENCES = st.lists(WORDS, max_size=5).map(" ".join)
LABELS = st.sampled_from(["g", "h", "组"])
TEXTS = st.sampled_from(["tb.力量 > 10", "tb.力量 <= 10", 'tb.态度 包括 "友"', "力量", "tb.x != 1"])
ODD = st.sampled_from([None, True, 7, 1.5, "x", "3", [], {}, [1, "灯"], {"a": None}])
# A value is as it should be more often than not.
POSITIONS = st.one_of(st.integers(0, 7), st.sampled_from(["at_depth", "5", "x", None]))


def pairs(settings: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.tuples(st.booleans(), settings).map(list), st.none(), ODD)


KEYWORD = st.fixed_dictionaries(
    {"key": st.lists(st.one_of(WORDS, st.just(" ")), max_size=3)},
    optional={
        "keysecondary": st.lists(WORDS, max_size=2),
        "selectiveLogic": st.integers(0, 4),
        "caseSensitive": st.booleans(),
        "matchWholeWords": st.booleans(),
        "selective": st.booleans(),
    },
)
CONDITION = st.fixed_dictionaries(
    {"conditions": st.lists(st.one_of(TEXTS.map(lambda text: {"text": text}), ODD), max_size=2)}
)
RAG = st.fixed_dictionaries({"threshold": st.sampled_from([0.2, 0.75]), "top_k": st.integers(0, 3)})
CONFIGS = st.fixed_dictionaries(
    {
        "triggers": st.fixed_dictionaries(
            {},
            optional={
                "constant": st.sampled_from([[True, None], [False, None], [False, None]]),
                "keyword": pairs(KEYWORD),
                "condition": pairs(CONDITION),
                "rag": pairs(RAG),
            },
        )
    }
)
ENTRIES = st.fixed_dictionaries(
    {"uid": st.sampled_from(UIDS), "content": st.one_of(SENTENCES, ODD)},
    optional={
        "trigger_config": st.one_of(CONFIGS, CONFIGS, CONFIGS, ODD),
        "position": POSITIONS,
        "order": st.one_of(st.integers(-2, 2), ODD),
        "probability": st.sampled_from([100, 50, 0, "x"]),
        "group": st.one_of(st.none(), st.lists(LABELS, max_size=2), st.just("g,组"), ODD),
        "groupWeight": st.sampled_from([100, 50, 300]),
        "requires": st.lists(st.sampled_from([*UIDS, "nobody"]), max_size=2),
        "disable": st.sampled_from([False, False, False, True]),
        "activationType": st.sampled_from(["permanent", "keyword", "rag", "logic"]),
        "logicExpression": st.just({"variable1": "力量", "operator": "less", "variable2": "tb.y"}),
        "key": st.lists(WORDS, max_size=2),
    },
)
BOOKS = st.lists(st.one_of(ENTRIES, ENTRIES, ENTRIES, ENTRIES, ODD), max_size=6)
SIMILARITIES = st.lists(st.sampled_from([0.1, 0.5, 0.9, float("nan")]), min_size=12, max_size=12)


@st.composite
def turns(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "worldBookData": {"globalBooks": [{"id": "g"}], "characterBookId": "c"},
        "mes": draw(SENTENCES),
        "chatHistory": draw(st.lists(SENTENCES, max_size=3)),
        "dynamicTableData": {
            "currentValues": {"力量": draw(st.sampled_from([5, "15", None])), "态度": "友好"}
        },
        "seed": draw(st.sampled_from(["0", "种子"])),
        "books": {"g": {"entries": draw(BOOKS)}, "c": {"entries": draw(BOOKS)}},
    }


def run(document: dict[str, Any], similarities: list[float]) -> ReplicaResponse:
    request = parse_model(ReplicaRequest, document)
    scores = RagScores(
        similarities={(name, request.mes): similarities for name in document["books"]}
    )
    return activate({}, request, scores=scores)


@given(turns(), SIMILARITIES)
def test_same_input_same_bytes_and_nothing_is_changed(
    document: dict[str, Any], similarities: list[float]
) -> None:
    before = copy.deepcopy(document)
    first = run(document, similarities).to_json()
    assert document == before
    assert run(json.loads(json.dumps(document)), similarities).to_json() == first
    worlds = {name: compile_world(book, book_id=name) for name, book in document["books"].items()}
    stored = parse_model(ReplicaRequest, {**document, "books": {}})
    scores = RagScores(similarities={(name, stored.mes): similarities for name in worlds})
    assert activate(worlds, stored, scores=scores).to_json() == first


@given(turns(), SIMILARITIES)
def test_every_entry_ends_with_one_reason(
    document: dict[str, Any], similarities: list[float]
) -> None:
    response = run(document, similarities)
    entries = [e for book in document["books"].values() for e in book["entries"]]
    assert len(response.decisions) == sum(isinstance(each, dict) for each in entries)
    decided = sorted((d.book_id, d.uid, d.reason) for d in response.decisions if d.active)
    assert decided == sorted((e.book_id, e.uid, e.trigger_type) for e in response.entries)
    assert response.stats.total == len(response.entries)
    places = [(each.position, each.order) for each in response.entries]
    assert places == sorted(places)


@given(turns(), SIMILARITIES)
def test_no_two_share_a_label_and_all_have_what_they_require(
    document: dict[str, Any], similarities: list[float]
) -> None:
    response = run(document, similarities)
    labels = [label for each in response.entries for label in each.group or ()]
    assert len(labels) == len(set(labels))
    names = {(each.book_id, each.uid) for each in response.entries}
    for each in response.entries:
        assert all((each.book_id, uid) in names for uid in each.requires)
    uids = {uid for _, uid in names}
    assert all(lost.winner in uids for lost in response.suppressed)
    needed = {uid for each in response.entries for uid in each.requires}
    for each in response.entries:
        assert each.trigger_type != "dependency" or each.uid in needed


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "uid",
                "content",
                "position",
                "order",
                "group",
                "disable",
                "trigger_config",
                "probability",
                "depth",
                "role",
                "requires",
                "groupWeight",
                "constant",
                "activationType",
                "ragConfig",
                "logicExpression",
                "key",
            ]
        ),
        ODD,
    )
)
def test_normalising_twice_changes_nothing(raw: dict[str, Any]) -> None:
    once, _ = normalise(raw, uid="u")
    again, odd = normalise(once.members(), uid="v")
    assert again == once
    assert odd == []


@given(st.lists(WORDS, min_size=1, max_size=3), SENTENCES, st.lists(SENTENCES, max_size=3))
def test_a_key_is_found_as_a_search_of_each_text_finds_it(
    keys: list[str], mes: str, history: list[str]
) -> None:
    entry = {"uid": "a", "trigger_config": {"triggers": {"keyword": [True, {"key": keys}]}}}
    document = {
        "worldBookData": {"globalBooks": [{"id": "g"}]},
        "mes": mes,
        "chatHistory": history,
        "books": {"g": {"entries": [entry]}},
    }
    response = run(document, [])
    texts = [text.casefold() for text in (mes, *history)]
    found = [key for key in dict.fromkeys(keys) if any(key.casefold() in text for text in texts)]
    facts = response.decisions[0].facts
    assert list(facts.keys or ()) == found
    if found:
        text = mes if facts.message is None else history[facts.message]
        assert facts.span is not None
        assert text[slice(*facts.span)].casefold() in {key.casefold() for key in found}
