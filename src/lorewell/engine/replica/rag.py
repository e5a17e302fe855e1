"""The trigger by likeness (spec/replica.md §7.2). Whoever has vectors brings similarities along."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lorewell.engine.replica.triggers import RagTrigger
from lorewell.engine.replica.world import World
from lorewell.model.replica import ReplicaFacts, ReplicaRequest

_MESSAGE: Final = "{{message}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RagScores:
    """How near entries are to queries, by the caller's vectors; the engine calls nobody.

    Attributes:
        similarities: by book id and query, the cosine similarity of each entry's best chunk, in
            the order of the book, NaN where an entry has no vector. `rag_queries` says which
            queries are asked for.
        degraded: why there are none of a book or query that is not here.
    """

    similarities: Mapping[tuple[str, str], Sequence[float]] = field(default_factory=dict)
    degraded: tuple[str, ...] = ()


class Near(NamedTuple):
    """Whether an entry is near enough, and its figures."""

    fires: bool
    facts: ReplicaFacts
    detail: str


def query_of(trigger: RagTrigger, request: ReplicaRequest) -> str:
    """Return what is looked for: the user's text, put into the entry's own template if it has one.

    >>> query_of(RagTrigger(query_template="关于{{message}}"), ReplicaRequest(mes="灯塔"))
    '关于灯塔'
    """
    if trigger.query_template is None:
        return request.mes
    return trigger.query_template.replace(_MESSAGE, request.mes)


def rag_queries(worlds: Iterable[World], request: ReplicaRequest) -> dict[str, tuple[str, ...]]:
    """Return by book id the queries that similarities are asked for, each once.

    Books that ask for none are not there.
    """
    asked = {
        world.book_id: tuple(
            dict.fromkeys(
                query_of(lore.triggers.rag, request)
                for lore in world.rag
                if lore.triggers.rag is not None
            )
        )
        for world in worlds
    }
    return {book_id: queries for book_id, queries in asked.items() if queries}


def rank(world: World, request: ReplicaRequest, scores: RagScores) -> dict[int, Near | None]:
    """Return by index how near each entry with this trigger is; None for those without a vector.

    Ties are ranked by uid.
    """
    near: dict[int, tuple[float, RagTrigger]] = {}
    found: dict[int, Near | None] = {}
    for lore in world.rag:
        trigger = lore.triggers.rag
        if trigger is None:
            continue
        found[lore.index] = None
        known = scores.similarities.get((world.book_id, query_of(trigger, request)), ())
        if lore.index < len(known):
            similarity = float(known[lore.index])
            if not math.isnan(similarity):
                near[lore.index] = similarity, trigger
    ranked = sorted(near, key=lambda index: (-near[index][0], world.entries[index].entry.uid))
    for place, index in enumerate(ranked, 1):
        similarity, trigger = near[index]
        found[index] = _judge(trigger, similarity, place)
    return found


def _judge(trigger: RagTrigger, similarity: float, place: int) -> Near:
    facts = ReplicaFacts(
        similarity=round(similarity, 6),
        threshold=trigger.threshold,
        rank=place,
        top_k=trigger.top_k,
    )
    if similarity < trigger.threshold:
        detail = f"rag: {similarity:.6f} is below {trigger.threshold}"
        return Near(fires=False, facts=facts, detail=detail)
    detail = f"rag: {place} is beyond the first {trigger.top_k}"
    return Near(fires=place <= trigger.top_k, facts=facts, detail=detail)
