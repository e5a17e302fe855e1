"""What the ledger says of an entry that came up for recall."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from lorewell import BookCreate, Entry, SelectRequest, SelectResponse, VectorScores, select
from lorewell.cli.selection_tables import selection_tables
from lorewell.engine.native.compile import compile_book
from lorewell.engine.native.compiled import CompiledBook

ROOMY = {"strategy": "hybrid", "token_budget": 32_000, "max_entries": 200}


def book_of(*entries: Entry) -> CompiledBook:
    return compile_book(BookCreate(name="เมืองท่า", entries=entries))


def lore(entry_id: str, **fields: Any) -> Entry:
    return Entry(id=entry_id, **{"content": f"灯塔 {entry_id}", **fields})


def ask(
    book: CompiledBook, query: str, near: Mapping[str, float] | None = None, **asked: Any
) -> SelectResponse:
    request = SelectRequest.model_validate({"books": [book.ref], "query": query, **ROOMY, **asked})
    if near is None:
        return select([book], request)
    full_ids = {f"{book.book_id}:1:{name}": similarity for name, similarity in near.items()}
    return select([book], request, vectors=VectorScores.of(full_ids, [book]))


def facts(answer: SelectResponse) -> dict[str, tuple[Any, ...]]:
    """Return ranks, similarity and outcome of those entries that came up."""
    found = {d.entry_id: d.facts for d in answer.decisions if d.facts.recall is not None}
    return {
        name: (each.lexical_rank, each.vector_rank, each.similarity, each.recall)
        for name, each in found.items()
    }


def outcomes(answer: SelectResponse) -> dict[str, str]:
    return {name: figures[3] for name, figures in facts(answer).items()}


def test_ranks_are_those_among_the_eligible_and_similarity_is_rounded() -> None:
    book = book_of(lore("off", enabled=False), lore("a"), lore("b"), Entry(id="鲸", content="x"))
    near = {"off": 1.0, "b": 0.12345678, "鲸": -1e-9}
    assert facts(ask(book, "灯塔", near)) == {
        "a": (1, None, None, "kept"),
        "b": (2, 1, 0.123457, "kept"),
        "鲸": (None, 2, 0.0, "kept"),
    }
    assert str(facts(ask(book, "灯塔", near))["鲸"][2]) == "0.0"


def test_facts_in_json_leave_out_what_does_not_apply() -> None:
    book = book_of(lore("a"))
    text = ask(book, "灯塔").to_json().decode()
    assert '"lexical_rank":1,"recall":"kept"}' in text
    assert "vector_rank" not in text
    assert '"recall"' not in ask(book, "灯塔", strategy="rules").to_json().decode()


def test_what_a_key_or_a_flag_brings_in_is_keyed() -> None:
    book = book_of(
        lore("r", required=True), lore("c", constant=True), lore("k", keys=["灯"]), lore("h")
    )
    assert outcomes(ask(book, "灯塔")) == {"r": "keyed", "c": "keyed", "k": "keyed", "h": "kept"}


def test_recalled_entries_that_stay_out_say_what_they_lost_by() -> None:
    book = book_of(
        lore("a", conflict_key="k", priority=2),
        lore("b", conflict_key="k", priority=1),
        lore("c", requires=["off"]),
        lore("off", enabled=False),
        lore("z", priority=-1),
    )
    answer = ask(book, "灯塔", max_entries=1)
    assert outcomes(answer) == {
        "a": "kept",
        "b": "lost_conflict",
        "c": "dependency_unavailable",
        "z": "no_room",
    }
    assert {d.entry_id: d.reason for d in answer.decisions} == {
        "a": "hybrid",
        "b": "conflict",
        "c": "dependency_unavailable",
        "off": "disabled",
        "z": "max_entries",
    }
    assert outcomes(ask(book, "灯塔", token_budget=0))["z"] == "no_room"


def test_entry_that_comes_with_a_package_is_kept() -> None:
    root, large = lore("root", requires=["z"], priority=1), lore("z", priority=-1)
    answer = ask(book_of(root, large), "灯塔")
    assert outcomes(answer) == {"root": "kept", "z": "kept"}


def test_those_not_recalled_say_why_and_have_no_score() -> None:
    logic = {"selective": True, "secondary_keys": ["夜"]}
    book = book_of(lore("a"), lore("b"), lore("g", **logic), lore("low"), lore("z"))
    near = {"a": 0.9, "b": 0.8, "g": 0.95, "low": 0.1, "z": 0.5}
    answer = ask(book, "灯塔", near, recall_floor=0.3, recall_limit=2, recall_gate="strict")
    assert facts(answer) == {
        "a": (1, 2, 0.9, "kept"),
        "b": (2, 3, 0.8, "kept"),
        "g": (3, 1, 0.95, "gated"),
        "low": (None, None, 0.1, "below_floor"),
        "z": (4, 4, 0.5, "outranked"),
    }
    by_id = {d.entry_id: d for d in answer.decisions}
    assert by_id["g"].detail == "secondary and_any: none was found"
    assert [by_id[name].hybrid_score for name in ("g", "low", "z")] == [None] * 3
    assert {by_id[name].reason for name in ("g", "low", "z")} == {"not_triggered"}


def test_outranked_entry_that_a_key_brings_in_stays_outranked() -> None:
    book = book_of(lore("a", title="灯塔"), lore("k", keys=["灯"]))
    answer = ask(book, "灯塔", recall_limit=1)
    assert outcomes(answer) == {"a": "kept", "k": "outranked"}
    assert answer.decisions[1].reason == "keyword"


@pytest.mark.parametrize("floor", [None, 0.5])
def test_only_entries_that_came_up_for_a_list_have_facts(floor: float | None) -> None:
    names = [f"e{number:04}" for number in range(400)]
    near = {name: number / 400 for number, name in enumerate(names)}
    found = outcomes(ask(book_of(*map(lore, names)), "灯塔", near, recall_floor=floor))
    assert len(found) == (200 if floor is None else 300)
    assert list(found.values()).count("kept") == 30


def test_those_far_below_the_floor_have_no_facts() -> None:
    names = [f"e{number:03}" for number in range(150)]
    near = {name: 1 - number / 150 for number, name in enumerate(names)}
    found = outcomes(ask(book_of(*map(lore, names)), "?", near, recall_floor=0.99))
    assert found == {"e000": "kept", "e001": "kept"} | dict.fromkeys(names[2:100], "below_floor")


def test_recursion_forgets_nothing_of_recall() -> None:
    waker = lore("w", content="a bell", keys=["灯"], prevent_recursion=False)
    woken = lore("x", keys=["bell"], exclude_recursion=False)
    answer = ask(book_of(waker, woken, lore("a")), "灯塔", recall_limit=1)
    assert answer.decisions[1].reason == "recursion"
    assert outcomes(answer) == {"a": "kept", "w": "outranked", "x": "outranked"}


def test_tables_tell_ranks_and_similarity() -> None:
    book = book_of(lore("tower"), lore("low"))
    request = SelectRequest.model_validate(
        {"books": [book.ref], "query": "灯塔", "recall_floor": 0.5, **ROOMY}
    )
    near = {book.entries[0].full_id: 0.8, book.entries[1].full_id: 0.2}
    answer = select([book], request, vectors=VectorScores.of(near, [book]))
    console = Console(width=200, record=True, file=StringIO())
    for part in selection_tables([book], request, answer):
        console.print(part)
    shown = console.export_text()
    assert "hybrid: score 0.0328, 1 by words, 1 by meaning, similarity 0.800" in shown
    assert "low: below the floor, similarity 0.200" in shown
