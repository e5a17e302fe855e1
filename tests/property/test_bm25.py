"""Ranking by words agrees with a slow sum over words, tie by tie."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from lorewell.retrieval.bm25 import EntryTexts, Ranking, build_index
from property.ranking_oracle import scores_of
from property.strategies import SENTENCES, WORDS

WORDY = st.one_of(SENTENCES, st.lists(WORDS, max_size=6).map(" ".join))
DOCUMENTS = st.builds(EntryTexts, WORDY, st.lists(WORDS, max_size=3), WORDY)
BOOKS = st.lists(st.lists(DOCUMENTS, max_size=8), max_size=3)


@st.composite
def crowds(draw: st.DrawFn) -> list[list[EntryTexts]]:
    """Draw books in which many entries are alike, more than a first look takes."""
    kinds = draw(st.lists(DOCUMENTS, min_size=1, max_size=4))
    numbers = st.sampled_from([0, 1, 9, 200, 300])
    return [
        [kind for kind in kinds for _ in range(draw(numbers))]
        for _ in range(draw(st.integers(1, 2)))
    ]


def ranked(books: list[list[EntryTexts]], query: str) -> list[tuple[int, int, float]]:
    ranking = Ranking([build_index(documents) for documents in books], query)
    found = ranking.best_first(lambda number, place: f"{number} {place:03}")
    return [(*at, ranking.score(*at)) for at in found]


def slowly(books: list[list[EntryTexts]], query: str) -> list[tuple[int, int, float]]:
    names = [(number, place) for number, book in enumerate(books) for place in range(len(book))]
    scores = scores_of([document for book in books for document in book], query)
    return [
        (*names[place], score)
        for place, score in sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    ]


@given(BOOKS, WORDY)
def test_ranks_and_scores_are_those_of_a_slow_sum(
    books: list[list[EntryTexts]], query: str
) -> None:
    assert ranked(books, query) == slowly(books, query)


@settings(max_examples=30)
@given(crowds(), WORDY)
def test_equal_entries_are_told_apart_by_name_alone(
    books: list[list[EntryTexts]], query: str
) -> None:
    scores = scores_of([document for book in books for document in book], query)
    found = ranked(books, query)
    assert len(found) == len(scores)
    assert found == sorted(found, key=lambda at: (-at[2], at[:2]))
