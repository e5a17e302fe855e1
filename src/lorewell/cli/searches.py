"""The command that searches stored books."""

from __future__ import annotations

from typing import Annotated

import typer

from lorewell.cli.books import named_book
from lorewell.cli.library import CommandContext, reaching
from lorewell.cli.listings import found_table
from lorewell.cli.printing import print_json, print_parts, say
from lorewell.model import SearchRequest
from lorewell.model.parse import parse_model


@reaching
def search_command(
    place: CommandContext,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.")],
    *,
    book: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BOOK[@REVISION]", help="A book's id, all if not given; may be repeated."
        ),
    ] = None,
    mode: Annotated[
        str, typer.Option(metavar="lexical|vector|hybrid", help="By words, by meaning, or both.")
    ] = "lexical",
    limit: Annotated[int, typer.Option(metavar="N", help="How many at most.")] = 20,
) -> None:
    """Search the entries of stored books, best first; disabled ones are found too."""
    books = {"books": [named_book(name) for name in book]} if book else {}
    asked = parse_model(SearchRequest, {"query": query, "mode": mode, "limit": limit, **books})
    with place.open() as library:
        found = library.search_books(asked)
    if place.as_json:
        print_json(found)
        return
    if found.results:
        print_parts(found_table(found))
    else:
        say("Nothing was found.")
    for cause in found.degraded:
        say(f"Not searched by meaning: {cause}")
