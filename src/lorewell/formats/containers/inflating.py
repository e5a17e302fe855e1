"""Inflating packed data piece by piece, up to a limit, whatever size was promised."""

from __future__ import annotations

from typing import Final, Protocol

from lorewell.engine.steps import Steps

_PIECE_BYTES: Final = 262_144
_BYTES_A_STEP: Final = 20  # bzip2 is the slowest


class Inflater(Protocol):
    """What the decompressors of the standard library have in common."""

    @property
    def eof(self) -> bool:
        """Whether the data have come to their end."""

    def decompress(self, data: bytes, _max_length: int, /) -> bytes:
        """Return what these bytes inflate to, at most so many bytes."""


def inflate(inflater: Inflater, packed: bytes, *, limit_bytes: int, steps: Steps) -> bytes:
    """Return the inflated bytes, at most one more than the limit; `inflater.eof` says if it is all.

    Args:
        inflater: has inflated nothing yet.
        packed: all that there is.
        limit_bytes: how many bytes may come out.
        steps: counts the work.

    Raises:
        zlib.error, lzma.LZMAError, OSError: the data are damaged, as the inflater says it.
    """
    found: list[bytes] = []
    room = limit_bytes + 1
    at = 0
    rest = b""
    while room and not inflater.eof:
        if not rest and getattr(inflater, "needs_input", True):
            rest = packed[at : at + _PIECE_BYTES]
            at += len(rest)
            if not rest:
                break
        steps.spend("inflating", 1 + (len(rest) + min(room, _PIECE_BYTES)) // _BYTES_A_STEP // 2)
        made = inflater.decompress(rest, min(room, _PIECE_BYTES))
        # The inflater of zlib gives back what it did not look at; the others keep it.
        rest = getattr(inflater, "unconsumed_tail", b"")
        found.append(made)
        room -= len(made)
    return b"".join(found)
