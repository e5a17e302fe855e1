"""Okapi BM25 over the entries of one or several books (docs/rules/native.md §9.1)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, takewhile
from typing import TYPE_CHECKING, NamedTuple

from lorewell.retrieval.order import best_first, locate
from lorewell.retrieval.text import tokens

if TYPE_CHECKING:  # keeps `import lorewell` fast: numpy is imported when a book is first ranked
    from numpy import float64, int64
    from numpy.typing import NDArray

K1 = 1.5
B = 0.75
TITLE_WEIGHT = 3
KEY_WEIGHT = 2
# Sums of floats in different orders differ by far less; closer scores are computed exactly.
_NEAR = 1e-9
_FEW = 8  # up to this many close entries are scored one by one
# How much is computed at once: figures of close entries, and postings.
_MOST_FIGURES, _MOST_POSTINGS = 200_000, 200_000
_WORDS_PER_STEP, _FIGURES_PER_STEP, _POSTINGS_PER_STEP = 3, 10, 20


class EntryTexts(NamedTuple):
    """The ranked texts of an entry, as stored."""

    title: str
    keys: Sequence[str]
    content: str


@dataclass(frozen=True, slots=True, eq=False)
class LexicalIndex:
    """The inverted index of a book's entries.

    Attributes:
        words: word -> begin and end of its postings.
        places: for each posting, the index of an entry with the word; ascending for each word.
        counts: for each posting, the weighted number of occurrences; whole numbers.
        lengths: weighted number of words of each entry.
    """

    words: Mapping[str, tuple[int, int]]
    places: NDArray[int64]
    counts: NDArray[float64]
    lengths: NDArray[int64]


def build_index(documents: Iterable[EntryTexts]) -> LexicalIndex:
    """Return the index of the documents, in their order."""
    import numpy as np  # noqa: PLC0415  see above

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
    words, end = {}, 0
    for word, listed in postings.items():
        words[word] = (end, end + len(listed))
        end += len(listed)
    flat = np.fromiter(chain.from_iterable(chain.from_iterable(postings.values())), np.int64)
    counts_of = flat[1::2].astype(np.float64)
    return LexicalIndex(words, flat[::2].copy(), counts_of, np.array(lengths, np.int64))


class Ranking:
    """The ranking of the entries of one or several books for a query.

    Entry counts, document frequencies and the mean length are taken over all indexes. An entry is
    given by the number of its index and its place in it.
    """

    def __init__(
        self,
        indexes: Sequence[LexicalIndex],
        query: str,
        *,
        count: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Rank for a query, in which each word counts once.

        Args:
            indexes: one index for each book.
            query: a text.
            count: called before each piece of work with its steps of about a microsecond.
        """
        self._indexes = indexes
        self._count = count
        self._scores: NDArray[float64] | None = None
        self._firsts = list(accumulate((len(index.lengths) for index in indexes), initial=0))
        entries = sum(len(index.lengths) for index in indexes)
        self._unit = (K1 + 1) * math.log(1 + (entries + 0.5) / 0.5)
        words = sum(int(index.lengths.sum()) for index in indexes)
        self._mean = words / entries if entries else 0.0
        self._weights: dict[str, float] = {}
        count(1 + len(query) * (2 + len(indexes)) // _WORDS_PER_STEP)
        for word in dict.fromkeys(tokens(query)):
            spans = [index.words.get(word, (0, 0)) for index in indexes]
            frequency = sum(end - start for start, end in spans)
            if frequency:
                share = (entries - frequency + 0.5) / (frequency + 0.5)
                self._weights[word] = math.log(1 + share)

    def best_first(self, name_of: Callable[[int, int], str]) -> Iterator[tuple[int, int]]:
        """Yield the entries that share a word with the query, best first, ties by name."""
        import numpy as np  # noqa: PLC0415  see above

        if not self._weights:
            return
        scores = self._all()
        for near in best_first(scores, np.flatnonzero(scores), near=_NEAR):
            found = [locate(place, self._firsts) for place in near]
            if len(found) > 1:
                exact = self._exactly(found)
                found.sort(key=lambda at: (-exact[at], name_of(*at)))
            yield from found

    def strength(self, number: int, place: int) -> float:
        """Return an entry's score as a multiple of what the rarest possible word adds at most.

        So it does not depend on the number of entries. Exact to all but the last digits.
        """
        return float(self._all()[self._firsts[number] + place]) / self._unit

    def best_strength(self) -> float:
        """Return the highest strength of all entries, 0 if none shares a word with the query."""
        return float(self._all().max(initial=0.0)) / self._unit

    def _all(self) -> NDArray[float64]:
        """Return the score of every entry, book by book, exact to all but the last digits."""
        import numpy as np  # noqa: PLC0415  see above

        if self._scores is None:
            self._count(self._firsts[-1] // _POSTINGS_PER_STEP)
            self._scores = np.concatenate([self._roughly(index) for index in self._indexes])
        return self._scores

    def score(self, number: int, place: int) -> float:
        """Return the score of an entry; the order of its parts does not change it."""
        self._count(1 + 2 * len(self._weights))
        index = self._indexes[number]
        norm = K1 * (1 - B + B * int(index.lengths[place]) / self._mean) if self._mean else 0.0
        parts = []
        for word, idf in self._weights.items():
            start, end = index.words.get(word, (0, 0))
            at = start + int(index.places[start:end].searchsorted(place))
            if at < end and index.places[at] == place:
                count = float(index.counts[at])
                parts.append(idf * count * (K1 + 1) / (count + norm))
        return math.fsum(parts)

    def _exactly(self, near: Sequence[tuple[int, int]]) -> Mapping[tuple[int, int], float]:
        """Return exact scores; if there are many, entries with equal figures are scored once."""
        if len(near) <= _FEW:
            return {at: self.score(*at) for at in near}
        scores: dict[tuple[int, int], float] = {}
        for number, index in enumerate(self._indexes):
            places = [place for near_number, place in near if near_number == number]
            alike: dict[bytes, float] = {}
            for place, figures in zip(places, self._figures(index, places), strict=True):
                if figures not in alike:
                    alike[figures] = self.score(number, place)
                scores[number, place] = alike[figures]
        return scores

    def _figures(self, index: LexicalIndex, places: Sequence[int]) -> Iterator[bytes]:
        """Yield the figures that each entry's score depends on: its length and its counts."""
        rows = max(1, _MOST_FIGURES // (1 + len(self._weights)))
        for begin in range(0, len(places), rows):
            yield from self._some_figures(index, places[begin : begin + rows])

    def _some_figures(self, index: LexicalIndex, places: Sequence[int]) -> list[bytes]:
        import numpy as np  # noqa: PLC0415  see above

        self._count(len(places) * (1 + len(self._weights)) // _FIGURES_PER_STEP)
        wanted = np.array(places, np.int64)
        table = np.zeros((len(places), 1 + len(self._weights)))
        table[:, 0] = index.lengths[wanted]
        for column, word in enumerate(self._weights, 1):
            start, end = index.words.get(word, (0, 0))
            if start < end:
                at = start + index.places[start:end].searchsorted(wanted).clip(max=end - start - 1)
                table[:, column] = np.where(index.places[at] == wanted, index.counts[at], 0)
        return [row.tobytes() for row in table]

    def _roughly(self, index: LexicalIndex) -> NDArray[float64]:
        """Return the score of every entry of an index, exact to all but the last digits."""
        import numpy as np  # noqa: PLC0415  see above

        spans = [(index.words.get(word), idf) for word, idf in self._weights.items()]
        found = [(*span, idf * (K1 + 1)) for span, idf in spans if span is not None]
        scores = np.zeros(len(index.lengths))
        while found:
            held = accumulate(end - start for start, end, _ in found)
            few = max(1, sum(1 for _ in takewhile(lambda count: count <= _MOST_POSTINGS, held)))
            scores += self._part(index, found[:few])
            found = found[few:]
        return scores

    def _part(
        self, index: LexicalIndex, found: Sequence[tuple[int, int, float]]
    ) -> NDArray[float64]:
        """Return what some words, given by postings and weight, add to the score of every entry."""
        import numpy as np  # noqa: PLC0415  see above

        self._count(sum(end - start for start, end, _ in found) // _POSTINGS_PER_STEP)
        places = np.concatenate([index.places[start:end] for start, end, _ in found])
        counts = np.concatenate([index.counts[start:end] for start, end, _ in found])
        weights = [weight for _, _, weight in found]
        # In place from here on: for long queries these arrays dominate the cost.
        parts = np.repeat(weights, [end - start for start, end, _ in found])
        parts *= counts
        counts += (K1 * (1 - B + B * index.lengths / self._mean))[places]
        parts /= counts
        return np.bincount(places, parts, len(index.lengths)).astype(np.float64, copy=False)
