"""Books and their revisions: create, publish, read, compare, delete, restore (§6, §12)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from lorewell.app.documents import PreparedBook, load_document, prepare
from lorewell.app.once import Claim, check_key, once, request_hash
from lorewell.app.pages import PageRequest, cursor_of, cut_page, parse_cursor, parse_number
from lorewell.app.ports import Transaction
from lorewell.app.rows import HeadRow, RevisionRow
from lorewell.app.runtime.new_revisions import NewRevision
from lorewell.app.services import Services
from lorewell.app.times import stamp
from lorewell.errors import (
    BookBoundError,
    BookNotFoundError,
    Fault,
    RevisionConflictError,
    RevisionNotFoundError,
)
from lorewell.formats.export import export_book
from lorewell.insight.books import compare_books
from lorewell.model import (
    BookCreate,
    BookDiff,
    BookHead,
    BookPage,
    CreatedBook,
    CreateResult,
    Published,
    RevisionInfo,
    RevisionPage,
    TenantList,
)
from lorewell.model.access import ALL_TENANTS
from lorewell.model.imports import ExportFormat
from lorewell.model.parse import parse_model
from lorewell.model.select import is_uuid
from lorewell.model.text import pointer

_MAX_NAMED = 20  # prompts in an error


def head_of(head: HeadRow) -> BookHead:
    """Return a book's head in the form of the API."""
    return BookHead(
        book_id=head.book_id,
        tenant_id=head.tenant_id,
        name=head.name,
        latest_revision=head.latest_revision,
        created_at=stamp(head.created_at),
        updated_at=stamp(head.updated_at),
        deleted_at=None if head.deleted_at is None else stamp(head.deleted_at),
    )


def info_of(row: RevisionRow) -> RevisionInfo:
    """Return a revision without its entries in the form of the API."""
    return RevisionInfo(
        book_id=row.book_id,
        revision=row.revision,
        name=row.name,
        entry_count=row.entry_count,
        content_hash=row.content_hash,
        created_at=stamp(row.created_at),
    )


def find_head(
    tx: Transaction, tenant_id: str, book_id: str, *, lock: bool = False
) -> HeadRow | None:
    """Return the head of a book; None if there is no such book, or it is deleted."""
    head = _find_any_head(tx, tenant_id, book_id, lock=lock)
    return None if head is None or head.deleted_at is not None else head


def get_head(tx: Transaction, tenant_id: str, book_id: str, *, lock: bool = False) -> HeadRow:
    """Return the head of a book.

    Raises:
        BookNotFoundError: there is no such book, it belongs to another tenant, or it is deleted.
            The error does not say which.
    """
    return _existing(find_head(tx, tenant_id, book_id, lock=lock), book_id)


def find_heads(tx: Transaction, tenant_id: str, book_ids: Sequence[str]) -> Mapping[str, HeadRow]:
    """Return the heads of these books by id, without missing and deleted ones."""
    heads = tx.find_heads(tenant_id, book_ids)
    return {book_id: head for book_id, head in heads.items() if head.deleted_at is None}


def head_in(heads: Mapping[str, HeadRow], book_id: str) -> HeadRow:
    """Return one of the heads that `find_heads` found.

    Raises:
        BookNotFoundError: it is not among them.
    """
    return _existing(heads.get(book_id), book_id)


def _find_any_head(
    tx: Transaction, tenant_id: str, book_id: str, *, lock: bool = False
) -> HeadRow | None:
    """Return the head of a book, also of a deleted one."""
    return tx.find_head(tenant_id, book_id.lower(), lock=lock) if is_uuid(book_id) else None


def _existing(head: HeadRow | None, book_id: str) -> HeadRow:
    if head is None:
        raise BookNotFoundError(f"There is no book {book_id}.", book_id=book_id)
    return head


def get_revision(tx: Transaction, head: HeadRow, revision: int | None) -> RevisionRow:
    """Return a revision of a book, its latest one for None.

    Raises:
        RevisionNotFoundError: the book does not have this revision.
    """
    number = head.latest_revision if revision is None else revision
    row = None
    if 1 <= number <= head.latest_revision:
        row = tx.find_revision(head.tenant_id, head.book_id, number)
    if row is None:
        raise no_revision(head, number)
    return row


def no_revision(head: HeadRow, revision: int, *at: str | int) -> RevisionNotFoundError:
    """Return the error for a revision that a book does not have.

    `at` is the JSON path of the number in the request, if the error is to point there.
    """
    message = f"The book {head.book_id} has no revision {revision}."
    faults = (Fault(pointer(*at), message),) if at else ()
    return RevisionNotFoundError(message, faults=faults, book_id=head.book_id, revision=revision)


def insert(
    tx: Transaction, services: Services, tenant_id: str, book_id: str, prepared: PreparedBook
) -> CreatedBook:
    """Add a new book with its first revision."""
    now = services.clock.now()
    tx.insert_book(
        HeadRow(
            tenant_id=tenant_id,
            book_id=book_id,
            name=prepared.name,
            latest_revision=1,
            created_at=now,
            updated_at=now,
        )
    )
    tx.insert_revision(prepared.row(tenant_id, book_id, 1, now), prepared.content)
    services.new_revisions.add(NewRevision(tenant_id, book_id, 1))
    return CreatedBook(
        book_id=book_id, revision=1, deduplicated=False, import_report=prepared.report
    )


async def create_books(
    services: Services, tenant_id: str, books: Sequence[BookCreate], *, route: str, key: str | None
) -> CreateResult:
    """Store new books, all or none, each as revision 1.

    Args:
        services: the service.
        tenant_id: the owner.
        books: in the order of the result.
        route: the kind of request, part of its identity under `key`.
        key: idempotency key: a repeated request returns the first result.

    Raises:
        InvalidDependencyError: a book's `requires` can't be met.
        IdempotencyConflictError: the key was used for another request.
    """
    check_key(key)
    prepared = await services.computing.run(tenant_id, lambda: [prepare(book) for book in books])
    ids = [services.new_id() for _ in prepared]
    claim = Claim(tenant_id, key, request_hash(route, [each.content_hash for each in prepared]))

    def work(tx: Transaction) -> CreateResult:
        made = tuple(
            insert(tx, services, tenant_id, book_id, each)
            for book_id, each in zip(ids, prepared, strict=True)
        )
        return CreateResult(books=made, replayed=False)

    return await services.store.write(lambda tx: once(tx, claim, CreateResult, work))


async def publish(
    services: Services,
    tenant_id: str,
    book_id: str,
    book: BookCreate,
    *,
    expected_revision: int,
    key: str | None,
) -> Published:
    """Store the next revision of a book, if its head is `expected_revision`.

    Raises:
        BookNotFoundError: there is no such book.
        RevisionConflictError: the head is another revision; `details` say which.
        InvalidDependencyError: `requires` can't be met.
        IdempotencyConflictError: the key was used for another request.
    """
    check_key(key)
    prepared = await services.computing.run(tenant_id, lambda: prepare(book))
    content = ("publish", book_id.lower(), expected_revision, prepared.content_hash)
    claim = Claim(tenant_id, key, request_hash(*content))

    def work(tx: Transaction) -> Published:
        head = get_head(tx, tenant_id, book_id, lock=True)
        return _advance(tx, services, head, expected_revision, prepared)

    return await services.store.write(lambda tx: once(tx, claim, Published, work))


async def restore_revision(
    services: Services,
    tenant_id: str,
    book_id: str,
    revision: int,
    *,
    expected_revision: int,
    key: str | None,
) -> Published:
    """Store the content of an old revision as the next revision.

    Raises:
        BookNotFoundError, RevisionNotFoundError: there is no such book or revision.
        RevisionConflictError: the head is not `expected_revision`.
        IdempotencyConflictError: the key was used for another request.
    """
    check_key(key)
    claim = Claim(
        tenant_id, key, request_hash("restore", book_id.lower(), revision, expected_revision)
    )

    def work(tx: Transaction) -> Published:
        head = get_head(tx, tenant_id, book_id, lock=True)
        old = get_revision(tx, head, revision)
        content = tx.get_content(tenant_id, old.content_hash)
        return _advance(
            tx, services, head, expected_revision, PreparedBook.from_revision(old, content)
        )

    return await services.store.write(lambda tx: once(tx, claim, Published, work))


def _check_head(head: HeadRow, expected: int) -> None:
    if expected != head.latest_revision:
        message = f"The book was changed: its head is revision {head.latest_revision}."
        raise RevisionConflictError(message, expected=expected, actual=head.latest_revision)


def _advance(
    tx: Transaction, services: Services, head: HeadRow, expected: int, prepared: PreparedBook
) -> Published:
    _check_head(head, expected)
    now = services.clock.now()
    revision = expected + 1
    row = prepared.row(head.tenant_id, head.book_id, revision, now)
    tx.insert_revision(row, prepared.content)
    services.new_revisions.add(NewRevision(head.tenant_id, head.book_id, revision))
    tx.advance_book(
        head.tenant_id, head.book_id, revision=revision, name=prepared.name, updated_at=now
    )
    return Published(
        book_id=head.book_id,
        revision=revision,
        entry_count=row.entry_count,
        content_hash=row.content_hash,
    )


async def read_book(
    services: Services, tenant_id: str | None, book_id: str, revision: int | None
) -> bytes:
    """Return a book's head and one revision (None: the latest) as the JSON of a StoredBook.

    The entries are copied as stored, without parsing.

    Raises:
        BookNotFoundError, RevisionNotFoundError: there is no such book or revision.
    """

    def load(tx: Transaction) -> tuple[HeadRow, RevisionRow, bytes]:
        head = (
            _get_head_anywhere(tx, book_id)
            if tenant_id is None
            else get_head(tx, tenant_id, book_id)
        )
        row = get_revision(tx, head, revision)
        return head, row, tx.get_content(head.tenant_id, row.content_hash)

    return await services.read_and_compute(
        tenant_id or ALL_TENANTS, load, lambda found: _stored_book(*found)
    )


def _get_head_anywhere(tx: Transaction, book_id: str) -> HeadRow:
    heads = (_find_any_head(tx, tenant_id, book_id) for tenant_id in tx.list_tenants())
    return _existing(next((head for head in heads if head is not None), None), book_id)


def _stored_book(head: HeadRow, row: RevisionRow, content: bytes) -> bytes:
    info = info_of(row).model_dump_json(exclude={"name"}).encode()
    # The content is an object with the members name, description, metadata and entries.
    revision = b'%b,"import_report":%b,%b' % (info[:-1], row.import_report, content[1:])
    return b'{"book":%b,"revision":%b}' % (head_of(head).model_dump_json().encode(), revision)


async def export(
    services: Services, tenant_id: str, book_id: str, revision: int | None, *, target: ExportFormat
) -> tuple[str, bytes]:
    """Return a book's name, and a revision exported to a format as UTF-8 JSON.

    Raises:
        BookNotFoundError, RevisionNotFoundError: there is no such book or revision.
    """

    def load(tx: Transaction) -> bytes:
        head = get_head(tx, tenant_id, book_id)
        return tx.get_content(tenant_id, get_revision(tx, head, revision).content_hash)

    def write(content: bytes) -> tuple[str, bytes]:
        book = parse_model(BookCreate, load_document(content))
        document = export_book(book, target).document
        # Not a faster encoder: integers may exceed 64 bits.
        return book.name, json.dumps(document, ensure_ascii=False).encode()

    return await services.read_and_compute(tenant_id, load, write)


async def list_books(
    services: Services,
    tenant_id: str | None,
    page: PageRequest,
    *,
    name_contains: str | None = None,
    include_deleted: bool = False,
) -> BookPage:
    """Return a page of heads, last changed first; a tenant of None lists all tenants.

    Raises:
        ValidationFailedError: the cursor is invalid.
    """
    after = None if page.cursor is None else _after(page.cursor)
    heads = await services.store.read(
        lambda tx: tx.list_heads(
            tenant_id,
            limit=page.limit + 1,
            after=after,
            name_contains=name_contains or None,
            include_deleted=include_deleted,
        )
    )
    shown, next_cursor = cut_page(heads, page, _cursor)
    return BookPage(books=tuple(head_of(head) for head in shown), next_cursor=next_cursor)


def _cursor(head: HeadRow) -> str:
    return cursor_of(head.updated_at, head.book_id, head.tenant_id)


def _after(cursor: str) -> tuple[datetime, str, str]:
    time, (book_id, tenant_id) = parse_cursor(cursor, names=2)
    return time, book_id, tenant_id


async def list_tenants(services: Services) -> TenantList:
    """Return all tenants with a book, even a deleted one, in alphabetical order."""
    tenants = await services.store.read(lambda tx: tx.list_tenants())
    return TenantList(tenants=tuple(tenants))


async def list_revisions(
    services: Services, tenant_id: str, book_id: str, page: PageRequest
) -> RevisionPage:
    """Return a page of a book's revisions, newest first.

    Raises:
        BookNotFoundError: there is no such book.
        ValidationFailedError: the cursor is invalid.
    """
    before = None if page.cursor is None else parse_number(page.cursor)

    def load(tx: Transaction) -> Sequence[RevisionRow]:
        head = get_head(tx, tenant_id, book_id)
        return tx.list_revisions(tenant_id, head.book_id, limit=page.limit + 1, before=before)

    rows = await services.store.read(load)
    shown, next_cursor = cut_page(rows, page, lambda row: str(row.revision))
    return RevisionPage(revisions=tuple(info_of(row) for row in shown), next_cursor=next_cursor)


async def diff(
    services: Services,
    tenant_id: str,
    book_id: str,
    *,
    first: int,
    second: int,
    values: bool = False,
) -> BookDiff:
    """Return the difference from the first revision to the second, with `values` those of fields.

    Raises:
        BookNotFoundError, RevisionNotFoundError: there is no such book or revision.
    """

    def load(tx: Transaction) -> tuple[bytes, bytes]:
        head = get_head(tx, tenant_id, book_id)
        old, new = (get_revision(tx, head, number) for number in (first, second))
        return (
            tx.get_content(tenant_id, old.content_hash),
            tx.get_content(tenant_id, new.content_hash),
        )

    return await services.read_and_compute(
        tenant_id, load, lambda pair: compare_books(*map(load_document, pair), values=values)
    )


async def delete_book(
    services: Services,
    tenant_id: str,
    book_id: str,
    *,
    expected_revision: int | None,
    force: bool,
) -> None:
    """Mark a book as deleted; its revisions are kept.

    Raises:
        BookNotFoundError: there is no such book.
        RevisionConflictError: the head is not `expected_revision`.
        BookBoundError: an enabled binding names it, and `force` is false.
    """

    def work(tx: Transaction) -> None:
        head = get_head(tx, tenant_id, book_id, lock=True)
        if expected_revision is not None:
            _check_head(head, expected_revision)
        users = () if force else tx.list_prompts(tenant_id, limit=_MAX_NAMED, book_id=head.book_id)
        if names := [row.prompt_id for row in users]:
            message = f"A prompt uses the book {head.book_id}. Unbind it, or delete with force."
            raise BookBoundError(message, book_id=head.book_id, prompts=names)
        now = services.clock.now()
        tx.set_deleted(tenant_id, head.book_id, deleted_at=now, updated_at=now)

    await services.store.write(work)


async def restore_book(services: Services, tenant_id: str, book_id: str) -> BookHead:
    """Restore a deleted book; a book that is not deleted stays as it is.

    Raises:
        BookNotFoundError: there is no such book, not even a deleted one.
    """

    def work(tx: Transaction) -> HeadRow:
        head = _existing(_find_any_head(tx, tenant_id, book_id, lock=True), book_id)
        if head.deleted_at is None:
            return head
        now = services.clock.now()
        tx.set_deleted(tenant_id, head.book_id, deleted_at=None, updated_at=now)
        return replace(head, deleted_at=None, updated_at=now)

    return head_of(await services.store.write(work))
