"""Guesses from the text of a JavaScript pattern whether it may take very long.

The guess is a hint for people and runs nothing; `RegexGuard` bounds searches in any case. It
prefers a false alarm to a missed pattern.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

# Each alternative looks ahead a fixed number of characters at most, or consumes what it looks at:
# so a pattern is read in one pass. An unclosed set extends to the end.
_TOKEN: Final = re.compile(
    r"""
    (?P<open>\((?:\?(?:[:=!]|<[=!]|<[^>]{0,200}>))?)
    |(?P<close>\))
    |(?P<bar>\|)
    |(?P<quantifier>(?:[*+?]|\{[0-9]{1,9}(?:,[0-9]{0,9})?\})\??)
    |(?P<set>\[(?:\\.|[^\]\\]++)*+\]?|\\[dDwWsSpP](?:\{[^}]{0,200}\})?|\.)
    |(?P<literal>\\.|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_MANY: Final = 10  # this many repetitions count as endless
_COSTLY_COUNT: Final = 1_000
_MAX_DEPTH: Final = 100
_MAX_CHARS: Final = 5_000  # ten times the longest key of `native`
_COSTLY_SPREAD: Final = 3  # this many endless repetitions in a row take cubic time


@dataclass(slots=True)
class _Atom:
    """An item of a sequence with its repetition.

    Attributes:
        text: as written; "" for a group.
        is_set: whether it matches one of several characters.
        most: the greatest number of repetitions.
        branches: the alternatives of a group.
    """

    text: str = ""
    is_set: bool = False
    most: float = 1
    branches: list[list[_Atom]] = field(default_factory=list)

    @property
    def is_endless(self) -> bool:
        return self.most >= _MANY


def costly(pattern: str) -> str | None:
    r"""Return in a few words why a pattern may take very long; None if it looks harmless.

    A pattern of more than 5,000 characters counts as costly without being read.

    >>> costly(r"(a+)+$"), costly(r"(?:lamp|light)s?")
    ('a repetition inside a repetition', None)
    """
    if len(pattern) > _MAX_CHARS:
        return "very long"
    return _of_branches(_parse(pattern), times=1, depth=0)


def _parse(pattern: str) -> list[list[_Atom]]:
    """Return the alternatives of a pattern; invalid syntax is read leniently."""
    stack: list[list[list[_Atom]]] = [[[]]]
    for token in _TOKEN.finditer(pattern):
        sequence = stack[-1][-1]
        match token.lastgroup:
            case "open":
                stack.append([[]])
            case "close" if len(stack) > 1:
                branches = stack.pop()
                stack[-1][-1].append(_Atom(branches=branches))
            case "bar":
                stack[-1].append([])
            case "quantifier" if sequence:
                sequence[-1].most *= _most(token[0])
            case kind:
                sequence.append(_Atom(text=token[0], is_set=kind == "set"))
    while len(stack) > 1:
        branches = stack.pop()
        stack[-1][-1].append(_Atom(branches=branches))
    return stack[0]


def _most(quantifier: str) -> float:
    if quantifier[0] in "*+":
        return float("inf")
    if quantifier[0] == "?":
        return 1
    _, comma, most = quantifier.strip("{}?").partition(",")
    if comma and not most:
        return float("inf")
    return float(most or quantifier.strip("{}?"))


def _of_branches(branches: Sequence[Sequence[_Atom]], *, times: float, depth: int) -> str | None:
    if depth > _MAX_DEPTH:
        return "nested very deep"
    if times >= _MANY and _overlap([branch[0] for branch in branches if branch]):
        return "alternatives that begin alike, repeated"
    for branch in branches:
        why = _of_sequence(branch, times=times, depth=depth)
        if why:
            return why
    return None


def _of_sequence(sequence: Sequence[_Atom], *, times: float, depth: int) -> str | None:
    endless = [atom for atom in sequence if atom.is_endless]
    if times >= _MANY and endless:
        return "a repetition inside a repetition"
    if sum(atom.is_set for atom in endless) >= _COSTLY_SPREAD:
        return "several repetitions of anything"
    for one, other in pairwise(sequence):
        if one.is_endless and other.is_endless and _overlap([one, other]):
            return "two repetitions of the same"
    for atom in sequence:
        count = times * atom.most
        if _COSTLY_COUNT < count < float("inf"):
            return "a large count"
        why = _of_branches(atom.branches, times=count, depth=depth + 1)
        if why:
            return why
    return None


def _overlap(atoms: Sequence[_Atom]) -> bool:
    """Return whether two of the atoms may begin with the same character."""
    if any(atom.is_set or atom.branches for atom in atoms):
        return len(atoms) > 1
    texts = [atom.text for atom in atoms]
    return len(set(texts)) < len(texts)
