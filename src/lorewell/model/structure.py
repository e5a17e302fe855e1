"""How much a JSON text holds and how deep it nests, counted before it is parsed.

A value takes up to 100 times the memory of its text, and the parser can't be interrupted.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final, NamedTuple

from lorewell.errors import JsonTooLargeError

MAX_VALUES: Final = 2_000_000

SLICE_CHARS: Final = 65_536
_BRACKETS: Final = b"[]{}"
_ROW: Final = bytes.maketrans(_BRACKETS, b"||||")
_NOT_IN_ROW: Final = bytes(set(range(256)) - set(_BRACKETS) - set(b","))
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # as signed bytes: one deeper, less
_NO_BRACKETS: Final = bytes(set(range(256)) - set(_BRACKETS))


class Structure(NamedTuple):
    """What a text holds.

    Attributes:
        values: how many values and names there are at most; commas, colons and opening brackets
            outside of strings, and one.
        depth: how deep brackets nest.
        row: values in a row that are neither lists nor objects, at most. Python's parser builds
            them in one go.
        begins, lowest: of each slice of the text, where it begins and how deep it is at least.
    """

    values: int
    depth: int
    row: int
    begins: list[int]
    lowest: list[int]

    def is_long(self, at: int, depth: int) -> bool:
        """Return whether a list or object fills the next slice of the text.

        Args:
            at: where its opening bracket is.
            depth: how deep what it holds is.
        """
        following = bisect_right(self.begins, at)
        return following < len(self.lowest) and self.lowest[following] >= depth


def measure(text: str, *, max_values: int, watch: Callable[[], None] | None = None) -> Structure:
    """Return what a JSON text holds; also of what is no JSON, up to its first fault.

    Args:
        text: the text.
        max_values: how many values and names it may hold.
        watch: called after each slice of `SLICE_CHARS`; what it raises passes through.

    Raises:
        JsonTooLargeError: there are more than `max_values` values and names.

    >>> structure = measure('{"a": [1, "[[["]}', max_values=10)
    >>> structure.values, structure.depth, structure.row
    (5, 2, 2)
    """
    values, depth, deepest = 1, 0, 0
    row, longest = 1, 1
    begins: list[int] = []
    lowest: list[int] = []
    for begin, outside in _outside_of_strings(text):
        signs = outside.encode(errors="replace")
        brackets = signs.translate(_STEPS, _NO_BRACKETS)
        levels = list(accumulate(array("b", brackets), initial=depth))
        begins.append(begin)
        lowest.append(min(levels))
        depth, deepest = levels[-1], max(deepest, *levels)
        first, *others = signs.translate(_ROW, _NOT_IN_ROW).split(b"|")
        row += len(first)
        if others:
            longest = max(longest, row, 1 + max(map(len, others)))
            row = 1 + len(others[-1])
        values += outside.count(",") + outside.count(":") + brackets.count(b"\x01")
        if values > max_values:
            raise JsonTooLargeError(
                f"The JSON holds more than {max_values:,} values and names, the limit.",
                limit_values=max_values,
            )
        if watch is not None:
            watch()
    return Structure(values, deepest, max(row, longest), begins, lowest)


def _outside_of_strings(text: str) -> Iterator[tuple[int, str]]:
    """Yield where each slice of the text begins, and what of it stands outside of strings."""
    begin, is_inside = 0, False
    while begin < len(text):
        part = text[begin : begin + SLICE_CHARS]
        if (len(part) - len(part.rstrip("\\"))) % 2:  # its last character escapes the next one
            part = text[begin : begin + SLICE_CHARS + 1]
        pieces = part.replace("\\\\", "").replace('\\"', "").split('"')
        yield begin, "".join(pieces[is_inside::2])
        is_inside ^= len(pieces) % 2 == 0
        begin += len(part)
