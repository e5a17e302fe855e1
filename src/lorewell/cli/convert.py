"""`lorewell convert`: a book of any format written in another one, or put into a card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import orjson
import typer

from lorewell.cli.convert_folder import convert_folder
from lorewell.cli.import_tables import loss_tables
from lorewell.cli.output_files import dumped, write_file
from lorewell.cli.printing import print_json, print_parts, say
from lorewell.errors import Fault, ImportInvalidError, ValidationFailedError
from lorewell.formats import open_book
from lorewell.formats.export import EXPORTS, export_book, put_into_card
from lorewell.formats.faults import naming
from lorewell.formats.files import read_bytes
from lorewell.model import BookCreate
from lorewell.model.imports import ExportFormat, LossReason

_INTO: ExportFormat = "character_book"
_MEANING: Mapping[LossReason, str] = {
    "moved_to_extensions": "kept under extensions, where other programs do not look",
    "unsupported": "left out",
}


def convert_command(
    file: Annotated[
        Path,
        typer.Argument(metavar="IN", help="A lorebook, a card with one, or a folder of them."),
    ],
    output: Annotated[
        Path,
        typer.Argument(
            metavar="OUT", help="Where to; a file is replaced if it is there, a link is not."
        ),
    ],
    *,
    to: Annotated[
        str | None, typer.Option(metavar="|".join(EXPORTS), help="The format to write.")
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(metavar="CARD", help="A card; OUT is a copy of it that holds the book."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Of a folder: replace files that are there already.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the losses as JSON; of a folder, a line for each file."),
    ] = False,
) -> None:
    """Write a book in another format, or put it into a card, and say what has no place there.

    Of a folder each book becomes one file in OUT; what is there is kept, unless --replace is given.
    """
    target = _target(to, into)
    if file.is_dir():
        if into is not None:
            raise ValidationFailedError("A card takes one book: --into is not for folders.")
        raise typer.Exit(convert_folder(file, output, target, replace=replace, as_json=as_json))
    found = open_book(file)
    if not found.holds_book:
        raise ImportInvalidError(f"{file.name} is a card that holds no lorebook.", file=file.name)
    if output.exists() and output.samefile(file):
        raise ValidationFailedError("OUT must not be the file that is read.")
    exported = export_book(found.book, target)
    write_file(output, dumped(exported) if into is None else _filled(found.book, into))
    if as_json:
        losses = [loss.model_dump() for loss in exported.losses]
        print_json(orjson.dumps({"format": target, "losses": losses}))
    else:
        say(f"Wrote {output}: {len(found.book.entries)} entries.")
        print_parts(*loss_tables(exported.losses, _MEANING))


def _target(to: str | None, into: Path | None) -> ExportFormat:
    if to is None and into is not None:
        return _INTO
    if into is not None and to != _INTO:
        raise ValidationFailedError(f"A card takes no other book than --to {_INTO}.")
    if to not in EXPORTS:
        fault = Fault("", f"must be one of {', '.join(EXPORTS)}", parameter="--to")
        raise ValidationFailedError.at(fault)
    return to


def _filled(book: BookCreate, card: Path) -> bytes:
    try:
        return put_into_card(book, read_bytes(card))
    except ImportInvalidError as error:
        raise naming(error, f"{card.name} can't take a book", file=card.name) from error
