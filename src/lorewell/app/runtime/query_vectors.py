"""Vectors of queries: cached, with a pause after failures of the embedder."""

from __future__ import annotations

import base64
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from lorewell.app.ports import Embedder
from lorewell.errors import EmbeddingUnavailableError

if TYPE_CHECKING:  # services without vectors never load numpy
    from numpy import float32
    from numpy.typing import NDArray

_MAX_QUERIES = 256
_PAUSE_SECONDS = 5.0


class QueryVector(NamedTuple):
    """The vector of a query, or the causes why there is none.

    Attributes:
        vector: of length 1.
        embedding_version: of the indexes that the vector can be compared with.
        degraded: causes, as in the answer's `degraded`; with any, there is no vector.
    """

    vector: NDArray[float32] | None = None
    embedding_version: str | None = None
    degraded: tuple[str, ...] = ()

    def to_members(self) -> dict[str, Any]:
        """Return it as JSON-safe members."""
        vector = self.vector
        written = (
            None if vector is None else base64.b64encode(vector.astype("<f4").tobytes()).decode()
        )
        return {**self._asdict(), "vector": written}

    @classmethod
    def from_members(cls, members: Mapping[str, Any]) -> Self:
        """Return what `to_members` wrote."""
        import numpy as np  # noqa: PLC0415  see above

        written = members["vector"]
        vector = None if written is None else np.frombuffer(base64.b64decode(written), "<f4")
        return cls(vector, members["embedding_version"], tuple(members["degraded"]))


class QueryVectors:
    """The vectors of recent queries, since retries, previews and searches repeat them.

    After a failure, the embedder is not called for a few seconds. Otherwise every turn would wait
    for its whole deadline while the server is down. Belongs to one event loop.
    """

    def __init__(
        self, embedder: Embedder, *, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        """Use this embedder; `seconds` is a monotonic clock."""
        self._embedder = embedder
        self._seconds = seconds
        self._held: OrderedDict[str, NDArray[float32]] = OrderedDict()
        self._kept: dict[str, NDArray[float32]] = {}
        self._failed: EmbeddingUnavailableError | None = None
        self._paused_until = 0.0

    async def get(self, text: str) -> NDArray[float32]:
        """Return the vector of a text, of length 1.

        Raises:
            EmbeddingUnavailableError: the embedder failed now or a few seconds ago.
        """
        held = self._held.get(text)
        if held is not None:
            self._held.move_to_end(text)
            return held
        if self._failed is not None and self._seconds() < self._paused_until:
            raise EmbeddingUnavailableError(str(self._failed))
        try:
            vector = await self._embedder.embed_query(text)
        except EmbeddingUnavailableError as error:
            self._failed, self._paused_until = error, self._seconds() + _PAUSE_SECONDS
            raise
        self._failed = None
        self._held[text] = vector
        if len(self._held) > _MAX_QUERIES:
            self._held.popitem(last=False)
        return vector

    async def get_kept(
        self, texts: Sequence[str], *, again: bool = False
    ) -> Sequence[NDArray[float32]]:
        """Return the vectors of texts that each index needs; they stay until `forget`.

        Args:
            texts: in any order.
            again: whether to embed them anew.

        Raises:
            EmbeddingUnavailableError: the embedder failed.
        """
        missing = iter([text for text in texts if again or text not in self._kept])
        while batch := list(islice(missing, self._embedder.batch_size)):
            vectors = await self._embedder.embed_texts(batch, as_queries=True)
            self._kept.update(zip(batch, vectors, strict=True))
        return [self._kept[text] for text in texts]

    def forget(self) -> None:
        """Drop all vectors, so that each query is embedded again."""
        self._held.clear()
        self._kept.clear()
