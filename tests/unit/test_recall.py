"""What authors and callers may ask of hybrid recall: similarities, floor, limit, gate."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from lorewell import (
    BookCreate,
    Decision,
    Entry,
    SelectRequest,
    SelectResponse,
    VectorScores,
    compile_book,
    select,
)
from lorewell.engine.native.compiled import CompiledBook
from lorewell.errors import ValidationFailedError

SECOND = "22222222-2222-4222-8222-222222222222"
ROOMY = {"strategy": "hybrid", "token_budget": 32_000, "max_entries": 200}


def book_of(*entries: Entry, book_id: str | None = None) -> CompiledBook:
    return compile_book(BookCreate(name="雾隐渡", entries=entries), book_id=book_id)


def plain(*names: str, **fields: Any) -> list[Entry]:
    return [Entry(id=name, content=f"灯塔, {name}.", **fields) for name in names]


def ask(
    book: CompiledBook, query: str, near: Mapping[str, float] | None = None, **asked: Any
) -> SelectResponse:
    request = SelectRequest.model_validate({"books": [book.ref], "query": query, **ROOMY, **asked})
    if near is None:
        return select([book], request)
    full_ids = {f"{book.book_id}:1:{name}": similarity for name, similarity in near.items()}
    return select([book], request, vectors=VectorScores.of(full_ids, [book]))


def recalled(answer: SelectResponse) -> list[str]:
    """Return the entries that recall brought in, best first."""
    found = [d for d in answer.decisions if d.hybrid_score is not None]
    return [d.entry_id for d in sorted(found, key=lambda d: (-(d.hybrid_score or 0), d.id))]


def decided(answer: SelectResponse, entry_id: str) -> Decision:
    return next(d for d in answer.decisions if d.entry_id == entry_id)


def test_nearest_entries_come_first_and_equal_ones_by_full_id() -> None:
    book = book_of(*plain("é", "b", "a", "灯"))
    answer = ask(book, "?", {"é": 0.5, "b": 0.5, "a": -0.5, "灯": 0.9})
    assert recalled(answer) == ["灯", "b", "é", "a"]


def test_entries_without_a_similarity_do_not_rank_by_vector() -> None:
    first, second = book_of(*plain("a", "b")), book_of(*plain("c"), book_id=SECOND)
    request = SelectRequest.model_validate(
        {"books": [first.ref, second.ref], "query": "?", **ROOMY}
    )
    vectors = VectorScores(similarities={(first.book_id, 1): np.array([np.nan, 0.1])})
    answer = select([first, second], request, vectors=vectors)
    assert [block.entry_id for block in answer.blocks] == ["b"]


def test_only_eligible_entries_take_places_and_the_list_ends_at_a_hundred() -> None:
    names = [f"e{number:03}" for number in range(130)]
    entries = [
        Entry(id=name, content="x", enabled=number >= 10) for number, name in enumerate(names)
    ]
    near = {name: 1 - number / 200 for number, name in enumerate(names)}
    answer = ask(book_of(*entries), "?", near, recall_limit=100)
    assert recalled(answer) == names[10:110]


@pytest.mark.parametrize("given", [np.zeros(1), np.zeros(3), np.zeros((2, 1)), np.array(0.5)])
def test_similarities_of_another_book_are_refused(given: Any) -> None:
    book = book_of(*plain("a", "b"))
    request = SelectRequest.model_validate({"books": [book.ref], "query": "?", **ROOMY})
    vectors = VectorScores(similarities={(book.book_id, 1): given})
    with pytest.raises(ValidationFailedError, match=book.book_id) as caught:
        select([book], request, vectors=vectors)
    assert caught.value.details == {"book_id": book.book_id, "revision": 1}
    assert select([book], request.model_copy(update={"strategy": "rules"}), vectors=vectors)


def test_floor_keeps_out_what_shares_words_alone() -> None:
    book = book_of(*plain("near", "far", "bare"))
    near = {"near": 0.4, "far": 0.39}
    assert recalled(ask(book, "灯塔", near)) == ["near", "far", "bare"]
    assert recalled(ask(book, "灯塔", near, recall_floor=0.4)) == ["near", "bare"]
    assert recalled(ask(book, "灯塔", near, recall_floor=-1)) == ["near", "far", "bare"]


def test_floor_is_not_applied_when_vectors_cannot_be_used() -> None:
    answer = ask(book_of(*plain("a")), "灯塔", None, recall_floor=1)
    assert recalled(answer) == ["a"]
    assert answer.degraded == ("vector_disabled",)


def test_floor_frees_places_in_the_list_for_others() -> None:
    low, high = ([f"{kind}{n:03}" for n in range(120)] for kind in ("a", "b"))
    near = dict.fromkeys(low, 0.1) | dict.fromkeys(high, 0.9)
    answer = ask(book_of(*plain(*low, *high)), "灯塔", near, recall_floor=0.5)
    assert recalled(answer) == high[:30]


@pytest.mark.parametrize(("limit", "count"), [(None, 30), (0, 0), (1, 1), (100, 100)])
def test_limit_says_how_many_are_recalled(limit: int | None, count: int) -> None:
    names = [f"e{number:03}" for number in range(150)]
    assert recalled(ask(book_of(*plain(*names)), "灯塔", recall_limit=limit)) == names[:count]


@pytest.mark.parametrize(
    ("logic", "secondary", "said", "passes"),
    [
        ("and_any", ["雾", "夜"], "夜里", True),
        ("and_any", ["雾", "夜"], "白天", False),
        ("and_all", ["雾", "夜"], "夜里", False),
        ("and_all", ["雾", "/夜.?/u"], "雾夜", True),
        ("not_any", ["雾", "/夜.?/u"], "白天", True),
        ("not_any", ["雾", "/夜.?/u"], "夜里", False),
        ("not_all", ["雾", "夜"], "夜里", True),
        ("and_any", ["/(/"], "夜里", False),
        ("not_any", ["/(/"], "夜里", False),
    ],
)
def test_strict_gate_asks_for_secondary_logic_but_for_no_primary_key(
    logic: str, secondary: list[str], said: str, *, passes: bool
) -> None:
    for keys in ([], ["nothing"], ["/no.hing/"]):
        fields = {"keys": keys, "secondary_keys": secondary, "selective": True, "logic": logic}
        book = book_of(*plain("gated", **fields), *plain("free"))
        asked = {"history": [{"role": "user", "content": said}], "recall_gate": "strict"}
        answer = ask(book, "灯塔", **asked)
        assert recalled(answer) == (["free", "gated"] if passes else ["free"])
        assert recalled(ask(book, "灯塔", **{**asked, "recall_gate": "loose"})) == ["free", "gated"]
        found = decided(answer, "gated")
        assert found.reason == ("hybrid" if passes else "not_triggered")
        assert (found.detail is None) == passes


def test_strict_gate_looks_no_deeper_than_the_entry_scans() -> None:
    fields = {"secondary_keys": ["夜", "/夜/"], "selective": True, "keys": ["/x/"]}
    asked = {"history": [{"role": "user", "content": "夜"}], "recall_gate": "strict"}
    for depth, logic, names in [
        (2, "and_any", ["a"]),
        (1, "and_any", []),
        (0, "and_any", []),
        (0, "not_any", ["a"]),
    ]:
        book = book_of(*plain("a", scan_depth=depth, logic=logic, **fields))
        assert recalled(ask(book, "灯塔", **asked)) == names


def test_gate_leaves_entries_alone_whose_logic_is_off() -> None:
    book = book_of(*plain("a", secondary_keys=["夜"]), *plain("b", selective=True))
    assert recalled(ask(book, "灯塔", recall_gate="strict")) == ["a", "b"]


def test_gated_entries_free_their_place() -> None:
    gated = plain("a", "c", selective=True, secondary_keys=["夜"])
    book = book_of(*gated, *plain("b", "d", "e"))
    answer = ask(book, "灯塔", recall_gate="strict", recall_limit=2)
    assert recalled(answer) == ["b", "d"]


def test_gate_binds_neither_keys_nor_flags() -> None:
    logic = {"selective": True, "secondary_keys": ["夜"]}
    book = book_of(
        *plain("constant", constant=True, **logic), *plain("woken", keys=["灯"], **logic)
    )
    answer = ask(book, "灯塔 夜", recall_gate="strict", recall_limit=0)
    assert {d.entry_id: d.reason for d in answer.decisions} == {
        "constant": "constant",
        "woken": "keyword",
    }


def test_entry_without_recall_has_no_vector_but_words() -> None:
    book = book_of(*plain("on"), *plain("off", recall=False))
    near = {"on": 0.2, "off": 0.9}
    assert recalled(ask(book, "?", near)) == ["on"]
    assert recalled(ask(book, "灯塔", near)) == ["on", "off"]
    assert recalled(ask(book, "灯塔", {"on": 0.9, "off": 0.1}, recall_floor=0.5)) == ["on", "off"]


@pytest.mark.parametrize(
    "gates", [{"recall_floor": 0.5}, {"recall_limit": 30}, {"recall_gate": "strict"}]
)
@pytest.mark.parametrize("strategy", ["rules", "hybrid"])
def test_gates_are_part_of_the_fingerprint_once_they_are_set(
    strategy: str, gates: dict[str, object]
) -> None:
    book = book_of(*plain("a"))
    usual = {"recall_floor": None, "recall_limit": None, "recall_gate": "loose"}
    bare = ask(book, "灯塔", strategy=strategy)
    assert ask(book, "灯塔", strategy=strategy, **usual) == bare
    answer = ask(book, "灯塔", strategy=strategy, **gates)
    assert answer.blocks == bare.blocks
    assert answer.selection_fingerprint != bare.selection_fingerprint


@pytest.mark.parametrize(
    "wrong",
    [
        {"recall_floor": 1.1},
        {"recall_floor": "0.5"},
        {"recall_limit": 101},
        {"recall_limit": 1.0},
        {"recall_gate": None},
        {"recall_gate": "tight"},
    ],
)
def test_gates_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SelectRequest.model_validate({"books": [{"book_id": SECOND}], "query": "q", **wrong})


def test_fingerprint_with_gates_left_alone_is_that_of_the_first_contract() -> None:
    """The members that docs/rules/native.md §8.10 lists, and no other."""
    book = book_of(*plain("灯"))
    answer = ask(book, "灯塔", {"灯": 0.5}, seed="种子")
    document = {
        "policy_version": answer.policy_version,
        "tokenizer": answer.tokenizer,
        "snapshot": [asdict(item) for item in answer.snapshot],
        "query": "灯塔",
        "history": [],
        "state": {},
        "audience": "actor",
        "strategy": "hybrid",
        "scan_depth": 4,
        "token_budget": 32_000,
        "constant_budget_ratio": 0.35,
        "max_entries": 200,
        "max_recursion_rounds": 2,
        "seed": "种子",
        "template_vars": {},
        "placement_capabilities": None,
        "embedding_version": None,
        "degraded": [],
        "selected": [[block.id, block.reason] for block in answer.blocks],
        "prompt_hash": answer.prompt_hash,
    }
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert answer.selection_fingerprint == hashlib.sha256(text.encode()).hexdigest()
