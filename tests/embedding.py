"""Vectors for tests: hashed pieces of words, and an embedder that makes them in process.

Texts that share pieces of one to three characters are near each other, in any script. Nothing here
knows what words mean: `market` and `bazaar` are as far apart as any two.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from lorewell.errors import EmbeddingUnavailableError
from lorewell.retrieval.quiet import QUIET_TEXTS

DIMENSIONS = 64
QUIET = frozenset(chain.from_iterable(QUIET_TEXTS.values()))


@cache
def _slot(piece: str) -> tuple[int, float]:
    """Return a large number that stands for the piece, and a sign."""
    number = int.from_bytes(hashlib.blake2b(piece.encode(), digest_size=8).digest(), "big")
    return number >> 1, 1.0 if number & 1 else -1.0


def embed(text: str, dimensions: int = DIMENSIONS) -> NDArray[np.float32]:
    """Return the text's vector, of length 1; never zero, not even for an empty text.

    >>> bool(embed("Ｌamp") @ embed("lamp") > 0.99)
    True
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    vector = np.zeros(dimensions, np.float64)
    for size in (1, 2, 3):
        for start in range(len(folded) - size + 1):
            number, sign = _slot(folded[start : start + size])
            vector[number % dimensions] += sign
    if not vector.any():
        vector[0] = 1.0
    return (vector / np.linalg.norm(vector)).astype(np.float32)


class TinyEmbedder:
    """An `Embedder` in process. It may be changed at any time.

    Attributes:
        version: set another to be another model.
        fails: a sentence to fail with, None to work.
        before: awaited at the begin of each call, so that a test can hold it up or change
            something in the midst of a build.
        batches: the texts of each call to `embed_texts`, also of those that failed; not those that
            each index is measured with.
        queries: the texts given to `embed_query`, also of those that failed.
        prepared: how often `prepare` was called.
        closed: whether `close` was called.
    """

    def __init__(
        self,
        *,
        version: str = "tiny/1",
        dimensions: int = DIMENSIONS,
        batch_size: int = 64,
        concurrency: int = 4,
    ) -> None:
        self.version = version
        self.dimensions = dimensions
        self.batch_size = batch_size
        self.concurrency = concurrency
        self.fails: str | None = None
        self.before: Callable[[], Awaitable[None]] | None = None
        self.batches: list[tuple[str, ...]] = []
        self.queries: list[str] = []
        self.prepared = 0
        self.closed = False

    @property
    def texts(self) -> list[str]:
        """All texts that came to `embed_texts`, in their order."""
        return [text for batch in self.batches for text in batch]

    async def embed_texts(
        self, texts: Sequence[str], *, as_queries: bool = False
    ) -> NDArray[np.float32]:
        assert 0 < len(texts) <= self.batch_size
        if not as_queries:  # the texts that each index is measured with never fail
            self.batches.append(tuple(texts))
            await self._begin()
        return np.stack([embed(text, self.dimensions) for text in texts])

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        self.queries.append(text)
        await self._begin()
        return embed(text, self.dimensions)

    async def prepare(self) -> None:
        self.prepared += 1
        await self._begin()

    async def close(self) -> None:
        self.closed = True

    async def _begin(self) -> None:
        if self.before is not None:
            await self.before()
        if self.fails is not None:
            raise EmbeddingUnavailableError(self.fails)
