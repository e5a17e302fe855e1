"""The protocol between the engine's process and ours: frames of a number and some bytes."""

from __future__ import annotations

import os
import struct
from typing import Final

_HEAD: Final = struct.Struct("!Id")
_MOST_AT_ONCE: Final = 1 << 20


def send(pipe: int, number: float, body: bytes) -> None:
    """Write a frame to a file descriptor.

    Raises:
        OSError: the other end is closed.
    """
    rest = memoryview(_HEAD.pack(len(body), number) + body)
    while rest:
        rest = rest[os.write(pipe, rest[:_MOST_AT_ONCE]) :]


def receive(pipe: int) -> tuple[float, bytes]:
    """Read a frame from a file descriptor.

    Raises:
        EOFError: the other end is closed.
    """
    size, number = _HEAD.unpack(_read(pipe, _HEAD.size))
    return number, _read(pipe, size)


def _read(pipe: int, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = os.read(pipe, min(size, _MOST_AT_ONCE))
        if not part:
            message = "The other end is closed."
            raise EOFError(message)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
