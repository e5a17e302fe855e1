"""The rag trigger, which fires by similarity. The caller provides the similarities.

Source: docs/rules/replica.md §7.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lorewell.engine.replica.triggers import RagTrigger
from lorewell.engine.replica.world import ReplicaWorld
from lorewell.engine.steps import Steps
from lorewell.model.replica import ReplicaFacts, ReplicaRequest

_MESSAGE: Final = "{{message}}"
_STEPS_PER_ENTRY, _CHARS_PER_STEP = 4, 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RagScores:
    """Similarities of entries to queries, from the caller's vectors.

    Attributes:
        similarities: by book id and query, the cosine similarity of each entry's best chunk, in
            the order of the book; NaN for an entry without a vector. `rag_queries` returns the
            queries.
        degraded: why a book or query is missing.
    """

    similarities: Mapping[tuple[str, str], Sequence[float]] = field(default_factory=dict)
    degraded: tuple[str, ...] = ()


class RagMatch(NamedTuple):
    """Whether the rag trigger of an entry fires, and its figures."""

    fires: bool
    facts: ReplicaFacts
    detail: str


class _Queries:
    """The queries of one turn: the user's text, in the entry's template if it has one.

    Each template is filled once.
    """

    def __init__(self, mes: str, steps: Steps) -> None:
        self._mes = mes
        self._steps = steps
        self._filled: dict[str, str] = {}

    def text_for(self, trigger: RagTrigger) -> str:
        template = trigger.query_template
        if template is None:
            return self._mes
        if template not in self._filled:
            places = template.count(_MESSAGE)
            length = len(template) + places * (len(self._mes) - len(_MESSAGE))
            self._steps.write("queries", length)
            self._steps.spend("recall", 1 + length // _CHARS_PER_STEP)
            self._filled[template] = template.replace(_MESSAGE, self._mes)
        return self._filled[template]


def rag_queries(
    worlds: Iterable[ReplicaWorld], request: ReplicaRequest, *, steps: Steps | None = None
) -> dict[str, tuple[str, ...]]:
    """Return by book id the distinct queries that need similarities.

    Books without such queries are missing.

    Args:
        worlds: the books of the turn.
        request: the turn.
        steps: the step budget; `Steps()` by default.

    Raises:
        TooExpensiveError: the queries would be too long.
    """
    queries = _Queries(request.mes, steps or Steps())
    by_book = {
        world.book_id: tuple(
            dict.fromkeys(
                queries.text_for(entry.triggers.rag)
                for entry in world.rag
                if entry.triggers.rag is not None
            )
        )
        for world in worlds
    }
    return {book_id: texts for book_id, texts in by_book.items() if texts}


def rank(
    world: ReplicaWorld, request: ReplicaRequest, scores: RagScores, steps: Steps
) -> dict[int, RagMatch | None]:
    """Return by index the match of each entry with this trigger; None if it has no similarity.

    Ties are ranked by uid.
    """
    queries = _Queries(request.mes, steps)
    steps.spend("recall", _STEPS_PER_ENTRY * len(world.rag))
    candidates: dict[int, tuple[float, RagTrigger]] = {}
    matches: dict[int, RagMatch | None] = {}
    for entry in world.rag:
        trigger = entry.triggers.rag
        if trigger is None:
            continue
        matches[entry.index] = None
        known = scores.similarities.get((world.book_id, queries.text_for(trigger)), ())
        if entry.index < len(known):
            similarity = float(known[entry.index])
            if not math.isnan(similarity):
                candidates[entry.index] = similarity, trigger
    ranked = sorted(
        candidates, key=lambda index: (-candidates[index][0], world.entries[index].spec.uid)
    )
    for place, index in enumerate(ranked, 1):
        similarity, trigger = candidates[index]
        matches[index] = _match(trigger, similarity, place)
    return matches


def _match(trigger: RagTrigger, similarity: float, place: int) -> RagMatch:
    facts = ReplicaFacts(
        similarity=round(similarity, 6),
        threshold=trigger.threshold,
        rank=place,
        top_k=trigger.top_k,
    )
    if similarity < trigger.threshold:
        detail = f"rag: {similarity:.6f} is below {trigger.threshold}"
        return RagMatch(fires=False, facts=facts, detail=detail)
    detail = f"rag: {place} is beyond the first {trigger.top_k}"
    return RagMatch(fires=place <= trigger.top_k, facts=facts, detail=detail)
