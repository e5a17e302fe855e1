"""How many values a JSON text holds and how deep they nest, told before anything is built of it.

A value of two bytes takes dozens of bytes of memory once it is built. So a text is scanned first:
in pieces, as a single call on a long text would keep all other threads waiting.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import accumulate
from typing import Final, NamedTuple

PIECE_BYTES: Final = 65_536

_BRACKETS: Final = b"[]{}"
_NO_BRACKET: Final = bytes(set(range(256)) - set(_BRACKETS))
_ROW: Final = bytes.maketrans(_BRACKETS, b"||||")
_NOT_IN_ROW: Final = bytes(set(range(256)) - set(_BRACKETS) - set(b","))
_STEPS: Final = bytes.maketrans(
    b"[{]}", b"\x01\x01\xff\xff"
)  # as signed bytes: one deeper, one less


class Structure(NamedTuple):
    """What a scan of a JSON text found.

    Attributes:
        values: how many values there are at most; names of members are none.
        nesting: how deep lists and objects nest.
        row: values in a row that are neither lists nor objects, at most. A parser in C builds them
            in one go.
    """

    values: int
    nesting: int
    row: int


def scan_structure(
    data: bytes, *, most_values: int, paused: Callable[[], None] | None = None
) -> Structure:
    r"""Return how much there is in a JSON text; what is no JSON is scanned as if it were.

    Args:
        data: the text in UTF-8.
        most_values: once there are more, the scan ends.
        paused: called after each piece; it may raise.

    >>> scan_structure(b'{"a,\\"[": [1, 2]}', most_values=10)
    Structure(values=4, nesting=2, row=2)
    """
    values, depth, deepest = 1, 0, 0
    row, longest = 1, 1
    is_text = False
    carried = b""
    for start in range(0, len(data), PIECE_BYTES):
        piece = carried + data[start : start + PIECE_BYTES]
        # A backslash that begins an escape stays with what it escapes.
        carried = b"\\" if (len(piece) - len(piece.rstrip(b"\\"))) % 2 else b""
        piece = piece[: len(piece) - len(carried)]
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        bare = b"".join(parts[is_text::2])
        is_text ^= len(parts) % 2 == 0
        values += bare.count(b",") + bare.count(b"[") + bare.count(b"{")
        first, *others = bare.translate(_ROW, _NOT_IN_ROW).split(b"|")
        row += len(first)
        if others:
            longest = max(longest, row, 1 + max(map(len, others)))
            row = 1 + len(others[-1])
        brackets = array("b", bare.translate(_STEPS, _NO_BRACKET))
        if brackets:
            deepest = max(deepest, *accumulate(brackets, initial=depth))
            depth += sum(brackets)
        if paused is not None:
            paused()
        if values > most_values:
            break
    return Structure(values, deepest, max(row, longest))
