"""Long work as pieces, each short enough that its results can be sent at once."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import Final, TypeVar

Made = TypeVar("Made")

_PIECE_SECONDS: Final = 0.1


def next_turns(turns: Iterator[Made]) -> list[Made]:
    """Return the next turns of a chat, as many as a moment gives; empty at the end."""
    begin, piece = monotonic(), []
    for each in turns:
        piece.append(each)
        if monotonic() - begin > _PIECE_SECONDS:
            break
    return piece
