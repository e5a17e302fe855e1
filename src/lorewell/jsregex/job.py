"""A search in the JSON form of the JavaScript program: job and answer."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import Final, Literal, TypedDict

from lorewell.jsregex.looks import Look, LookResult, Parts, Pattern, PatternOutcome
from lorewell.jsregex.spans import Ruler

# Limits of one search. A pattern or search over a limit is a `timeout` without a try, on every
# machine alike.
MAX_TEXT_CHARS: Final = 4_000_000  # more than twice the longest history of `native`
MAX_PATTERN_CHARS: Final = 10_000  # V8 compiles it in half a second and can't be interrupted
MAX_PATTERNS_CHARS: Final = 20_000_000  # of all patterns: more than the largest book has
MAX_TRIES: Final = 100_000  # patterns listed by all looks

_MISS: Final = PatternOutcome("miss")
_FLAGS: Final = frozenset("gimsuy")

# A miss is 0, a hit its span in UTF-16 code units.
_Outcome = Literal["invalid", "timeout", 0] | tuple[int, int]


class _Answer(TypedDict):
    seen: list[tuple[list[_Outcome], list[_Outcome]]]
    bad: list[int]


def _spec(pattern: Pattern) -> tuple[str, str] | None:
    """Return source and flags for V8; None for bad flags, which crash V8, and for long patterns.

    Only the first match counts, so `g` is left out.
    """
    flags = set(pattern.flags)
    if len(flags) < len(pattern.flags) or not flags <= _FLAGS or _is_long(pattern):
        return None
    return pattern.source, "".join(sorted(flags - {"g"}))


def _is_long(pattern: Pattern) -> bool:
    return len(pattern.source) > MAX_PATTERN_CHARS


class Job:
    """The looks of one search, with numbered patterns and views.

    Attributes:
        text: the text that all looks see parts of.
        is_too_large: whether the job is over a limit and must not be sent.
    """

    def __init__(self, text: str, looks: Sequence[Look]) -> None:
        """Number the patterns in the order of their first use."""
        self.text = text
        self._looks = looks
        self._numbers: dict[Pattern, int] = {}
        self._views: dict[Parts, int] = {}
        tries = sum(len(look.primary) + len(look.secondary) for look in looks)
        self.is_too_large = len(text) > MAX_TEXT_CHARS or tries > MAX_TRIES
        if self.is_too_large:
            return
        for look in looks:
            self._views.setdefault(look.parts, len(self._views))
            for pattern in (*look.primary, *look.secondary):
                self._numbers.setdefault(pattern, len(self._numbers))
        pattern_chars = sum(len(each.source) for each in self._numbers if not _is_long(each))
        self.is_too_large = pattern_chars > MAX_PATTERNS_CHARS

    def dump(
        self, timed_out: Collection[Pattern], timeouts_left: int, *, ruler: Ruler, loaded: str
    ) -> bytes:
        """Return the job as JSON.

        Args:
            timed_out: patterns that must not be tried.
            timeouts_left: number of timeouts that close the guard.
            ruler: the ruler of the text.
            loaded: the text that the engine has; a common beginning is not sent again.
        """
        self._measured = {parts: _View(ruler, parts) for parts in self._views}
        number = self._numbers.__getitem__
        kept = len(loaded) if self.text.startswith(loaded) else 0
        job = {
            "kept": ruler.unit(kept),
            "text": self.text[kept:],
            "views": [view.ranges for view in self._measured.values()],
            "patterns": [_spec(pattern) for pattern in self._numbers],
            "looks": [
                (
                    self._views[look.parts],
                    list(map(number, look.primary)),
                    look.fallback,
                    list(map(number, look.secondary)),
                )
                for look in self._looks
            ],
            "bad": [n for each, n in self._numbers.items() if each in timed_out or _is_long(each)],
            "left": timeouts_left,
        }
        # A lone surrogate becomes `\ud800`, as JSON escapes it.
        return json.dumps(job, ensure_ascii=False).encode("utf-8", "backslashreplace")

    def read(self, answer: bytes) -> tuple[list[LookResult], set[Pattern]]:
        """Return the results of the looks, and all patterns of the job that timed out."""
        parsed: _Answer = json.loads(answer)
        patterns = list(self._numbers)
        results = []
        for look, (primary, secondary) in zip(self._looks, parsed["seen"], strict=True):
            outcome = self._measured[look.parts].outcome
            results.append(LookResult(tuple(map(outcome, primary)), tuple(map(outcome, secondary))))
        return results, {patterns[number] for number in parsed["bad"]}


class _View:
    """The joined parts of a text, in code points and in code units.

    Attributes:
        ranges: start and end of each part, in code units of the text: start, end, start, end, …
    """

    def __init__(self, ruler: Ruler, parts: Parts) -> None:
        self._ruler = ruler
        self._parts = parts
        self.ranges = [ruler.unit(place) for part in parts for place in part]
        lengths = (end - start for start, end in zip(*[iter(self.ranges)] * 2, strict=True))
        self._units = [*accumulate(lengths, initial=0)]
        self._points = [*accumulate((end - start for start, end in parts), initial=0)]

    def outcome(self, outcome: _Outcome) -> PatternOutcome:
        match outcome:
            case 0:
                return _MISS
            case "invalid" | "timeout":
                return PatternOutcome(outcome)
            case start, end:
                return PatternOutcome(
                    "hit", (self._point(start, up=False), self._point(end, up=True))
                )

    def _point(self, unit: int, *, up: bool) -> int:
        """Return a place in the joined parts; a place inside a surrogate pair moves to its edge."""
        part = min(bisect_right(self._units, unit), len(self._parts)) - 1
        in_text = self.ranges[2 * part] + unit - self._units[part]
        return self._points[part] + self._ruler.point(in_text, up=up) - self._parts[part][0]
