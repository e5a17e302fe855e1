"""How near chunks are to a query: each store agrees with a plain cosine of 64-bit numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import fsum, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from contract.harness import Harness, opened
from contract.rows import START, add_book, uuid
from fakes import MemoryStore
from lorewell.app.ports import Store, Transaction
from lorewell.app.rows import Chunk, IndexRow
from lorewell.store import open_store

NUMBERS = st.floats(-1, 1, width=32).filter(lambda number: abs(number) > 1e-3)


@pytest.fixture(scope="module", params=["memory", "sqlite", "postgres"])
def db(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    store: Store = MemoryStore()
    if request.param == "sqlite":
        folder: Path = tmp_path_factory.mktemp("similarities")
        store = open_store(f"sqlite:///{folder / 'books.db'}")
    elif request.param == "postgres":
        make: Callable[[], str] = request.getfixturevalue("make_database")
        store = open_store(make())
    with opened(store) as harness:
        harness.write(add_book(1))
        yield harness


@st.composite
def searches(draw: st.DrawFn) -> tuple[list[list[float]], list[int], list[float]]:
    """Return vectors, which of them each chunk has, and a query, all of some length."""
    dimensions = draw(st.integers(1, 40))
    vector = st.lists(NUMBERS, min_size=dimensions, max_size=dimensions)
    vectors = draw(st.lists(vector, min_size=1, max_size=8))
    chunks = draw(st.lists(st.integers(0, len(vectors) - 1), max_size=12))
    return vectors, chunks, draw(vector)


def unit(numbers: list[float]) -> Any:
    array = np.array(numbers, np.float64)
    return (array / np.linalg.norm(array)).astype(np.float32)


def cosine(one: list[float], other: list[float]) -> float:
    length = sqrt(fsum(n * n for n in one)) * sqrt(fsum(n * n for n in other))
    return fsum(a * b for a, b in zip(one, other, strict=True)) / length


@given(searches())
@settings(max_examples=30, suppress_health_check=[HealthCheck.filter_too_much])  # builds
def test_similarities_are_cosines(
    db: Harness, search: tuple[list[list[float]], list[int], list[float]]
) -> None:
    vectors, chunks, query = search
    version = f"模型/{len(query)}"
    number = getattr(db, "builds", 0) + 1
    db.builds = number  # type: ignore[attr-defined]  each build has an id of its own
    index = IndexRow(
        tenant_id="a",
        book_id=uuid(1),
        revision=1,
        embedding_version=version,
        status="building",
        build_id=f"build-{number}",
        updated_at=START,
    )
    ready = replace(
        index,
        status="ready",
        chunk_count=len(chunks),
        done=len(chunks),
        ready_version=index.embedding_version,
        ready_build_id=index.build_id,
    )

    def build(tx: Transaction) -> None:
        tx.put_index(ready)
        tx.put_chunks("a", uuid(1), 1, version, [])
        named = {f"text-{n}": unit(each) for n, each in enumerate(vectors)}
        tx.put_embeddings("a", version, named, START)
        found = [Chunk(place, 1_000 * place, f"text-{n}") for place, n in enumerate(chunks)]
        tx.put_chunks("a", uuid(1), 1, version, found)

    db.write(build)
    scores = db.read(lambda tx: tx.similarities(ready, unit(query)))
    found = sorted(zip(*(each.tolist() for each in scores), strict=True))
    assert found == [
        (place, 1_000 * place, pytest.approx(cosine(vectors[n], query), abs=1e-5))
        for place, n in enumerate(chunks)
    ]
    limit = len(chunks) + 1
    near = db.read(lambda tx: tx.near_chunks("a", version, unit(query), limit=limit))
    assert [each.similarity for each in near] == pytest.approx(
        sorted((similarity for _, _, similarity in found), reverse=True), abs=1e-6
    )
