"""Commands on stored books, and on the bindings of prompts to books."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from lorewell.cli.convert import EXPORT_MEANING, export_format
from lorewell.cli.import_tables import loss_tables
from lorewell.cli.library import BookLibrary, CommandContext, library_options
from lorewell.cli.listings import (
    bindings_parts,
    books_table,
    created_table,
    diff_table,
    prompts_table,
    revisions_table,
    stored_parts,
)
from lorewell.cli.option_values import parse_options
from lorewell.cli.output_files import encode_export, write_file
from lorewell.cli.printing import print_json, print_parts, say
from lorewell.cli.prompt_settings import find_policy, read_settings
from lorewell.errors import (
    Fault,
    ImportInvalidError,
    ValidationFailedError,
)
from lorewell.formats import open_book
from lorewell.formats.export import EXPORTS, export_book
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
from lorewell.model.binding import PromptInfo, PromptPage
from lorewell.model.parse import parse_model

BookId = Annotated[str, typer.Argument(metavar="BOOK", help="Id of the book.")]
Prompt = Annotated[str, typer.Argument(metavar="PROMPT", help="Id of the prompt.")]
_Revision = Annotated[
    int | None, typer.Option(metavar="N", help="Number of the revision; the latest by default.")
]

app = typer.Typer(no_args_is_help=True, help="Store, read, publish and delete books.")


@app.command("create")
@library_options
def create_command(
    context: CommandContext,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Lorebooks, or cards that hold one.")
    ],
) -> None:
    """Store the books of up to 10 files as new books, all or none."""
    batch = parse_model(ImportBatch, {"books": tuple(map(_load, files))})
    with context.open() as library:
        result = library.import_books(batch.books)
    if context.as_json:
        print_json(result)
    else:
        names = (book.name for book in batch.books)
        named = zip(result.books, names, strict=False)  # a service may answer with fewer
        print_parts(created_table(named))


@app.command("list")
@library_options
def list_command(
    context: CommandContext,
    *,
    deleted: Annotated[bool, typer.Option("--deleted", help="Include deleted books.")] = False,
) -> None:
    """List the books, last changed first."""
    with context.open() as library:
        books = tuple(iterate_books(library, include_deleted=deleted))
    if context.as_json:
        print_json(BookPage(books=books, next_cursor=None))
    else:
        print_parts(books_table(books))


@app.command("show")
@library_options
def show_command(context: CommandContext, book: BookId, *, revision: _Revision = None) -> None:
    """Show a stored book and the entries of one revision."""
    with context.open() as library:
        stored = library.get_book(book, revision=revision)
    if context.as_json:
        print_json(stored)
    else:
        print_parts(*stored_parts(stored))


@app.command("publish")
@library_options
def publish_command(
    context: CommandContext,
    book: BookId,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File with the whole next revision.")
    ],
    *,
    expected: Annotated[
        int,
        typer.Option(metavar="N", help="Expected latest revision; fails if there is a newer one."),
    ],
) -> None:
    """Publish a file as the next revision of a book, unless it has changed since --expected."""
    content = _load(file)
    with context.open() as library:
        published = library.publish_revision(book, content, expected_revision=expected)
    _print_published(context, published)


@app.command("history")
@library_options
def history_command(context: CommandContext, book: BookId) -> None:
    """List the revisions of a book, newest first."""
    with context.open() as library:
        revisions = tuple(_iterate_revisions(library, book))
    if context.as_json:
        print_json(RevisionPage(revisions=revisions, next_cursor=None))
    else:
        print_parts(revisions_table(revisions))


@app.command("diff")
@library_options
def diff_command(
    context: CommandContext,
    book: BookId,
    first: Annotated[int, typer.Argument(metavar="FROM", help="Number of the old revision.")],
    second: Annotated[int, typer.Argument(metavar="TO", help="Number of the new revision.")],
) -> None:
    """Show the changes from one revision of a book to another."""
    with context.open() as library:
        diff = library.compare_revisions(book, first, second, values=True)
    if context.as_json:
        print_json(diff)
    elif diff.added or diff.removed or diff.changed or diff.book_fields:
        print_parts(diff_table(diff))
    else:
        say(f"Revisions {first} and {second} are the same.")


@app.command("export")
@library_options
def export_command(
    context: CommandContext,
    book: BookId,
    *,
    revision: _Revision = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File to write, replaced if it exists; stdout by default.",
        ),
    ] = None,
    to: Annotated[
        str,
        typer.Option(
            metavar="|".join(EXPORTS), help="Format; the native one is for `create` and `publish`."
        ),
    ] = "native",
) -> None:
    """Print a book in Lorewell's own format, or in that of another program.

    What the format can't hold is listed, if the book is written to a file.
    """
    target = export_format(to)
    with context.open() as library:
        stored = library.get_book(book, revision=revision)
    exported = export_book(book_of(stored.revision), target)
    if output is None:
        print_json(encode_export(exported).decode().rstrip("\n"))
        return
    write_file(output, encode_export(exported))
    if exported.losses:
        print_parts(*loss_tables(exported.losses, EXPORT_MEANING))


@app.command("delete")
@library_options
def delete_command(
    context: CommandContext,
    book: BookId,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Delete the book even if a prompt uses it.")
    ] = False,
) -> None:
    """Delete a book. Its revisions are kept; `restore` undoes it."""
    with context.open() as library:
        library.delete_book(book, force=force)
    if not context.as_json:
        say(f"Deleted {book}; undo with `lorewell book restore {book}`.")


@app.command("restore")
@library_options
def restore_command(
    context: CommandContext,
    book: BookId,
    *,
    revision: Annotated[
        int | None, typer.Option(metavar="N", help="Old revision to store again as the next one.")
    ] = None,
    expected: Annotated[
        int | None,
        typer.Option(metavar="N", help="Expected latest revision; fails if there is a newer one."),
    ] = None,
) -> None:
    """Restore a deleted book, or an old revision of a book."""
    restore = _restoring_call(book, revision, expected)
    with context.open() as library:
        restored = restore(library)
    if isinstance(restored, Published):
        _print_published(context, restored)
    elif context.as_json:
        print_json(restored)
    else:
        print_parts(books_table([restored]))


@library_options
def bind_command(
    context: CommandContext,
    prompt: Prompt,
    books: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[BOOK[@REVISION][=SOURCE]]...",
            help="Books in order, each as global, chat, persona or character; none removes all "
            "bindings.",
        ),
    ] = None,
    *,
    policy: Annotated[
        str,
        typer.Option(
            metavar="auto|native|sillytavern|replica", help="Policy whose rules all books follow."
        ),
    ] = "auto",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Setting of the prompt's policy, or auto_index (repeatable); VALUE is JSON or "
            "text. Without any, the prompt has no settings.",
        ),
    ] = None,
) -> None:
    """Set the books that a prompt uses and how, replacing its former bindings and settings."""
    members = {"bindings": [_parse_binding(name) for name in books or []], "policy": policy}
    request = parse_options(BindingsPut, members, {"bindings": "BOOK", "policy": "--policy"})
    with context.open() as library:
        if settings:
            own = read_settings(settings, find_policy(library, request))
            request = request.model_copy(update={"settings": own})
        bound = library.put_bindings(prompt, request)
    if context.as_json:
        print_json(bound)
    else:
        print_parts(*bindings_parts(bound))


@library_options
def bindings_command(context: CommandContext, prompt: Prompt) -> None:
    """Show the books that a prompt uses."""
    with context.open() as library:
        bound = library.get_bindings(prompt)
    if context.as_json:
        print_json(bound)
    else:
        print_parts(*bindings_parts(bound))


@library_options
def prompts_command(context: CommandContext) -> None:
    """List the prompts that use books."""
    with context.open() as library:
        prompts = tuple(_iterate_prompts(library.list_prompts))
    _print_prompts(context, prompts)


@app.command("prompts")
@library_options
def book_prompts_command(context: CommandContext, book: BookId) -> None:
    """List the prompts that use a book."""
    with context.open() as library:
        pages = functools.partial(library.list_book_prompts, book)
        prompts = tuple(_iterate_prompts(pages))
    _print_prompts(context, prompts)


def _iterate_prompts(pages: Callable[..., PromptPage]) -> Iterator[PromptInfo]:
    cursor = None
    while True:
        page = pages(cursor=cursor)
        yield from page.prompts
        cursor = page.next_cursor
        if cursor is None:
            return


def _print_prompts(context: CommandContext, prompts: tuple[PromptInfo, ...]) -> None:
    if context.as_json:
        print_json(PromptPage(prompts=prompts, next_cursor=None))
    else:
        print_parts(prompts_table(prompts))


def book_of(revision: Revision) -> BookCreate:
    """Return the book that was published as the revision; its hash is the same."""
    fields = {name: getattr(revision, name) for name in BookCreate.model_fields}
    return parse_model(BookCreate, fields)


def _load(path: Path) -> BookCreate:
    found = open_book(path)
    if not found.holds_book:
        raise ImportInvalidError(f"{path.name} is a card that holds no lorebook.", file=path.name)
    return found.book


def iterate_books(library: BookLibrary, *, include_deleted: bool = False) -> Iterator[BookHead]:
    """Yield all books of a tenant, page by page, last changed first."""
    cursor = None
    while True:
        page = library.list_books(cursor=cursor, include_deleted=include_deleted)
        yield from page.books
        cursor = page.next_cursor
        if cursor is None:
            return


def _iterate_revisions(library: BookLibrary, book_id: str) -> Iterator[RevisionInfo]:
    cursor = None
    while True:
        page = library.list_revisions(book_id, cursor=cursor)
        yield from page.revisions
        cursor = page.next_cursor
        if cursor is None:
            return


def _restoring_call(
    book_id: str, revision: int | None, expected: int | None
) -> Callable[[BookLibrary], BookHead | Published]:
    """Return the call that restores the book or its revision."""
    if revision is None and expected is None:
        return lambda library: library.restore_book(book_id)
    if revision is None or expected is None:
        raise ValidationFailedError(
            "--revision and --expected go together; give neither to restore a deleted book."
        )
    return lambda library: library.restore_revision(book_id, revision, expected_revision=expected)


def parse_book_ref(name: str) -> dict[str, object]:
    """Return the members of a book reference from `BOOK[@REVISION]`.

    Raises:
        ValidationFailedError: the revision is not a number.
    """
    book_id, at, revision = name.partition("@")
    if not at:
        return {"book_id": book_id}
    if not (revision.isascii() and revision.isdigit() and len(revision) < len(str(2**31))):
        fault = Fault("", "the revision after @ must be a number", parameter=name)
        raise ValidationFailedError.at(fault)
    return {"book_id": book_id, "revision": int(revision)}


def _parse_binding(name: str) -> dict[str, object]:
    book, equals, source = name.partition("=")
    return parse_book_ref(book) | ({"source": source} if equals else {})


def _print_published(context: CommandContext, published: Published) -> None:
    if context.as_json:
        print_json(published)
        return
    about = f"{published.book_id} is now at revision {published.revision}"
    say(f"{about}: {published.entry_count} entries, hash {published.content_hash}")
