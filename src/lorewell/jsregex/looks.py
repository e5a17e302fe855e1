"""What is asked of a text, and what was seen there: the words of this package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Verdict = Literal["hit", "miss", "invalid", "timeout", "unsupported"]

# Half-open ranges of a text, in code points, ascending or not.
Parts = tuple[tuple[int, int], ...]


class Pattern(NamedTuple):
    """A JavaScript regex key.

    Attributes:
        source: the pattern without its slashes.
        flags: letters of `gimsuy`; a repeated letter makes the pattern invalid.
    """

    source: str
    flags: str


class PatternOutcome(NamedTuple):
    """What became of one pattern in the parts of a text.

    Attributes:
        verdict: `hit`; `miss`; `invalid` (does not compile); `timeout` (took too long, is
            quarantined, is over a limit, or the guard was closed); `unsupported` (there is no
            engine, or it failed).
        span: the first match, half-open, in code points of the joined parts; None unless a hit.
    """

    verdict: Verdict
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """What one entry asks of the parts of a text that it sees.

    Attributes:
        parts: joined, they are what is searched, as if there were nothing around them.
        primary: tried in order; the first hit ends it.
        fallback: a literal key that stands behind `primary` has hit, so that `secondary` is
            looked at even when no primary pattern hits.
        secondary: all tried, but only after a primary hit, or with `fallback`.
    """

    parts: Parts
    primary: tuple[Pattern, ...]
    fallback: bool
    secondary: tuple[Pattern, ...]

    @property
    def is_idle(self) -> bool:
        """Whether nothing has to be searched to answer it."""
        nothing_asked = not self.primary and not self.secondary
        return nothing_asked or all(start >= end for start, end in self.parts)


@dataclass(frozen=True, slots=True)
class LookResult:
    """The answer to a look.

    Attributes:
        primary: one outcome for each pattern that was tried; ends with the hit if there is one.
        secondary: one outcome for each pattern, or () when they were not looked at.
    """

    primary: tuple[PatternOutcome, ...]
    secondary: tuple[PatternOutcome, ...]


def answer_alike(look: Look, verdict: Verdict) -> LookResult:
    """Return what is seen when every pattern has one and the same verdict, and that is no hit.

    An empty text is never searched, so there it is `miss`, whatever the verdict elsewhere.

    Source: docs/rules/native.md §8.11.
    """
    outcome = PatternOutcome("miss" if look.is_idle else verdict)
    secondary = look.secondary if look.fallback else ()
    return LookResult((outcome,) * len(look.primary), (outcome,) * len(secondary))
