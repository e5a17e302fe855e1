"""One search as the program takes it and answers it: JSON in, JSON out."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Literal, TypedDict

from lorewell.jsregex.looks import Look, Outcome, Pattern, Seen
from lorewell.jsregex.spans import Ruler

_FLAGS = frozenset("gimsuy")

# A miss is 0, a hit its span in UTF-16 code units.
_Told = Literal["invalid", "timeout", 0] | tuple[int, int]


class _Results(TypedDict):
    seen: list[tuple[list[_Told], list[_Told]]]
    bad: list[int]


def _spec(pattern: Pattern) -> tuple[str, str] | None:
    """Return what V8 compiles, None for bad flags: there, V8 would end the process.

    Only the first match counts, so `g` is left out.
    """
    flags = set(pattern.flags)
    if len(flags) < len(pattern.flags) or not flags <= _FLAGS:
        return None
    return pattern.source, "".join(sorted(flags - {"g"}))


class Job:
    """The looks of one search, with texts and patterns numbered."""

    def __init__(self, texts: Sequence[str], looks: Sequence[Look]) -> None:
        """Number the patterns in the order in which they are first asked for."""
        self._texts = texts
        self._looks = looks
        self._numbers: dict[Pattern, int] = {}
        for look in looks:
            for pattern in (*look.primary, *look.secondary):
                self._numbers.setdefault(pattern, len(self._numbers))
        self._patterns = tuple(self._numbers)

    def dump(self, timed_out: Collection[Pattern], timeouts_left: int) -> str:
        """Return the job as ASCII JSON; `timed_out` are the patterns that are not to be tried."""
        number = self._numbers.__getitem__
        wanted = {look.text for look in self._looks}
        return json.dumps(
            {
                "texts": [text if i in wanted else "" for i, text in enumerate(self._texts)],
                "patterns": [_spec(pattern) for pattern in self._patterns],
                "looks": [
                    (
                        look.text,
                        list(map(number, look.primary)),
                        look.fallback,
                        list(map(number, look.secondary)),
                    )
                    for look in self._looks
                ],
                "bad": [number(each) for each in self._patterns if each in timed_out],
                "left": timeouts_left,
            }
        )

    def read(self, answer: str) -> tuple[list[Seen], set[Pattern]]:
        """Return what the looks saw, and all patterns of the job that have timed out."""
        results: _Results = json.loads(answer)
        rulers = {look.text: Ruler(self._texts[look.text]) for look in self._looks}
        seen = [
            Seen(
                tuple(_outcome(told, rulers[look.text]) for told in primary),
                tuple(_outcome(told, rulers[look.text]) for told in secondary),
            )
            for look, (primary, secondary) in zip(self._looks, results["seen"], strict=True)
        ]
        return seen, {self._patterns[number] for number in results["bad"]}


def _outcome(told: _Told, ruler: Ruler) -> Outcome:
    match told:
        case 0:
            return Outcome("miss")
        case "invalid" | "timeout":
            return Outcome(told)
        case start, end:
            return Outcome("hit", ruler.span(start, end))
