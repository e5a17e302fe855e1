"""Ranking: the check values of docs/rules/native.md §9.1, fusion, and what recall makes of both."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lorewell import BookCreate, Entry, SelectRequest, VectorScores, compile_book, select
from lorewell.retrieval.bm25 import EntryTexts, Ranking, build_index
from lorewell.retrieval.chunks import chunks_of
from lorewell.retrieval.fusion import fuse
from lorewell.retrieval.text import tokens

SPEC_CASES = json.loads(
    (Path(__file__).parents[1] / "golden" / "spec14.json").read_text(encoding="utf-8")
)


def _book_of(section: str) -> tuple[BookCreate, str, int]:
    stored = next(c for c in SPEC_CASES if c["id"].startswith(f"spec{section}-"))["books"][0]
    return BookCreate.model_validate(stored["book"]), stored["book_id"], stored["revision"]


@pytest.mark.parametrize(
    ("section", "query", "expected"),
    [
        (
            "14.1",
            "lamp oil toll",
            {
                "toll-keeper": 2.586672,
                "tide-law": 2.423036,
                "broken-lamp": 1.681069,
                "ferry-bell": 1.131669,
                "night-market": 0.798508,
                "storm-rule": 0.776664,
            },
        ),
        ("14.2", "灯塔", {"tower": 7.332861, "whistle": 3.578608}),
    ],
)
def test_scores_equal_the_check_values(
    section: str, query: str, expected: dict[str, float]
) -> None:
    book, book_id, revision = _book_of(section)
    compiled = compile_book(book, book_id=book_id, revision=revision)
    ranking = Ranking([compiled.lexical()], query)
    found = ranking.best_first(lambda _, place: str(place))
    scores = {compiled.entries[place].spec.id: ranking.score(0, place) for _, place in found}
    assert scores == pytest.approx(expected, abs=1e-6)


def test_fused_scores_of_the_eligible_equal_the_check_values() -> None:
    book, book_id, revision = _book_of("14.1")
    compiled = compile_book(book, book_id=book_id, revision=revision)
    request = SelectRequest(
        books=[compiled.ref],
        query="lamp oil toll",
        strategy="hybrid",
        state={"weather": {"storm": True}},
        template_vars={"user": "Ash"},
    )
    answer = select([compiled], request)
    scores = {d.entry_id: d.hybrid_score for d in answer.decisions if d.hybrid_score is not None}
    ranked = ["toll-keeper", "tide-law", "ferry-bell", "night-market", "storm-rule"]
    assert scores == {name: 1 / (61 + place) for place, name in enumerate(ranked)}
    assert answer.degraded == ("vector_disabled",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("灯塔大门", ["灯", "塔", "大", "门", "灯塔", "塔大", "大门"]),
        ("The LAMP_oil", ["the", "lamp", "oil"]),
        ("ＬＡＭＰ ﬁn", ["lamp", "fin"]),
        ("灯塔lamp3", ["灯", "塔", "灯塔", "lamp3"]),
        ("등대", ["등", "대", "등대"]),
        ("カード", ["カ", "ー", "ド", "カー", "ード"]),
        ("маяк, горит", ["маяк", "горит"]),
        ("ประภาคาร", ["ประภาคาร"]),
        ("q\u0307x \u0301 y", ["q\u0307x", "y"]),
        ("q\u0307 q\u0307q-q\u0307", ["q\u0307", "q\u0307q", "q\u0307"]),
        ("⚓👩‍🚀 ...", []),
    ],
)
def test_words_of_every_script(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


def test_many_alike_in_one_book_rank_after_what_the_other_book_has_alone() -> None:
    alike = [EntryTexts("", [], "ปลา lamp")] * 20
    ranking = Ranking(
        [build_index(alike), build_index([*alike, EntryTexts("", [], "雾 雾")])], "ปลา 雾"
    )
    found = list(ranking.best_first(lambda number, place: f"{number}{place:02}"))
    assert found == [(1, 20), *((number, place) for number in (0, 1) for place in range(20))]


def test_fusion_keeps_thirty_of_the_best_hundred() -> None:
    names = [f"{number:03}" for number in range(200)]
    assert list(fuse([names])) == names[:30]
    # The 101st of the second list adds nothing to what the first list gives it.
    assert fuse([["100"], names])["100"] == 1 / 61


def test_vectors_of_the_caller_are_fused_and_nothing_is_degraded() -> None:
    entries = [Entry(id=name, content=f"about {name}") for name in ("lamp", "whale", "tide")]
    book = compile_book(BookCreate(name="B", entries=entries))
    request = SelectRequest(books=[book.ref], query="lamp", strategy="hybrid")
    near = {"1:whale": 0.9, "1:lamp": -0.5, "9:tide": 1.0}
    ids = {f"{book.book_id}:{name}": similarity for name, similarity in near.items()}
    vectors = VectorScores.of(ids, [book], embedding_version="tiny/1")
    answer = select([book], request, vectors=vectors)
    scores = {d.entry_id: d.hybrid_score for d in answer.decisions}
    assert scores == {"lamp": 1 / 61 + 1 / 62, "whale": 1 / 61, "tide": None}
    assert answer.degraded == ()
    alone = select([book], request)
    assert alone.selection_fingerprint != answer.selection_fingerprint


def test_vectors_that_are_not_ready_leave_words_alone() -> None:
    book = compile_book(BookCreate(name="B", entries=[Entry(id="whale", content="whale")]))
    request = SelectRequest(books=[book.ref], query="lamp", strategy="hybrid")
    why = (f"index_not_ready:{book.book_id}:1", "embedding_unavailable")
    similarities = {(book.book_id, 1): np.array([1.0])}
    vectors = VectorScores(similarities=similarities, degraded=why)
    answer = select([book], request, vectors=vectors)
    assert answer.blocks == ()
    assert answer.degraded == tuple(sorted(why))


def test_at_most_thirty_of_two_hundred_are_recalled() -> None:
    entries = [Entry(id=f"e{number}", content="a lamp") for number in range(200)]
    book = compile_book(BookCreate(name="B", entries=entries))
    request = SelectRequest(
        books=[book.ref], query="lamp", strategy="hybrid", token_budget=32000, max_entries=200
    )
    answer = select([book], request)
    assert sum(block.reason == "hybrid" for block in answer.blocks) == 30


def test_a_title_outranks_equal_content() -> None:
    entries = [
        Entry(id="a", title="plain", content="the lighthouse"),
        Entry(id="b", title="lighthouse", content="the plain"),
    ]
    book = compile_book(BookCreate(name="B", entries=entries))
    request = SelectRequest(books=[book.ref], query="lighthouse", strategy="hybrid", max_entries=1)
    assert [block.entry_id for block in select([book], request).blocks] == ["b"]


def test_secondary_logic_does_not_bind_recalled_entries() -> None:
    entry = Entry(
        id="a", content="the lamp", keys=["lamp"], selective=True, secondary_keys=["whale"]
    )
    book = compile_book(BookCreate(name="B", entries=[entry]))
    request = SelectRequest(books=[book.ref], query="lamp", strategy="hybrid")
    assert [block.reason for block in select([book], request).blocks] == ["hybrid"]


@pytest.mark.parametrize(
    ("chars", "spans"),
    [
        (0, []),
        (1, [(0, 1)]),
        (1_000, [(0, 1_000)]),
        (1_001, [(0, 1_001), (1_000, 1_001)]),
        (2_100, [(0, 1_200), (1_000, 2_100), (2_000, 2_100)]),
    ],
)
def test_texts_that_are_embedded_overlap(chars: int, spans: list[tuple[int, int]]) -> None:
    content = "".join("灯塔 ok🏮"[place % 6] for place in range(chars))
    pieces = [(start, content[start:end]) for start, end in spans]
    assert list(chunks_of("", content)) == pieces
    assert list(chunks_of("灯塔", content)) == [(at, f"灯塔\n{text}") for at, text in pieces]
