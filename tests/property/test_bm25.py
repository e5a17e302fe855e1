"""Ranking by words agrees with a slow sum over words, tie by tie."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given, strategies as st

from lorewell.retrieval.bm25 import K1, B, Document, Ranking, build_index
from lorewell.retrieval.text import tokens
from property.strategies import SENTENCES, WORDS

WORDY = st.one_of(SENTENCES, st.lists(WORDS, max_size=6).map(" ".join))
BOOKS = st.lists(
    st.lists(st.builds(Document, WORDY, st.lists(WORDS, max_size=3), WORDY), max_size=8), max_size=3
)


def counts_of(document: Document) -> Counter[str]:
    keys = [word for key in document.keys for word in tokens(key)]
    return Counter(tokens(document.content) + 3 * tokens(document.title) + 2 * keys)


def slowly(books: list[list[Document]], query: str) -> list[tuple[int, int, float]]:
    entries = {
        (number, place): counts_of(document)
        for number, documents in enumerate(books)
        for place, document in enumerate(documents)
    }
    total = sum(counts.total() for counts in entries.values())
    found = {}
    for at, counts in entries.items():
        parts = []
        for word in set(tokens(query)) & counts.keys():
            frequency = sum(word in other for other in entries.values())
            idf = math.log(1 + (len(entries) - frequency + 0.5) / (frequency + 0.5))
            norm = K1 * (1 - B + B * counts.total() / (total / len(entries)))
            parts.append(idf * counts[word] * (K1 + 1) / (counts[word] + norm))
        if parts:
            found[at] = math.fsum(parts)
    return [(*at, score) for at, score in sorted(found.items(), key=lambda it: (-it[1], it[0]))]


@given(BOOKS, WORDY)
def test_ranks_and_scores_are_those_of_a_slow_sum(books: list[list[Document]], query: str) -> None:
    ranking = Ranking([build_index(documents) for documents in books], query)
    ranked = ranking.best_first(lambda number, place: f"{number} {place}")
    assert [(*at, ranking.score(*at)) for at in ranked] == slowly(books, query)
