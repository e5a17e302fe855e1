"""Selections from stored books, previews, and the ledgers of kept selections (§4, §6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, ClassVar, Self, TypeVar

from lorewell.app.bindings import settings_of
from lorewell.app.books import get_head, get_revision
from lorewell.app.changes import apply_changes
from lorewell.app.computing.pool import ComputeTurn
from lorewell.app.documents import load_model
from lorewell.app.ledgers import LedgerRef
from lorewell.app.live.events import of_selection
from lorewell.app.loaded import (
    LoadedRevision,
    find_or_read,
    get_compiled,
    key_of,
    load_book,
    load_books,
)
from lorewell.app.native.short import (
    SHORT_IN_THREAD_MS,
    SHORT_MS,
    NotShortError,
    may_be_short,
    short_steps,
)
from lorewell.app.ports import Transaction
from lorewell.app.runtime.cache import BookCache
from lorewell.app.runtime.query_vectors import QueryVector
from lorewell.app.services import Services
from lorewell.app.vectors.similarities import degrade, embed_query, not_ready, scores_of
from lorewell.engine.native import NO_VECTORS, VectorScores, recall_text, select
from lorewell.engine.native.compile import compile_book
from lorewell.engine.native.compiled import CompiledBook
from lorewell.engine.steps import NO_LIMIT, Steps
from lorewell.errors import NotFoundError
from lorewell.host.usage import with_native
from lorewell.insight.explain import explain_context as explain
from lorewell.model import (
    BookRef,
    ChangedBook,
    InlineBook,
    PreviewRequest,
    SelectRequest,
    SelectResponse,
    SnapshotItem,
)
from lorewell.model.explained import ContextExplain, Explanation
from lorewell.model.live import Occasion
from lorewell.model.parse import parse_model
from lorewell.model.prompt_settings import PROMPT_DEFAULTS
from lorewell.model.scene_fields import with_default

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class KeptSelection:
    """A request with the revisions and the query vector that it was answered with."""

    kind: ClassVar[str] = "selection"
    noun: ClassVar[str] = "selection"

    request: SelectRequest
    snapshot: Sequence[SnapshotItem]
    query: QueryVector | None

    @property
    def chars(self) -> int:
        """Its approximate size in characters."""
        history = sum(len(message.content) for message in self.request.history)
        return len(self.request.query) + history

    def pinned(self) -> SelectRequest:
        """Return the request with fixed revisions, which gives the same answer every time."""
        refs = [BookRef(book_id=each.book_id, revision=each.revision) for each in self.snapshot]
        return self.request.model_copy(update={"books": tuple(refs)})

    def to_members(self) -> dict[str, Any]:
        """Return it as JSON-safe members."""
        return {
            # Not the defaults: a field that is set conflicts with the scene.
            "request": self.request.model_dump(mode="json", exclude_unset=True),
            "snapshot": [asdict(each) for each in self.snapshot],
            "query": None if self.query is None else self.query.to_members(),
        }

    @classmethod
    def from_members(cls, members: Mapping[str, Any]) -> Self:
        """Return what `to_members` wrote."""
        query = members["query"]
        return cls(
            request=parse_model(SelectRequest, members["request"]),
            snapshot=[SnapshotItem(**each) for each in members["snapshot"]],
            query=None if query is None else QueryVector.from_members(query),
        )


async def select_context(
    services: Services,
    tenant_id: str,
    request: SelectRequest,
    occasion: Occasion | None = None,
) -> SelectResponse:
    """Select the entries of the requested books for this turn, and explain the decisions.

    The request is kept for a while under the answer's fingerprint, with the revisions used.
    Subscribers to the prompt of the occasion get a live event.

    Raises:
        BookNotFoundError, RevisionNotFoundError: a book or revision is missing.
        SnapshotTooLargeError: the books are too large in total.
        SelectionError: a required entry does not fit.
    """
    query = None
    if request.strategy == "hybrid":
        text = recall_text(request)
        query = await embed_query(services, tenant_id, request.books, text, partial=True)
    response = await _select(services, tenant_id, request, query)
    if services.keeper.is_on:
        kept = KeptSelection(_resolved(request, response), response.snapshot, query)
        services.keeper.keep(tenant_id, response.selection_fingerprint, kept)
    ledger = selection_ledger(services, tenant_id, response)
    services.publish_live(tenant_id, occasion, partial(of_selection, response), ledger)
    return response


def _resolved(request: SelectRequest, response: SelectResponse) -> SelectRequest:
    """Return the request with the numbers that it was answered with."""
    bounds = response.recall_bounds
    return request if bounds is None else request.model_copy(update={"recall_bounds": bounds})


def selection_ledger(
    services: Services, tenant_id: str, response: SelectResponse
) -> LedgerRef | None:
    """Return where the ledger of a selection can be opened; None if selections are not kept."""
    kept_id = response.selection_fingerprint if services.keeper.is_on else None
    return LedgerRef.of("native", tenant_id, kept_id)


async def open_selection(services: Services, tenant_id: str, selection_id: str) -> SelectResponse:
    """Return an earlier selection with its full ledger, computed now.

    Raises:
        NotFoundError: there was no such selection, its request is no longer kept, or its vectors
            were deleted.
        BookNotFoundError: a book was deleted since.
    """
    kept = await services.keeper.get(tenant_id, selection_id, KeptSelection)
    request = kept.pinned().model_copy(update={"explain": "full"})
    response = await _select(services, tenant_id, request, kept.query)
    if response.selection_fingerprint != selection_id:
        message = "The vectors of this selection were deleted, or its index was not complete then."
        raise NotFoundError(message)
    return response


async def _select(
    services: Services, tenant_id: str, request: SelectRequest, query: QueryVector | None
) -> SelectResponse:
    cache, recent, mark = services.cache, services.recent, services.store.mark()
    name = (tenant_id, *((ref.book_id, ref.revision) for ref in request.books))
    keys = recent.find(name, mark) if may_be_short(request) else ()
    cached = [book for key in keys if (book := cache.find(key)) is not None]
    if len(cached) == len(request.books) and not any(book.with_regex for book in cached):
        with suppress(NotShortError):  # then it runs again in the compute pool
            response = _select_timed(
                services, cached, request, short_steps(services.computing.limits)
            )
            recent.record_duration(name, response.duration_ms, limit_ms=SHORT_MS)
            return response

    def load(tx: Transaction) -> tuple[list[LoadedRevision], VectorScores]:
        loaded = load_books(tx, cache, tenant_id, request.books)
        return loaded, _scores(tx, tenant_id, loaded, query)

    async with services.computing.turn(tenant_id) as turn:
        loaded, vectors = await services.store.read(load)
        books = [await get_compiled(services, turn, each) for each in loaded]
        response = await turn.run(
            lambda: _select_timed(services, books, request, turn.steps, vectors)
        )
    recent.keep(name, mark, [key_of(each.row) for each in loaded])
    recent.record_duration(name, response.duration_ms, limit_ms=SHORT_IN_THREAD_MS)
    return response


def _scores(
    tx: Transaction, tenant_id: str, loaded: Sequence[LoadedRevision], query: QueryVector | None
) -> VectorScores:
    if query is None:
        return NO_VECTORS
    return scores_of(tx, tenant_id, [each.row for each in loaded], query)


def _select_timed(
    services: Services,
    books: Sequence[CompiledBook],
    request: SelectRequest,
    steps: Steps,
    vectors: VectorScores = NO_VECTORS,
) -> SelectResponse:
    begin = perf_counter()
    response = select(books, request, vectors=vectors, limits=services.limits, steps=steps)
    return replace(response, duration_ms=(perf_counter() - begin) * 1000)


async def preview_context(
    services: Services, tenant_id: str, request: PreviewRequest
) -> SelectResponse:
    """Select as `select_context` does, from books that may be changed or not stored.

    With a prompt, it gives what a turn of that prompt does. It gives the same bytes for the same
    books, and stores nothing.

    Raises:
        BookNotFoundError, RevisionNotFoundError: a stored book or revision is missing.
        ValidationFailedError: a change does not fit its book.
        InvalidDependencyError: a `requires` of an inline book can't be met.
        SelectionError: a required entry does not fit.
    """
    return await _preview(services, tenant_id, request, _select_timed)


async def explain_context(services: Services, tenant_id: str, asked: ContextExplain) -> Explanation:
    """Explain one entry in the turn that `preview_context` would select for.

    Raises:
        LorewellError: as `preview_context`, but a required entry that does not fit is explained.
        ValidationFailedError: the request has no such entry, or several.
    """

    def run(
        services: Services,
        books: Sequence[CompiledBook],
        request: SelectRequest,
        steps: Steps,
        vectors: VectorScores,
    ) -> Explanation:
        return explain(books, request, asked, vectors=vectors, limits=services.limits, steps=steps)

    return await _preview(services, tenant_id, asked.request, run)


async def _preview(
    services: Services,
    tenant_id: str,
    request: PreviewRequest,
    run: Callable[[Services, Sequence[CompiledBook], SelectRequest, Steps, VectorScores], Result],
) -> Result:
    """Compile the books of a preview, and run its turn."""
    if request.prompt_id is not None:
        settings = await settings_of(services, tenant_id, request.prompt_id)
        request = with_native(with_native(request, settings.native), PROMPT_DEFAULTS)
        request = with_default(request, settings.scene, "native")
    stored = [item for item in request.books if isinstance(item, BookRef)]
    query = None
    if request.strategy == "hybrid":
        query = await embed_query(services, tenant_id, stored, recall_text(request), partial=True)

    def load(tx: Transaction) -> tuple[list[LoadedRevision | None], VectorScores]:
        loaded = [
            None
            if isinstance(item, InlineBook)
            else _load_item(tx, services.cache, tenant_id, item)
            for item in request.books
        ]
        named = [
            each
            for item, each in zip(request.books, loaded, strict=True)
            if each is not None and isinstance(item, BookRef)
        ]
        return loaded, _scores(tx, tenant_id, named, query)

    def answer(
        turn: ComputeTurn,
        loaded: Sequence[LoadedRevision | None],
        stored: Mapping[int, CompiledBook],
        vectors: VectorScores,
    ) -> Result:
        books = [
            stored.get(index) or _preview_book(services, turn, item, each, index)
            for index, (item, each) in enumerate(zip(request.books, loaded, strict=True))
        ]
        given = request.model_fields_set & SelectRequest.model_fields.keys()
        fields = {name: getattr(request, name) for name in given}
        fields["books"] = tuple(book.ref for book in books)
        if services.embedder is not None:
            unstored = {
                not_ready(book.book_id, book.revision)
                for item, book in zip(request.books, books, strict=True)
                if not isinstance(item, BookRef)
            }
            vectors = degrade(vectors, unstored)
        select_request = parse_model(SelectRequest, fields)
        return run(services, books, select_request, turn.steps, vectors)

    async with services.computing.long_turn(tenant_id) as turn:
        loaded, vectors = await services.store.read(load)
        named = {
            index: await get_compiled(services, turn, each)
            for index, (item, each) in enumerate(zip(request.books, loaded, strict=True))
            if each is not None and isinstance(item, BookRef)
        }
        return await turn.run(lambda: answer(turn, loaded, named, vectors))


def _load_item(
    tx: Transaction, cache: BookCache, tenant_id: str, item: BookRef | ChangedBook
) -> LoadedRevision:
    head = get_head(tx, tenant_id, item.book_id)
    if isinstance(item, BookRef):
        return load_book(tx, cache, get_revision(tx, head, item.revision))
    row = get_revision(tx, head, item.revision)
    return LoadedRevision(row, *find_or_read(tx, cache, None, row))


def _preview_book(
    services: Services,
    turn: ComputeTurn,
    item: BookRef | InlineBook | ChangedBook,
    loaded: LoadedRevision | None,
    index: int,
) -> CompiledBook:
    """Compile an inline or changed book."""
    steps = turn.new_steps(NO_LIMIT)
    if isinstance(item, InlineBook):
        return compile_book(
            item.book,
            book_id=item.book_id,
            revision=item.revision,
            counter=services.counter,
            steps=steps,
        )
    # Only inline books are not loaded, and books named unchanged are compiled already.
    assert loaded is not None and isinstance(item, ChangedBook)  # noqa: S101, PT018
    row = loaded.row
    stored = load_model(loaded.content or b"", watch=steps.watch)
    book = apply_changes(stored, item, "books", index)
    return compile_book(
        book,
        book_id=row.book_id,
        revision=row.revision,
        counter=services.counter,
        steps=steps,
    )
