"""The error in a text that can't be parsed."""

from __future__ import annotations

from typing import NamedTuple


class Flaw(NamedTuple):
    """The first error in a text.

    Attributes:
        at: offset in code points; the length of the text stands for its end.
        detail: the error in words.
    """

    at: int
    detail: str
