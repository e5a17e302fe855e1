"""The hash by which a timed effect knows its entry: cyrb53 of the entry's JSON text (spec §4)."""

from __future__ import annotations

_MASK = 0xFFFFFFFF


def cyrb53(text: str) -> int:
    """Return the hash of a text, below 2**53, over its UTF-16 code units.

    >>> cyrb53("")
    3338908027751811
    """
    a, b = 0xDEADBEEF, 0x41C6CE57
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    for unit in units:
        a = ((a ^ unit) * 2654435761) & _MASK
        b = ((b ^ unit) * 1597334677) & _MASK
    a = ((a ^ a >> 16) * 2246822507 & _MASK) ^ ((b ^ b >> 13) * 3266489909 & _MASK)
    b = ((b ^ b >> 16) * 2246822507 & _MASK) ^ ((a ^ a >> 13) * 3266489909 & _MASK)
    return (b & 0x1FFFFF) << 32 | a
