"""Ranking written out slowly, rule by rule (docs/rules/native.md §9)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from lorewell.retrieval.bm25 import K1, B, EntryTexts
from lorewell.retrieval.text import tokens

LONGEST = 100
USUAL = 30


def counts_of(document: EntryTexts) -> Counter[str]:
    keys = [word for key in document.keys for word in tokens(key)]
    return Counter(tokens(document.content) + 3 * tokens(document.title) + 2 * keys)


def scores_of(documents: Sequence[EntryTexts], query: str) -> dict[int, float]:
    """Return the score by words of each document that has one, by its place."""
    counted = [counts_of(document) for document in documents]
    total = sum(counts.total() for counts in counted)
    idfs = {}
    for word in set(tokens(query)):
        frequency = sum(word in counts for counts in counted)
        idfs[word] = math.log(1 + (len(counted) - frequency + 0.5) / (frequency + 0.5))
    found = {}
    for place, counts in enumerate(counted):
        parts = []
        for word in idfs.keys() & counts.keys():
            norm = K1 * (1 - B + B * counts.total() / (total / len(counted)))
            parts.append(idfs[word] * counts[word] * (K1 + 1) / (counts[word] + norm))
        if parts:
            found[place] = math.fsum(parts)
    return found


class Candidate(NamedTuple):
    """An entry of any book: its name, its text, what vectors say, and whether it may rank."""

    full_id: str
    document: EntryTexts
    similarity: float | None
    eligible: bool
    gated: bool


class Gates(NamedTuple):
    """What a request asks of recall."""

    floor: float | None = None
    limit: int | None = None


def recall(
    candidates: Sequence[Candidate], query: str, gates: Gates
) -> tuple[list[str], list[str], dict[str, float]]:
    """Return the list by words, the list by similarity, and the scores of what is recalled."""
    open_to = [
        (place, each)
        for place, each in enumerate(candidates)
        if each.eligible
        and (gates.floor is None or each.similarity is None or each.similarity >= gates.floor)
    ]
    words = scores_of([each.document for each in candidates], query)
    lexical = _best({each.full_id: words[place] for place, each in open_to if place in words})
    near = {each.full_id: each.similarity for _, each in open_to if each.similarity is not None}
    vector = _best(near)
    fused = {name: _fused(name, lexical, vector) for name in {*lexical, *vector}}
    gated = {each.full_id for each in candidates if each.gated}
    order = [name for name in _sorted(fused) if name not in gated]
    kept = order[: USUAL if gates.limit is None else gates.limit]
    return lexical, vector, {name: fused[name] for name in kept}


def _fused(name: str, *lists: Sequence[str]) -> float:
    return sum(1 / (60 + 1 + ranked.index(name)) for ranked in lists if name in ranked)


def _best(scores: dict[str, float]) -> list[str]:
    return _sorted(scores)[:LONGEST]


def _sorted(scores: dict[str, float]) -> list[str]:
    return sorted(scores, key=lambda name: (-scores[name], name))


def holds(logic: str, keys: Collection[str], text: str) -> bool:
    """Return whether the secondary logic holds in a text, for plain keys in lower case."""
    hits = [key in text for key in keys]
    rules: dict[str, Callable[[], bool]] = {
        "and_any": lambda: any(hits),
        "and_all": lambda: all(hits),
        "not_any": lambda: not any(hits),
        "not_all": lambda: not all(hits),
    }
    return rules[logic]()
