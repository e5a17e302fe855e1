"""`lorewell replica`: runs a turn under SillyTavern_replica's rules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from lorewell.cli.option_values import parse_json_option
from lorewell.cli.printing import print_json, print_parts
from lorewell.cli.replica_tables import activation_parts
from lorewell.engine.replica import ReplicaWorld, activate, compile_world
from lorewell.errors import ValidationFailedError
from lorewell.formats.export.replica import replica_document
from lorewell.formats.faults import naming
from lorewell.formats.files import load_json
from lorewell.formats.loading import open_book
from lorewell.model import ReplicaRequest
from lorewell.model.parse import parse_model

app = typer.Typer(no_args_is_help=True, help="Run one turn under SillyTavern_replica's rules.")


@app.callback()
def replica() -> None:
    """Run one turn under SillyTavern_replica's rules."""


@app.command("activate")
def activate_command(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="Global books, in order."),
    ] = None,
    *,
    character_book: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Book of the character.")
    ] = None,
    request: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON file with the turn: mes, chatHistory, …"),
    ] = None,
    mes: Annotated[
        str | None, typer.Option(metavar="TEXT", help="User input; replaces the turn's mes.")
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="Object that conditions read; replaces the turn's table."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the whole answer as JSON.")
    ] = False,
) -> None:
    """Show which entries a turn activates, what triggered them, and why the others stay out."""
    worlds: dict[str, ReplicaWorld] = {}
    names = [_load(worlds, path) for path in files or ()]
    character = None if character_book is None else _load(worlds, character_book)
    document = {} if request is None else load_json(request)
    if isinstance(document, dict):  # the schema rejects anything else
        document = _with_books(document, names, character)
        if mes is not None:
            document["mes"] = mes
        if table is not None:
            document["dynamicTableData"] = {"currentValues": parse_json_option("--table", table)}
    try:
        turn = parse_model(ReplicaRequest, document)
    except ValidationFailedError as error:
        raise naming(error, "The turn is not valid") from error
    answer = activate(worlds, turn)
    if as_json:
        print_json(answer.to_json())
    else:
        print_parts(*activation_parts(answer, turn))


def _load(worlds: dict[str, ReplicaWorld], path: Path) -> str:
    """Add the book of a file under its name, numbered if that is taken; return the name."""
    book = open_book(path).book
    name, number = book.name, 1
    while name in worlds:
        number += 1
        name = f"{book.name} ({number})"
    worlds[name] = compile_world(replica_document(book), book_id=name)
    return name


def _with_books(
    document: dict[str, Any], names: Sequence[str], character: str | None
) -> dict[str, Any]:
    """Return the turn with the given books before its own global books."""
    data = document.get("worldBookData") or {}
    if not isinstance(data, dict):
        return document
    own = data.get("globalBooks") or []
    if isinstance(own, list):
        data = {**data, "globalBooks": [*({"id": name} for name in names), *own]}
    if character is not None:
        data["characterBookId"] = character
    return {**document, "worldBookData": data}
