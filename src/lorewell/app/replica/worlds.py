"""The books of a turn under the policy `replica`: bound, stored or given, and compiled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lorewell.app.bindings import find_bound_under
from lorewell.app.cache import BookCache, CacheKey
from lorewell.app.computing.pool import ComputeTurn
from lorewell.app.documents import load_model
from lorewell.app.loaded import find_rows
from lorewell.app.native.selection import changed
from lorewell.app.ports import Transaction
from lorewell.app.rows import RevisionRow
from lorewell.app.services import Services
from lorewell.engine.replica import ReplicaWorld, compile_world
from lorewell.engine.steps import NO_LIMIT, Steps
from lorewell.errors import Fault, ValidationFailedError
from lorewell.formats.export.replica import replica_document
from lorewell.model import BookRef, ChangedBook
from lorewell.model.replica import ReplicaBookRef, ReplicaRequest, Source
from lorewell.model.select import lower_uuid
from lorewell.model.text import pointer

POLICY: Final = "replica"
_SOURCES: Final[tuple[Source, ...]] = ("global", "character")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaBook:
    """A book of a turn, at its place among them.

    Attributes:
        key: what the request calls it; of a bound one that it does not name, its id.
        row: its revision, if it is stored.
        changes: what is other in it than in that revision, and where the request says so.
        world: what it was compiled to before.
        content: of its revision, where that is still to be compiled.
    """

    key: str
    source: Source
    row: RevisionRow | None = None
    changes: tuple[int, ChangedBook] | None = None
    world: ReplicaWorld | None = None
    content: bytes | None = None

    @property
    def pin(self) -> BookRef | None:
        """The revision that it is."""
        row = self.row
        return None if row is None else BookRef(book_id=row.book_id, revision=row.revision)


def find_books(
    tx: Transaction,
    tenant_id: str,
    request: ReplicaRequest,
    changes: Sequence[ChangedBook] = (),
) -> tuple[ReplicaBook, ...]:
    """Return the books of a turn, each at its first place, with nothing of them loaded yet.

    First those that are bound to its prompt, then its global ones, then that of the character. What
    it names is an id, or else the name of a book: of several that of the one changed last. A book
    without a row is given in the request, or is not there.

    Raises:
        BindingInvalidError: a binding of the prompt names a book or revision that is gone.
        PolicyMismatchError: the prompt's books run under another policy.
        BookNotFoundError, RevisionNotFoundError: a book with changes is not there.
        ValidationFailedError: a book with changes is none of the turn's.
    """
    prompt_id = request.prompt_id
    bound = () if prompt_id is None else find_bound_under(tx, tenant_id, prompt_id, POLICY)
    asked = _asked(request)
    wanted = {key: revision for key, (_, revision) in asked.items() if key not in request.books}
    rows = _find_rows(tx, tenant_id, wanted)
    called = {row.book_id: key for key, row in reversed(rows.items())}
    found = [
        ReplicaBook(key=called.get(row.book_id, row.book_id), source="global", row=row)
        for row in bound
    ]
    found += [
        ReplicaBook(key=key, source=source, row=rows.get(key)) for key, (source, _) in asked.items()
    ]
    return _change(tx, tenant_id, _once(found, request), changes)


def _asked(request: ReplicaRequest) -> Mapping[str, tuple[Source, int | None]]:
    """Return what the request calls its books, each once: whom they are for, and the revision."""
    data = request.world_book_data
    asked: dict[str, tuple[Source, int | None]] = {}
    for ref in data.global_books:
        asked.setdefault(ref.key, ("global", ref.revision))
    if data.character_book_id:
        asked.setdefault(data.character_book_id, ("character", None))
    return asked


def _find_rows(
    tx: Transaction, tenant_id: str, wanted: Mapping[str, int | None]
) -> dict[str, RevisionRow]:
    """Return the revisions that are there, by what their books are called; None is the newest."""
    keys = list(wanted)
    by_id = tx.find_heads(tenant_id, [lower_uuid(key) for key in keys])
    heads = {key: head for key in keys if (head := by_id.get(lower_uuid(key))) is not None}
    heads = {key: head for key, head in heads.items() if head.deleted_at is None}
    by_name = tx.find_heads_named(tenant_id, [key for key in keys if key not in heads])
    found = ((key, heads.get(key) or by_name.get(key)) for key in keys)
    rows = (
        (key, tx.find_revision(tenant_id, head.book_id, wanted[key] or head.latest_revision))
        for key, head in found
        if head is not None
    )
    return {key: row for key, row in rows if row is not None}


def _once(found: Sequence[ReplicaBook], request: ReplicaRequest) -> list[ReplicaBook]:
    """Return each book at its first place; one that is given wins over the stored one."""
    books: dict[str, ReplicaBook] = {}
    for each in found:
        book = replace(each, row=None) if each.key in request.books else each
        name = book.key if book.row is None else book.row.book_id
        books.setdefault(name, book)
    return list(books.values())


def _change(
    tx: Transaction, tenant_id: str, books: Sequence[ReplicaBook], changes: Sequence[ChangedBook]
) -> tuple[ReplicaBook, ...]:
    """Return the books with what is changed in them."""
    made = {book.row.book_id: book for book in books if book.row is not None}
    faults = []
    for number, item in enumerate(changes):
        book = made.get(item.book_id)
        refs = [BookRef(book_id=item.book_id, revision=item.revision)]
        (row,) = find_rows(tx, tenant_id, refs)
        if book is None or book.changes is not None:
            detail = "is none of the turn's books" if book is None else "is changed twice"
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
    """Return the books with what is needed to compile those that are stored."""
    return tuple(_load(tx, cache, book) for book in books)


def _load(tx: Transaction, cache: BookCache, book: ReplicaBook) -> ReplicaBook:
    row = book.row
    if row is None:
        return book
    world = cache.find(_stored_key(book.key, row)) if book.changes is None else None
    content = None if world is not None else tx.get_content(row.tenant_id, row.content_hash)
    return replace(book, world=world, content=content)


async def compile_stored(
    services: Services, turn: ComputeTurn, books: Sequence[ReplicaBook]
) -> tuple[ReplicaBook, ...]:
    """Return the books with those compiled that are as they are stored."""
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
    """Return the books compiled, without those that are not there; the stored ones are already.

    Books with changes are compiled for one request alone.

    Raises:
        ValidationFailedError: a change does not fit to its book.
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
    # Hosts send the same book turn after turn. The order of its members counts, so it is kept.
    document = request.books[book.key]
    written = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    key = CacheKey(ReplicaWorld, (book.key, hashlib.sha256(written.encode()).digest()))
    world = cache.find(key)
    if world is None:
        # Not from the budget of the turn: what that costs depends on nothing that is cached.
        world = compile_world(document, book_id=book.key, steps=turn.new_steps())
        cache.hold(key, world)
    return world


def _stored_key(key: str, row: RevisionRow) -> CacheKey[ReplicaWorld]:
    return CacheKey(ReplicaWorld, (key, row.book_id, row.revision, row.content_hash))


def _compile(book: ReplicaBook, steps: Steps) -> ReplicaWorld:
    stored = load_model(book.content or b"", watch=steps.watch)
    if book.changes is not None:
        number, item = book.changes
        stored = changed(stored, item, "changed", number)
    return compile_world(replica_document(stored), book_id=book.key, steps=steps)


def as_asked(request: ReplicaRequest, books: Sequence[ReplicaBook]) -> ReplicaRequest:
    """Return the request with these books in place of those that it names, gives, or is bound to.

    The policy then looks for all of them among the compiled ones.
    """
    names = {source: [book.key for book in books if book.source == source] for source in _SOURCES}
    data = request.world_book_data.model_copy(
        update={
            "global_books": tuple(ReplicaBookRef(id=key) for key in names["global"]),
            "character_book_id": next(iter(names["character"]), None),
        }
    )
    return request.model_copy(update={"world_book_data": data, "books": {}, "prompt_id": None})
