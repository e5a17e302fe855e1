"""`recall_floor: "auto"`: quiet when nothing is needed, and bounded when something is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from lorewell import (
    BookCreate,
    Entry,
    SelectRequest,
    SelectResponse,
    VectorScores,
    compile_book,
    select,
)
from lorewell.engine.native.compiled import CompiledBook
from lorewell.errors import ValidationFailedError
from lorewell.retrieval.evidence import QuietScale

SECOND = "22222222-2222-4222-8222-222222222222"
AUTO = {"strategy": "hybrid", "recall_floor": "auto", "token_budget": 32_000, "max_entries": 200}
TOPICS = {
    "tide": "The tide law closes the harbour basin three days after the autumn equinox.",
    "salt": "Salt permits expire each fifth day; a third of the stamps are forged.",
    "heron": "The stone heron stands on one leg above the drowned sluice.",
    "灯塔": "哑女守着灯塔，每逢初七熄灯，用鲸油换回失踪船工的名册。",
    "盐引": "盐引一张准运二百斤，过期作废，城里流通的三成是伪造的。",
}


def book_of(texts: Mapping[str, str], book_id: str | None = None, **fields: Any) -> CompiledBook:
    entries = [Entry(id=name, content=text, **fields) for name, text in texts.items()]
    return compile_book(BookCreate(name="雾隐渡", entries=entries), book_id=book_id)


BOOK = book_of(TOPICS)


def ask(book: CompiledBook, query: str, vectors: VectorScores | None = None, **asked: Any) -> Any:
    request = SelectRequest.model_validate({"books": [book.ref], "query": query, **AUTO, **asked})
    if vectors is None:
        return select([book], request)
    return select([book], request, vectors=vectors)


def near(book: CompiledBook, similarities: Mapping[str, float], **scales: Any) -> VectorScores:
    given = scales or {language: QuietScale(0.2, 0.1) for language in ("en", "zh")}
    named = {f"{book.book_id}:1:{name}": value for name, value in similarities.items()}
    name = (book.book_id, 1)
    return VectorScores.of(named, [book], embedding_version="tiny/1", scales={name: given})


def names(answer: SelectResponse) -> list[str]:
    found = [d for d in answer.decisions if d.hybrid_score is not None]
    return [d.entry_id for d in sorted(found, key=lambda d: (-(d.hybrid_score or 0), d.id))]


@pytest.mark.parametrize(
    "query",
    [
        "Good morning! Did you sleep well?",
        "(OOC: please write shorter replies)",
        "She nods and follows him through the door.",
        "早上好，睡得怎么样？",
        "她点点头，跟着他走了出去。",
        "Доброе утро!",
    ],
)
def test_turns_that_need_nothing_get_nothing_by_words_alone(query: str) -> None:
    answer = ask(BOOK, query)
    assert names(answer) == []
    assert answer.degraded == ("vector_disabled",)
    assert names(ask(BOOK, query, recall_floor="off", recall_limit=30)) == names(
        ask(BOOK, query, recall_floor=None)
    )


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("Why is the harbour basin closed after the equinox?", "tide"),
        ("Are those forged salt permits?", "salt"),
        ("初七熄灯的那个哑女用鲸油换什么？", "灯塔"),
    ],
)
def test_turns_that_need_lore_get_it_by_words_alone(query: str, wanted: str) -> None:
    answer = ask(BOOK, query)
    assert names(answer) == [wanted]
    facts = next(d.facts for d in answer.decisions if d.entry_id == wanted)
    assert facts.evidence is not None
    assert facts.evidence >= 0.5
    assert facts.words_above is not None
    assert facts.similarity_above is None
    assert facts.recall == "kept"


def test_similarities_are_compared_with_what_quiet_texts_reach() -> None:
    found = near(BOOK, {"tide": 0.25, "salt": 0.9, "heron": 0.3, "灯塔": 0.9, "盐引": 0.35})
    answer = ask(BOOK, "Someone counterfeits the papers of merchants", found)
    assert names(answer) == ["灯塔", "salt"]  # missing words count against one of them
    facts = {d.entry_id: d.facts for d in answer.decisions}
    assert facts["salt"].similarity_above == 7.0
    assert facts["tide"].recall == "below_floor"
    assert facts["tide"].evidence is not None
    assert facts["tide"].evidence < 0.5
    quieter = near(
        BOOK, {"salt": 0.9, "灯塔": 0.9}, en=QuietScale(0.8, 0.1), zh=QuietScale(0.0, 0.1)
    )
    assert names(ask(BOOK, "Someone counterfeits the papers of merchants", quieter)) == []


def test_the_answer_shows_the_numbers_and_they_give_it_again() -> None:
    first = ask(BOOK, "Are those forged salt permits?", near(BOOK, {"salt": 0.6, "tide": 0.3}))
    shown = json.loads(first.to_json())["recall_bounds"]
    assert (shown["floor"], shown["limit"], shown["tokens"]) == (0.5, 8, 16_000)
    assert shown["books"][0]["book_id"] == BOOK.book_id
    assert shown["books"][0]["vectors"] == {"mean": 0.2, "deviation": 0.1}
    assert first.policy_version == "lorewell-select/2"
    other = near(BOOK, {"salt": 0.6, "tide": 0.3}, en=QuietScale(0.9, 0.01))
    again = ask(BOOK, "Are those forged salt permits?", other, recall_bounds=shown)
    assert again.to_json() == first.to_json()
    measured = ask(BOOK, "Are those forged salt permits?", other)
    assert measured.selection_fingerprint != first.selection_fingerprint


def test_bounds_of_other_books_are_refused() -> None:
    shown = json.loads(ask(BOOK, "x").to_json())["recall_bounds"]
    shown["books"][0]["book_id"] = SECOND
    with pytest.raises(ValidationFailedError, match="must be the requested books"):
        ask(BOOK, "x", recall_bounds=shown)


@pytest.mark.parametrize("floor", [None, 0.2, "off"])
def test_without_auto_nothing_changes_and_bounds_are_ignored(floor: Any) -> None:
    shown = json.loads(ask(BOOK, "salt").to_json())["recall_bounds"]
    plain = ask(BOOK, "salt permits", recall_floor=floor)
    assert plain.policy_version == "lorewell-select/1"
    assert b"recall_bounds" not in plain.to_json()
    assert ask(BOOK, "salt permits", recall_floor=floor, recall_bounds=shown) == plain
    facts = next(d.facts for d in plain.decisions if d.entry_id == "salt")
    assert (facts.evidence, facts.words_above) == (None, None)


def test_off_is_what_null_is_and_rules_know_no_auto() -> None:
    assert ask(BOOK, "salt", recall_floor="off") == ask(BOOK, "salt", recall_floor=None)
    rules = {"strategy": "rules", "recall_floor": None}
    assert ask(BOOK, "salt", strategy="rules") == ask(BOOK, "salt", **rules)


def test_limit_and_tokens_bound_what_is_recalled() -> None:
    book = book_of({f"e{n:02}": f"obsidian ferryman {n} " + 20 * "ash " for n in range(20)})
    noise = book_of({f"n{n:02}": f"plain words number {n}" for n in range(60)}, SECOND)
    request = {"books": [book.ref, noise.ref], "query": "The obsidian ferryman?", **AUTO}

    def count(**asked: Any) -> int:
        answer = select([book, noise], SelectRequest.model_validate({**request, **asked}))
        return len(names(answer))

    assert count() == 8
    assert count(recall_limit=20) == 20
    assert count(recall_limit=0) == 0
    cost = next(
        d.cost for d in select([book], SelectRequest(books=[book.ref], query="?")).decisions
    )
    assert cost is not None
    assert count(recall_tokens=3 * cost) == 3
    assert count(recall_tokens=0) == 0
    assert count(token_budget=6 * cost) == 3  # half of the budget
    assert count(recall_floor="off", recall_tokens=2 * cost) == 2


def test_an_entry_that_is_too_long_is_passed_over() -> None:
    long_text = "obsidian ferryman " * 40
    book = book_of({"long": long_text, "short": "obsidian ferryman"})
    noise = book_of({f"n{n:02}": f"plain words number {n}" for n in range(60)}, SECOND)
    asked = {"query": "The obsidian ferryman?", **AUTO, "recall_tokens": 120}
    request = SelectRequest.model_validate({"books": [book.ref, noise.ref], **asked})
    answer = select([book, noise], request)
    assert names(answer) == ["short"]
    long = next(d for d in answer.decisions if d.entry_id == "long")
    assert (long.reason, long.facts.recall) == ("not_triggered", "outranked")


def test_an_index_that_was_not_measured_is_told_and_words_rank() -> None:
    scores = VectorScores.of({f"{BOOK.book_id}:1:tide": 0.99}, [BOOK], embedding_version="tiny/1")
    answer = ask(BOOK, "Are those forged salt permits?", scores)
    assert names(answer) == ["salt"]
    assert answer.degraded == (f"index_not_measured:{BOOK.book_id}:1",)
    assert ask(BOOK, "salt", scores, recall_floor="off").degraded == ()


def test_an_entry_out_of_recall_is_judged_by_its_words() -> None:
    book = book_of(TOPICS, recall=False)
    found = near(book, dict.fromkeys(TOPICS, 0.99))
    assert names(ask(book, "Are those forged salt permits?", found)) == ["salt"]
