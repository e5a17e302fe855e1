"""The routes of the service: what each takes, what it is asked, and what it gives.

Those of a turn of a chat are in `turns.py`.

Each function has the name of its operation and makes the `Call` that both clients send. Methods of
the clients take the same arguments, but for the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from lorewell.client.answers import (
    document,
    model,
    nothing,
    text,
)
from lorewell.client.calls import (
    Ask,
    Call,
    CallOptions,
    KeyedOptions,
    Kind,
    QueryValue,
    Session,
    TenantOptions,
    bad_parameter,
    page,
    segment,
)
from lorewell.model import (
    BindingSet,
    BindingsPut,
    BookCreate,
    BookDiff,
    BookHead,
    BookPage,
    CreatedKey,
    CreateResult,
    ImportBatch,
    ImportPreview,
    KeyList,
    KeyRequest,
    Published,
    PublishRequest,
    ResolvedBindings,
    RestoreRequest,
    RevisionPage,
    StoredBook,
    TenantList,
)
from lorewell.model.imports import ExportFormat
from lorewell.model.index import IndexRequest, IndexState
from lorewell.model.parse import parse_model
from lorewell.model.text import text_flaw

BOOKS = "/v1/books"
BINDINGS = "/v1/prompt-bindings"
ADMIN = "/v1/admin"


def create_book(
    session: Session, book: BookCreate, **options: Unpack[KeyedOptions]
) -> Call[CreateResult]:
    """Store a new book; it becomes revision 1."""
    ask = Ask(method="POST", path=BOOKS, kind=Kind.KEYED, body=book)
    return session.call(ask, model(CreateResult), options)


def list_books(
    session: Session,
    *,
    limit: int | None = None,
    cursor: str | None = None,
    name_contains: str | None = None,
    include_deleted: bool = False,
    **options: Unpack[TenantOptions],
) -> Call[BookPage]:
    """Return a page of books, last changed first; `next_cursor` asks for the next one."""
    query = page(limit, cursor) | {"q": name_contains, "include_deleted": include_deleted or None}
    ask = Ask(method="GET", path=BOOKS, kind=Kind.READ, query=query)
    return session.call(ask, model(BookPage), options)


def get_book(
    session: Session,
    book_id: str,
    *,
    revision: int | None = None,
    **options: Unpack[TenantOptions],
) -> Call[StoredBook]:
    """Return a book with one of its revisions, the latest one if none is named."""
    query = {"revision": revision}
    ask = Ask(method="GET", path=_book(book_id), kind=Kind.READ, query=query)
    return session.call(ask, model(StoredBook), options)


def export_book(
    session: Session,
    book_id: str,
    *,
    format: ExportFormat,  # noqa: A002  the route's word
    revision: int | None = None,
    **options: Unpack[TenantOptions],
) -> Call[dict[str, object]]:
    """Return a book as a document of another program's format, or of our own."""
    query: dict[str, QueryValue] = {"format": format, "revision": revision}
    ask = Ask(method="GET", path=f"{_book(book_id)}/export", kind=Kind.READ, query=query)
    return session.call(ask, document, options)


def delete_book(
    session: Session,
    book_id: str,
    *,
    expected_revision: int | None = None,
    force: bool = False,
    **options: Unpack[TenantOptions],
) -> Call[None]:
    """Delete a book, also one that a prompt uses if `force` is given; it can be brought back."""
    query: dict[str, QueryValue] = {"expected_revision": expected_revision, "force": force or None}
    ask = Ask(method="DELETE", path=_book(book_id), kind=Kind.WRITE, query=query)
    return session.call(ask, nothing, options)


def restore_book(
    session: Session, book_id: str, **options: Unpack[TenantOptions]
) -> Call[BookHead]:
    """Bring a deleted book back; one that is not deleted stays as it is."""
    ask = Ask(method="POST", path=f"{_book(book_id)}/restore", kind=Kind.WRITE)
    return session.call(ask, model(BookHead), options)


def list_revisions(
    session: Session,
    book_id: str,
    *,
    limit: int | None = None,
    cursor: str | None = None,
    **options: Unpack[TenantOptions],
) -> Call[RevisionPage]:
    """Return a page of a book's revisions without their entries, newest first."""
    path, query = f"{_book(book_id)}/revisions", page(limit, cursor)
    ask = Ask(method="GET", path=path, kind=Kind.READ, query=query)
    return session.call(ask, model(RevisionPage), options)


def publish_revision(
    session: Session,
    book_id: str,
    book: BookCreate,
    *,
    expected_revision: int,
    **options: Unpack[KeyedOptions],
) -> Call[Published]:
    """Store the next revision of a book, which is the whole book, if its head is the expected."""
    asked = parse_model(
        PublishRequest,
        {
            **{name: getattr(book, name) for name in book.model_fields_set},
            "expected_revision": expected_revision,
        },
    )
    path = f"{_book(book_id)}/revisions"
    ask = Ask(method="POST", path=path, kind=Kind.KEYED, body=asked)
    return session.call(ask, model(Published), options)


def compare_revisions(
    session: Session, book_id: str, first: int, second: int, **options: Unpack[TenantOptions]
) -> Call[BookDiff]:
    """Return what has to change in the first revision to get the second."""
    query = {"from": first, "to": second}
    ask = Ask(method="GET", path=f"{_book(book_id)}/diff", kind=Kind.READ, query=query)
    return session.call(ask, model(BookDiff), options)


def restore_revision(
    session: Session,
    book_id: str,
    revision: int,
    *,
    expected_revision: int,
    **options: Unpack[KeyedOptions],
) -> Call[Published]:
    """Store an old revision once more, as the next one, if the book's head is the expected."""
    asked = parse_model(RestoreRequest, {"expected_revision": expected_revision})
    path = f"{_book(book_id)}/revisions/{revision}/restore"
    ask = Ask(method="POST", path=path, kind=Kind.KEYED, body=asked)
    return session.call(ask, model(Published), options)


def import_books(
    session: Session, books: Sequence[BookCreate], **options: Unpack[KeyedOptions]
) -> Call[CreateResult]:
    """Store 1 to 10 new books, all or none; results are in their order."""
    batch = parse_model(ImportBatch, {"books": tuple(books)})
    ask = Ask(method="POST", path="/v1/imports", kind=Kind.KEYED, body=batch)
    return session.call(ask, model(CreateResult), options)


def preview_import(
    session: Session, name: str, data: bytes, **options: Unpack[TenantOptions]
) -> Call[ImportPreview]:
    """Return what a file of another program would become; nothing is stored."""
    path, part = "/v1/imports/preview", ("file", (_file_name(name), data))
    ask = Ask(method="POST", path=path, kind=Kind.READ, files=(part,))
    return session.call(ask, model(ImportPreview), options)


def import_files(
    session: Session, files: Sequence[tuple[str, bytes]], **options: Unpack[KeyedOptions]
) -> Call[CreateResult]:
    """Store the books of 1 to 10 files, given by name and bytes, all or none.

    A file that was stored before gives its first book again.
    """
    parts = tuple(("files", (_file_name(name), data)) for name, data in files)
    if not parts:
        raise bad_parameter("files", "must hold at least 1")
    ask = Ask(method="POST", path="/v1/imports/files", kind=Kind.KEYED, files=parts)
    return session.call(ask, model(CreateResult), options)


def build_index(
    session: Session,
    book_id: str,
    revision: int,
    *,
    force: bool = False,
    **options: Unpack[TenantOptions],
) -> Call[IndexState]:
    """Build the vector index of a revision, unless it is ready already and `force` is not given."""
    asked = parse_model(IndexRequest, {"revision": revision, "force": force})
    ask = Ask(method="POST", path=f"{_book(book_id)}/index", kind=Kind.WRITE, body=asked)
    return session.call(ask, model(IndexState), options)


def get_index(
    session: Session,
    book_id: str,
    *,
    revision: int | None = None,
    **options: Unpack[TenantOptions],
) -> Call[IndexState]:
    """Return how far the index of a revision is, of the latest one if none is named."""
    query = {"revision": revision}
    ask = Ask(method="GET", path=f"{_book(book_id)}/index", kind=Kind.READ, query=query)
    return session.call(ask, model(IndexState), options)


def put_bindings(
    session: Session, prompt_id: str, bindings: BindingsPut, **options: Unpack[TenantOptions]
) -> Call[BindingSet]:
    """Replace all bindings of a prompt."""
    query = {"prompt_id": prompt_id}
    ask = Ask(method="PUT", path=BINDINGS, kind=Kind.WRITE, query=query, body=bindings)
    return session.call(ask, model(BindingSet), options)


def get_bindings(
    session: Session, prompt_id: str, **options: Unpack[TenantOptions]
) -> Call[BindingSet]:
    """Return a prompt's bindings as they are stored, disabled ones too."""
    ask = Ask(method="GET", path=BINDINGS, kind=Kind.READ, query={"prompt_id": prompt_id})
    return session.call(ask, model(BindingSet), options)


def resolve_bindings(
    session: Session, prompt_id: str, **options: Unpack[TenantOptions]
) -> Call[ResolvedBindings]:
    """Return the concrete revisions that a prompt uses now, in order, and their policy."""
    path, query = f"{BINDINGS}/resolve", {"prompt_id": prompt_id}
    ask = Ask(method="GET", path=path, kind=Kind.READ, query=query)
    return session.call(ask, model(ResolvedBindings), options)


def list_tenants(session: Session, **options: Unpack[CallOptions]) -> Call[TenantList]:
    """Return all tenants that have a book."""
    ask = Ask(method="GET", path=f"{ADMIN}/tenants", kind=Kind.READ, has_tenant=False)
    return session.call(ask, model(TenantList), options)


def list_all_books(
    session: Session,
    *,
    limit: int | None = None,
    cursor: str | None = None,
    name_contains: str | None = None,
    include_deleted: bool = False,
    **options: Unpack[CallOptions],
) -> Call[BookPage]:
    """Return a page of the books of all tenants, last changed first."""
    query = page(limit, cursor) | {"q": name_contains, "include_deleted": include_deleted or None}
    path = f"{ADMIN}/books"
    ask = Ask(method="GET", path=path, kind=Kind.READ, query=query, has_tenant=False)
    return session.call(ask, model(BookPage), options)


def get_any_book(
    session: Session,
    book_id: str,
    *,
    revision: int | None = None,
    **options: Unpack[CallOptions],
) -> Call[StoredBook]:
    """Return a book of any tenant, a deleted one too, with one of its revisions."""
    path, query = f"{ADMIN}/books/{segment(book_id)}", {"revision": revision}
    ask = Ask(method="GET", path=path, kind=Kind.READ, query=query, has_tenant=False)
    return session.call(ask, model(StoredBook), options)


def list_keys(session: Session, **options: Unpack[CallOptions]) -> Call[KeyList]:
    """Return all API keys without their secrets, oldest first."""
    ask = Ask(method="GET", path=f"{ADMIN}/keys", kind=Kind.READ, has_tenant=False)
    return session.call(ask, model(KeyList), options)


def create_key(
    session: Session, request: KeyRequest, **options: Unpack[CallOptions]
) -> Call[CreatedKey]:
    """Make an API key. Its secret is shown this once."""
    path = f"{ADMIN}/keys"
    ask = Ask(method="POST", path=path, kind=Kind.WRITE, body=request, has_tenant=False)
    return session.call(ask, model(CreatedKey), options)


def revoke_key(session: Session, key_id: str, **options: Unpack[CallOptions]) -> Call[None]:
    """Close an API key for good."""
    path = f"{ADMIN}/keys/{segment(key_id)}"
    ask = Ask(method="DELETE", path=path, kind=Kind.WRITE, has_tenant=False)
    return session.call(ask, nothing, options)


def check_health(session: Session, **options: Unpack[CallOptions]) -> Call[None]:
    """Return if the service runs; an UnavailableError says that it does not."""
    ask = Ask(method="GET", path="/healthz", kind=Kind.PROBE, has_tenant=False)
    return session.call(ask, nothing, options)


def check_readiness(session: Session, **options: Unpack[CallOptions]) -> Call[None]:
    """Return if the service can work; an UnavailableError says that it can't yet."""
    ask = Ask(method="GET", path="/readyz", kind=Kind.PROBE, has_tenant=False)
    return session.call(ask, nothing, options)


def get_metrics(session: Session, **options: Unpack[CallOptions]) -> Call[str]:
    """Return the figures of the service in Prometheus' text format."""
    ask = Ask(method="GET", path="/metrics", kind=Kind.READ, has_tenant=False)
    return session.call(ask, text, options)


def _book(book_id: str) -> str:
    return f"{BOOKS}/{segment(book_id)}"


def _file_name(name: str) -> str:
    flaw = text_flaw(name)
    if flaw:
        raise bad_parameter("files", f"the name of a file: {flaw}")
    return name
