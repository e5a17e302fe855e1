"""Reciprocal rank fusion (docs/rules/native.md §9.3)."""

from __future__ import annotations

from collections.abc import Sequence

LIST_LENGTH = 100
KEPT = 30
DAMPING = 60


def fuse(rankings: Sequence[Sequence[str]], *, keep: int = KEPT) -> dict[str, float]:
    """Return the fused scores of the best ids, best first, ties by id.

    Args:
        rankings: lists of ids, best first; the best 100 of each count.
        keep: number of ids to return; a selection keeps 30.

    >>> fuse([["a", "b"], ["b"]])
    {'b': 0.03252247488101534, 'a': 0.01639344262295082}
    """
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, name in enumerate(ranking[:LIST_LENGTH], start=1):
            scores[name] = scores.get(name, 0.0) + 1 / (DAMPING + rank)
    best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return dict(best[:keep])
