"""Hybrid recall is that of a slow form of its rules: ranks, ties, fusion, floor, limit, gate."""

from __future__ import annotations

import math
from itertools import cycle, islice
from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from lorewell import (
    BookCreate,
    CompiledBook,
    Entry,
    SelectRequest,
    SelectResponse,
    VectorScores,
    compile_book,
    select,
)
from lorewell.retrieval.bm25 import EntryTexts
from property.ranking_oracle import Candidate, Gates, holds, recall
from property.strategies import BOOK_ID, LOGICS, OTHER_BOOK_ID
from support import Document as Fields

TEXTS = st.sampled_from(
    ["灯塔", "灯塔 灯塔", "雾里的灯", "lamp oil", "oil oil lamp", "ปลา 🐟", "тень"]
)
QUERIES = st.sampled_from(["灯塔", "lamp 灯", "oil", "ปลา", "nothing", "тень lamp oil 灯塔"])
# Few values, so that many are equal; and two that differ in the last digit alone.
SIMILARITIES = st.sampled_from([math.nan, -0.5, 0.0, 0.25, 0.5, 0.1 + 0.2, 0.3, 0.9])


@st.composite
def small_entries(draw: st.DrawFn) -> Fields:
    """Draw what ranking may look at; every key is in lower case."""
    return {
        "content": draw(TEXTS),
        "title": draw(st.sampled_from(["", "", "灯", "Oil"])),
        "enabled": draw(st.sampled_from([True, True, True, False])),
        "recall": draw(st.sampled_from([True, True, True, False])),
        "selective": draw(st.booleans()),
        "secondary_keys": draw(st.sampled_from([[], ["夜"], ["夜", "oil"]])),
        "logic": draw(st.sampled_from(LOGICS)),
    }


@st.composite
def many_entries(draw: st.DrawFn) -> list[Fields]:
    """Draw a few kinds of entries, and many of each: a list ends after a hundred."""
    kinds = draw(st.lists(small_entries(), max_size=5))
    many = [kind for kind in kinds for _ in range(draw(st.sampled_from([1, 2, 5, 45, 120])))]
    return [{**kind, "id": f"{number * 7}"} for number, kind in enumerate(many)]


def book_of(entries: list[Fields], book_id: str = BOOK_ID) -> CompiledBook:
    book = BookCreate(name="B", entries=[Entry(**each) for each in entries])
    return compile_book(book, book_id=book_id)


def candidates_of(
    book: CompiledBook, similarities: list[float], *, usable: bool, strict: bool, window: str
) -> list[Candidate]:
    found = []
    for entry, near in zip(book.entries, similarities, strict=True):
        spec = entry.spec
        has_logic = spec.selective and bool(spec.secondary_keys)
        found.append(
            Candidate(
                full_id=entry.full_id,
                document=EntryTexts(spec.title, spec.keys, spec.content),
                similarity=near if usable and spec.recall and not math.isnan(near) else None,
                eligible=spec.enabled,
                gated=strict and has_logic and not holds(spec.logic, spec.secondary_keys, window),
            )
        )
    return found


def ask(books: list[CompiledBook], vectors: VectorScores, **asked: Any) -> SelectResponse:
    fields = {"books": [book.ref for book in books], "strategy": "hybrid", **asked}
    return select(books, SelectRequest.model_validate(fields), vectors=vectors)


@settings(max_examples=60)
@given(st.data(), st.lists(many_entries(), min_size=1, max_size=2), QUERIES)
def test_recall_is_that_of_the_rules_written_out(
    data: st.DataObject, drawn: list[list[Fields]], query: str
) -> None:
    books = [
        compile_book(
            BookCreate(name="B", entries=[Entry(**each) for each in entries]), book_id=name
        )
        for entries, name in zip(drawn, (BOOK_ID, OTHER_BOOK_ID), strict=False)
    ]
    gates = Gates(
        floor=data.draw(st.sampled_from([None, 0.3, 0.5])),
        limit=data.draw(st.sampled_from([None, 0, 1, 7, 100])),
    )
    strict, usable = data.draw(st.booleans()), data.draw(st.booleans())
    said = data.draw(st.sampled_from(["白天", "夜里"]))
    candidates, similarities = [], {}
    for book in books:
        length = book.entry_count
        pattern = data.draw(st.lists(SIMILARITIES, min_size=1, max_size=7))
        near = list(islice(cycle(pattern), length))
        similarities[book.book_id, 1] = np.array(near)
        window = f"{said}\n{query}"
        candidates += candidates_of(book, near, usable=usable, strict=strict, window=window)
    why = () if usable else ("embedding_unavailable",)
    answer = ask(
        books,
        VectorScores(similarities=similarities, degraded=why),
        query=query,
        history=[{"role": "user", "content": said}],
        recall_floor=gates.floor,
        recall_limit=gates.limit,
        recall_gate="strict" if strict else "loose",
    )
    lexical, vector, scores = recall(candidates, query, gates)
    decided = {d.id: d for d in answer.decisions}
    found = {name: d.hybrid_score for name, d in decided.items() if d.hybrid_score is not None}
    assert found == scores
    facts = {name: d.facts for name, d in decided.items()}
    by_words = {f.lexical_rank: name for name, f in facts.items() if f.lexical_rank}
    by_meaning = {f.vector_rank: name for name, f in facts.items() if f.vector_rank}
    assert by_words == dict(enumerate(lexical, 1))
    assert by_meaning == dict(enumerate(vector, 1))
    recalled = {name for name, f in facts.items() if f.recall in {"kept", "no_room"}}
    assert recalled == scores.keys()


@settings(max_examples=30)
@given(many_entries(), QUERIES, st.sampled_from(["rules", "hybrid"]))
def test_gates_left_alone_change_nothing(entries: list[Fields], query: str, strategy: str) -> None:
    plain = [{name: each[name] for name in each if name != "recall"} for each in entries]
    given_ = [{**each, "recall": True} for each in plain]
    books = [
        compile_book(
            BookCreate(name="B", entries=[Entry(**each) for each in some]), book_id=BOOK_ID
        )
        for some in (plain, given_)
    ]
    asked = {"query": query, "strategy": strategy}
    usual = {"recall_floor": None, "recall_limit": None, "recall_gate": "loose"}
    near = {(BOOK_ID, 1): np.linspace(1, -1, len(entries))}
    vectors = VectorScores(similarities=near, embedding_version="灯/1")
    first, second = ask(books[:1], vectors, **asked), ask(books[1:], vectors, **asked, **usual)
    assert first.to_json() == second.to_json()
