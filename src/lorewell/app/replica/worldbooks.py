"""The book routes of SillyTavern_replica over the books of a tenant (docs/rules/replica.md §6.4).

They name books by name; of several books with one name, the one changed last is meant. Each change
becomes a revision, as everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeVar

from lorewell.app.books import delete_book, get_revision, insert, publish
from lorewell.app.documents import load_model, prepare
from lorewell.app.imports import UploadedFile, check_holds_book
from lorewell.app.ports import Transaction
from lorewell.app.rows import HeadRow
from lorewell.app.services import Services
from lorewell.engine.replica.values import as_uid
from lorewell.engine.steps import Steps
from lorewell.errors import (
    BookNotFoundError,
    NameTakenError,
    NotFoundError,
    RevisionConflictError,
)
from lorewell.formats import ImportedBook, import_worldbook
from lorewell.formats.export import export_book
from lorewell.formats.replica_entries import change_entry, parse_book, parse_entry, show_entry
from lorewell.model import BookCreate, Entry, ImportReport
from lorewell.model.parse import parse_model
from lorewell.model.replica_books import NewReplicaBook, ReplicaBookChange, ReplicaEntryName

Form = Literal["internal", "sillytavern"]
Result = TypeVar("Result")

MAX_LISTED: Final = 1_000
_ATTEMPTS: Final = 20
_VERSION: Final = 1  # of the file format
_DESCRIPTION: Final = b'{"description":'
_MAX_DESCRIPTION_BYTES: Final = 130_000  # of a description in JSON


class _Opened(NamedTuple):
    """A book: its head and the content of its newest revision."""

    head: HeadRow
    content: bytes


async def list_worldbooks(services: Services, tenant_id: str) -> bytes:
    """Return the books without their entries, last changed first, 1,000 at most."""

    def load(tx: Transaction) -> list[dict[str, Any]]:
        heads = tx.list_heads(
            tenant_id, limit=MAX_LISTED, after=None, name_contains=None, include_deleted=False
        )
        named: dict[str, HeadRow] = {}
        for head in heads:
            named.setdefault(head.name, head)
        return [_summary_of(tx, head) for head in named.values()]

    return await services.read_and_compute(tenant_id, load, _to_json)


async def get_worldbook(services: Services, tenant_id: str, name: str) -> bytes:
    """Return a book with its entries in the internal form.

    Raises:
        BookNotFoundError: there is no book of this name.
    """
    return await _read(services, tenant_id, name, _document)


async def create_worldbook(services: Services, tenant_id: str, request: NewReplicaBook) -> bytes:
    """Store a new book and return it.

    Raises:
        NameTakenError: a book of this name exists.
        ValidationFailedError: an entry is invalid.
        InvalidDependencyError: a `requires` of an entry can't be met.
    """

    def make() -> BookCreate:
        document = {**dict(request), "entries": _with_times(services, request.entries)}
        return parse_book(document, services.new_id)

    book = await services.computing.run(tenant_id, make)
    head = await _add(services, tenant_id, book)
    return await services.computing.finish(tenant_id, lambda: _to_json(_document(head, book)))


async def change_worldbook(
    services: Services, tenant_id: str, name: str, request: ReplicaBookChange
) -> bytes:
    """Change a book's description and return the book without its entries.

    Raises:
        BookNotFoundError: there is no book of this name.
        RevisionConflictError: concurrent changes kept getting in first.
    """

    def change(head: HeadRow, book: BookCreate) -> tuple[BookCreate, bytes]:
        description = request.description
        update = {} if description is None else {"description": description}
        described = book.model_copy(update=update)
        return described, _to_json(_summary(head, described.description, len(described.entries)))

    return await _change(services, tenant_id, name, change)


async def delete_worldbook(services: Services, tenant_id: str, name: str) -> bytes:
    """Mark a book as deleted; its revisions are kept.

    Raises:
        BookNotFoundError: there is no book of this name.
        BookBoundError: a prompt uses it.
    """
    head = await services.store.read(lambda tx: _find(tx, tenant_id, name))
    await delete_book(services, tenant_id, head.book_id, expected_revision=None, force=False)
    return _to_json({"id": head.book_id, "name": name})


async def list_entries(services: Services, tenant_id: str, name: str) -> bytes:
    """Return the entries of a book, in order.

    Raises:
        BookNotFoundError: there is no book of this name.
    """
    return await _read(
        services,
        tenant_id,
        name,
        lambda head, book: [_entry(head, each) for each in book.entries],
    )


async def get_entry(services: Services, tenant_id: str, name: str, uid: str) -> bytes:
    """Return an entry of a book.

    Raises:
        BookNotFoundError, NotFoundError: there is no such book or entry.
    """
    return await _read(
        services,
        tenant_id,
        name,
        lambda head, book: _entry(head, book.entries[_place(book, uid)]),
    )


async def create_entry(
    services: Services, tenant_id: str, name: str, given: Mapping[str, Any]
) -> bytes:
    """Append an entry to a book and return it; an entry without a uid gets a new one.

    Raises:
        BookNotFoundError: there is no book of this name.
        NameTakenError: the book already has an entry with this uid.
        ValidationFailedError: the entry is invalid.
        InvalidDependencyError: its `requires` can't be met.
        RevisionConflictError: concurrent changes kept getting in first.
    """
    uid = as_uid(given.get("uid")) or services.new_id()
    parse_model(ReplicaEntryName, {"uid": uid})
    now = _seconds(services.clock.now())
    entry = parse_entry({**given, "uid": uid, "createdAt": now, "updatedAt": now})

    def change(head: HeadRow, book: BookCreate) -> tuple[BookCreate, bytes]:
        if any(each.id == uid for each in book.entries):
            message = f"The book {name!r} already has an entry {uid!r}."
            raise NameTakenError(message, name=name, uid=uid)
        return _with_entries(book, (*book.entries, entry)), _to_json(_entry(head, entry))

    return await _change(services, tenant_id, name, change)


async def change_entry_of(
    services: Services, tenant_id: str, name: str, uid: str, given: Mapping[str, Any]
) -> bytes:
    """Change members of an entry and return it; its uid never changes.

    Raises:
        BookNotFoundError, NotFoundError: there is no such book or entry.
        ValidationFailedError: the entry is invalid.
        InvalidDependencyError: its `requires` can't be met.
        RevisionConflictError: concurrent changes kept getting in first.
    """
    now = _seconds(services.clock.now())
    changes = {name: value for name, value in given.items() if name != "createdAt"}

    def change(head: HeadRow, book: BookCreate) -> tuple[BookCreate, bytes]:
        place = _place(book, uid)
        before = book.entries[place]
        made = _entry(head, before)["createdAt"]
        entry = change_entry(before, {**changes, "createdAt": made, "updatedAt": now})
        entries = (*book.entries[:place], entry, *book.entries[place + 1 :])
        return _with_entries(book, entries), _to_json(_entry(head, entry))

    return await _change(services, tenant_id, name, change)


async def delete_entry(services: Services, tenant_id: str, name: str, uid: str) -> bytes:
    """Remove an entry from a book; older revisions keep it.

    Raises:
        BookNotFoundError, NotFoundError: there is no such book or entry.
        InvalidDependencyError: another entry requires it.
        RevisionConflictError: concurrent changes kept getting in first.
    """

    def change(_head: HeadRow, book: BookCreate) -> tuple[BookCreate, bytes]:
        place = _place(book, uid)
        entries = (*book.entries[:place], *book.entries[place + 1 :])
        return _with_entries(book, entries), _to_json({"uid": uid})

    return await _change(services, tenant_id, name, change)


async def import_into(services: Services, tenant_id: str, name: str, file: UploadedFile) -> bytes:
    """Create a book from a file, or merge it into the book of this name; its entries win, by uid.

    Raises:
        ImportInvalidError, UnsupportedMediaTypeError, ValidationFailedError: the file is invalid,
            too large, or has no book.
        TooExpensiveError: reading it takes too many steps.
        InvalidDependencyError: a `requires` of an entry can't be met.
        RevisionConflictError: concurrent changes kept getting in first.
    """

    def read(steps: Steps) -> ImportedBook:
        return import_worldbook(file.data, name=file.name, new_id=services.new_id, steps=steps)

    async with services.computing.long_turn(tenant_id) as turn:
        found = await turn.run(lambda: turn.read_file(read))
    check_holds_book(found, file)
    imported = found.book.entries

    def merge(_head: HeadRow, book: BookCreate) -> tuple[BookCreate, bytes]:
        merged = {entry.id: entry for entry in (*book.entries, *imported)}
        report = _import_report(name, book.entries, imported, created=False)
        return _with_entries(book, tuple(merged.values())), report

    try:
        return await _change(services, tenant_id, name, merge)
    except BookNotFoundError:
        made = found.book.model_copy(update={"name": name})
    try:
        await _add(services, tenant_id, made, found.report)
    except NameTakenError:  # by a concurrent import
        return await _change(services, tenant_id, name, merge)
    return _import_report(name, (), imported, created=True)


async def export_worldbook(services: Services, tenant_id: str, name: str, form: Form) -> bytes:
    """Return a book as a file of SillyTavern_replica or SillyTavern.

    Raises:
        BookNotFoundError: there is no book of this name.
    """

    def make(head: HeadRow, book: BookCreate) -> dict[str, Any]:
        if form == "sillytavern":
            return export_book(book, "st_world").document
        # With the unknown members of the imported file.
        members = export_book(book.model_copy(update={"entries": ()}), "replica").document
        return {**members, **_document(head, book)}

    return await _read(services, tenant_id, name, make)


def _find(tx: Transaction, tenant_id: str, name: str) -> HeadRow:
    head = tx.find_heads_named(tenant_id, [name]).get(name)
    if head is None:
        message = f"There is no book {name!r}."
        raise BookNotFoundError(message, name=name)
    return head


def _open(tx: Transaction, tenant_id: str, name: str) -> _Opened:
    head = _find(tx, tenant_id, name)
    return _Opened(head, tx.get_content(tenant_id, get_revision(tx, head, None).content_hash))


async def _read(
    services: Services, tenant_id: str, name: str, show: Callable[[HeadRow, BookCreate], object]
) -> bytes:
    return await services.read_and_compute(
        tenant_id,
        lambda tx: _open(tx, tenant_id, name),
        lambda book: _to_json(show(book.head, load_model(book.content))),
    )


async def _change(
    services: Services,
    tenant_id: str,
    name: str,
    change: Callable[[HeadRow, BookCreate], tuple[BookCreate, Result]],
) -> Result:
    """Publish a changed book, and retry with the new head after a concurrent change.

    `change` gets the head with its new time but the old revision number, and runs in a thread.
    """
    async with services.locks.lock("worldbook", tenant_id, name):
        for _ in range(_ATTEMPTS - 1):
            try:
                return await _try_to_change(services, tenant_id, name, change)
            except RevisionConflictError:
                continue
        return await _try_to_change(services, tenant_id, name, change)


async def _try_to_change(
    services: Services,
    tenant_id: str,
    name: str,
    change: Callable[[HeadRow, BookCreate], tuple[BookCreate, Result]],
) -> Result:
    now = services.clock.now()

    async with services.computing.long_turn(tenant_id) as turn:
        head, content = await services.store.read(lambda tx: _open(tx, tenant_id, name))
        new_head = replace(head, updated_at=now)
        book, result = await turn.run(lambda: change(new_head, load_model(content)))
    expected = head.latest_revision
    await publish(services, tenant_id, head.book_id, book, expected_revision=expected, key=None)
    return result


async def _add(
    services: Services, tenant_id: str, book: BookCreate, report: ImportReport | None = None
) -> HeadRow:
    prepared = await services.computing.run(tenant_id, lambda: prepare(book, report))
    book_id = services.new_id()

    def work(tx: Transaction) -> HeadRow:
        tx.hold_name(tenant_id, book.name)
        if tx.find_heads_named(tenant_id, [book.name]):
            message = f"A book {book.name!r} already exists."
            raise NameTakenError(message, name=book.name)
        insert(tx, services, tenant_id, book_id, prepared)
        return tx.find_heads_named(tenant_id, [book.name])[book.name]

    return await services.store.write(work)


def _with_times(services: Services, entries: object) -> object:
    """Return entries of the internal form with the current time; SillyTavern's have no times."""
    if not isinstance(entries, list):
        return entries
    now = _seconds(services.clock.now())
    return [{**each, "createdAt": now, "updatedAt": now} for each in entries]


def _place(book: BookCreate, uid: str) -> int:
    place = next((at for at, entry in enumerate(book.entries) if entry.id == uid), None)
    if place is None:
        message = f"The book {book.name!r} has no entry {uid!r}."
        raise NotFoundError(message, name=book.name, uid=uid)
    return place


def _with_entries(book: BookCreate, entries: tuple[Entry, ...]) -> BookCreate:
    return parse_model(BookCreate, {**dict(book), "entries": entries})


def _import_report(
    name: str, existing: tuple[Entry, ...], imported: tuple[Entry, ...], *, created: bool
) -> bytes:
    known = {entry.id for entry in existing}
    updated = sum(entry.id in known for entry in imported)
    report = {
        "name": name,
        "created": created,
        "added": len(imported) - updated,
        "updated": updated,
        "entryCount": len(existing) + len(imported) - updated,
    }
    return _to_json(report)


def _document(head: HeadRow, book: BookCreate) -> dict[str, Any]:
    entries = [_entry(head, each) for each in book.entries]
    summary = _summary(head, book.description, len(entries))
    del summary["entryCount"]
    return {**summary, "entries": entries, "version": _VERSION}


def _entry(head: HeadRow, entry: Entry) -> dict[str, Any]:
    """Return an entry in the internal form; an entry without times gets those of its book."""
    times = {"createdAt": _seconds(head.created_at), "updatedAt": _seconds(head.updated_at)}
    return {**times, **show_entry(entry)}


def _summary(head: HeadRow, description: str, entry_count: int) -> dict[str, Any]:
    return {
        "id": head.book_id,
        "name": head.name,
        "description": description,
        "entryCount": entry_count,
        "createdAt": _seconds(head.created_at),
        "updatedAt": _seconds(head.updated_at),
    }


def _summary_of(tx: Transaction, head: HeadRow) -> dict[str, Any]:
    row = get_revision(tx, head, None)
    content = tx.get_content(head.tenant_id, row.content_hash)
    return _summary(head, _description_in(content), row.entry_count)


def _description_in(content: bytes) -> str:
    """Return the description of a stored revision, its first member, without parsing the rest."""
    start = len(_DESCRIPTION)
    text = content[start : start + _MAX_DESCRIPTION_BYTES].decode(errors="ignore")
    description: str = json.JSONDecoder().raw_decode(text)[0]
    return description


def _seconds(time: datetime) -> int:
    return int(time.timestamp())


def _to_json(value: object) -> bytes:
    # Not the faster encoder: integers may exceed 64 bits.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
