"""Macros that choose: `random`, `pick` and `roll` (docs/rules/sillytavern-macros.md §6)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from lorewell.engine.sillytavern.draws import RandomDraws
from lorewell.engine.sillytavern.javascript import trim
from lorewell.engine.steps import Steps

MAX_DICE: Final = 10_000
MAX_SIDES: Final = 2**53
_FORMULA = re.compile(
    r"(?P<count>[1-9][0-9]*)?d(?P<sides>[1-9][0-9]*)(?P<more>[+-][0-9]+)?", re.IGNORECASE
)
_ONE_DIE = re.compile(r"[1-9][0-9]*")
_LONGEST_FORMULA: Final = 50
_STEPS_PER_PICK: Final = 250  # a generator is set up
_WIDTH: Final = 256


def items_of(arguments: Sequence[str]) -> list[str]:
    r"""Return the items of a list.

    >>> items_of(["a, b\\,c"]), items_of(["a :: b"]), items_of(["a", "b,c"])
    (['a', 'b,c'], ['a', 'b'], ['a', 'b,c'])
    """
    if len(arguments) != 1:
        return list(arguments)
    listed = arguments[0]
    return [trim(item) for item in (listed.split("::") if "::" in listed else _by_commas(listed))]


def items_of_old(listed: str) -> list[str]:
    """Return the items of a list as the old engine does: two colons keep the blanks."""
    return listed.split("::") if "::" in listed else [trim(item) for item in _by_commas(listed)]


def _by_commas(listed: str) -> list[str]:
    # U+0000 occurs in no text.
    return [item.replace("\0", ",") for item in listed.replace("\\,", "\0").split(",")]


def draw_item(items: Sequence[str], draws: RandomDraws) -> str:
    """Return an item by the next draw; "" and no draw if there are none."""
    return items[math.floor(draws.next() * len(items))] if items else ""


def pick_item(items: Sequence[str], seed: str, steps: Steps) -> str:
    """Return the item that a seed picks."""
    if not items:
        return ""
    steps.spend("macros", _STEPS_PER_PICK)
    return items[math.floor(first_draw(seed) * len(items))]


def roll(formula: str, draws: RandomDraws, steps: Steps) -> str | None:
    """Return the sum of some dice; "" for what is no formula, None for too many dice."""
    if len(formula) > _LONGEST_FORMULA:
        return ""
    if _ONE_DIE.fullmatch(formula):
        formula = f"d{formula}"
    parts = _FORMULA.fullmatch(formula)
    if parts is None:
        return ""
    count, sides = int(parts["count"] or 1), int(parts["sides"])
    if count > MAX_DICE or sides > MAX_SIDES:
        return None
    steps.spend("macros", count)
    total = sum(1 + math.floor(draws.next() * sides) for _ in range(count))
    return str(total + int(parts["more"] or 0))


def first_draw(seed: str) -> float:
    """Return the first number in [0, 1) of seedrandom 3.0.5 for a text of 1 to 256 ASCII signs.

    An ARC4 generator whose key is the seed; its first 256 bytes are dropped, and six bytes and as
    many more as 52 bits need make a number.
    """
    state = list(range(_WIDTH))
    key = seed.encode()
    j = 0
    for i in range(_WIDTH):
        j = (j + state[i] + key[i % len(key)]) % _WIDTH
        state[i], state[j] = state[j], state[i]
    stream = _Arc4(state)
    for _ in range(_WIDTH):
        stream.next()
    number, denominator, extra = 0, _WIDTH**6, 0
    for _ in range(6):
        number = number * _WIDTH + stream.next()
    while number < 2**52:
        number = (number + extra) * _WIDTH
        denominator *= _WIDTH
        extra = stream.next()
    while number >= 2**53:
        number //= 2  # exact: it is a multiple of 256
        denominator //= 2
        extra >>= 1
    return (number + extra) / denominator


class _Arc4:
    """The byte stream of an ARC4 state."""

    def __init__(self, state: list[int]) -> None:
        self._state = state
        self._i = self._j = 0

    def next(self) -> int:
        """Return the next byte."""
        state = self._state
        self._i = i = (self._i + 1) % _WIDTH
        value = state[i]
        self._j = j = (self._j + value) % _WIDTH
        state[i], state[j] = state[j], value
        return state[(state[i] + value) % _WIDTH]
