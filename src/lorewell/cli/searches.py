"""The command that searches stored books."""

from __future__ import annotations

from typing import Annotated

import typer

from lorewell.cli.books import parse_book_ref
from lorewell.cli.library import CommandContext, library_options
from lorewell.cli.listings import results_table
from lorewell.cli.option_values import parse_options
from lorewell.cli.printing import print_json, print_parts, say
from lorewell.model import SearchRequest


@library_options
def search_command(
    context: CommandContext,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Text to search for.")],
    *,
    book: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BOOK[@REVISION]", help="Book to search (repeatable); all books by default."
        ),
    ] = None,
    mode: Annotated[
        str,
        typer.Option(
            metavar="lexical|vector|hybrid", help="Search by words, by meaning, or by both."
        ),
    ] = "lexical",
    limit: Annotated[int, typer.Option(metavar="N", help="Maximum number of results.")] = 20,
) -> None:
    """Search the entries of stored books, best first, including disabled entries."""
    books = {"books": [parse_book_ref(name) for name in book]} if book else {}
    request = parse_options(
        SearchRequest,
        {"query": query, "mode": mode, "limit": limit, **books},
        {"query": "QUERY", "mode": "--mode", "limit": "--limit", "books": "--book"},
    )
    with context.open() as library:
        response = library.search_books(request)
    if context.as_json:
        print_json(response)
        return
    if response.results:
        print_parts(results_table(response))
    else:
        say("No entries found.")
    for cause in response.degraded:
        say(f"Search by meaning was unavailable: {cause}")
