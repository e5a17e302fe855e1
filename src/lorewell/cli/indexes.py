"""Commands that build vector indexes, and tell how far they are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter, sleep
from typing import Annotated, NamedTuple

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from lorewell.cli.books import heads
from lorewell.cli.failures import exit_code
from lorewell.cli.library import BookLibrary, CommandContext, reaching
from lorewell.cli.listings import index_notes, indexes_table
from lorewell.cli.printing import new_console, print_json, print_parts, say
from lorewell.errors import EmbeddingUnavailableError, LorewellError, ValidationFailedError
from lorewell.model.index import IndexBuilt, IndexPage, IndexState
from lorewell.model.plain import plain

_LONGEST_PAUSE_SECONDS = 0.3
_MAX_BAR_NAME_CHARS = 30
_FAILED_EXIT_CODE = exit_code(EmbeddingUnavailableError(""))

Tell = Callable[[str, IndexState | None], None]
"""Shows what is being built, and how far it is; None once it has ended."""


class _Wanted(NamedTuple):
    book_id: str
    revision: int
    name: str


class _Outcome(NamedTuple):
    state: IndexBuilt
    exit_code: int


@reaching
def index_command(
    place: CommandContext,
    book: Annotated[str | None, typer.Argument(metavar="[BOOK]", help="A book's id.")] = None,
    *,
    revision: Annotated[
        int | None, typer.Option(metavar="N", help="Which revision; the latest one if not given.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Build all that are in use and can't be searched yet.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Build also what is ready.")] = False,
    listing: Annotated[
        bool, typer.Option("--list", help="Build nothing; show how far all in use are.")
    ] = False,
) -> None:
    """Build the vector index of a book, by which its entries are found by meaning."""
    _check_options(book, revision, every=every, force=force, listing=listing)
    with place.open() as library:
        if listing:
            _show_all(place, library)
            return
        with _interruptible(place):
            if book is None:
                _build_all(place, library, force=force)
            else:
                _build_one(place, library, book, revision, force=force)


def _check_options(
    book: str | None, revision: int | None, *, every: bool, force: bool, listing: bool
) -> None:
    if [book is not None, every, listing].count(True) != 1:
        raise ValidationFailedError("Give either a book, or --all, or --list.")
    if revision is not None and book is None:
        raise ValidationFailedError("Give --revision with a book alone.")
    if force and listing:
        raise ValidationFailedError("Give --force without --list, which builds nothing.")


@contextmanager
def _interruptible(place: CommandContext) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if place.url is not None:
            say(
                "The service goes on with this book; `lorewell index --list` tells how far it is.",
                err=True,
            )
        raise


def _show_all(place: CommandContext, library: BookLibrary) -> None:
    states = tuple(_states(library, stale=False))
    if place.as_json:
        print_json(IndexPage(indexes=states, next_cursor=None))
    elif not states:
        say("There are no books.")
    else:
        _print_states(states, _names(library))


def _build_one(
    place: CommandContext, library: BookLibrary, book_id: str, revision: int | None, *, force: bool
) -> None:
    newest = library.list_revisions(book_id).revisions[0]
    wanted = _Wanted(book_id, newest.revision if revision is None else revision, newest.name)
    with _bar(as_json=place.as_json) as tell:
        built = _build(library, wanted, force=force, tell=tell)
    if place.as_json:
        print_json(built)
    if built.status != "ready":
        raise EmbeddingUnavailableError(_why(built))
    if not place.as_json:
        how = "was indexed before" if built.reused else "is indexed"
        about = f"{wanted.name}: revision {built.revision} of {built.book_id} {how}"
        say(f"{about}, {built.chunk_count} chunks, {built.embedding_version}")


def _build_all(place: CommandContext, library: BookLibrary, *, force: bool) -> None:
    states = tuple(_states(library, stale=not force))
    names = _names(library) if states else {}
    outcomes: list[_Outcome] = []
    with _bar(len(states), as_json=place.as_json) as tell:
        for state in states:
            name = names.get(state.book_id, state.book_id)
            wanted = _Wanted(state.book_id, state.revision, name)
            try:
                built = _build(library, wanted, force=force, tell=tell)
                code = 0 if built.status == "ready" else _FAILED_EXIT_CODE
            except LorewellError as error:  # of this book; the next one may work
                known = state.model_dump() | {"error": str(error), "usable": False}
                built, code = IndexBuilt(**known, reused=False), exit_code(error)
            outcomes.append(_Outcome(built, code))
            if place.as_json:
                print_json(built)
    if not place.as_json and not states:
        say("There is nothing to build.")
    elif not place.as_json:
        _print_states([outcome.state for outcome in outcomes], names)
    code = next((outcome.exit_code for outcome in outcomes if outcome.exit_code), 0)
    if code:
        raise typer.Exit(code)


def _build(library: BookLibrary, wanted: _Wanted, *, force: bool, tell: Tell) -> IndexBuilt:
    """Build an index, and return what came of it: `ready`, or `failed` and why."""
    book_id, revision, name = wanted
    built = library.build_index(book_id, revision, force=force, background=True)
    state: IndexState = built
    pause = 0.0
    while state.status == "building":
        tell(name, state)
        asked = perf_counter()
        state = library.get_index(book_id, revision=revision)
        # On a database at hand it is built while `get_index` waits, and not while we sleep.
        sleep(max(0.0, pause - (perf_counter() - asked)))
        pause = min(2 * pause + 0.05, _LONGEST_PAUSE_SECONDS)
    tell(name, None)
    members = {field: getattr(state, field) for field in IndexState.model_fields}
    return IndexBuilt(**members, reused=built.reused)


def _why(state: IndexState) -> str:
    return state.error or f"The index is {state.status}."


def _states(library: BookLibrary, *, stale: bool) -> Iterator[IndexState]:
    cursor = None
    while True:
        page = library.list_indexes(cursor=cursor, stale=stale)
        yield from page.indexes
        cursor = page.next_cursor
        if cursor is None:
            return


def _names(library: BookLibrary) -> dict[str, str]:
    return {head.book_id: head.name for head in heads(library)}


def _print_states(states: Sequence[IndexState], names: dict[str, str]) -> None:
    print_parts(indexes_table(states, names))
    for line in index_notes(states, names):
        say(line)


@contextmanager
def _bar(revisions: int = 1, *, as_json: bool) -> Iterator[Tell]:
    """Show on stderr how far it is, if that is a terminal; give what is to be told."""
    console = new_console(stderr=True)
    hidden = not console.is_interactive or (as_json and sys.stdout.isatty())
    with Progress(
        TextColumn("Indexing"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[name]}", markup=False),
        console=console,
        transient=True,
        redirect_stdout=False,  # what is printed of a book is no part of the bar
        redirect_stderr=False,
        disable=hidden,
    ) as progress:
        books = progress.add_task("", total=revisions, name="books", visible=revisions > 1)
        chunks = progress.add_task("", total=None, name="")

        def tell(name: str, state: IndexState | None) -> None:
            if state is None:
                progress.advance(books)
                progress.reset(chunks, total=None, name="")
                return
            short = plain(name)[:_MAX_BAR_NAME_CHARS]
            total = state.chunk_count or None
            progress.update(chunks, completed=state.done, total=total, name=short)

        yield tell
