"""Reproducible chance: rolls are hashes of their arguments, without generator state."""

import hashlib


def roll(seed: str, entry_id: str) -> float:
    """Return the entry's roll in percent, in [0, 100).

    The roll depends only on the arguments, not on other entries or their order.

    Source: docs/rules/native.md §8.2, with test vectors.

    >>> round(roll("0", "entry-0"), 9)
    83.298553867
    """
    digest = hashlib.sha256(f"{seed}\0{entry_id}".encode()).digest()
    return (
        (int.from_bytes(digest[:8], "big") >> 11) / 2**53 * 100
    )  # 53 bits: never rounds up to 100
