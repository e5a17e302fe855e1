"""Selecting from stored books, previews, and ledgers of selections kept (§4, §6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, ClassVar, Self

from lorewell.app.books import get_head, get_revision
from lorewell.app.cache import BookCache
from lorewell.app.computing.pool import ComputeTurn
from lorewell.app.documents import load_model
from lorewell.app.ledgers import ledger_path
from lorewell.app.live.events import of_selection
from lorewell.app.loaded import LoadedRevision, compiled, key_of, load_book, load_books
from lorewell.app.native.recent import (
    SHORT_IN_THREAD_MS,
    SHORT_MS,
    NotShortError,
    may_be_short,
    short_steps,
)
from lorewell.app.ports import Transaction
from lorewell.app.services import Services
from lorewell.app.vectors.queries import QueryVector
from lorewell.app.vectors.similarities import embed_query, not_ready, scores_of, without
from lorewell.engine.native import NO_VECTORS, VectorScores, select
from lorewell.engine.native.compile import compile_book
from lorewell.engine.native.compiled import CompiledBook
from lorewell.engine.steps import NO_LIMIT, Steps
from lorewell.engine.tokens import BUNDLED, TokenCounter, counter
from lorewell.errors import Fault, NotFoundError, ValidationFailedError
from lorewell.model import (
    BookCreate,
    BookRef,
    ChangedBook,
    Entry,
    InlineBook,
    PreviewRequest,
    SelectRequest,
    SelectResponse,
    SnapshotItem,
    TokenCountRequest,
    TokenCounts,
)
from lorewell.model.live import Occasion
from lorewell.model.parse import parse_model
from lorewell.model.text import pointer


@dataclass(frozen=True, slots=True)
class KeptSelection:
    """A request, the revisions that it got, and the vector that its query had."""

    kind: ClassVar[str] = "selection"

    request: SelectRequest
    snapshot: Sequence[SnapshotItem]
    query: QueryVector | None

    @property
    def chars(self) -> int:
        """About how many characters it holds."""
        history = sum(len(message.content) for message in self.request.history)
        return len(self.request.query) + history

    def pinned(self) -> SelectRequest:
        """Return the request with the revisions that it got: it will always give the same."""
        refs = [BookRef(book_id=each.book_id, revision=each.revision) for each in self.snapshot]
        return self.request.model_copy(update={"books": tuple(refs)})

    def to_members(self) -> dict[str, Any]:
        """Return it as JSON-safe members."""
        return {
            "request": self.request.model_dump(mode="json"),
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
    """Return what of the requested books belongs into this turn, and why.

    The request is kept for a while under the answer's fingerprint, with the revisions it got. Who
    watches the prompt of the occasion is told.

    Raises:
        BookNotFoundError, RevisionNotFoundError: a book is not there.
        SnapshotTooLargeError: the books hold too much together.
        SelectionError: a required entry can't go in.
    """
    query = None
    if request.strategy == "hybrid":
        query = await embed_query(services, tenant_id, request.books, request.query)
    response = await _select(services, tenant_id, request, query)
    if services.keeper.is_on:
        kept = KeptSelection(request, response.snapshot, query)
        services.keeper.keep(tenant_id, response.selection_fingerprint, kept)
    if services.live is not None and occasion is not None:
        kept_as = response.selection_fingerprint if services.keeper.is_on else None
        ledger = ledger_path("native", tenant_id, kept_as)
        services.live.publish(tenant_id, occasion, partial(of_selection, response, ledger))
    return response


async def open_selection(services: Services, tenant_id: str, selection_id: str) -> SelectResponse:
    """Return a selection that was made a while ago, with its whole ledger, computed now.

    Raises:
        NotFoundError: it was never made, its request is no longer kept, or the vectors that it was
            made with are gone.
        BookNotFoundError: a book was deleted since.
    """
    kept = await services.keeper.find(tenant_id, selection_id, KeptSelection)
    if kept is None:
        raise NotFoundError(f"There is no selection {selection_id}, or it is no longer kept.")
    request = kept.pinned().model_copy(update={"explain": "full"})
    response = await _select(services, tenant_id, request, kept.query)
    if response.selection_fingerprint != selection_id:
        raise NotFoundError("The vectors that this selection was made with are gone.")
    return response


async def _select(
    services: Services, tenant_id: str, request: SelectRequest, query: QueryVector | None
) -> SelectResponse:
    cache, recent, mark = services.cache, services.recent, services.store.mark()
    name = (tenant_id, *((ref.book_id, ref.revision) for ref in request.books))
    keys = recent.find(name, mark) if may_be_short(request) else ()
    held = [book for key in keys if (book := cache.find(key)) is not None]
    if len(held) == len(request.books) and not any(book.with_regex for book in held):
        with suppress(NotShortError):  # then the same is done again where it may take longer
            response = _timed(services, held, request, short_steps(services.computing.limits))
            recent.took(name, response.duration_ms, limit_ms=SHORT_MS)
            return response

    def load(tx: Transaction) -> tuple[list[LoadedRevision], VectorScores]:
        loaded = load_books(tx, cache, tenant_id, request.books)
        return loaded, _scores(tx, tenant_id, loaded, query)

    async with services.computing.turn(tenant_id) as turn:
        loaded, vectors = await services.store.read(load)
        books = [await compiled(services, turn, each) for each in loaded]
        response = await turn.run(lambda: _timed(services, books, request, turn.steps, vectors))
    recent.keep(name, mark, [key_of(each.row) for each in loaded])
    recent.took(name, response.duration_ms, limit_ms=SHORT_IN_THREAD_MS)
    return response


def _scores(
    tx: Transaction, tenant_id: str, loaded: Sequence[LoadedRevision], query: QueryVector | None
) -> VectorScores:
    if query is None:
        return NO_VECTORS
    return scores_of(tx, tenant_id, [each.row for each in loaded], query)


def _timed(
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
    """Return what a selection would give from books that are changed or not stored at all.

    The same code and the same bytes as `select_context`; nothing is stored.

    Raises:
        BookNotFoundError, RevisionNotFoundError: a stored book is not there.
        ValidationFailedError: a change does not fit to its book.
        InvalidDependencyError: `requires` of a given book can't be met.
        SelectionError: a required entry can't go in.
    """
    stored = [item for item in request.books if isinstance(item, BookRef)]
    query = None
    if request.strategy == "hybrid":
        query = await embed_query(services, tenant_id, stored, request.query)

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
    ) -> SelectResponse:
        books = [
            stored.get(index) or _preview_book(services, turn, item, each, index)
            for index, (item, each) in enumerate(zip(request.books, loaded, strict=True))
        ]
        fields = {name: getattr(request, name) for name in SelectRequest.model_fields}
        fields["books"] = tuple(book.ref for book in books)
        if services.embedder is not None:
            unstored = {
                not_ready(book.book_id, book.revision)
                for item, book in zip(request.books, books, strict=True)
                if not isinstance(item, BookRef)
            }
            vectors = without(vectors, unstored)
        asked = parse_model(SelectRequest, fields)
        return _timed(services, books, asked, turn.steps, vectors)

    async with services.computing.long_turn(tenant_id) as turn:
        loaded, vectors = await services.store.read(load)
        named = {
            index: await compiled(services, turn, each)
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
    return LoadedRevision(row, None, tx.get_content(tenant_id, row.content_hash))


def _preview_book(
    services: Services,
    turn: ComputeTurn,
    item: BookRef | InlineBook | ChangedBook,
    loaded: LoadedRevision | None,
    index: int,
) -> CompiledBook:
    """Compile a book that is stored nowhere as it is."""
    steps = turn.new_steps(NO_LIMIT)
    if isinstance(item, InlineBook):
        return compile_book(
            item.book,
            book_id=item.book_id,
            revision=item.revision,
            counter=services.counter,
            steps=steps,
        )
    # What is not given whole was loaded, and what is only named was compiled.
    assert loaded is not None and isinstance(item, ChangedBook)  # noqa: S101, PT018
    row = loaded.row
    stored = load_model(loaded.content or b"", watch=steps.watch)
    book = changed(stored, item, "books", index)
    return compile_book(
        book,
        book_id=row.book_id,
        revision=row.revision,
        counter=services.counter,
        steps=steps,
    )


def changed(book: BookCreate, item: ChangedBook, *at: str | int) -> BookCreate:
    """Return the book with entries replaced, added at the end, or left out.

    Args:
        book: the stored revision.
        item: the changes.
        at: the way to the item in the request.

    Raises:
        ValidationFailedError: a change does not fit to the book.
    """
    entries: dict[str, Entry] = {entry.id: entry for entry in book.entries}
    faults = [
        Fault(pointer(*at, "removed", number), f"there is no entry {name!r} in this book")
        for number, name in enumerate(item.removed)
        if name not in entries
    ]
    faults += [
        Fault(pointer(*at, "changes", number, "id"), "must be given")
        for number, entry in enumerate(item.changes)
        if not entry.id
    ]
    if faults:
        raise ValidationFailedError.at(*faults)
    for name in item.removed:
        entries.pop(name, None)
    entries.update((entry.id, entry) for entry in item.changes)
    document = {**book.model_dump(exclude={"entries"}), "entries": tuple(entries.values())}
    try:
        return parse_model(BookCreate, document)
    except ValidationFailedError as error:  # there are too many of them now
        raise error.moved(lambda fault: Fault(pointer(*at, "changes"), fault.detail)) from error


async def count_tokens(
    services: Services, tenant_id: str, request: TokenCountRequest
) -> TokenCounts:
    """Return the tokens of each text, with the service's own tokenizer unless one is named.

    Raises:
        ValidationFailedError: the tokenizer is neither bundled nor the service's own.
    """
    chosen = await choose_counter(services, tenant_id, request.tokenizer)

    def count() -> TokenCounts:
        counts = tuple(chosen.count(text) for text in request.texts)
        return TokenCounts(tokenizer=chosen.name, counts=counts)

    return await services.computing.run(tenant_id, count)


async def choose_counter(services: Services, tenant_id: str, name: str | None) -> TokenCounter:
    """Return the service's own counter, or that of the bundled encoding that is named.

    Raises:
        ValidationFailedError: there is no such encoding; the place is `/tokenizer`.
    """
    if name is None or name == services.counter.name:
        return services.counter
    if name not in BUNDLED:  # any other name would be taken for a file's
        fault = Fault(pointer("tokenizer"), f"must be one of {', '.join(BUNDLED)}")
        raise ValidationFailedError.at(fault)
    # The first time a vocabulary is loaded, which is no part of the request's own work.
    return await services.computing.finish(tenant_id, lambda: counter(name))
