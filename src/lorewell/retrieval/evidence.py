"""How strongly words and vectors say that an entry is needed (docs/rules/native.md §9.3.1).

An absolute similarity or BM25 score says little: one book and embedder reach by accident what is a
clear match in another. So both are measured against what texts that need no lore reach in the same
book, and only then put together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from lorewell.retrieval.bm25 import LexicalIndex, Ranking
from lorewell.retrieval.quiet import QUIET_TEXTS
from lorewell.retrieval.scripts import main_script

FLOOR: Final = 0.5
LIMIT: Final = 8
BUDGET_SHARE: Final = 0.5
# Measured in bench/quality.py on its questions for tuning.
_LOWEST: Final = -1.0  # missing words, or a low similarity, never say more against an entry
_MIDDLE: Final = 1.6
# The words of these scripts are found in parts, so that everyday scenes reach more by them.
_MIDDLE_OF_PARTS: Final = 2.8
_LEAST_WORDS, _LEAST_SIMILARITY = 0.03, 0.01  # deviations of tiny books and odd embedders
_SPREAD: Final = 2.0
_DIGITS, _DIGITS_OF_VALUE = 6, 9
_FURTHEST: Final = 30.0  # beyond it the curve is flat

SCRIPTS: Final[Mapping[str, str]] = {
    language: main_script("".join(texts)) for language, texts in QUIET_TEXTS.items()
}


class QuietScale(NamedTuple):
    """Mean and standard deviation of what texts that need no lore reach at most in a book."""

    mean: float
    deviation: float

    def place(self, value: float) -> float:
        """Return how many deviations a value is above the mean."""
        return (value - self.mean) / self.deviation


class Evidence(NamedTuple):
    """The evidence for an entry, with its parts.

    Attributes:
        value: 0 to 1, to 9 digits.
        words: deviations of its words' strength above the mean of quiet texts, to 6 digits.
        similarity: the same for its similarity; None without one.
    """

    value: float
    words: float
    similarity: float | None


def quiet_words(index: LexicalIndex) -> Mapping[str, QuietScale]:
    """Return, by language, the scale of the strengths that quiet texts reach in a book."""
    return {
        language: _scale([Ranking([index], text).best_strength() for text in texts], _LEAST_WORDS)
        for language, texts in QUIET_TEXTS.items()
    }


def vector_scale(reached: Iterable[float]) -> QuietScale:
    """Return the scale of the similarities that the quiet texts of a language reach."""
    return _scale(list(reached), _LEAST_SIMILARITY)


def _scale(reached: Sequence[float], least: float) -> QuietScale:
    mean = math.fsum(reached) / len(reached)
    variance = math.fsum((value - mean) ** 2 for value in reached) / len(reached)
    return QuietScale(round(mean, _DIGITS), round(max(math.sqrt(variance), least), _DIGITS))


def choose_scale(scales: Mapping[str, QuietScale], script: str) -> QuietScale | None:
    """Return the scale for a query: of the languages in its script, the one with the highest mean.

    A query in a script without a language takes the highest of all; None if there is none.

    >>> scales = {"en": QuietScale(0.2, 0.1), "es": QuietScale(0.1, 0.1), "zh": QuietScale(0.4, 1)}
    >>> choose_scale(scales, "latin"), choose_scale(scales, "arabic")
    (QuietScale(mean=0.2, deviation=0.1), QuietScale(mean=0.4, deviation=1))
    """
    fitting = [scale for name, scale in scales.items() if SCRIPTS.get(name) == script]
    return max(fitting or scales.values(), default=None)


def weigh(
    words: float, similarity: float | None, *, query_script: str, entry_script: str
) -> Evidence:
    """Return the evidence for an entry.

    It never falls when a part rises. Words count against an entry only if it is written in the
    script of the query.

    Args:
        words: deviations above the mean of quiet texts.
        similarity: the same for the similarity; None if the entry has none.
        query_script: of `main_script`.
        entry_script: the same.

    >>> weigh(3.0, 1.0, query_script="latin", entry_script="latin").value
    0.648901372
    >>> weigh(-2.0, 4.0, query_script="latin", entry_script="east_asian").value
    0.768524783
    """
    is_same = query_script == entry_script
    middle = _MIDDLE_OF_PARTS if is_same and query_script == "east_asian" else _MIDDLE
    above = _together(words, similarity) - middle
    if not is_same and similarity is not None:
        above = max(above, similarity - _MIDDLE)
    return Evidence(
        round(_logistic(above / _SPREAD), _DIGITS_OF_VALUE),
        round(words, _DIGITS),
        None if similarity is None else round(similarity, _DIGITS),
    )


def _together(words: float, similarity: float | None) -> float:
    """Return the parts together: of deviation 1, as each of them is where nothing is needed."""
    if similarity is None:
        return max(words, _LOWEST)
    return (max(words, _LOWEST) + max(similarity, _LOWEST)) / math.sqrt(2)


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-max(-_FURTHEST, min(value, _FURTHEST))))
