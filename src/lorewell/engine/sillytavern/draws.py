"""The random numbers of a scan: given by the request, or derived from its seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from lorewell.errors import Fault, ValidationFailedError


class RandomDraws:
    """A sequence of numbers in [0, 1).

    >>> RandomDraws("0", (0.25, 0.5)).next()
    0.25
    """

    def __init__(self, seed: str, given: Sequence[float] | None = None) -> None:
        """Start with the first given number, or with the first one derived from the seed."""
        self._seed = seed
        self._given = given
        self.used = 0

    def next(self) -> float:
        """Return the next number.

        Raises:
            ValidationFailedError: no given number is left.
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
