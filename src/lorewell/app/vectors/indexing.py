"""Vector indexes of revisions: builds and their progress (docs/rules/native.md §10)."""

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
from lorewell.app.vectors.quiet import QuietVectors, embed_quiet, measure, read_scales
from lorewell.errors import (
    EmbeddingUnavailableError,
    IndexBusyError,
    StorageUnavailableError,
    VectorDisabledError,
)
from lorewell.model.index import IndexBuilt, IndexPage, IndexState
from lorewell.model.select import RecallScale
from lorewell.retrieval.chunks import CHUNKER, chunks_of

if TYPE_CHECKING:  # services without vectors never load numpy
    from numpy import float32
    from numpy.typing import NDArray

OnProgress = Callable[[int, int], None]
"""Called with the number of embedded chunks, and of all chunks."""

# Vectors that no chunk uses may belong to a failed build that will be continued.
_KEEP_UNUSED = timedelta(days=1)
_ABANDONED = "The build stopped without an error. Build the index again."
_STOPPED = "The service was stopped during the build."
_INTERNAL = "Internal error; see the log."


def embedding_version(embedder: Embedder) -> str:
    """Return the version of an index's vectors: the model, its dimensions and the chunker."""
    return f"{embedder.version}+{CHUNKER}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexBuild:
    """A claimed build of an index, or an index that was ready before (`reused`).

    Run a claimed build; otherwise it counts as running until its lease ends.
    """

    services: Services
    embedder: Embedder
    row: IndexRow
    content_hash: str
    force: bool
    reused: bool

    @property
    def state(self) -> IndexBuilt:
        """Its progress when it was claimed."""
        return _built(self.services, self.row, reused=self.reused)

    async def run(self, on_progress: OnProgress | None = None) -> IndexBuilt:
        """Build the index, which becomes visible when it is complete.

        Raises:
            EmbeddingUnavailableError: embedding failed; the index has the status `failed` and the
                error.
            IndexBusyError: the lease ended, and another build took over.
        """
        if self.reused:
            return self.state
        return _built(self.services, await _run(self, on_progress), reused=False)

    def start(self, on_progress: OnProgress | None = None) -> asyncio.Task[IndexBuilt]:
        """Build the index in the background; `index_state` returns its progress."""
        return self.services.jobs.start(self.run(on_progress))


async def claim_index(
    services: Services, tenant_id: str, book_id: str, revision: int, *, force: bool = False
) -> IndexBuild:
    """Claim the build of a revision's index; `force` rebuilds an index that is ready.

    Raises:
        BookNotFoundError, RevisionNotFoundError: there is no such book or revision.
        VectorDisabledError: the service has no embedder.
        IndexBusyError: another build is running.
    """
    now, build_id = services.clock.now(), services.new_id()

    def claim(tx: Transaction) -> IndexBuild:
        found = get_revision(tx, get_head(tx, tenant_id, book_id), revision)
        embedder = embedder_of(services)
        wanted = IndexRow(
            tenant_id=tenant_id,
            book_id=found.book_id,
            revision=found.revision,
            embedding_version=embedding_version(embedder),
            status="building",
            build_id=build_id,
            lease_until=now + services.index_lease,
            updated_at=now,
        )
        row, reused = _claim(tx, services, wanted, force=force)
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
    """Return the state of a revision's index (None: the latest revision).

    Raises:
        BookNotFoundError, RevisionNotFoundError: there is no such book or revision.
    """

    def load(tx: Transaction) -> tuple[RevisionRow, IndexRow | None]:
        row = get_revision(tx, get_head(tx, tenant_id, book_id), revision)
        return row, tx.find_index(tenant_id, row.book_id, row.revision)

    row, index = await services.store.read(load)
    return _state(services, row.book_id, row.revision, index)


async def list_indexes(
    services: Services, tenant_id: str, page: PageRequest, *, stale: bool
) -> IndexPage:
    """Return the indexes of the revisions in use; with `stale` only those that need a build.

    Raises:
        ValidationFailedError: the cursor is invalid.
        VectorDisabledError: `stale` is given, and the service has no embedder.
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
        quiet={
            language: RecallScale(mean=scale.mean, deviation=scale.deviation)
            for language, scale in read_scales(row).items()
        },
    )


def is_usable(services: Services, row: IndexRow) -> bool:
    """Return whether a search can use the index: it is ready for the current embedder."""
    embedder = services.embedder
    return embedder is not None and row.ready_version == embedding_version(embedder)


def _built(services: Services, row: IndexRow, *, reused: bool) -> IndexBuilt:
    state = _state(services, row.book_id, row.revision, row)
    return IndexBuilt(**state.model_dump(), reused=reused)


def _is_running(services: Services, row: IndexRow) -> bool:
    lease = row.lease_until
    return row.status == "building" and lease is not None and lease > services.clock.now()


def embedder_of(services: Services) -> Embedder:
    """Return the embedder.

    Raises:
        VectorDisabledError: the service has none.
    """
    if services.embedder is None:
        raise VectorDisabledError(
            "This service has no vectors. Set LOREWELL_EMBEDDER to turn them on."
        )
    return services.embedder


def _claim(
    tx: Transaction, services: Services, claimed: IndexRow, *, force: bool
) -> tuple[IndexRow, bool]:
    """Return the claimed build and False, or the ready index and True."""
    if tx.add_index(claimed):
        return claimed, False
    found = tx.find_index(claimed.tenant_id, claimed.book_id, claimed.revision, lock=True)
    if found is not None and _is_running(services, found):
        message = f"The index of revision {claimed.revision} of {claimed.book_id} is being built."
        raise IndexBusyError(message, book_id=claimed.book_id, revision=claimed.revision)
    if found is not None:
        is_ready = found.status == "ready" and is_usable(services, found)
        if not force and is_ready and found.quiet is not None:
            return found, True
        # The ready vectors stay searchable until the new build is complete.
        claimed = replace(
            claimed,
            ready_version=found.ready_version,
            ready_build_id=found.ready_build_id,
            partial_version=found.partial_version,
            quiet=found.quiet,
        )
    tx.put_index(claimed)
    return claimed, False


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
        await _fail(build, _INTERNAL)
        raise


async def _fail(build: IndexBuild, error: str) -> None:
    """Record the error of the build, if it is still the current one."""
    row, services = build.row, build.services

    def work(tx: Transaction) -> None:
        found = tx.find_index(row.tenant_id, row.book_id, row.revision, lock=True)
        if found is not None and found.build_id == row.build_id and found.status == "building":
            now = services.clock.now()
            failed = replace(found, status="failed", error=error, lease_until=None, updated_at=now)
            tx.put_index(failed)

    with suppress(StorageUnavailableError):  # then the lease ends it
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
    progress = _Progress(build, row, Counter(chunk.text_hash for chunk in chunks), on_progress)
    progress.done = sum(progress.chunks_by_text[name] for name in known)
    missing = [name for name in texts if name not in known]
    await progress.begin([chunk for chunk in chunks if chunk.text_hash in known])
    while True:
        await progress.embed([(name, texts[name]) for name in missing])
        quiet = await embed_quiet(services.queries, again=build.force)
        finish = partial(_finish, progress=progress, chunks=chunks, texts=set(texts), quiet=quiet)
        finished, missing = await services.store.write(finish)
        if not missing:
            break
    if build.force and services.queries is not None:
        services.queries.forget()  # a forced build suggests that the model has changed
    return finished


def _cut(content: bytes) -> tuple[list[Chunk], dict[str, str]]:
    """Return the chunks of a revision, and their texts by hash."""
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
class _Progress:
    """The progress of one build.

    A forced build holds its vectors back until it is complete, because the vectors that it replaces
    are still searched.
    """

    build: IndexBuild
    row: IndexRow
    chunks_by_text: Mapping[str, int]
    on_progress: OnProgress | None
    done: int = 0
    held: dict[str, NDArray[float32]] = field(default_factory=dict)
    _batches: Iterator[Sequence[tuple[str, str]]] = field(default=iter(()))

    async def begin(self, known: Sequence[Chunk]) -> None:
        """Record the number of chunks; those that already have vectors can be searched at once."""
        now = self.build.services.clock.now()

        def work(tx: Transaction) -> None:
            self._advance(tx, done=self.done, now=now)
            if self.row.ready_version is None and known:
                self._store_known(tx, known)

        await self.build.services.store.write(work)

    def _store_known(self, tx: Transaction, known: Sequence[Chunk]) -> None:
        row = self.row
        tx.hold_texts(row.tenant_id)
        names = {chunk.text_hash for chunk in known}
        if tx.known_texts(row.tenant_id, row.embedding_version, sorted(names)) != names:
            return  # some were deleted since; the index can be searched when it is complete
        tx.put_chunks(row.tenant_id, row.book_id, row.revision, row.embedding_version, known)
        found = tx.find_index(row.tenant_id, row.book_id, row.revision, lock=True)
        if found is not None:
            tx.put_index(replace(found, partial_version=row.embedding_version))

    async def embed(self, texts: Sequence[tuple[str, str]]) -> None:
        """Embed texts, given with their hashes, and store the vectors batch by batch."""
        self._report()
        self._batches = _batched(texts, self.build.embedder.batch_size)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.build.embedder.concurrency):
                    group.create_task(self._embed_batches())
        except BaseExceptionGroup as failures:  # the first failure cancelled the others
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
            self._report()

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

    def _report(self) -> None:
        if self.on_progress is not None:
            self.on_progress(self.done, self.row.chunk_count)


def _finish(
    tx: Transaction,
    *,
    progress: _Progress,
    chunks: Sequence[Chunk],
    texts: set[str],
    quiet: QuietVectors | None,
) -> tuple[IndexRow, list[str]]:
    """Make the index ready in one step, or return the texts whose vectors were deleted."""
    services, row = progress.build.services, progress.row
    now = services.clock.now()
    lease = now + services.index_lease
    if not tx.advance_index(row, done=len(chunks), lease_until=lease, updated_at=now):
        raise _taken_over(row)
    tx.hold_texts(row.tenant_id)  # or another build deletes these vectors before chunks use them
    if progress.held:
        tx.put_embeddings(row.tenant_id, row.embedding_version, progress.held, made_at=now)
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
        partial_version=None,
        quiet=None,
    )
    tx.put_index(ready)
    tx.put_chunks(row.tenant_id, row.book_id, row.revision, row.embedding_version, chunks)
    if quiet is not None:
        ready = replace(ready, quiet=measure(tx, ready, quiet))
        tx.put_index(ready)
    tx.drop_embeddings(row.tenant_id, now - _KEEP_UNUSED)
    return ready, []


def _taken_over(row: IndexRow) -> IndexBusyError:
    message = f"Another build of revision {row.revision} of {row.book_id} took over."
    return IndexBusyError(message, book_id=row.book_id, revision=row.revision)


def _batched(texts: Sequence[tuple[str, str]], size: int) -> Iterator[Sequence[tuple[str, str]]]:
    left = iter(texts)
    while batch := list(islice(left, size)):
        yield batch
