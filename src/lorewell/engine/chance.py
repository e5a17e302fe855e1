"""Chance that is the same on every machine: a hash of its arguments, no generator state."""

import hashlib


def roll(seed: str, entry_id: str) -> float:
    """Return the entry's roll in percent, in [0, 100).

    Depends on its arguments alone, so neither the order of entries nor other entries change it.

    Source: docs/rules/native.md §8.2, with test vectors.

    >>> round(roll("0", "entry-0"), 9)
    83.298553867
    """
    digest = hashlib.sha256(f"{seed}\0{entry_id}".encode()).digest()
    return (
        (int.from_bytes(digest[:8], "big") >> 11) / 2**53 * 100
    )  # 53 bits: never rounds up to 100
