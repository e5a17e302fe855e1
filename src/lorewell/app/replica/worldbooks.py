"""The book routes of SillyTavern_replica over the books of a tenant (docs/rules/replica.md §6.4).

They name books by their names: of several with one name the one that was changed last is meant.
What they change becomes a revision of its own, as everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeVar

from lorewell.app.books import delete_book, get_revision, insert, publish
from lorewell.app.documents import load_model, prepare
from lorewell.app.imports import UploadedFile
from lorewell.app.ports import Transaction
from lorewell.app.rows import HeadRow
from lorewell.app.services import Services
from lorewell.engine.replica.values import as_uid
from lorewell.engine.steps import Steps
from lorewell.errors import (
    BookNotFoundError,
    ImportInvalidError,
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
_VERSION: Final = 1  # of that program's files
_DESCRIPTION: Final = b'{"description":'
_MOST_BYTES: Final = 130_000  # of a description as JSON


class _Opened(NamedTuple):
    """A book by its name: its head and the content of its newest revision."""

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

    async with services.computing.long_turn(tenant_id) as turn:
        summaries = await services.store.read(load)
        return await turn.run(lambda: _written(summaries))


async def get_worldbook(services: Services, tenant_id: str, name: str) -> bytes:
    """Return a book with its entries in the internal form.

    Raises:
        BookNotFoundError: there is no book of this name.
    """
    return await _read(services, tenant_id, name, _document)


async def create_worldbook(services: Services, tenant_id: str, asked: NewReplicaBook) -> bytes:
    """Store a new book and return it.

    Raises:
        NameTakenError: there is a book of this name.
        ValidationFailedError: an entry breaks a limit of the contract.
        InvalidDependencyError: what an entry requires is not there.
    """

    def make() -> BookCreate:
        document = {**dict(asked), "entries": _with_times(services, asked.entries)}
        return parse_book(document, services.new_id)

    book = await services.computing.run(tenant_id, make)
    head = await _add(services, tenant_id, book)
    return await services.computing.finish(tenant_id, lambda: _written(_document(head, book)))


async def change_worldbook(
    services: Services, tenant_id: str, name: str, asked: ReplicaBookChange
) -> bytes:
    """Change a book's description and return the book without its entries.

    Raises:
        BookNotFoundError: there is no book of this name.
        RevisionConflictError: others changed it all the time.
    """

    def change(head: HeadRow, book: BookCreate) -> tuple[BookCreate, bytes]:
        given = asked.description
        described = book if given is None else book.model_copy(update={"description": given})
        return described, _written(_summary(head, described.description, len(described.entries)))

    return await _change(services, tenant_id, name, change)


async def delete_worldbook(services: Services, tenant_id: str, name: str) -> bytes:
    """Mark a book as deleted; all of it is kept.

    Raises:
        BookNotFoundError: there is no book of this name.
        BookBoundError: a prompt uses it.
    """
    head = await services.store.read(lambda tx: _find(tx, tenant_id, name))
    await delete_book(services, tenant_id, head.book_id, expected_revision=None, force=False)
    return _written({"id": head.book_id, "name": name})


async def list_entries(services: Services, tenant_id: str, name: str) -> bytes:
    """Return the entries of a book, in their order.

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
    """Add an entry at the end of a book and return it; without a uid it gets a new one.

    Raises:
        BookNotFoundError: there is no book of this name.
        NameTakenError: the book has an entry of this uid.
        ValidationFailedError: it breaks a limit of the contract.
        InvalidDependencyError: what it requires is not there.
        RevisionConflictError: others changed the book all the time.
    """
    uid = as_uid(given.get("uid")) or services.new_id()
    parse_model(ReplicaEntryName, {"uid": uid})
    now = _seconds(services.clock.now())
    entry = parse_entry({**given, "uid": uid, "createdAt": now, "updatedAt": now})

    def change(head: HeadRow, book: BookCreate) -> tuple[BookCreate, bytes]:
        if any(each.id == uid for each in book.entries):
            message = f"The book {name!r} has an entry {uid!r} already."
            raise NameTakenError(message, name=name, uid=uid)
        return _with_entries(book, (*book.entries, entry)), _written(_entry(head, entry))

    return await _change(services, tenant_id, name, change)


async def change_entry_of(
    services: Services, tenant_id: str, name: str, uid: str, given: Mapping[str, Any]
) -> bytes:
    """Change the given members of an entry and return it; its uid stays.

    Raises:
        BookNotFoundError, NotFoundError: there is no such book or entry.
        ValidationFailedError: it breaks a limit of the contract.
        InvalidDependencyError: what it requires is not there.
        RevisionConflictError: others changed the book all the time.
    """
    now = _seconds(services.clock.now())
    asked = {name: value for name, value in given.items() if name != "createdAt"}

    def change(head: HeadRow, book: BookCreate) -> tuple[BookCreate, bytes]:
        place = _place(book, uid)
        before = book.entries[place]
        made = _entry(head, before)["createdAt"]
        entry = change_entry(before, {**asked, "createdAt": made, "updatedAt": now})
        entries = (*book.entries[:place], entry, *book.entries[place + 1 :])
        return _with_entries(book, entries), _written(_entry(head, entry))

    return await _change(services, tenant_id, name, change)


async def delete_entry(services: Services, tenant_id: str, name: str, uid: str) -> bytes:
    """Take an entry out of a book; older revisions keep it.

    Raises:
        BookNotFoundError, NotFoundError: there is no such book or entry.
        InvalidDependencyError: another entry requires it.
        RevisionConflictError: others changed the book all the time.
    """

    def change(_head: HeadRow, book: BookCreate) -> tuple[BookCreate, bytes]:
        place = _place(book, uid)
        entries = (*book.entries[:place], *book.entries[place + 1 :])
        return _with_entries(book, entries), _written({"uid": uid})

    return await _change(services, tenant_id, name, change)


async def import_into(services: Services, tenant_id: str, name: str, file: UploadedFile) -> bytes:
    """Make a book of a file, or merge it into the book of this name: its entries win, by uid.

    Raises:
        ImportInvalidError, UnsupportedMediaTypeError, ValidationFailedError: the file can't be
            read, holds no book, or too much of one.
        TooExpensiveError: reading it takes too many steps.
        InvalidDependencyError: what an entry requires is not there.
        RevisionConflictError: others changed the book all the time.
    """

    def read(steps: Steps) -> ImportedBook:
        return import_worldbook(file.data, name=file.name, new_id=services.new_id, steps=steps)

    async with services.computing.long_turn(tenant_id) as turn:
        found = await turn.run(lambda: turn.read_file(read))
    if not found.holds_book:
        message = f"{file.name} is a card that holds no lorebook: there is nothing to store."
        raise ImportInvalidError(message, file=file.name)
    coming = found.book.entries

    def merge(_head: HeadRow, book: BookCreate) -> tuple[BookCreate, bytes]:
        merged = {entry.id: entry for entry in (*book.entries, *coming)}
        told = _imported(name, book.entries, coming, created=False)
        return _with_entries(book, tuple(merged.values())), told

    try:
        return await _change(services, tenant_id, name, merge)
    except BookNotFoundError:
        made = found.book.model_copy(update={"name": name})
    try:
        await _add(services, tenant_id, made, found.report)
    except NameTakenError:  # by another import at the same time
        return await _change(services, tenant_id, name, merge)
    return _imported(name, (), coming, created=True)


async def export_worldbook(services: Services, tenant_id: str, name: str, form: Form) -> bytes:
    """Return a book as a file of that program, or of SillyTavern.

    Raises:
        BookNotFoundError: there is no book of this name.
    """

    def make(head: HeadRow, book: BookCreate) -> dict[str, Any]:
        if form == "sillytavern":
            return export_book(book, "st_world").document
        # Of the file that it came from, also what nobody knows.
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
    async with services.computing.long_turn(tenant_id) as turn:
        found = await services.store.read(lambda tx: _open(tx, tenant_id, name))
        return await turn.run(lambda: _written(show(found.head, load_model(found.content))))


async def _change(
    services: Services,
    tenant_id: str,
    name: str,
    change: Callable[[HeadRow, BookCreate], tuple[BookCreate, Result]],
) -> Result:
    """Publish what a book becomes; where others publish meanwhile, begin again with theirs.

    `change` takes the head as it will be but for its revision, and runs in a thread.
    """
    async with services.one_by_one.turn("worldbook", tenant_id, name):
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
        coming = replace(head, updated_at=now)
        book, result = await turn.run(lambda: change(coming, load_model(content)))
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
            message = f"There is a book {book.name!r} already."
            raise NameTakenError(message, name=book.name)
        insert(tx, services, tenant_id, book_id, prepared)
        return tx.find_heads_named(tenant_id, [book.name])[book.name]

    return await services.store.write(work)


def _with_times(services: Services, entries: object) -> object:
    """Return entries of the internal form as made now; those of SillyTavern's have no times."""
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


def _imported(
    name: str, there: tuple[Entry, ...], coming: tuple[Entry, ...], *, created: bool
) -> bytes:
    known = {entry.id for entry in there}
    updated = sum(entry.id in known for entry in coming)
    told = {
        "name": name,
        "created": created,
        "added": len(coming) - updated,
        "updated": updated,
        "entryCount": len(there) + len(coming) - updated,
    }
    return _written(told)


def _document(head: HeadRow, book: BookCreate) -> dict[str, Any]:
    entries = [_entry(head, each) for each in book.entries]
    told = _summary(head, book.description, len(entries))
    del told["entryCount"]
    return {**told, "entries": entries, "version": _VERSION}


def _entry(head: HeadRow, entry: Entry) -> dict[str, Any]:
    """Return an entry as it is shown; one without times has those of its book."""
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
    """Return the description of a stored revision, which is its first member, and read no more."""
    start = len(_DESCRIPTION)
    text = content[start : start + _MOST_BYTES].decode(errors="ignore")
    description: str = json.JSONDecoder().raw_decode(text)[0]
    return description


def _seconds(time: datetime) -> int:
    return int(time.timestamp())


def _written(value: object) -> bytes:
    # Not the faster encoder of responses: a whole number may be larger than 64 bits.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
