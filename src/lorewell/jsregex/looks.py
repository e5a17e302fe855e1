"""What is asked of a text, and what was seen there: the words of this package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Verdict = Literal["hit", "miss", "invalid", "timeout", "unsupported"]


class Pattern(NamedTuple):
    """A JavaScript regex key.

    Attributes:
        source: the pattern without its slashes.
        flags: letters of `gimsuy`; a repeated letter makes the pattern invalid.
    """

    source: str
    flags: str


class Outcome(NamedTuple):
    """What became of one pattern on one text.

    Attributes:
        verdict: `hit`; `miss`; `invalid` (does not compile); `timeout` (took too long, is
            quarantined, or the guard was closed); `unsupported` (there is no engine).
        span: the first match, half-open, in code points of the text; None unless a hit.
    """

    verdict: Verdict
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """What one entry asks of one text.

    Attributes:
        text: index of the text.
        primary: tried in order; the first hit ends it.
        fallback: a literal key that stands behind `primary` has hit, so that `secondary` is
            looked at even when no primary pattern hits.
        secondary: all tried, but only after a primary hit, or with `fallback`.
    """

    text: int
    primary: tuple[Pattern, ...]
    fallback: bool
    secondary: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """The answer to a look.

    Attributes:
        primary: one outcome for each pattern that was tried; ends with the hit if there is one.
        secondary: one outcome for each pattern, or () when they were not looked at.
    """

    primary: tuple[Outcome, ...]
    secondary: tuple[Outcome, ...]


def answer_alike(texts: Sequence[str], look: Look, verdict: Verdict) -> Seen:
    """Return what is seen when every pattern has one and the same verdict, and that is no hit.

    An empty text is never searched, so there it is `miss`, whatever the verdict elsewhere.

    Source: spec/native.md §8.11.
    """
    outcome = Outcome(verdict if texts[look.text] else "miss")
    secondary = look.secondary if look.fallback else ()
    return Seen((outcome,) * len(look.primary), (outcome,) * len(secondary))
