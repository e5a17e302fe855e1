"""Hybrid recall: which entries rank for the query (spec/native.md §8.6, §9.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from lorewell.engine.compiled import CompiledBook, CompiledEntry
from lorewell.engine.native.eligibility import Refusal
from lorewell.retrieval.bm25 import Ranking
from lorewell.retrieval.fusion import LIST_LENGTH, fuse


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRanks:
    """What the caller's vector search gave for the query; the engine itself calls nobody.

    Attributes:
        full_ids: entries, best first, ties by full id.
        embedding_version: what made the vectors.
        degraded: why vectors can't be used; if anything is here, `full_ids` is ignored.
    """

    full_ids: Sequence[str] = ()
    embedding_version: str | None = None
    degraded: tuple[str, ...] = ()


NO_VECTORS = VectorRanks(degraded=("vector_disabled",))


def rank(
    books: Sequence[CompiledBook],
    query: str,
    vectors: VectorRanks,
    refusal: Callable[[CompiledEntry], Refusal | None],
) -> dict[str, float]:
    """Return the fused score of the entries that are recalled, at most 30, by full id.

    Only eligible entries take a place; statistics are those of all entries.
    """
    ranking = Ranking([book.lexical() for book in books], query)
    ranked = ranking.best_first(lambda number, place: books[number].entries[place].full_id)
    found = (books[number].entries[place] for number, place in ranked)
    eligible = (entry.full_id for entry in found if refusal(entry) is None)
    lexical = list(islice(eligible, LIST_LENGTH))
    if vectors.degraded:
        return fuse([lexical])
    entries = {
        full_id: entry
        for full_id in vectors.full_ids
        for book in books
        if (entry := book.find(full_id)) is not None
    }
    return fuse([lexical, [name for name, entry in entries.items() if refusal(entry) is None]])
