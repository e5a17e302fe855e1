"""The books of one tenant, with the paths and formats of SillyTavern_replica."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import AfterValidator
from starlette.convertors import StringConvertor, register_url_convertor

from lorewell.app.replica import worldbooks
from lorewell.app.replica.worldbooks import Form
from lorewell.errors import (
    BatchTooLargeError,
    BookBoundError,
    BookNotFoundError,
    FileTooLargeError,
    ImportInvalidError,
    InvalidDependencyError,
    NameTakenError,
    NotFoundError,
    RevisionConflictError,
    TooExpensiveError,
)
from lorewell.http.calls import (
    CREATED,
    OK,
    Call,
    answer_file,
    answer_json,
    reading,
    shared,
    writing,
)
from lorewell.http.limits import BOOKS, SMALL, TURN
from lorewell.http.openapi import any_body, documented, file_body
from lorewell.model.replica_books import (
    NewReplicaBook,
    ReplicaBookChange,
    ReplicaEntryGiven,
    check_book_name,
)

TAG = "worldbooks"
_BOOKS = "/api/worldbooks"
# A slash in the name is a fault of the name: it can't lead to another route.
_BOOK = _BOOKS + "/{name:book}"
_PARTS = _BOOKS + "/{name:text}"
_ENTRIES = _PARTS + "/entries"
_ENTRY = _ENTRIES + "/{uid:text}"
_OBJECT = {"application/json": {"schema": {"type": "object"}}}
_OBJECTS = {"application/json": {"schema": {"type": "array", "items": {"type": "object"}}}}
_ENTRY_BODY = any_body("An entry in the internal format, or some of its members.", TURN)

_CREATION = documented(
    NameTakenError,
    InvalidDependencyError,
    gives={CREATED: _OBJECT},
    takes=any_body("`name`, and optionally `description` and `entries`.", BOOKS),
)


class _Text(StringConvertor):
    """Matches any text, so that an invalid name is a fault of the name and not an unknown route."""

    regex = "(?s:.*)"


class _WholeText(_Text):
    """Matches any text except the paths of a book's parts, which have their own routes."""

    regex = r"(?s:(?!.*/(?:entries|import|export)\Z).*)"


register_url_convertor("text", _Text())
register_url_convertor("book", _WholeText())
router = APIRouter()


async def _reading(request: Request) -> Call:
    return await reading(request, shared(request).settings.replica_tenant)


async def _writing(request: Request) -> Call:
    return await writing(request, shared(request).settings.replica_tenant)


_Reading = Annotated[Call, Depends(_reading)]
_Writing = Annotated[Call, Depends(_writing)]
_Name = Annotated[
    str, Path(description="A book's name; not a path."), AfterValidator(check_book_name)
]
_Uid = Annotated[str, Path(description="The uid of an entry.")]
_Format = Annotated[Form, Query(alias="format", description="The program that the file is for.")]


@router.get(_BOOKS + "/", include_in_schema=False)
@router.get(_BOOKS, **documented(gives={OK: _OBJECTS}))
async def list_worldbooks(call: _Reading) -> Response:
    """Return the books without their entries, last changed first, at most 1,000."""
    return answer_json(await worldbooks.list_worldbooks(call.services, call.tenant_id))


@router.post(_BOOKS + "/", **_CREATION, include_in_schema=False)
@router.post(_BOOKS, **_CREATION)
async def create_worldbook(call: _Writing) -> Response:
    """Store a new book."""
    request = await call.body(NewReplicaBook)
    made = await worldbooks.create_worldbook(call.services, call.tenant_id, request)
    return answer_json(made, CREATED)


@router.get(_ENTRY, **documented(BookNotFoundError, NotFoundError, gives={OK: _OBJECT}))
async def get_worldbook_entry(call: _Reading, name: _Name, uid: _Uid) -> Response:
    """Return an entry."""
    return answer_json(await worldbooks.get_entry(call.services, call.tenant_id, name, uid))


@router.put(
    _ENTRY,
    **documented(
        BookNotFoundError,
        NotFoundError,
        InvalidDependencyError,
        RevisionConflictError,
        gives={OK: _OBJECT},
        takes=_ENTRY_BODY,
    ),
)
async def change_worldbook_entry(call: _Writing, name: _Name, uid: _Uid) -> Response:
    """Change the given members of an entry; the others stay."""
    given = await call.body(ReplicaEntryGiven)
    changed = worldbooks.change_entry_of(call.services, call.tenant_id, name, uid, given.root)
    return answer_json(await changed)


@router.delete(
    _ENTRY,
    **documented(
        BookNotFoundError,
        NotFoundError,
        InvalidDependencyError,
        RevisionConflictError,
        gives={OK: _OBJECT},
    ),
)
async def delete_worldbook_entry(call: _Writing, name: _Name, uid: _Uid) -> Response:
    """Remove an entry from a book; older revisions keep it."""
    return answer_json(await worldbooks.delete_entry(call.services, call.tenant_id, name, uid))


@router.get(_ENTRIES, **documented(BookNotFoundError, gives={OK: _OBJECTS}))
async def list_worldbook_entries(call: _Reading, name: _Name) -> Response:
    """Return the entries of a book, in their order."""
    return answer_json(await worldbooks.list_entries(call.services, call.tenant_id, name))


@router.post(
    _ENTRIES,
    **documented(
        BookNotFoundError,
        NameTakenError,
        InvalidDependencyError,
        RevisionConflictError,
        gives={CREATED: _OBJECT},
        takes=_ENTRY_BODY,
    ),
)
async def create_worldbook_entry(call: _Writing, name: _Name) -> Response:
    """Add an entry at the end of a book."""
    given = await call.body(ReplicaEntryGiven)
    made = await worldbooks.create_entry(call.services, call.tenant_id, name, given.root)
    return answer_json(made, CREATED)


@router.post(
    _PARTS + "/import",
    **documented(
        ImportInvalidError,
        InvalidDependencyError,
        RevisionConflictError,
        FileTooLargeError,
        BatchTooLargeError,
        TooExpensiveError,
        gives={OK: _OBJECT},
        takes=file_body("file", 1),
    ),
)
async def import_worldbook(call: _Writing, name: _Name) -> Response:
    """Create a book from a file, or merge the file into the book of this name, by uid."""
    (file,) = await call.files("file", 1)
    return answer_json(await worldbooks.import_into(call.services, call.tenant_id, name, file))


@router.get(_PARTS + "/export", **documented(BookNotFoundError, gives={OK: _OBJECT}))
async def export_worldbook(call: _Reading, name: _Name, form: _Format = "internal") -> Response:
    """Return a book as a file for SillyTavern_replica or for SillyTavern."""
    content = await worldbooks.export_worldbook(call.services, call.tenant_id, name, form)
    return answer_file(name, content)


@router.get(_BOOK, **documented(BookNotFoundError, gives={OK: _OBJECT}))
async def get_worldbook(call: _Reading, name: _Name) -> Response:
    """Return a book with its entries in the internal format."""
    return answer_json(await worldbooks.get_worldbook(call.services, call.tenant_id, name))


@router.put(
    _BOOK,
    **documented(
        BookNotFoundError,
        RevisionConflictError,
        gives={OK: _OBJECT},
        takes=any_body("`description`.", SMALL),
    ),
)
async def change_worldbook(call: _Writing, name: _Name) -> Response:
    """Change the description of a book."""
    request = await call.body(ReplicaBookChange)
    return answer_json(
        await worldbooks.change_worldbook(call.services, call.tenant_id, name, request)
    )


@router.delete(_BOOK, **documented(BookNotFoundError, BookBoundError, gives={OK: _OBJECT}))
async def delete_worldbook(call: _Writing, name: _Name) -> Response:
    """Delete a book; its revisions stay, and it can be restored."""
    return answer_json(await worldbooks.delete_worldbook(call.services, call.tenant_id, name))
