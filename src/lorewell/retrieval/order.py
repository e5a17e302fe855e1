"""Lazy sorting of scores, best first (docs/rules/native.md §9)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # keeps `import lorewell` fast: numpy is imported when a book is first ranked
    from numpy import float64, int64
    from numpy.typing import NDArray

_FIRST = 256  # usually enough to fill a list of 100
_MORE = 4


def best_first(
    scores: NDArray[float64], places: NDArray[int64], *, near: float = 0.0
) -> Iterator[list[int]]:
    """Yield groups of places with equal scores, best first.

    Only the consumed part is sorted: a list needs the best hundred of thousands.

    Args:
        scores: one for each place; not NaN at any of `places`.
        places: the places to sort.
        near: neighbours count as equal if they differ by at most this share of the better score.

    >>> import numpy
    >>> list(best_first(numpy.array([0.5, 0.9, 0.5, 0.1]), numpy.array([0, 1, 2])))
    [[1], [0, 2]]
    """
    import numpy as np  # noqa: PLC0415  see above

    left, wanted = places, _FIRST
    while len(left):
        taken, left = _split(scores, left, wanted)
        taken = taken[np.argsort(-scores[taken], kind="stable")]
        best = scores[taken]
        breaks = np.flatnonzero(best[:-1] - best[1:] > near * np.abs(best[:-1])) + 1
        start, order = 0, taken.tolist()
        for stop in breaks.tolist():
            yield order[start:stop]
            start = stop
        if not len(left):
            yield order[start:]
            return
        left = np.concatenate([taken[start:], left])  # the rest may have scores near the last ones
        wanted *= _MORE


def locate(place: int, firsts: Sequence[int]) -> tuple[int, int]:
    """Return the number of the book and the place in it for a place counted through all books.

    Args:
        place: the place, counted through all books.
        firsts: first place of each book, ascending; may end with the number of all places.

    >>> locate(3, [0, 2, 2, 5])
    (2, 1)
    """
    number = bisect_right(firsts, place) - 1
    return number, place - firsts[number]


def nearest_first(
    similarities: Sequence[NDArray[float64]], name_of: Callable[[int, int], str]
) -> Iterator[tuple[int, int]]:
    """Yield the entries of one or several books that have a vector, nearest first, ties by name.

    Args:
        similarities: for each book one number per entry; NaN if the entry has no vector.
        name_of: returns the name of an entry, given the number of its book and its place in it.

    >>> import numpy
    >>> books = [numpy.array([0.2, numpy.nan]), numpy.array([0.9, 0.2])]
    >>> list(nearest_first(books, lambda number, place: f"{number}:{place}"))
    [(1, 0), (0, 0), (1, 1)]
    """
    import numpy as np  # noqa: PLC0415  see above

    if not similarities:
        return
    scores = np.concatenate(similarities)
    firsts = list(accumulate(map(len, similarities), initial=0))
    for tied in best_first(scores, np.flatnonzero(~np.isnan(scores))):
        found = [locate(place, firsts) for place in tied]
        yield from found if len(found) == 1 else sorted(found, key=lambda at: name_of(*at))


def _split(
    scores: NDArray[float64], places: NDArray[int64], wanted: int
) -> tuple[NDArray[int64], NDArray[int64]]:
    """Return the `wanted` best places, with all ties of the last one, and the rest."""
    import numpy as np  # noqa: PLC0415  see above

    if len(places) <= wanted:
        return places, places[:0]
    values = scores[places]
    last = len(places) - wanted
    chosen = values >= np.partition(values, last)[last]
    return places[chosen], places[~chosen]
