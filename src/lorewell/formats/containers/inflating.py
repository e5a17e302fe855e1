"""Decompresses data piece by piece up to a limit, whatever size the file declares."""

from __future__ import annotations

from typing import Final, Protocol

from lorewell.engine.steps import Steps

_PIECE_BYTES: Final = 262_144
_BYTES_A_STEP: Final = 20  # bzip2 is the slowest


class Inflater(Protocol):
    """The common interface of the standard library's decompressors."""

    @property
    def eof(self) -> bool:
        """Whether the end of the data is reached."""

    def decompress(self, data: bytes, _max_length: int, /) -> bytes:
        """Return the decompressed bytes, at most `_max_length`."""


def inflate(inflater: Inflater, packed: bytes, *, limit_bytes: int, steps: Steps) -> bytes:
    """Return the decompressed bytes, at most one more than the limit.

    After the call, `inflater.eof` is true if they are complete.

    Args:
        inflater: a new decompressor.
        packed: the whole compressed data.
        limit_bytes: most bytes to return.
        steps: counts the work.

    Raises:
        zlib.error, lzma.LZMAError, OSError: the data are damaged; the class depends on `inflater`.
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
        piece = inflater.decompress(rest, min(room, _PIECE_BYTES))
        # The decompressor of zlib returns unused input; the others keep it.
        rest = getattr(inflater, "unconsumed_tail", b"")
        found.append(piece)
        room -= len(piece)
    return b"".join(found)
