"""The books that commands work on: those of a running service, or of a database."""

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
from lorewell.model.binding import PromptPage
from lorewell.model.index import IndexBuilt, IndexPage, IndexState

if TYPE_CHECKING:
    from lorewell.client import LorewellClient

URL = "LOREWELL_URL"
API_KEY = "LOREWELL_API_KEY"
TENANT = "LOREWELL_TENANT"
DEFAULT_TENANT = "default"

CommandParams = ParamSpec("CommandParams")


class BookLibrary(Protocol):
    """The calls that commands need. Each raises what its use case raises (`lorewell.errors`)."""

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

    def compare_revisions(
        self, book_id: str, first: int, second: int, *, values: bool = False
    ) -> BookDiff:
        """Return the changes that turn the first revision into the second."""

    def delete_book(self, book_id: str, *, force: bool = False) -> None:
        """Delete a book."""

    def restore_book(self, book_id: str) -> BookHead:
        """Restore a deleted book."""

    def restore_revision(self, book_id: str, revision: int, *, expected_revision: int) -> Published:
        """Store an old revision again, as the next one."""

    def put_bindings(self, prompt_id: str, bindings: BindingsPut) -> BindingSet:
        """Replace all bindings of a prompt."""

    def get_bindings(self, prompt_id: str) -> BindingSet:
        """Return a prompt's bindings, disabled ones too."""

    def list_prompts(self, *, cursor: str | None = None) -> PromptPage:
        """Return a page of the prompts that use books, by name."""

    def list_book_prompts(self, book_id: str, *, cursor: str | None = None) -> PromptPage:
        """Return a page of the prompts that use a book, by name."""

    def build_index(
        self, book_id: str, revision: int, *, force: bool = False, background: bool = False
    ) -> IndexBuilt:
        """Build the index of a revision, unless it is ready and `force` is not given.

        With `background` the call returns once the build has begun. The build continues on its
        own, or during calls of `get_index`.
        """

    def get_index(self, book_id: str, *, revision: int | None = None) -> IndexState:
        """Return the progress of a revision's index; the latest revision for None."""

    def list_indexes(self, *, cursor: str | None = None, stale: bool = False) -> IndexPage:
        """Return a page of the indexes of revisions in use; with `stale` only unusable ones."""

    def search_books(self, request: SearchRequest) -> SearchResponse:
        """Return the entries that match, best first."""

    def create_key(self, request: KeyRequest) -> CreatedKey:
        """Create an API key."""

    def list_keys(self) -> KeyList:
        """Return all API keys without their secrets."""

    def revoke_key(self, key_id: str) -> None:
        """Revoke an API key for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """Which books a command works on, and how it prints its answer.

    Attributes:
        url: of a running service; None works on a database directly.
        api_key: for the service.
        database: URL of the database; None takes the one of the settings.
        tenant: the tenant whose books are used.
        as_json: whether the answer is printed as JSON.
    """

    url: str | None = None
    api_key: str | None = None
    database: str | None = None
    tenant: str = DEFAULT_TENANT
    as_json: bool = False

    @classmethod
    def from_options(
        cls,
        url: str | None,
        database: str | None = None,
        **others: Any,  # noqa: ANN401  the other fields
    ) -> CommandContext:
        """Return the context of the options; the environment and the settings fill what they omit.

        Raises:
            ValidationFailedError: both a service and a database are given.
        """
        if url is not None and database is not None:
            raise ValidationFailedError(
                "--url and --database exclude each other; give one of them."
            )
        if url is None and database is None:
            url = os.environ.get(URL) or None
        return cls(url=url, database=database, **others)

    @contextmanager
    def open(self) -> Iterator[BookLibrary]:
        """Open the books, and close them at the end of the block.

        Raises:
            LorewellError: the service or the database can't be used.
        """
        if self.url is None:
            from lorewell.cli.local import open_local  # noqa: PLC0415  SQL is needed only here

            with open_local(self.database, self.tenant) as library:
                yield library
            return
        with self.connect() as client:
            yield client

    def connect(self) -> LorewellClient:
        """Return a client of the service at `url`, by default of the one on this machine."""
        from lorewell.client import DEFAULT_URL, LorewellClient  # noqa: PLC0415  HTTP is needed only here

        api_key = self.api_key or os.environ.get(API_KEY) or None
        return LorewellClient(self.url or DEFAULT_URL, tenant_id=self.tenant, api_key=api_key)


def _options(
    *,
    url: Annotated[
        str | None, typer.Option(help=f"URL of a running service; {URL} by default.")
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(help=f"API key of the service; {API_KEY} by default.")
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Database to work on directly; without --url, the one of the settings.",
        ),
    ] = None,
    tenant: Annotated[
        str, typer.Option(envvar=TENANT, show_envvar=False, help="Tenant whose books are used.")
    ] = DEFAULT_TENANT,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Declare the options that make a `CommandContext`."""


def library_options(
    command: Callable[Concatenate[CommandContext, CommandParams], None],
) -> Callable[..., None]:
    """Return the command with the options of its `CommandContext` added."""
    return _with_options(command, _parameters(_options))


def library_options_without_tenant(
    command: Callable[Concatenate[CommandContext, CommandParams], None],
) -> Callable[..., None]:
    """Return the command with the options of its `CommandContext` added, except --tenant."""
    shared = _parameters(_options)
    return _with_options(command, {name: shared[name] for name in shared if name != "tenant"})


def service_options(
    command: Callable[Concatenate[CommandContext, CommandParams], None],
) -> Callable[..., None]:
    """Return the command with the options of a service added: it can't work on a database."""
    shared = _parameters(_options)
    return _with_options(command, {name: shared[name] for name in shared if name != "database"})


def _with_options(
    command: Callable[..., None], shared: Mapping[str, inspect.Parameter]
) -> Callable[..., None]:
    own = [each for name, each in _parameters(command).items() if name != "context"]

    def run(**given: Any) -> None:  # noqa: ANN401  typer checks them by the signature below
        context = CommandContext.from_options(**{name: given.pop(name) for name in shared})
        command(context, **given)

    parameters = [*own, *shared.values()]
    run.__doc__ = command.__doc__
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    vars(run)["__signature__"] = inspect.Signature(parameters)
    return run


def _parameters(function: Callable[..., None]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function, eval_str=True).parameters
