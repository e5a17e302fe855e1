"""Vector indexes of revisions: their builds, and how far they are (docs/rules/native.md §10)."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from lorewell.app.books import get_head, get_revision
from lorewell.app.documents import load_model
from lorewell.app.pages import PageRequest, cut_page, parse_number
from lorewell.app.ports import Embedder, Transaction
from lorewell.app.rows import Chunk, IndexRow, RevisionRow
from lorewell.app.services import Services
from lorewell.app.times import stamp
from lorewell.errors import (
    EmbeddingUnavailableError,
    IndexBusyError,
    StorageUnavailableError,
    VectorDisabledError,
)
from lorewell.model.index import IndexBuilt, IndexPage, IndexState
from lorewell.retrieval.chunks import CHUNKER, chunks_of

if TYPE_CHECKING:  # who has no vectors loads no numpy for them
    from numpy import float32
    from numpy.typing import NDArray

OnProgress = Callable[[int, int], None]
"""Told how many chunks have their vectors, and of how many."""

# Vectors that no chunk names may be those of a build that goes on after a failure.
_KEEP_UNNAMED = timedelta(days=1)
_ABANDONED = "The build stopped without a word; build it again."
_STOPPED = "The service was stopped while it built."
_INSIDE = "Something went wrong inside; the log has it."


def embedding_version(embedder: Embedder) -> str:
    """Return what names the vectors of an index: the model, its dimension and the chunks."""
    return f"{embedder.version}+{CHUNKER}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexBuild:
    """A build that nobody else runs, or an index that was ready before (`reused`).

    What was claimed must be run, or it counts as running until its lease ends.
    """

    services: Services
    embedder: Embedder
    row: IndexRow
    content_hash: str
    force: bool
    reused: bool

    @property
    def state(self) -> IndexBuilt:
        """How far it was when it was claimed."""
        return _built(self.services, self.row, reused=self.reused)

    async def run(self, on_progress: OnProgress | None = None) -> IndexBuilt:
        """Make the index; nobody sees it before it is whole.

        Raises:
            EmbeddingUnavailableError: the vectors could not be had; the index says `failed` and
                why.
            IndexBusyError: its lease ended meanwhile, and somebody else took over.
        """
        if self.reused:
            return self.state
        return _built(self.services, await _run(self, on_progress), reused=False)

    def start(self, on_progress: OnProgress | None = None) -> asyncio.Task[IndexBuilt]:
        """Make the index beside what goes on; `index_state` tells how far it is."""
        return self.services.jobs.start(self.run(on_progress))


async def claim_index(
    services: Services, tenant_id: str, book_id: str, revision: int, *, force: bool = False
) -> IndexBuild:
    """Return the build of a revision's index, begun; with `force` also of one that is ready.

    Raises:
        BookNotFoundError, RevisionNotFoundError: it is not there.
        VectorDisabledError: there are no vectors here.
        IndexBusyError: somebody else builds it.
    """
    now, build_id = services.clock.now(), services.new_id()

    def claim(tx: Transaction) -> IndexBuild:
        found = get_revision(tx, get_head(tx, tenant_id, book_id), revision)
        embedder = embedder_of(services)
        mine = IndexRow(
            tenant_id=tenant_id,
            book_id=found.book_id,
            revision=found.revision,
            embedding_version=embedding_version(embedder),
            status="building",
            build_id=build_id,
            lease_until=now + services.index_lease,
            updated_at=now,
        )
        row, reused = _take(tx, services, mine, force=force)
        return IndexBuild(
            services=services,
            embedder=embedder,
            row=row,
            content_hash=found.content_hash,
            force=force,
            reused=reused,
        )

    return await services.store.write(claim)


async def index_state(
    services: Services, tenant_id: str, book_id: str, revision: int | None
) -> IndexState:
    """Return how far the index of a revision is, of the latest one for None.

    Raises:
        BookNotFoundError, RevisionNotFoundError: it is not there.
    """

    def load(tx: Transaction) -> tuple[RevisionRow, IndexRow | None]:
        row = get_revision(tx, get_head(tx, tenant_id, book_id), revision)
        return row, tx.find_index(tenant_id, row.book_id, row.revision)

    row, index = await services.store.read(load)
    return _state(services, row.book_id, row.revision, index)


async def list_indexes(
    services: Services, tenant_id: str, page: PageRequest, *, stale: bool
) -> IndexPage:
    """Return the indexes of the revisions in use; with `stale` those that can't be used alone.

    Raises:
        ValidationFailedError: the cursor is none of this list.
        VectorDisabledError: what can be used is asked for, and there are no vectors here.
    """
    version = embedding_version(embedder_of(services)) if stale else None
    after = None if page.cursor is None else _parse_cursor(page.cursor)
    found = await services.store.read(
        lambda tx: tx.list_indexes(
            tenant_id, limit=page.limit + 1, after=after, not_ready_for=version
        )
    )
    shown, next_cursor = cut_page(found, page, lambda each: "{}:{}".format(*each))
    return IndexPage(
        indexes=tuple(_state(services, *each) for each in shown), next_cursor=next_cursor
    )


def _parse_cursor(cursor: str) -> tuple[str, int]:
    book_id, _, revision = cursor.rpartition(":")
    return book_id, parse_number(revision)


def _state(services: Services, book_id: str, revision: int, row: IndexRow | None) -> IndexState:
    if row is None:
        return IndexState(
            book_id=book_id,
            revision=revision,
            status="absent",
            embedding_version=None,
            chunk_count=0,
            done=0,
            usable=False,
            error=None,
            updated_at=None,
        )
    abandoned = row.status == "building" and not _is_running(services, row)
    return IndexState(
        book_id=book_id,
        revision=revision,
        status="failed" if abandoned else row.status,
        embedding_version=row.embedding_version,
        chunk_count=row.chunk_count,
        done=row.done,
        usable=is_usable(services, row),
        error=_ABANDONED if abandoned else row.error,
        updated_at=stamp(row.updated_at),
    )


def is_usable(services: Services, row: IndexRow) -> bool:
    """Return whether a search can use the index: it has vectors, and they are of our kind."""
    embedder = services.embedder
    return embedder is not None and row.ready_version == embedding_version(embedder)


def _built(services: Services, row: IndexRow, *, reused: bool) -> IndexBuilt:
    state = _state(services, row.book_id, row.revision, row)
    return IndexBuilt(**state.model_dump(), reused=reused)


def _is_running(services: Services, row: IndexRow) -> bool:
    lease = row.lease_until
    return row.status == "building" and lease is not None and lease > services.clock.now()


def embedder_of(services: Services) -> Embedder:
    """Return what makes vectors.

    Raises:
        VectorDisabledError: there are none here.
    """
    if services.embedder is None:
        raise VectorDisabledError("This service has no vectors; LOREWELL_EMBEDDER turns them on.")
    return services.embedder


def _take(
    tx: Transaction, services: Services, mine: IndexRow, *, force: bool
) -> tuple[IndexRow, bool]:
    """Return my build, or what is ready and True."""
    if tx.add_index(mine):
        return mine, False
    found = tx.find_index(mine.tenant_id, mine.book_id, mine.revision, lock=True)
    if found is not None and _is_running(services, found):
        message = f"The index of revision {mine.revision} of {mine.book_id} is being built."
        raise IndexBusyError(message, book_id=mine.book_id, revision=mine.revision)
    if found is not None:
        if not force and found.status == "ready" and is_usable(services, found):
            return found, True
        # What can be searched stays so until the new build is whole, or if it fails.
        mine = replace(mine, ready_version=found.ready_version, ready_build_id=found.ready_build_id)
    tx.put_index(mine)
    return mine, False


async def _run(build: IndexBuild, on_progress: OnProgress | None) -> IndexRow:
    try:
        return await _build(build, on_progress)
    except (EmbeddingUnavailableError, StorageUnavailableError) as error:
        await _fail(build, str(error))
        raise
    except IndexBusyError:
        raise
    except asyncio.CancelledError:
        await asyncio.shield(_fail(build, _STOPPED))
        raise
    except Exception:
        await _fail(build, _INSIDE)
        raise


async def _fail(build: IndexBuild, error: str) -> None:
    """Write down why the build failed, if it still is the one that runs."""
    row, services = build.row, build.services

    def work(tx: Transaction) -> None:
        found = tx.find_index(row.tenant_id, row.book_id, row.revision, lock=True)
        if found is not None and found.build_id == row.build_id and found.status == "building":
            now = services.clock.now()
            failed = replace(found, status="failed", error=error, lease_until=None, updated_at=now)
            tx.put_index(failed)

    with suppress(StorageUnavailableError):  # then it is dead when its lease ends
        await services.store.write(work)


async def _build(build: IndexBuild, on_progress: OnProgress | None) -> IndexRow:
    services, row = build.services, build.row
    content = await services.store.read(
        lambda tx: tx.get_content(row.tenant_id, build.content_hash)
    )
    chunks, texts = await services.computing.finish(row.tenant_id, lambda: _cut(content))
    row = replace(row, chunk_count=len(chunks))
    known = frozenset[str]()
    if not build.force:
        known = await services.store.read(
            lambda tx: tx.known_texts(row.tenant_id, row.embedding_version, list(texts))
        )
    work = _Work(build, row, Counter(chunk.text_hash for chunk in chunks), on_progress)
    work.done = sum(work.chunks_by_text[name] for name in known)
    missing = [name for name in texts if name not in known]
    await work.begin()
    while True:
        await work.embed([(name, texts[name]) for name in missing])
        finished, missing = await services.store.write(
            lambda tx: _finish(tx, work, chunks, set(texts))
        )
        if not missing:
            break
    if build.force and services.queries is not None:
        services.queries.forget()  # whoever forces a build may have changed the model
    return finished


def _cut(content: bytes) -> tuple[list[Chunk], dict[str, str]]:
    """Return the chunks of a revision, and the texts to be embedded by their hashes."""
    chunks: list[Chunk] = []
    texts: dict[str, str] = {}
    for place, entry in enumerate(load_model(content).entries):
        if not entry.recall:
            continue
        for start, text in chunks_of(entry.title, entry.content):
            name = hashlib.sha256(text.encode()).hexdigest()
            texts[name] = text
            chunks.append(Chunk(place, start, name))
    return chunks, texts


@dataclass(slots=True)
class _Work:
    """The texts of one build on their way to vectors.

    What is made by force is held back until it is whole: the vectors that it replaces are searched
    meanwhile.
    """

    build: IndexBuild
    row: IndexRow
    chunks_by_text: Mapping[str, int]
    on_progress: OnProgress | None
    done: int = 0
    held: dict[str, NDArray[float32]] = field(default_factory=dict)
    _batches: Iterator[Sequence[tuple[str, str]]] = field(default=iter(()))

    async def begin(self) -> None:
        """Say how many chunks there are, and how many have their vectors from before."""
        now = self.build.services.clock.now()
        await self.build.services.store.write(partial(self._advance, done=self.done, now=now))

    async def embed(self, texts: Sequence[tuple[str, str]]) -> None:
        """Embed texts, given with their hashes, and keep what comes batch by batch."""
        self._tell()
        self._batches = _batched(texts, self.build.embedder.batch_size)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.build.embedder.concurrency):
                    group.create_task(self._embed_batches())
        except BaseExceptionGroup as failures:  # the first one ended all the others
            raise failures.exceptions[0] from None

    async def _embed_batches(self) -> None:
        for batch in self._batches:
            vectors = await self.build.embedder.embed_texts([text for _, text in batch])
            self.done += sum(self.chunks_by_text[name] for name, _ in batch)
            named = {name: vector for (name, _), vector in zip(batch, vectors, strict=True)}
            if self.build.force:
                self.held.update(named)
                named = {}
            services = self.build.services
            keep = partial(self._keep, vectors=named, done=self.done, now=services.clock.now())
            await services.store.write(keep)
            self._tell()

    def _keep(
        self, tx: Transaction, *, vectors: Mapping[str, NDArray[float32]], done: int, now: datetime
    ) -> None:
        self._advance(tx, done=done, now=now)
        row = self.row
        tx.put_embeddings(row.tenant_id, row.embedding_version, vectors, made_at=now)

    def _advance(self, tx: Transaction, *, done: int, now: datetime) -> None:
        lease = now + self.build.services.index_lease
        if not tx.advance_index(self.row, done=done, lease_until=lease, updated_at=now):
            raise _taken_over(self.row)

    def _tell(self) -> None:
        if self.on_progress is not None:
            self.on_progress(self.done, self.row.chunk_count)


def _finish(
    tx: Transaction, work: _Work, chunks: Sequence[Chunk], texts: set[str]
) -> tuple[IndexRow, list[str]]:
    """Make the index ready, all in one; or return the texts whose vectors are gone meanwhile."""
    services, row = work.build.services, work.row
    now = services.clock.now()
    lease = now + services.index_lease
    if not tx.advance_index(row, done=len(chunks), lease_until=lease, updated_at=now):
        raise _taken_over(row)
    tx.hold_texts(row.tenant_id)  # or another build drops what is known before it has a name
    if work.held:
        tx.put_embeddings(row.tenant_id, row.embedding_version, work.held, made_at=now)
    missing = texts - tx.known_texts(row.tenant_id, row.embedding_version, sorted(texts))
    if missing:
        return row, sorted(missing)
    ready = replace(
        row,
        status="ready",
        done=len(chunks),
        lease_until=None,
        updated_at=now,
        ready_version=row.embedding_version,
        ready_build_id=row.build_id,
    )
    tx.put_index(ready)
    tx.put_chunks(row.tenant_id, row.book_id, row.revision, row.embedding_version, chunks)
    tx.drop_embeddings(row.tenant_id, now - _KEEP_UNNAMED)
    return ready, []


def _taken_over(row: IndexRow) -> IndexBusyError:
    message = f"Another build of revision {row.revision} of {row.book_id} took over."
    return IndexBusyError(message, book_id=row.book_id, revision=row.revision)


def _batched(texts: Sequence[tuple[str, str]], size: int) -> Iterator[Sequence[tuple[str, str]]]:
    left = iter(texts)
    while batch := list(islice(left, size)):
        yield batch
