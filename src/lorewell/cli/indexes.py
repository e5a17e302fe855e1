"""The command that builds vector indexes and shows their progress."""

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

from lorewell.cli.books import iterate_books
from lorewell.cli.failures import exit_code
from lorewell.cli.library import BookLibrary, CommandContext, library_options
from lorewell.cli.listings import index_notes, indexes_table
from lorewell.cli.printing import new_console, print_json, print_parts, say
from lorewell.errors import EmbeddingUnavailableError, LorewellError, ValidationFailedError
from lorewell.model.index import IndexBuilt, IndexPage, IndexState
from lorewell.model.plain import plain

_LONGEST_PAUSE_SECONDS = 0.3
_MAX_BAR_NAME_CHARS = 30
_FAILED_EXIT_CODE = exit_code(EmbeddingUnavailableError(""))

ShowProgress = Callable[[str, IndexState | None], None]
"""Shows the name and progress of the index being built; the state is None once it has ended."""


class _IndexTarget(NamedTuple):
    book_id: str
    revision: int
    name: str


class _Outcome(NamedTuple):
    state: IndexBuilt
    exit_code: int


@library_options
def index_command(
    context: CommandContext,
    book: Annotated[str | None, typer.Argument(metavar="[BOOK]", help="Id of the book.")] = None,
    *,
    revision: Annotated[
        int | None, typer.Option(metavar="N", help="Number of the revision; the latest by default.")
    ] = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="Build the indexes of all revisions in use that lack a usable one."
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Rebuild ready indexes, too.")] = False,
    listing: Annotated[
        bool,
        typer.Option(
            "--list", help="Only list the indexes of all revisions in use, with their progress."
        ),
    ] = False,
) -> None:
    """Build the vector index of a book, which finds its entries by meaning."""
    _check_options(book, revision, every=every, force=force, listing=listing)
    with context.open() as library:
        if listing:
            _show_all(context, library)
            return
        with _interruptible(context):
            if book is None:
                _build_all(context, library, force=force)
            else:
                _build_one(context, library, book, revision, force=force)


def _check_options(
    book: str | None, revision: int | None, *, every: bool, force: bool, listing: bool
) -> None:
    if [book is not None, every, listing].count(True) != 1:
        raise ValidationFailedError("Give exactly one of BOOK, --all and --list.")
    if revision is not None and book is None:
        raise ValidationFailedError("--revision needs BOOK.")
    if force and listing:
        raise ValidationFailedError("--force and --list exclude each other: --list builds nothing.")


@contextmanager
def _interruptible(context: CommandContext) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if context.url is not None:
            say(
                "The service continues with this book; `lorewell index --list` shows the progress.",
                err=True,
            )
        raise


def _show_all(context: CommandContext, library: BookLibrary) -> None:
    states = tuple(_iterate_states(library, stale=False))
    if context.as_json:
        print_json(IndexPage(indexes=states, next_cursor=None))
    elif not states:
        say("There are no books.")
    else:
        _print_states(states, _book_names(library))


def _build_one(
    context: CommandContext,
    library: BookLibrary,
    book_id: str,
    revision: int | None,
    *,
    force: bool,
) -> None:
    newest = library.list_revisions(book_id).revisions[0]
    target = _IndexTarget(book_id, newest.revision if revision is None else revision, newest.name)
    with _progress_bar(as_json=context.as_json) as show_progress:
        built = _build(library, target, force=force, show_progress=show_progress)
    if context.as_json:
        print_json(built)
    if built.status != "ready":
        raise EmbeddingUnavailableError(_failure(built))
    if not context.as_json:
        how = "was already indexed" if built.reused else "is indexed"
        about = f"{target.name}: revision {built.revision} of {built.book_id} {how}"
        say(f"{about}, {built.chunk_count} chunks, {built.embedding_version}")


def _build_all(context: CommandContext, library: BookLibrary, *, force: bool) -> None:
    states = tuple(_iterate_states(library, stale=not force))
    names = _book_names(library) if states else {}
    outcomes: list[_Outcome] = []
    with _progress_bar(len(states), as_json=context.as_json) as show_progress:
        for state in states:
            name = names.get(state.book_id, state.book_id)
            target = _IndexTarget(state.book_id, state.revision, name)
            try:
                built = _build(library, target, force=force, show_progress=show_progress)
                code = 0 if built.status == "ready" else _FAILED_EXIT_CODE
            except LorewellError as error:  # the next book may work
                known = state.model_dump() | {"error": str(error), "usable": False}
                built, code = IndexBuilt(**known, reused=False), exit_code(error)
            outcomes.append(_Outcome(built, code))
            if context.as_json:
                print_json(built)
    if not context.as_json and not states:
        say("All indexes are ready.")
    elif not context.as_json:
        _print_states([outcome.state for outcome in outcomes], names)
    code = next((outcome.exit_code for outcome in outcomes if outcome.exit_code), 0)
    if code:
        raise typer.Exit(code)


def _build(
    library: BookLibrary, target: _IndexTarget, *, force: bool, show_progress: ShowProgress
) -> IndexBuilt:
    """Build an index and return its final state: `ready`, or `failed` with the error."""
    book_id, revision, name = target
    built = library.build_index(book_id, revision, force=force, background=True)
    state: IndexState = built
    pause = 0.0
    while state.status == "building":
        show_progress(name, state)
        called_at = perf_counter()
        state = library.get_index(book_id, revision=revision)
        # Without a service the build advances only inside `get_index`, not while we sleep.
        sleep(max(0.0, pause - (perf_counter() - called_at)))
        pause = min(2 * pause + 0.05, _LONGEST_PAUSE_SECONDS)
    show_progress(name, None)
    members = {field: getattr(state, field) for field in IndexState.model_fields}
    return IndexBuilt(**members, reused=built.reused)


def _failure(state: IndexState) -> str:
    return state.error or f"The index is {state.status}."


def _iterate_states(library: BookLibrary, *, stale: bool) -> Iterator[IndexState]:
    cursor = None
    while True:
        page = library.list_indexes(cursor=cursor, stale=stale)
        yield from page.indexes
        cursor = page.next_cursor
        if cursor is None:
            return


def _book_names(library: BookLibrary) -> dict[str, str]:
    return {head.book_id: head.name for head in iterate_books(library)}


def _print_states(states: Sequence[IndexState], names: dict[str, str]) -> None:
    print_parts(indexes_table(states, names))
    for line in index_notes(states, names):
        say(line)


@contextmanager
def _progress_bar(revisions: int = 1, *, as_json: bool) -> Iterator[ShowProgress]:
    """Show a progress bar on stderr if that is a terminal; yield the call that updates it."""
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
        redirect_stdout=False,  # results are printed beside the bar
        redirect_stderr=False,
        disable=hidden,
    ) as progress:
        books = progress.add_task("", total=revisions, name="books", visible=revisions > 1)
        chunks = progress.add_task("", total=None, name="")

        def show_progress(name: str, state: IndexState | None) -> None:
            if state is None:
                progress.advance(books)
                progress.reset(chunks, total=None, name="")
                return
            short = plain(name)[:_MAX_BAR_NAME_CHARS]
            total = state.chunk_count or None
            progress.update(chunks, completed=state.done, total=total, name=short)

        yield show_progress
