"""The books of a database: the service's use cases, called without a service."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from lorewell.app import access, bindings as app_bindings, books as app_books
from lorewell.app.native.search import search
from lorewell.app.pages import PageRequest
from lorewell.app.services import Services
from lorewell.app.vectors import indexing
from lorewell.bootstrap import build_services, start, stop
from lorewell.errors import EmbeddingUnavailableError, Fault, ValidationFailedError
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
    KeyList,
    KeyRequest,
    Published,
    RevisionPage,
    SearchRequest,
    SearchResponse,
    StoredBook,
)
from lorewell.model.access import TENANT_PATTERN
from lorewell.model.binding import PromptPage
from lorewell.model.index import IndexBuilt, IndexPage, IndexState
from lorewell.model.parse import parse_model
from lorewell.model.text import text_flaw
from lorewell.settings import Settings, load_settings

Result = TypeVar("Result")

_PAGE = 200
_MAX_PROMPT_CHARS = 200
_BUILDING_SECONDS = 0.3  # how long each `get_index` lets a running build continue


def settings_for(database: str | None) -> Settings:
    """Return the settings; `database` replaces their database URL.

    Raises:
        ValidationFailedError: a setting is invalid.
    """
    return load_settings() if database is None else load_settings(database_url=database)


@contextmanager
def open_local(database: str | None, tenant_id: str) -> Iterator[LocalLibrary]:
    """Open the books of a tenant in a database, after an upgrade of its schema.

    Raises:
        ValidationFailedError: a setting or the tenant id is invalid.
        StorageUnavailableError: the database can't be reached.
    """
    if not re.fullmatch(TENANT_PATTERN, tenant_id):
        raise _invalid_parameter("tenant_id", "must be 1 to 100 characters of A–Z a–z 0–9 . _ : -")
    services = build_services(settings_for(database))
    with asyncio.Runner() as runner:
        try:
            runner.run(start(services))
            yield LocalLibrary(services, tenant_id, runner)
        finally:
            runner.run(stop(services))


class LocalLibrary:
    """The books of one tenant in a database; a `BookLibrary`."""

    def __init__(self, services: Services, tenant_id: str, runner: asyncio.Runner) -> None:
        self._services = services
        self._tenant_id = tenant_id
        self._runner = runner

    def import_books(self, books: Sequence[BookCreate]) -> CreateResult:
        """Store 1 to 10 new books, all or none."""
        batch = parse_model(ImportBatch, {"books": tuple(books)})
        return self._run(
            app_books.create_books(
                self._services, self._tenant_id, batch.books, route="import", key=None
            )
        )

    def list_books(self, *, cursor: str | None = None, include_deleted: bool = False) -> BookPage:
        """Return a page of books, last changed first."""
        page = PageRequest(limit=_PAGE, cursor=cursor)
        return self._run(
            app_books.list_books(
                self._services, self._tenant_id, page, include_deleted=include_deleted
            )
        )

    def get_book(self, book_id: str, *, revision: int | None = None) -> StoredBook:
        """Return a book with one of its revisions, the latest one for None."""
        found = self._run(app_books.read_book(self._services, self._tenant_id, book_id, revision))
        return StoredBook.model_validate_json(found)

    def publish_revision(
        self, book_id: str, book: BookCreate, *, expected_revision: int
    ) -> Published:
        """Store the next revision of a book."""
        return self._run(
            app_books.publish(
                self._services,
                self._tenant_id,
                book_id,
                book,
                expected_revision=expected_revision,
                key=None,
            )
        )

    def list_revisions(self, book_id: str, *, cursor: str | None = None) -> RevisionPage:
        """Return a page of a book's revisions, newest first."""
        page = PageRequest(limit=_PAGE, cursor=cursor)
        return self._run(app_books.list_revisions(self._services, self._tenant_id, book_id, page))

    def compare_revisions(
        self, book_id: str, first: int, second: int, *, values: bool = False
    ) -> BookDiff:
        """Return the changes that turn the first revision into the second."""
        return self._run(
            app_books.diff(
                self._services,
                self._tenant_id,
                book_id,
                first=first,
                second=second,
                values=values,
            )
        )

    def delete_book(self, book_id: str, *, force: bool = False) -> None:
        """Delete a book."""
        self._run(
            app_books.delete_book(
                self._services, self._tenant_id, book_id, expected_revision=None, force=force
            )
        )

    def restore_book(self, book_id: str) -> BookHead:
        """Restore a deleted book."""
        return self._run(app_books.restore_book(self._services, self._tenant_id, book_id))

    def restore_revision(self, book_id: str, revision: int, *, expected_revision: int) -> Published:
        """Store an old revision again, as the next one."""
        return self._run(
            app_books.restore_revision(
                self._services,
                self._tenant_id,
                book_id,
                revision,
                expected_revision=expected_revision,
                key=None,
            )
        )

    def put_bindings(self, prompt_id: str, bindings: BindingsPut) -> BindingSet:
        """Replace all bindings of a prompt."""
        prompt = _prompt(prompt_id)
        return self._run(
            app_bindings.put_bindings(self._services, self._tenant_id, prompt, bindings)
        )

    def get_bindings(self, prompt_id: str) -> BindingSet:
        """Return a prompt's bindings, disabled ones too."""
        prompt = _prompt(prompt_id)
        return self._run(app_bindings.get_bindings(self._services, self._tenant_id, prompt))

    def list_prompts(self, *, cursor: str | None = None) -> PromptPage:
        """Return a page of the prompts that use books, by name."""
        page = PageRequest(limit=_PAGE, cursor=cursor)
        return self._run(app_bindings.list_prompts(self._services, self._tenant_id, page))

    def list_book_prompts(self, book_id: str, *, cursor: str | None = None) -> PromptPage:
        """Return a page of the prompts that use a book, by name."""
        page = PageRequest(limit=_PAGE, cursor=cursor)
        return self._run(
            app_bindings.list_prompts(self._services, self._tenant_id, page, book_id=book_id)
        )

    def build_index(
        self, book_id: str, revision: int, *, force: bool = False, background: bool = False
    ) -> IndexBuilt:
        """Build the index of a revision; with `background` during calls of `get_index`."""
        return self._run(self._build_index(book_id, revision, force=force, background=background))

    async def _build_index(
        self, book_id: str, revision: int, *, force: bool, background: bool
    ) -> IndexBuilt:
        build = await indexing.claim_index(
            self._services, self._tenant_id, book_id, revision, force=force
        )
        if not background or build.reused:
            return await build.run()
        build.start()
        return build.state

    def get_index(self, book_id: str, *, revision: int | None = None) -> IndexState:
        """Return the progress of a revision's index, after a moment of building."""
        return self._run(self._get_index(book_id, revision))

    async def _get_index(self, book_id: str, revision: int | None) -> IndexState:
        await self._services.jobs.wait(_BUILDING_SECONDS)  # the event loop runs only inside calls
        return await indexing.index_state(self._services, self._tenant_id, book_id, revision)

    def list_indexes(self, *, cursor: str | None = None, stale: bool = False) -> IndexPage:
        """Return a page of the indexes of the revisions in use."""
        page = PageRequest(limit=_PAGE, cursor=cursor)
        return self._run(indexing.list_indexes(self._services, self._tenant_id, page, stale=stale))

    def search_books(self, request: SearchRequest) -> SearchResponse:
        """Return the entries that match, best first."""
        return self._run(self._search(request))

    async def _search(self, request: SearchRequest) -> SearchResponse:
        embedder = self._services.embedder
        if embedder is not None and request.mode != "lexical":
            with suppress(EmbeddingUnavailableError):  # the search reports it where it matters
                await embedder.prepare()
        return await search(self._services, self._tenant_id, request)

    def create_key(self, request: KeyRequest) -> CreatedKey:
        """Create an API key."""
        return self._run(access.create_key(self._services, request))

    def list_keys(self) -> KeyList:
        """Return all API keys without their secrets."""
        return self._run(access.list_keys(self._services))

    def revoke_key(self, key_id: str) -> None:
        """Revoke an API key for good."""
        self._run(access.revoke_key(self._services, key_id))

    def _run(self, use_case: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(use_case)


def _prompt(prompt_id: str) -> str:
    flaw = text_flaw(prompt_id)
    if flaw or not 1 <= len(prompt_id) <= _MAX_PROMPT_CHARS:
        raise _invalid_parameter(
            "prompt_id", flaw or f"must be 1 to {_MAX_PROMPT_CHARS} characters"
        )
    return prompt_id


def _invalid_parameter(name: str, detail: str) -> ValidationFailedError:
    fault = Fault("", detail, parameter=name)
    return ValidationFailedError.at(fault)
