"""Imports: preview a foreign file, or store the books of several files (§11.1, §11.6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lorewell.app.books import find_head, insert
from lorewell.app.computing.pool import ComputeTurn
from lorewell.app.documents import PreparedBook, prepare
from lorewell.app.once import Claim, check_key, once, request_hash
from lorewell.app.ports import Transaction
from lorewell.app.services import Services
from lorewell.errors import ImportInvalidError
from lorewell.formats import ImportedBook, import_file
from lorewell.model import CreatedBook, CreateResult, ImportPreview


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """An uploaded file. Its name is only shown, never opened."""

    name: str
    data: bytes


async def preview(services: Services, tenant_id: str, file: UploadedFile) -> ImportPreview:
    """Return the book that a file would become, without storing it.

    Raises:
        ImportInvalidError, UnsupportedMediaTypeError, ValidationFailedError: the file is invalid.
        TooExpensiveError: reading it takes too many steps.
    """
    async with services.computing.long_turn(tenant_id) as turn:
        found = await turn.run(lambda: _read(file, turn))
    return ImportPreview(book=found.book, import_report=found.report)


async def import_files(
    services: Services, tenant_id: str, files: Sequence[UploadedFile], *, key: str | None
) -> CreateResult:
    """Store the books of foreign files, all or none; a known file returns its existing book.

    Args:
        services: the service.
        tenant_id: the owner.
        files: in the order of the result.
        key: idempotency key.

    Raises:
        ImportInvalidError, UnsupportedMediaTypeError, ValidationFailedError: a file is invalid or
            has no book; `details` name it.
        TooExpensiveError: reading a file takes too many steps.
        IdempotencyConflictError: the key was used for another request.
    """
    check_key(key)
    async with services.computing.long_turn(tenant_id) as turn:
        prepared = await turn.run(lambda: [_prepare(file, turn) for file in files])
    ids = [services.new_id() for _ in prepared]
    named = [[file.name, hashed] for file, (hashed, _) in zip(files, prepared, strict=True)]
    claim = Claim(tenant_id, key, request_hash("files", named))

    def work(tx: Transaction) -> CreateResult:
        made = tuple(
            _insert_once(tx, services, tenant_id, book_id, sha256, each)
            for book_id, (sha256, each) in zip(ids, prepared, strict=True)
        )
        return CreateResult(books=made, replayed=False)

    return await services.store.write(lambda tx: once(tx, claim, CreateResult, work))


def _read(file: UploadedFile, turn: ComputeTurn) -> ImportedBook:
    """Return the book of a file."""
    return turn.read_file(lambda steps: import_file(file.data, name=file.name, steps=steps))


def _prepare(file: UploadedFile, turn: ComputeTurn) -> tuple[str, PreparedBook]:
    """Return the file's hash and its book, ready to be stored."""
    found = _read(file, turn)
    check_holds_book(found, file)
    return found.report.source_file.sha256, prepare(found.book, found.report)


def check_holds_book(found: ImportedBook, file: UploadedFile) -> None:
    """Check that there is a book to store.

    Raises:
        ImportInvalidError: the file is a card without a lorebook.
    """
    if not found.holds_book:
        message = f"{file.name} is a card without a lorebook: there is nothing to store."
        raise ImportInvalidError(message, file=file.name)


def _insert_once(
    tx: Transaction,
    services: Services,
    tenant_id: str,
    book_id: str,
    sha256: str,
    prepared: PreparedBook,
) -> CreatedBook:
    known = tx.claim_file(tenant_id, sha256)
    while known is not None:
        head = find_head(tx, tenant_id, known, lock=True)
        if head is not None:
            return CreatedBook(
                book_id=head.book_id, revision=1, deduplicated=True, import_report=prepared.report
            )
        before, known = known, tx.claim_file(tenant_id, sha256)
        if known == before:
            break  # its book is deleted, and no concurrent import made a new one
    made = insert(tx, services, tenant_id, book_id, prepared)
    tx.put_file(tenant_id, sha256, book_id)
    return made
