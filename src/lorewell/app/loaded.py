"""Books that a request asks for: found, read, and compiled once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lorewell.app.books import get_revision, no_book
from lorewell.app.cache import BookCache, CacheKey
from lorewell.app.computing.pool import ComputeTurn
from lorewell.app.documents import load_model
from lorewell.app.ports import Transaction
from lorewell.app.rows import RevisionRow
from lorewell.app.services import Services
from lorewell.engine.native import SnapshotLimits
from lorewell.engine.native.compile import compile_book
from lorewell.engine.native.compiled import CompiledBook
from lorewell.errors import SnapshotTooLargeError
from lorewell.model import BookRef, SnapshotItem


@dataclass(frozen=True, slots=True)
class LoadedRevision:
    """A revision that was asked for: compiled already, or the content to compile it from."""

    row: RevisionRow
    book: CompiledBook | None
    content: bytes | None


def load_books(
    tx: Transaction, cache: BookCache, tenant_id: str, refs: Sequence[BookRef]
) -> list[LoadedRevision]:
    """Return the requested revisions, in order, in one snapshot.

    Raises:
        BookNotFoundError, RevisionNotFoundError: one is not there; the first one that is missing.
    """
    return [load_book(tx, cache, row) for row in find_rows(tx, tenant_id, refs)]


def find_rows(tx: Transaction, tenant_id: str, refs: Sequence[BookRef]) -> tuple[RevisionRow, ...]:
    """Return the requested revisions without their content, in order.

    Raises:
        BookNotFoundError, RevisionNotFoundError: one is not there; the first one that is missing.
    """
    heads = tx.find_heads(tenant_id, [ref.book_id for ref in refs])
    rows = []
    for ref in refs:
        head = heads.get(ref.book_id)
        if head is None or head.deleted_at is not None:
            raise no_book(ref.book_id)
        rows.append(get_revision(tx, head, ref.revision))
    return tuple(rows)


def check_size(limits: SnapshotLimits, *, entries: int, chars: int) -> None:
    """Check how much the books of a request hold together.

    Raises:
        SnapshotTooLargeError: it is more than one request may ask for.
    """
    if entries > limits.entries or chars > limits.content_chars:
        message = f"The books hold {entries} entries and {chars} characters together."
        raise SnapshotTooLargeError(
            message,
            entries=entries,
            max_entries=limits.entries,
            content_chars=chars,
            max_content_chars=limits.content_chars,
        )


def load_book(tx: Transaction, cache: BookCache, row: RevisionRow) -> LoadedRevision:
    """Return a revision, with its content if it is still to be compiled."""
    book = cache.find(key_of(row))
    content = None if book else tx.get_content(row.tenant_id, row.content_hash)
    return LoadedRevision(row, book, content)


def key_of(row: RevisionRow) -> CacheKey[CompiledBook]:
    """Return what a revision is held under once it is compiled."""
    return CacheKey(CompiledBook, (row.book_id, row.revision, row.content_hash))


async def compiled(services: Services, turn: ComputeTurn, loaded: LoadedRevision) -> CompiledBook:
    """Return the revision compiled; it is compiled once, however many ask for it."""
    if loaded.book is not None:
        return loaded.book
    row, content = loaded.row, loaded.content or b""
    return await services.cache.get(
        key_of(row),
        turn,
        lambda steps: compile_book(
            load_model(content, watch=steps.watch),
            book_id=row.book_id,
            revision=row.revision,
            counter=services.counter,
            steps=steps,
        ),
    )


def snapshot_of(rows: Iterable[RevisionRow | None]) -> tuple[SnapshotItem, ...]:
    """Return which stored revisions were used, in order; None is a book that is stored nowhere."""
    return tuple(
        SnapshotItem(
            book_id=row.book_id,
            revision=row.revision,
            content_hash=row.content_hash,
            entry_count=row.entry_count,
        )
        for row in rows
        if row is not None
    )
