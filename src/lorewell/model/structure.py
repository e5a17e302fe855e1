"""The size and nesting depth of a JSON text, measured before it is parsed.

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
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # as signed bytes: one deeper, less
_NO_BRACKETS: Final = bytes(set(range(256)) - set(_BRACKETS))
_BARS: Final = bytes.maketrans(_BRACKETS, b"||||")
_NO_COMMAS: Final = bytes(set(range(256)) - set(_BRACKETS) - set(b","))


class Structure(NamedTuple):
    """The structure of a JSON text.

    Attributes:
        values: upper bound of the number of values and names: one more than the commas, colons and
            opening brackets outside of strings.
        depth: nesting depth of the brackets.
        begins: where each slice of the text begins.
        lowest: the lowest depth within each slice.
    """

    values: int
    depth: int
    begins: list[int]
    lowest: list[int]

    def is_long(self, at: int, depth: int) -> bool:
        """Return whether a list or object fills the next slice of the text.

        Args:
            at: where its opening bracket is.
            depth: the depth of its items.
        """
        following = bisect_right(self.begins, at)
        return following < len(self.lowest) and self.lowest[following] >= depth


def measure(
    text: str,
    *,
    max_values: int,
    max_row: int | None = None,
    paused: Callable[[], None] | None = None,
) -> Structure:
    """Return the structure of a JSON text. For invalid JSON it is right up to the first error.

    Args:
        text: the text; it is read in slices.
        max_values: most values and names.
        max_row: most consecutive numbers, texts and members with such values, since a parser in C
            builds them without a break; None for any number.
        paused: called after each slice; it may raise.

    Raises:
        JsonTooLargeError: there are more than `max_values` values and names, or `max_row` values
            in a row.

    >>> structure = measure('{"a": [1, "[[["]}', max_values=10)
    >>> structure.values, structure.depth
    (5, 2)
    """
    values, depth, deepest, row = 1, 0, 0, 1
    begins: list[int] = []
    lowest: list[int] = []
    for begin, outside in _outside_of_strings(text):
        signs = outside.encode(errors="replace")
        brackets = signs.translate(_STEPS, _NO_BRACKETS)
        levels = list(accumulate(array("b", brackets), initial=depth))
        begins.append(begin)
        lowest.append(min(levels))
        depth, deepest = levels[-1], max(deepest, *levels)
        values += outside.count(",") + outside.count(":") + brackets.count(b"\x01")
        if values > max_values:
            raise JsonTooLargeError(
                f"The JSON holds more than {max_values:,} values and names (the limit).",
                limit_values=max_values,
            )
        if max_row is not None:
            row = _check_row(signs, row, max_row)
        if paused is not None:
            paused()
    return Structure(values, deepest, begins, lowest)


def _check_row(signs: bytes, row: int, max_row: int) -> int:
    """Return the length of the row of values that a slice ends with; `row` is the one before."""
    first, *others = signs.translate(_BARS, _NO_COMMAS).split(b"|")
    row += len(first)
    longest = max([row, *(1 + len(commas) for commas in others)])
    if longest > max_row:
        raise JsonTooLargeError(
            f"The JSON holds more than {max_row:,} numbers or texts in a row (the limit).",
            limit_values=max_row,
        )
    return 1 + len(others[-1]) if others else row


def _outside_of_strings(text: str) -> Iterator[tuple[int, str]]:
    """Yield where each slice of the text begins, and its part outside of strings."""
    begin, is_inside = 0, False
    while begin < len(text):
        part = text[begin : begin + SLICE_CHARS]
        if (len(part) - len(part.rstrip("\\"))) % 2:  # its last character escapes the next one
            part = text[begin : begin + SLICE_CHARS + 1]
        pieces = part.replace("\\\\", "").replace('\\"', "").split('"')
        yield begin, "".join(pieces[is_inside::2])
        is_inside ^= len(pieces) % 2 == 0
        begin += len(part)
