"""The books of one tenant, under the paths and in the forms of SillyTavern_replica."""

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
from lorewell.http.openapi import any_body, file_body, told
from lorewell.model.replica_books import (
    NewReplicaBook,
    ReplicaBookChange,
    ReplicaEntryGiven,
    check_book_name,
)

TAG = "worldbooks"
_BOOKS = "/api/worldbooks"
# A name that holds a slash is refused as a name: another route could not be meant.
_BOOK = _BOOKS + "/{name:book}"
_PARTS = _BOOKS + "/{name:text}"
_ENTRIES = _PARTS + "/entries"
_ENTRY = _ENTRIES + "/{uid:text}"
_OBJECT = {"application/json": {"schema": {"type": "object"}}}
_OBJECTS = {"application/json": {"schema": {"type": "array", "items": {"type": "object"}}}}
_ENTRY_BODY = any_body("An entry of the internal form, or some of its members.")


class _Text(StringConvertor):
    """Takes any text of a path: what it may not hold is told of the name, not of the route."""

    regex = "(?s:.*)"


class _WholeText(_Text):
    """Leaves the paths of a book's parts to their own routes, with their own methods."""

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
    str, Path(description="A book's name, and no path."), AfterValidator(check_book_name)
]
_Uid = Annotated[str, Path(description="An entry's uid.")]
_Format = Annotated[Form, Query(alias="format", description="The program that reads the file.")]


@router.get(_BOOKS + "/", include_in_schema=False)
@router.get(_BOOKS, **told(gives={OK: _OBJECTS}))
async def list_worldbooks(call: _Reading) -> Response:
    """Return the books without their entries, last changed first, 1,000 at most."""
    return answer_json(await worldbooks.list_worldbooks(call.services, call.tenant_id))


@router.post(_BOOKS + "/", include_in_schema=False)
@router.post(
    _BOOKS,
    **told(
        NameTakenError,
        InvalidDependencyError,
        gives={CREATED: _OBJECT},
        takes=any_body("`name`, and if wanted `description` and `entries`."),
    ),
)
async def create_worldbook(call: _Writing) -> Response:
    """Store a new book."""
    asked = await call.body(NewReplicaBook)
    made = await worldbooks.create_worldbook(call.services, call.tenant_id, asked)
    return answer_json(made, CREATED)


@router.get(_ENTRY, **told(BookNotFoundError, NotFoundError, gives={OK: _OBJECT}))
async def get_worldbook_entry(call: _Reading, name: _Name, uid: _Uid) -> Response:
    """Return an entry."""
    return answer_json(await worldbooks.get_entry(call.services, call.tenant_id, name, uid))


@router.put(
    _ENTRY,
    **told(
        BookNotFoundError,
        NotFoundError,
        InvalidDependencyError,
        RevisionConflictError,
        gives={OK: _OBJECT},
        takes=_ENTRY_BODY,
    ),
)
async def change_worldbook_entry(call: _Writing, name: _Name, uid: _Uid) -> Response:
    """Change the members of an entry that are given; the others stay."""
    given = await call.body(ReplicaEntryGiven)
    changed = worldbooks.change_entry_of(call.services, call.tenant_id, name, uid, given.root)
    return answer_json(await changed)


@router.delete(
    _ENTRY,
    **told(
        BookNotFoundError,
        NotFoundError,
        InvalidDependencyError,
        RevisionConflictError,
        gives={OK: _OBJECT},
    ),
)
async def delete_worldbook_entry(call: _Writing, name: _Name, uid: _Uid) -> Response:
    """Take an entry out of a book; older revisions keep it."""
    return answer_json(await worldbooks.delete_entry(call.services, call.tenant_id, name, uid))


@router.get(_ENTRIES, **told(BookNotFoundError, gives={OK: _OBJECTS}))
async def list_worldbook_entries(call: _Reading, name: _Name) -> Response:
    """Return the entries of a book, in their order."""
    return answer_json(await worldbooks.list_entries(call.services, call.tenant_id, name))


@router.post(
    _ENTRIES,
    **told(
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
    **told(
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
    """Make a book of a file, or merge it into the book of this name: its entries win, by uid."""
    (file,) = await call.files("file", 1)
    return answer_json(await worldbooks.import_into(call.services, call.tenant_id, name, file))


@router.get(_PARTS + "/export", **told(BookNotFoundError, gives={OK: _OBJECT}))
async def export_worldbook(call: _Reading, name: _Name, form: _Format = "internal") -> Response:
    """Return a book as a file of that program, or of SillyTavern."""
    content = await worldbooks.export_worldbook(call.services, call.tenant_id, name, form)
    return answer_file(name, content)


@router.get(_BOOK, **told(BookNotFoundError, gives={OK: _OBJECT}))
async def get_worldbook(call: _Reading, name: _Name) -> Response:
    """Return a book with its entries in the internal form."""
    return answer_json(await worldbooks.get_worldbook(call.services, call.tenant_id, name))


@router.put(
    _BOOK,
    **told(
        BookNotFoundError,
        RevisionConflictError,
        gives={OK: _OBJECT},
        takes=any_body("`description`."),
    ),
)
async def change_worldbook(call: _Writing, name: _Name) -> Response:
    """Change a book's description."""
    asked = await call.body(ReplicaBookChange)
    return answer_json(
        await worldbooks.change_worldbook(call.services, call.tenant_id, name, asked)
    )


@router.delete(_BOOK, **told(BookNotFoundError, BookBoundError, gives={OK: _OBJECT}))
async def delete_worldbook(call: _Writing, name: _Name) -> Response:
    """Mark a book as deleted; all of it is kept."""
    return answer_json(await worldbooks.delete_worldbook(call.services, call.tenant_id, name))
