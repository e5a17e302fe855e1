"""The books of a turn under the policy `replica`: bound, stored or given, then compiled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lorewell.app.bindings import find_bound_under
from lorewell.app.books import find_heads
from lorewell.app.changes import apply_changes
from lorewell.app.computing.pool import ComputeTurn
from lorewell.app.documents import load_model
from lorewell.app.loaded import find_or_read, find_rows
from lorewell.app.ports import Transaction
from lorewell.app.rows import RevisionRow
from lorewell.app.runtime.cache import BookCache, CacheKey
from lorewell.app.services import Services
from lorewell.engine.replica import ReplicaWorld, compile_world
from lorewell.engine.steps import NO_LIMIT, Steps
from lorewell.errors import Fault, ValidationFailedError
from lorewell.formats.export.replica import replica_document
from lorewell.model import BookRef, ChangedBook
from lorewell.model.binding import character_book
from lorewell.model.replica import ReplicaBookRef, ReplicaRequest, Source
from lorewell.model.select import lower_uuid
from lorewell.model.text import pointer

POLICY: Final = "replica"
_SOURCES: Final[tuple[Source, ...]] = ("global", "character")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaBook:
    """A book of a turn.

    Attributes:
        key: its name in the request; for a bound book that the request does not name, its id.
        row: its revision, if it is stored.
        changes: the changes to that revision, with their index in the request.
        world: its compiled form, if cached.
        content: the content of its revision, if it is not compiled yet.
    """

    key: str
    source: Source
    row: RevisionRow | None = None
    changes: tuple[int, ChangedBook] | None = None
    world: ReplicaWorld | None = None
    content: bytes | None = None

    @property
    def pin(self) -> BookRef | None:
        """Its revision; None if it is not stored."""
        row = self.row
        return None if row is None else BookRef(book_id=row.book_id, revision=row.revision)


def find_books(
    tx: Transaction,
    tenant_id: str,
    request: ReplicaRequest,
    changes: Sequence[ChangedBook] = (),
) -> tuple[ReplicaBook, ...]:
    """Return the books of a turn, each once at its first place, without loading them.

    First the books bound to the prompt, then the global ones, then the character's book. The
    request names a book by its id or its name; of several books with one name, the one changed last
    counts. A book without a row is given in the request, or missing.

    Raises:
        BindingInvalidError: a binding of the prompt names a missing book or revision.
        PolicyMismatchError: the prompt's books run under another policy.
        BookNotFoundError, RevisionNotFoundError: a changed book or revision is missing.
        ValidationFailedError: a changed book does not belong to the turn.
    """
    bound = _find_bound(tx, tenant_id, request)
    named = _named_books(request)
    wanted = {key: revision for key, (_, revision) in named.items() if key not in request.books}
    rows = _find_rows(tx, tenant_id, wanted)
    keys = {row.book_id: key for key, row in reversed(rows.items())}
    found = [
        ReplicaBook(key=keys.get(row.book_id, row.book_id), source=source, row=row)
        for source, row in bound
    ]
    found += [
        ReplicaBook(key=key, source=source, row=rows.get(key)) for key, (source, _) in named.items()
    ]
    return _with_changes(tx, tenant_id, _unique(found, request), changes)


def _find_bound(
    tx: Transaction, tenant_id: str, request: ReplicaRequest
) -> Sequence[tuple[Source, RevisionRow]]:
    """Return the books of the request's prompt with their sources, in order.

    The first book that is bound as the character's is that, unless the request names another one.
    """
    if request.prompt_id is None:
        return ()
    bound = find_bound_under(tx, tenant_id, request.prompt_id, POLICY)
    has_character = bool(request.world_book_data.character_book_id)
    character = None if has_character else character_book(bound.books)
    own_id = None if character is None else character.book_id
    return [("character" if row.book_id == own_id else "global", row) for row in bound.rows]


def _named_books(request: ReplicaRequest) -> Mapping[str, tuple[Source, int | None]]:
    """Return the books that the request names, each once, with their source and revision."""
    data = request.world_book_data
    named: dict[str, tuple[Source, int | None]] = {}
    for ref in data.global_books:
        named.setdefault(ref.key, ("global", ref.revision))
    if data.character_book_id:
        named.setdefault(data.character_book_id, ("character", data.character_book_revision))
    return named


def _find_rows(
    tx: Transaction, tenant_id: str, wanted: Mapping[str, int | None]
) -> dict[str, RevisionRow]:
    """Return the existing revisions by the names of their books; None is the latest."""
    keys = list(wanted)
    by_id = find_heads(tx, tenant_id, [lower_uuid(key) for key in keys])
    heads = {key: head for key in keys if (head := by_id.get(lower_uuid(key))) is not None}
    by_name = tx.find_heads_named(tenant_id, [key for key in keys if key not in heads])
    found = ((key, heads.get(key) or by_name.get(key)) for key in keys)
    rows = (
        (key, tx.find_revision(tenant_id, head.book_id, wanted[key] or head.latest_revision))
        for key, head in found
        if head is not None
    )
    return {key: row for key, row in rows if row is not None}


def _unique(found: Sequence[ReplicaBook], request: ReplicaRequest) -> list[ReplicaBook]:
    """Return each book once at its first place; given books replace stored ones."""
    books: dict[str, ReplicaBook] = {}
    for each in found:
        book = replace(each, row=None) if each.key in request.books else each
        name = book.key if book.row is None else book.row.book_id
        books.setdefault(name, book)
    return list(books.values())


def _with_changes(
    tx: Transaction, tenant_id: str, books: Sequence[ReplicaBook], changes: Sequence[ChangedBook]
) -> tuple[ReplicaBook, ...]:
    """Return the books with their changes."""
    made = {book.row.book_id: book for book in books if book.row is not None}
    faults = []
    for number, item in enumerate(changes):
        book = made.get(item.book_id)
        refs = [BookRef(book_id=item.book_id, revision=item.revision)]
        (row,) = find_rows(tx, tenant_id, refs)
        if book is None or book.changes is not None:
            detail = "is not a book of this turn" if book is None else "is changed twice"
            faults.append(Fault(pointer("changed", number, "book_id"), detail))
            continue
        used = book.row if item.revision is None else row
        made[item.book_id] = replace(book, row=used, changes=(number, item))
    if faults:
        raise ValidationFailedError.at(*faults)
    return tuple(book if book.row is None else made[book.row.book_id] for book in books)


def load_books(
    tx: Transaction, cache: BookCache, books: Sequence[ReplicaBook]
) -> tuple[ReplicaBook, ...]:
    """Return the books, the stored ones with their compiled form or content."""
    return tuple(_load(tx, cache, book) for book in books)


def _load(tx: Transaction, cache: BookCache, book: ReplicaBook) -> ReplicaBook:
    row = book.row
    if row is None:
        return book
    key = _stored_key(book.key, row) if book.changes is None else None
    world, content = find_or_read(tx, cache, key, row)
    return replace(book, world=world, content=content)


async def compile_stored(
    services: Services, turn: ComputeTurn, books: Sequence[ReplicaBook]
) -> tuple[ReplicaBook, ...]:
    """Return the books with the unchanged stored ones compiled."""
    return tuple(
        [
            replace(book, world=await _compiled(services, turn, book, book.row), content=None)
            if book.row is not None and book.changes is None
            else book
            for book in books
        ]
    )


async def _compiled(
    services: Services, turn: ComputeTurn, book: ReplicaBook, row: RevisionRow
) -> ReplicaWorld:
    if book.world is not None:
        return book.world
    key = _stored_key(book.key, row)
    return await services.cache.get(key, turn, lambda steps: _compile(book, steps))


def compile_books(
    cache: BookCache, turn: ComputeTurn, books: Sequence[ReplicaBook], request: ReplicaRequest
) -> tuple[ReplicaBook, ...]:
    """Return the books compiled, without missing ones; unchanged stored ones are compiled already.

    Changed books are compiled for this request only.

    Raises:
        ValidationFailedError: a change does not fit its book.
    """
    made = (replace(book, world=_world(cache, turn, book, request), content=None) for book in books)
    return tuple(book for book in made if book.world is not None)


def _world(
    cache: BookCache, turn: ComputeTurn, book: ReplicaBook, request: ReplicaRequest
) -> ReplicaWorld | None:
    if book.world is not None:
        return book.world
    if book.row is not None:
        return _compile(book, turn.new_steps(NO_LIMIT))
    if book.key not in request.books:
        return None
    # Hosts send the same book turn after turn. The order of its members matters, so it is hashed.
    document = request.books[book.key]
    written = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    key = CacheKey(ReplicaWorld, (book.key, hashlib.sha256(written.encode()).digest()))
    world = cache.find(key)
    if world is None:
        # A budget of its own: the cost of a turn must not depend on the cache.
        world = compile_world(document, book_id=book.key, steps=turn.new_steps())
        cache.hold(key, world)
    return world


def _stored_key(key: str, row: RevisionRow) -> CacheKey[ReplicaWorld]:
    return CacheKey(ReplicaWorld, (key, row.book_id, row.revision, row.content_hash))


def _compile(book: ReplicaBook, steps: Steps) -> ReplicaWorld:
    stored = load_model(book.content or b"", watch=steps.watch)
    if book.changes is not None:
        number, item = book.changes
        stored = apply_changes(stored, item, "changed", number)
    return compile_world(replica_document(stored), book_id=book.key, steps=steps)


def with_books(request: ReplicaRequest, books: Sequence[ReplicaBook]) -> ReplicaRequest:
    """Return the request with these books in place of those it names, gives or is bound to.

    The policy then takes all of them from the compiled books.
    """
    names = {source: [book.key for book in books if book.source == source] for source in _SOURCES}
    data = request.world_book_data.model_copy(
        update={
            "global_books": tuple(ReplicaBookRef(id=key) for key in names["global"]),
            "character_book_id": next(iter(names["character"]), None),
        }
    )
    return request.model_copy(update={"world_book_data": data, "books": {}, "prompt_id": None})
