"""Okapi BM25 over the entries of one or several books (spec/native.md §9.1)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lorewell.retrieval.text import tokens

K1 = 1.5
B = 0.75
TITLE_WEIGHT = 3
KEY_WEIGHT = 2


class Document(NamedTuple):
    """The texts of one entry that are ranked, as stored."""

    title: str
    keys: Sequence[str]
    content: str


@dataclass(frozen=True, slots=True)
class LexicalIndex:
    """The words of a book's entries.

    Attributes:
        postings: word -> (place of the entry, weighted count) of each entry that has it.
        lengths: weighted number of words of each entry.
    """

    postings: Mapping[str, Sequence[tuple[int, int]]]
    lengths: Sequence[int]


def build_index(documents: Iterable[Document]) -> LexicalIndex:
    """Return the index of the documents, in their order."""
    postings: dict[str, list[tuple[int, int]]] = {}
    lengths: list[int] = []
    for place, document in enumerate(documents):
        counts: Counter[str] = Counter(tokens(document.content))
        for word in tokens(document.title):
            counts[word] += TITLE_WEIGHT
        for key in document.keys:
            for word in tokens(key):
                counts[word] += KEY_WEIGHT
        lengths.append(counts.total())
        for word, count in counts.items():
            postings.setdefault(word, []).append((place, count))
    return LexicalIndex(postings, lengths)


def score(indexes: Sequence[LexicalIndex], query: str) -> dict[tuple[int, int], float]:
    """Return the score of every entry that shares a word with the query, all above 0.

    Entry counts, document frequencies and the mean length are those of all indexes together.

    Args:
        indexes: one a book.
        query: running text; each of its words counts once.

    Returns:
        scores by (number of the index, place of the entry in it).
    """
    entries = sum(len(index.lengths) for index in indexes)
    mean = sum(sum(index.lengths) for index in indexes) / entries if entries else 0.0
    weights: dict[str, float] = {}
    for word in dict.fromkeys(tokens(query)):
        frequency = sum(len(index.postings.get(word, ())) for index in indexes)
        weights[word] = math.log(1 + (entries - frequency + 0.5) / (frequency + 0.5))
    scores: dict[tuple[int, int], float] = {}
    for number, index in enumerate(indexes):
        norms = [K1 * (1 - B + B * length / mean) if mean else 0 for length in index.lengths]
        parts: list[list[float]] = [[] for _ in norms]
        for word, idf in weights.items():
            for place, count in index.postings.get(word, ()):
                parts[place].append(idf * count * (K1 + 1) / (count + norms[place]))
        # An exact sum: equal parts give equal scores, in whatever order the words come.
        scores.update(
            ((number, place), math.fsum(summands))
            for place, summands in enumerate(parts)
            if summands
        )
    return scores
