"""What is wrong with a text that can't be read."""

from __future__ import annotations

from typing import NamedTuple


class Flaw(NamedTuple):
    """What is wrong with a text.

    Attributes:
        at: where, in code points from its beginning; its length stands for its end.
        detail: what, in words.
    """

    at: int
    detail: str
