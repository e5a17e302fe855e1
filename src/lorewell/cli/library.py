"""The books that commands work on: those of a running service, or a database at hand."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, Protocol

import typer

from lorewell.errors import ValidationFailedError
from lorewell.model import (
    BindingSet,
    BindingsPut,
    BookCreate,
    BookDiff,
    BookHead,
    BookPage,
    CreatedKey,
    CreateResult,
    KeyList,
    KeyRequest,
    Published,
    RevisionPage,
    SearchRequest,
    SearchResponse,
    StoredBook,
)
from lorewell.model.index import IndexBuilt, IndexPage, IndexState

if TYPE_CHECKING:
    from lorewell.client import LorewellClient

URL = "LOREWELL_URL"
API_KEY = "LOREWELL_API_KEY"
TENANT = "LOREWELL_TENANT"
DEFAULT_TENANT = "default"

Given = ParamSpec("Given")


class BookLibrary(Protocol):
    """What the commands need. Each call raises what its use case raises (`lorewell.errors`)."""

    def import_books(self, books: Sequence[BookCreate]) -> CreateResult:
        """Store new books, all or none."""

    def list_books(self, *, cursor: str | None = None, include_deleted: bool = False) -> BookPage:
        """Return a page of books, last changed first."""

    def get_book(self, book_id: str, *, revision: int | None = None) -> StoredBook:
        """Return a book with one of its revisions, the latest one for None."""

    def publish_revision(
        self, book_id: str, book: BookCreate, *, expected_revision: int
    ) -> Published:
        """Store the next revision of a book."""

    def list_revisions(self, book_id: str, *, cursor: str | None = None) -> RevisionPage:
        """Return a page of a book's revisions, newest first."""

    def compare_revisions(self, book_id: str, first: int, second: int) -> BookDiff:
        """Return what has to change in the first revision to get the second."""

    def delete_book(self, book_id: str, *, force: bool = False) -> None:
        """Delete a book."""

    def restore_book(self, book_id: str) -> BookHead:
        """Bring a deleted book back."""

    def restore_revision(self, book_id: str, revision: int, *, expected_revision: int) -> Published:
        """Store an old revision once more, as the next one."""

    def put_bindings(self, prompt_id: str, bindings: BindingsPut) -> BindingSet:
        """Replace all bindings of a prompt."""

    def get_bindings(self, prompt_id: str) -> BindingSet:
        """Return a prompt's bindings, disabled ones too."""

    def build_index(
        self, book_id: str, revision: int, *, force: bool = False, background: bool = False
    ) -> IndexBuilt:
        """Build the index of a revision, unless it is ready and `force` is not given.

        With `background` it has only begun, and goes on meanwhile or while `get_index` is asked.
        """

    def get_index(self, book_id: str, *, revision: int | None = None) -> IndexState:
        """Return how far the index of a revision is, of the latest one for None."""

    def list_indexes(self, *, cursor: str | None = None, stale: bool = False) -> IndexPage:
        """Return a page of the indexes of the revisions in use; with `stale` the unusable ones."""

    def search_books(self, request: SearchRequest) -> SearchResponse:
        """Return the entries that match, best first."""

    def create_key(self, request: KeyRequest) -> CreatedKey:
        """Make an API key."""

    def list_keys(self) -> KeyList:
        """Return all API keys without their secrets."""

    def revoke_key(self, key_id: str) -> None:
        """Close an API key for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """Where a command works, and how it answers.

    Attributes:
        url: a running service; None works straight on a database.
        api_key: what opens the service.
        database: the URL of the database; None takes the settings'.
        tenant: whose books.
        as_json: whether the answer is printed as JSON.
    """

    url: str | None = None
    api_key: str | None = None
    database: str | None = None
    tenant: str = DEFAULT_TENANT
    as_json: bool = False

    @classmethod
    def named(cls, url: str | None, database: str | None = None, **others: Any) -> CommandContext:  # noqa: ANN401  the other fields
        """Return the place that the options name, else the environment, else the settings.

        Raises:
            ValidationFailedError: the options name two places.
        """
        if url is not None and database is not None:
            raise ValidationFailedError("Give either --url or --database, and not both.")
        if url is None and database is None:
            url = os.environ.get(URL) or None
        return cls(url=url, database=database, **others)

    @contextmanager
    def open(self) -> Iterator[BookLibrary]:
        """Give the books of this place.

        Raises:
            LorewellError: what is wrong with the place.
        """
        if self.url is None:
            from lorewell.cli.local import open_local  # noqa: PLC0415  only here SQL is needed

            with open_local(self.database, self.tenant) as library:
                yield library
            return
        with self.connect() as client:
            yield client

    def connect(self) -> LorewellClient:
        """Return a client of the service of this place, or of the one on this machine."""
        from lorewell.client import DEFAULT_URL, LorewellClient  # noqa: PLC0415  only here HTTP

        api_key = self.api_key or os.environ.get(API_KEY) or None
        return LorewellClient(self.url or DEFAULT_URL, tenant_id=self.tenant, api_key=api_key)


def _options(
    *,
    url: Annotated[str | None, typer.Option(help=f"A running service; {URL} if not given.")] = None,
    api_key: Annotated[
        str | None, typer.Option(help=f"What opens the service; {API_KEY} if not given.")
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Work on a database; the settings' if there is no --url."),
    ] = None,
    tenant: Annotated[
        str, typer.Option(envvar=TENANT, show_envvar=False, help="Whose books.")
    ] = DEFAULT_TENANT,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Stand for the options that all commands with a `CommandContext` have."""


def reaching(
    command: Callable[Concatenate[CommandContext, Given], None],
) -> Callable[..., None]:
    """Return the command with the options that name its place."""
    return _with_options(command, _parameters(_options))


def reaching_all_tenants(
    command: Callable[Concatenate[CommandContext, Given], None],
) -> Callable[..., None]:
    """Return the command with the options that name its place, but for the tenant."""
    shared = _parameters(_options)
    return _with_options(command, {name: shared[name] for name in shared if name != "tenant"})


def reaching_a_service(
    command: Callable[Concatenate[CommandContext, Given], None],
) -> Callable[..., None]:
    """Return the command with the options that name a service: no database at hand will do."""
    shared = _parameters(_options)
    return _with_options(command, {name: shared[name] for name in shared if name != "database"})


def _with_options(
    command: Callable[..., None], shared: Mapping[str, inspect.Parameter]
) -> Callable[..., None]:
    own = [each for name, each in _parameters(command).items() if name != "place"]

    def run(**given: Any) -> None:  # noqa: ANN401  typer checks them by the signature below
        place = CommandContext.named(**{name: given.pop(name) for name in shared})
        command(place, **given)

    parameters = [*own, *shared.values()]
    run.__doc__ = command.__doc__
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    vars(run)["__signature__"] = inspect.Signature(parameters)
    return run


def _parameters(function: Callable[..., None]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function, eval_str=True).parameters
