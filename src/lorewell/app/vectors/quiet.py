"""What texts that need no lore reach in an index (docs/rules/native.md §9.3.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

import orjson

from lorewell.app.ports import Transaction
from lorewell.app.rows import IndexRow
from lorewell.app.runtime.query_vectors import QueryVectors
from lorewell.errors import EmbeddingUnavailableError
from lorewell.retrieval.evidence import QuietScale, vector_scale
from lorewell.retrieval.quiet import QUIET_TEXTS

if TYPE_CHECKING:  # services without vectors never load numpy
    from numpy import float32
    from numpy.typing import NDArray

QuietVectors = Mapping[str, Sequence["NDArray[float32]"]]
"""The vectors of the quiet texts, embedded as queries, by language."""


async def embed_quiet(queries: QueryVectors | None, *, again: bool) -> QuietVectors | None:
    """Return the vectors of the quiet texts, embedded `again` or once; None if this fails."""
    if queries is None:
        return None
    try:
        texts = list(chain.from_iterable(QUIET_TEXTS.values()))
        vectors = iter(await queries.get_kept(texts, again=again))
    except EmbeddingUnavailableError:
        return None
    return {language: list(islice(vectors, len(own))) for language, own in QUIET_TEXTS.items()}


def measure(tx: Transaction, index: IndexRow, quiet: QuietVectors) -> str:
    """Return what quiet texts reach at most in a ready index, by language, as it is stored."""
    scales = {
        language: [*vector_scale(_highest(tx, index, vector) for vector in vectors)]
        for language, vectors in quiet.items()
    }
    return orjson.dumps(scales).decode()


def read_scales(index: IndexRow) -> Mapping[str, QuietScale]:
    """Return the scales of an index by language; none if it has not been measured."""
    stored = {} if index.quiet is None else orjson.loads(index.quiet)
    return {language: QuietScale(*scale) for language, scale in stored.items()}


def _highest(tx: Transaction, index: IndexRow, vector: NDArray[float32]) -> float:
    return float(tx.similarities(index, vector).similarities.max(initial=0.0))
