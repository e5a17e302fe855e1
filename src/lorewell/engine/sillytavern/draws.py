"""The random numbers of a scan: those given, or a stream that follows from the seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from lorewell.errors import Fault, ValidationFailedError


class RandomDraws:
    """Gives one number after the other, in [0, 1).

    >>> RandomDraws("0", (0.25, 0.5)).next()
    0.25
    """

    def __init__(self, seed: str, given: Sequence[float] | None = None) -> None:
        """Begin with the first one given; without any, with the first one of the seed."""
        self._seed = seed
        self._given = given
        self.used = 0

    def next(self) -> float:
        """Return the next number.

        Raises:
            ValidationFailedError: the numbers given are used up.
        """
        number = self.used
        self.used += 1
        if self._given is None:
            digest = hashlib.sha256(f"{self._seed}\0{number}".encode()).digest()
            return (int.from_bytes(digest[:8], "big") >> 11) / 2**53  # 53 bits: never 1
        if number >= len(self._given):
            detail = f"the scan needs more than {len(self._given)} numbers"
            raise ValidationFailedError.at(Fault("/draws", detail))
        return self._given[number]
