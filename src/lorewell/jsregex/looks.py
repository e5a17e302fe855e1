"""Looks, the units of a regex search, and their results."""

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
    """The outcome of one pattern on the parts of a text.

    Attributes:
        verdict: `hit`; `miss`; `invalid` (does not compile); `timeout` (took too long, now or
            before in the request, is over a limit, or the guard was closed); `unsupported` (there
            is no engine, or it failed).
        span: the first match, half-open, in code points of the joined parts; None unless a hit.
    """

    verdict: Verdict
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """The search for one entry's patterns in the parts of a text that it scans.

    Attributes:
        parts: the parts, which are joined and searched as a separate text.
        primary: patterns tried in order up to the first hit.
        fallback: whether a plain key of the entry matched, so that `secondary` is tried even if no
            primary pattern hits.
        secondary: patterns that are all tried, but only after a primary hit or with `fallback`.
    """

    parts: Parts
    primary: tuple[Pattern, ...]
    fallback: bool
    secondary: tuple[Pattern, ...]

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to search."""
        has_no_patterns = not self.primary and not self.secondary
        return has_no_patterns or all(start >= end for start, end in self.parts)


@dataclass(frozen=True, slots=True)
class LookResult:
    """The result of a look.

    Attributes:
        primary: one outcome for each pattern that was tried; the hit, if any, is the last one.
        secondary: one outcome for each pattern; () if they were not tried.
    """

    primary: tuple[PatternOutcome, ...]
    secondary: tuple[PatternOutcome, ...]


def uniform_result(look: Look, verdict: Verdict) -> LookResult:
    """Return the result of a look whose patterns all have the same verdict, which is not `hit`.

    In an empty text, which is never searched, the outcome is `miss` instead.

    Source: docs/rules/native.md §8.11.
    """
    outcome = PatternOutcome("miss" if look.is_idle else verdict)
    secondary = look.secondary if look.fallback else ()
    return LookResult((outcome,) * len(look.primary), (outcome,) * len(secondary))
