"""Commands on stored books, and on which of them a prompt uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from lorewell.cli.library import BookLibrary, CommandContext, reaching
from lorewell.cli.listings import (
    bindings_parts,
    created_table,
    diff_table,
    heads_table,
    revisions_table,
    stored_parts,
)
from lorewell.cli.output_files import write_file
from lorewell.cli.printing import print_json, print_parts, say
from lorewell.errors import (
    Fault,
    ImportInvalidError,
    ValidationFailedError,
)
from lorewell.formats import open_book
from lorewell.model import (
    BindingsPut,
    BookCreate,
    BookHead,
    BookPage,
    ImportBatch,
    Published,
    Revision,
    RevisionInfo,
    RevisionPage,
)
from lorewell.model.parse import parse_model

BookId = Annotated[str, typer.Argument(metavar="BOOK", help="A book's id.")]
Prompt = Annotated[str, typer.Argument(metavar="PROMPT", help="The prompt's own name.")]
_Revision = Annotated[
    int | None, typer.Option(metavar="N", help="Which revision; the latest one if not given.")
]

app = typer.Typer(no_args_is_help=True, help="Store, read and publish books.")


@app.command("create")
@reaching
def create_command(
    place: CommandContext,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Lorebooks, or cards with one.")
    ],
) -> None:
    """Store the books of up to 10 files, all or none; each becomes a new book."""
    batch = parse_model(ImportBatch, {"books": tuple(map(_load, files))})
    with place.open() as library:
        result = library.import_books(batch.books)
    if place.as_json:
        print_json(result)
    else:
        names = (book.name for book in batch.books)
        named = zip(result.books, names, strict=False)  # a service may answer anything
        print_parts(created_table(named))


@app.command("list")
@reaching
def list_command(
    place: CommandContext,
    *,
    deleted: Annotated[bool, typer.Option("--deleted", help="List deleted books too.")] = False,
) -> None:
    """List the books, last changed first."""
    with place.open() as library:
        books = tuple(heads(library, include_deleted=deleted))
    if place.as_json:
        print_json(BookPage(books=books, next_cursor=None))
    else:
        print_parts(heads_table(books))


@app.command("show")
@reaching
def show_command(place: CommandContext, book: BookId, *, revision: _Revision = None) -> None:
    """Show a book: its head, and the entries of a revision."""
    with place.open() as library:
        stored = library.get_book(book, revision=revision)
    if place.as_json:
        print_json(stored)
    else:
        print_parts(*stored_parts(stored))


@app.command("publish")
@reaching
def publish_command(
    place: CommandContext,
    book: BookId,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The whole next revision.")],
    *,
    expected: Annotated[int, typer.Option(metavar="N", help="The revision that it follows.")],
) -> None:
    """Store a file as the next revision of a book, if nobody else has published meanwhile."""
    content = _load(file)
    with place.open() as library:
        published = library.publish_revision(book, content, expected_revision=expected)
    _print_published(place, published)


@app.command("history")
@reaching
def history_command(place: CommandContext, book: BookId) -> None:
    """List the revisions of a book, newest first."""
    with place.open() as library:
        revisions = tuple(_revisions(library, book))
    if place.as_json:
        print_json(RevisionPage(revisions=revisions, next_cursor=None))
    else:
        print_parts(revisions_table(revisions))


@app.command("diff")
@reaching
def diff_command(
    place: CommandContext,
    book: BookId,
    first: Annotated[int, typer.Argument(metavar="FROM", help="A revision.")],
    second: Annotated[int, typer.Argument(metavar="TO", help="Another one.")],
) -> None:
    """Show what has to change in one revision of a book to get another."""
    with place.open() as library:
        diff = library.compare_revisions(book, first, second)
    if place.as_json:
        print_json(diff)
    elif diff.added or diff.removed or diff.changed or diff.book_fields:
        print_parts(diff_table(diff))
    else:
        say(f"Revisions {first} and {second} hold the same.")


@app.command("export")
@reaching
def export_command(
    place: CommandContext,
    book: BookId,
    *,
    revision: _Revision = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to; replaced if it is there."),
    ] = None,
) -> None:
    """Print a book as a file of our own format, which can be created or published again."""
    with place.open() as library:
        stored = library.get_book(book, revision=revision)
    text = book_of(stored.revision).model_dump_json(indent=2)
    if output is None:
        print_json(text)
    else:
        write_file(output, f"{text}\n".encode())


@app.command("delete")
@reaching
def delete_command(
    place: CommandContext,
    book: BookId,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Delete it even if a prompt uses it.")
    ] = False,
) -> None:
    """Delete a book. All of it is kept: `restore` brings it back."""
    with place.open() as library:
        library.delete_book(book, force=force)
    if not place.as_json:
        say(f"Deleted {book}; `lorewell book restore {book}` brings it back.")


@app.command("restore")
@reaching
def restore_command(
    place: CommandContext,
    book: BookId,
    *,
    revision: Annotated[
        int | None, typer.Option(metavar="N", help="An old revision, to be stored as the next.")
    ] = None,
    expected: Annotated[
        int | None, typer.Option(metavar="N", help="The revision that it follows.")
    ] = None,
) -> None:
    """Bring a deleted book back, or an old revision of a book that is there."""
    restore = _restorer(book, revision, expected)
    with place.open() as library:
        restored = restore(library)
    if isinstance(restored, Published):
        _print_published(place, restored)
    elif place.as_json:
        print_json(restored)
    else:
        print_parts(heads_table([restored]))


@reaching
def bind_command(
    place: CommandContext,
    prompt: Prompt,
    books: Annotated[
        list[str] | None,
        typer.Argument(metavar="[BOOK[@REVISION]]...", help="Books in order; none unbinds all."),
    ] = None,
    *,
    policy: Annotated[
        str,
        typer.Option(
            metavar="auto|native|sillytavern|replica", help="Whose rules all of them follow."
        ),
    ] = "auto",
) -> None:
    """Set which books a prompt uses, in place of all that it used before."""
    bindings = [named_book(name) for name in books or []]
    asked = parse_model(BindingsPut, {"bindings": bindings, "policy": policy})
    with place.open() as library:
        bound = library.put_bindings(prompt, asked)
    if place.as_json:
        print_json(bound)
    else:
        print_parts(*bindings_parts(bound))


@reaching
def bindings_command(place: CommandContext, prompt: Prompt) -> None:
    """Show which books a prompt uses."""
    with place.open() as library:
        bound = library.get_bindings(prompt)
    if place.as_json:
        print_json(bound)
    else:
        print_parts(*bindings_parts(bound))


def book_of(revision: Revision) -> BookCreate:
    """Return what was handed in to make the revision; its hash is the same."""
    fields = {name: getattr(revision, name) for name in BookCreate.model_fields}
    return parse_model(BookCreate, fields)


def _load(path: Path) -> BookCreate:
    found = open_book(path)
    if not found.holds_book:
        raise ImportInvalidError(f"{path.name} is a card that holds no lorebook.", file=path.name)
    return found.book


def heads(library: BookLibrary, *, include_deleted: bool = False) -> Iterator[BookHead]:
    """Yield all books of a tenant, last changed first."""
    cursor = None
    while True:
        page = library.list_books(cursor=cursor, include_deleted=include_deleted)
        yield from page.books
        cursor = page.next_cursor
        if cursor is None:
            return


def _revisions(library: BookLibrary, book_id: str) -> Iterator[RevisionInfo]:
    cursor = None
    while True:
        page = library.list_revisions(book_id, cursor=cursor)
        yield from page.revisions
        cursor = page.next_cursor
        if cursor is None:
            return


def _restorer(
    book_id: str, revision: int | None, expected: int | None
) -> Callable[[BookLibrary], BookHead | Published]:
    """Return what restores a book, or one of its revisions."""
    if revision is None and expected is None:
        return lambda library: library.restore_book(book_id)
    if revision is None or expected is None:
        raise ValidationFailedError("Give --revision and --expected together.")
    return lambda library: library.restore_revision(book_id, revision, expected_revision=expected)


def named_book(name: str) -> dict[str, object]:
    """Return the book and perhaps the revision that `BOOK[@REVISION]` names.

    Raises:
        ValidationFailedError: the revision is no number.
    """
    book_id, at, revision = name.partition("@")
    if not at:
        return {"book_id": book_id}
    if not (revision.isascii() and revision.isdigit() and len(revision) < len(str(2**31))):
        fault = Fault("", "a revision must be a number", parameter=name)
        raise ValidationFailedError.at(fault)
    return {"book_id": book_id, "revision": int(revision)}


def _print_published(place: CommandContext, published: Published) -> None:
    if place.as_json:
        print_json(published)
        return
    about = f"{published.book_id} is at revision {published.revision} now"
    say(f"{about}: {published.entry_count} entries, hash {published.content_hash}")
