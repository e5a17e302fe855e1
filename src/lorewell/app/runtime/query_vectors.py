"""Vectors of what is looked for: remembered, and not waited for again and again when none come."""

from __future__ import annotations

import base64
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from lorewell.app.ports import Embedder
from lorewell.errors import EmbeddingUnavailableError

if TYPE_CHECKING:  # who has no vectors loads no numpy for them
    from numpy import float32
    from numpy.typing import NDArray

_MOST = 256
_PAUSE_SECONDS = 5.0


class QueryVector(NamedTuple):
    """The vector of a query and what made it, or why there is none.

    Attributes:
        vector: of length 1.
        embedding_version: of the indexes that it can be compared with.
        degraded: causes as an answer lists them; with any of them there is no vector.
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
    """The vectors of the last queries: retries, previews and searches ask for the same again.

    After a failure nobody asks the embedder for a few seconds: a turn that waits for a server that
    is down would wait for all of its deadline, every time. Belongs to one event loop.
    """

    def __init__(
        self, embedder: Embedder, *, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        """Ask this embedder; `seconds` tells the time that has passed since whenever."""
        self._embedder = embedder
        self._seconds = seconds
        self._held: OrderedDict[str, NDArray[float32]] = OrderedDict()
        self._failed: EmbeddingUnavailableError | None = None
        self._paused_until = 0.0

    async def get(self, text: str) -> NDArray[float32]:
        """Return the vector of a text, of length 1.

        Raises:
            EmbeddingUnavailableError: it can't be had now.
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
        if len(self._held) > _MOST:
            self._held.popitem(last=False)
        return vector

    def forget(self) -> None:
        """Ask anew for every query from now on."""
        self._held.clear()
