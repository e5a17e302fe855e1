"""The books of a request: looked up, read, and compiled once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lorewell.app.books import find_heads, get_revision, head_in
from lorewell.app.computing.pool import ComputeTurn
from lorewell.app.documents import load_model
from lorewell.app.ports import Transaction
from lorewell.app.rows import RevisionRow
from lorewell.app.runtime.cache import BookCache, CacheKey, Held
from lorewell.app.services import Services
from lorewell.engine.native import SnapshotLimits
from lorewell.engine.native.compile import compile_book
from lorewell.engine.native.compiled import CompiledBook
from lorewell.errors import SnapshotTooLargeError
from lorewell.model import BookRef, SnapshotItem


@dataclass(frozen=True, slots=True)
class LoadedRevision:
    """A requested revision: compiled, or the content to compile."""

    row: RevisionRow
    book: CompiledBook | None
    content: bytes | None


def load_books(
    tx: Transaction, cache: BookCache, tenant_id: str, refs: Sequence[BookRef]
) -> list[LoadedRevision]:
    """Return the requested revisions in order.

    Raises:
        BookNotFoundError, RevisionNotFoundError: the first one that is missing.
    """
    return [load_book(tx, cache, row) for row in find_rows(tx, tenant_id, refs)]


def find_rows(tx: Transaction, tenant_id: str, refs: Sequence[BookRef]) -> tuple[RevisionRow, ...]:
    """Return the requested revisions in order, without their content.

    Raises:
        BookNotFoundError, RevisionNotFoundError: the first one that is missing.
    """
    heads = find_heads(tx, tenant_id, [ref.book_id for ref in refs])
    return tuple(get_revision(tx, head_in(heads, ref.book_id), ref.revision) for ref in refs)


def check_size(limits: SnapshotLimits, *, entries: int, chars: int) -> None:
    """Check the total size of the books of a request.

    Raises:
        SnapshotTooLargeError: it exceeds the limit.
    """
    if entries > limits.entries or chars > limits.content_chars:
        message = (
            f"The requested books hold {entries} entries and {chars} characters; at most "
            f"{limits.entries} and {limits.content_chars} are allowed."
        )
        raise SnapshotTooLargeError(
            message,
            entries=entries,
            max_entries=limits.entries,
            content_chars=chars,
            max_content_chars=limits.content_chars,
        )


def load_book(tx: Transaction, cache: BookCache, row: RevisionRow) -> LoadedRevision:
    """Return a revision, with its content if it is not compiled yet."""
    return LoadedRevision(row, *find_or_read(tx, cache, key_of(row), row))


def find_or_read(
    tx: Transaction, cache: BookCache, key: CacheKey[Held] | None, row: RevisionRow
) -> tuple[Held | None, bytes | None]:
    """Return a revision compiled if the cache holds it, else its content.

    Without a key it is never cached.
    """
    held = None if key is None else cache.find(key)
    return held, None if held is not None else tx.get_content(row.tenant_id, row.content_hash)


def key_of(row: RevisionRow) -> CacheKey[CompiledBook]:
    """Return the cache key of a compiled revision."""
    return CacheKey(CompiledBook, (row.book_id, row.revision, row.content_hash))


async def get_compiled(
    services: Services, turn: ComputeTurn, loaded: LoadedRevision
) -> CompiledBook:
    """Return the compiled revision; concurrent callers share one compilation."""
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
    """Return the stored revisions among `rows`, in order; None stands for a book not stored."""
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
