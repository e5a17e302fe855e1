"""Okapi BM25 over the entries of one or several books (spec/native.md §9.1)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from lorewell.retrieval.text import tokens

if TYPE_CHECKING:  # `import lorewell` stays cheap: numpy is loaded where a book is first ranked
    from numpy import float64, int64
    from numpy.typing import NDArray

K1 = 1.5
B = 0.75
TITLE_WEIGHT = 3
KEY_WEIGHT = 2
# Sums of floats in different orders differ by far less; what is nearer is compared exactly.
_NEAR = 1e-9


class Document(NamedTuple):
    """The texts of one entry that are ranked, as stored."""

    title: str
    keys: Sequence[str]
    content: str


@dataclass(frozen=True, slots=True, eq=False)
class LexicalIndex:
    """The words of a book's entries.

    Attributes:
        words: word -> begin and end of its postings.
        places: of each posting, the place of an entry that has the word; ascending for a word.
        counts: of each posting, how often the entry has it, weighted.
        lengths: weighted number of words of each entry.
    """

    words: Mapping[str, tuple[int, int]]
    places: NDArray[int64]
    counts: NDArray[int64]
    lengths: NDArray[int64]


def build_index(documents: Iterable[Document]) -> LexicalIndex:
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
    return LexicalIndex(words, flat[::2].copy(), flat[1::2].copy(), np.array(lengths, np.int64))


class Ranking:
    """The entries of one or several books for a query.

    Entry counts, document frequencies and the mean length are those of all indexes together. An
    entry is named by the number of its index and its place there.
    """

    def __init__(self, indexes: Sequence[LexicalIndex], query: str) -> None:
        """Take one index a book, and running text of which each word counts once."""
        self._indexes = indexes
        entries = sum(len(index.lengths) for index in indexes)
        words = sum(int(index.lengths.sum()) for index in indexes)
        self._mean = words / entries if entries else 0.0
        self._weights: dict[str, float] = {}
        for word in dict.fromkeys(tokens(query)):
            spans = [index.words.get(word, (0, 0)) for index in indexes]
            frequency = sum(end - start for start, end in spans)
            if frequency:
                share = (entries - frequency + 0.5) / (frequency + 0.5)
                self._weights[word] = math.log(1 + share)

    def best_first(self, name_of: Callable[[int, int], str]) -> Iterator[tuple[int, int]]:
        """Yield the entries that share a word with the query, best first, ties by name."""
        for near in self._near_ones():
            if len(near) == 1:
                yield near[0]
            else:
                yield from sorted(near, key=lambda at: (-self.score(*at), name_of(*at)))

    def score(self, number: int, place: int) -> float:
        """Return the score of an entry: equal parts give equal scores, whatever their order."""
        index = self._indexes[number]
        norm = K1 * (1 - B + B * int(index.lengths[place]) / self._mean) if self._mean else 0.0
        parts = []
        for word, idf in self._weights.items():
            start, end = index.words.get(word, (0, 0))
            at = start + int(index.places[start:end].searchsorted(place))
            if at < end and index.places[at] == place:
                count = int(index.counts[at])
                parts.append(idf * count * (K1 + 1) / (count + norm))
        return math.fsum(parts)

    def _near_ones(self) -> Iterator[list[tuple[int, int]]]:
        """Yield entries, best first, those together whose rough scores do not tell them apart."""
        import numpy as np  # noqa: PLC0415  see above

        if not self._weights:
            return
        rough = np.concatenate([self._roughly(index) for index in self._indexes])
        sizes = [len(index.lengths) for index in self._indexes]
        numbers = np.repeat(np.arange(len(sizes)), sizes)
        firsts = np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)
        found = np.flatnonzero(rough)
        found = found[np.argsort(-rough[found], kind="stable")]
        best = rough[found]
        breaks = np.flatnonzero(best[:-1] - best[1:] > _NEAR * best[:-1]) + 1
        start = 0
        for stop in (*breaks.tolist(), len(found)):
            group = found[start:stop]
            yield list(zip(numbers[group].tolist(), (group - firsts[group]).tolist(), strict=True))
            start = stop

    def _roughly(self, index: LexicalIndex) -> NDArray[float64]:
        """Return the score of every entry of an index, but for the last digits."""
        import numpy as np  # noqa: PLC0415  see above

        scores = np.zeros(len(index.lengths))
        norms = K1 * (1 - B + B * index.lengths / self._mean)
        for word, idf in self._weights.items():
            start, end = index.words.get(word, (0, 0))
            places, counts = index.places[start:end], index.counts[start:end]
            scores[places] += idf * (K1 + 1) * counts / (counts + norms[places])
        return scores
