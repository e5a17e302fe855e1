"""Unit vectors, and the parser of an embedding server's answers."""

from __future__ import annotations

import binascii
from collections.abc import Sequence

import numpy as np
import orjson
from numpy.typing import NDArray

from lorewell.errors import EmbeddingUnavailableError

_NUMBERS = frozenset({int, float})
_FLOAT32_BYTES = 4


def unit_rows(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return each row divided by its length.

    Args:
        rows: (n, d), not changed.

    Raises:
        EmbeddingUnavailableError: a row is zero, or one of its numbers is not finite.
    """
    largest = np.abs(rows).max(axis=1, initial=0.0, keepdims=True)
    if not np.isfinite(largest).all():
        raise EmbeddingUnavailableError("The embedder returned a number that is not finite.")
    if not largest.all():
        raise EmbeddingUnavailableError("The embedder returned a vector of zeros.")
    scaled = rows / largest  # so that no square leaves the range of a float
    lengths = np.sqrt(np.square(scaled).sum(axis=1, keepdims=True))
    units: NDArray[np.float32] = (scaled / lengths).astype(np.float32)
    return units


def read_vectors(body: bytes, *, count: int, dimensions: int) -> NDArray[np.float32]:
    """Return the vectors in the answer of a server, in the order of the texts.

    Args:
        body: `{"data": [{"index": 0, "embedding": [0.1, …]}, …]}`, in any order. An embedding may
            be the base64 of little-endian float32 numbers. Items without an index are in order.
        count: the number of texts.
        dimensions: the length of a vector.

    Returns:
        (count, dimensions), rows of length 1.

    Raises:
        EmbeddingUnavailableError: the answer is anything else. The message does not quote it.

    Source: the embeddings endpoint of OpenAI's API.
    """
    items = _items(body)
    if len(items) != count:
        text = "text" if count == 1 else "texts"
        raise _unusable(f"{len(items)} vectors for {count} {text}")
    rows = np.empty((count, dimensions), np.float64)
    for position, item in zip(_positions(items), items, strict=True):
        numbers = _numbers(item.get("embedding"))
        if len(numbers) != dimensions:
            raise _unusable(f"vectors of {len(numbers)} numbers; {dimensions} are set")
        rows[position] = numbers
    return unit_rows(rows)


def _unusable(what: str = "no vectors") -> EmbeddingUnavailableError:
    return EmbeddingUnavailableError(f"The embedding server returned {what}.")


def _items(body: bytes) -> Sequence[dict[str, object]]:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    # Outside of the handler: that error holds the body.
    items = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise _unusable()
    return items


def _positions(items: Sequence[dict[str, object]]) -> Sequence[int]:
    """Return the position of each item's text."""
    if not any("index" in item for item in items):
        return range(len(items))
    positions = [position for item in items if type(position := item.get("index")) is int]
    if sorted(positions) != list(range(len(items))):
        raise _unusable("vectors without the index of their texts")
    return positions


def _numbers(embedding: object) -> Sequence[float] | NDArray[np.float32]:
    if isinstance(embedding, str):
        try:
            data = binascii.a2b_base64(embedding, strict_mode=True)
        except ValueError:
            data = b"?"
        if len(data) % _FLOAT32_BYTES == 0:
            return np.frombuffer(data, "<f4")
    elif isinstance(embedding, list) and _NUMBERS.issuperset(map(type, embedding)):
        return embedding
    raise _unusable()
