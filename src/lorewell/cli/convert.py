"""`lorewell convert`: writes a book in another format, or into a character card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import orjson
import typer

from lorewell.cli.convert_folder import convert_folder
from lorewell.cli.import_tables import loss_tables
from lorewell.cli.output_files import encode_export, write_file
from lorewell.cli.printing import print_json, print_parts, say
from lorewell.errors import Fault, ImportInvalidError, ValidationFailedError
from lorewell.formats import open_book
from lorewell.formats.export import EXPORTS, export_book, put_into_card, upgrades
from lorewell.formats.faults import naming
from lorewell.formats.files import read_bytes
from lorewell.model import BookCreate
from lorewell.model.imports import ExportFormat, LossReason

_CARD_FORMAT: ExportFormat = "character_book"
EXPORT_MEANING: Mapping[LossReason, str] = {
    "moved_to_extensions": "kept under extensions, which other programs ignore",
    "unsupported": "left out",
}


def convert_command(
    file: Annotated[
        Path,
        typer.Argument(metavar="IN", help="Lorebook, card that holds one, or folder of them."),
    ],
    output: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="File to write, replaced if it exists (a symbolic link is not); or folder.",
        ),
    ],
    *,
    to: Annotated[
        str | None, typer.Option(metavar="|".join(EXPORTS), help="Format to write.")
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(metavar="CARD", help="Card to copy to OUT with the book in it."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Folders: replace existing files.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the losses as JSON; for a folder, one line per file."),
    ] = False,
) -> None:
    """Write a book in another format, or into a card, and list what the format can't hold.

    For a folder, each book becomes one file in OUT. Existing files are kept without --replace.
    """
    target = _target(to, into)
    if file.is_dir():
        if into is not None:
            raise ValidationFailedError("--into needs one book, and IN is a folder.")
        raise typer.Exit(convert_folder(file, output, target, replace=replace, as_json=as_json))
    found = open_book(file)
    if not found.holds_book:
        raise ImportInvalidError(f"{file.name} is a card that holds no lorebook.", file=file.name)
    if output.exists() and output.samefile(file):
        raise ValidationFailedError("OUT must not be the same file as IN.")
    exported = export_book(found.book, target)
    filled = None if into is None else _card_with_book(found.book, into)
    write_file(output, encode_export(exported) if filled is None else filled.card)
    if as_json:
        losses = [loss.model_dump() for loss in exported.losses]
        members: dict[str, Any] = {"format": target, "losses": losses}
        if filled is not None:
            members["upgraded"] = filled.upgraded
        print_json(orjson.dumps(members))
    else:
        say(f"Wrote {output}: {len(found.book.entries)} entries.")
        if into is not None and filled is not None and filled.upgraded:
            say(f"{into.name} is a card V1; {output.name} is a card V2, so that its book is read.")
        print_parts(*loss_tables(exported.losses, EXPORT_MEANING))


def _target(to: str | None, into: Path | None) -> ExportFormat:
    if to is None and into is not None:
        return _CARD_FORMAT
    if into is not None and to != _CARD_FORMAT:
        raise ValidationFailedError(f"--into writes the format {_CARD_FORMAT}; leave --to out.")
    return export_format(to)


def export_format(to: str | None) -> ExportFormat:
    """Return the format that `--to` names.

    Raises:
        ValidationFailedError: there is no such format.
    """
    if to not in EXPORTS:
        fault = Fault("", f"must be one of {', '.join(EXPORTS)}", parameter="--to")
        raise ValidationFailedError.at(fault)
    return to


class _Filled(NamedTuple):
    """A card with the book, and whether it became a card V2 of a card V1."""

    card: bytes
    upgraded: bool


def _card_with_book(book: BookCreate, card: Path) -> _Filled:
    data = read_bytes(card)
    try:
        return _Filled(put_into_card(book, data), upgrades(book, data))
    except ImportInvalidError as error:
        raise naming(error, f"{card.name} can't take a book", file=card.name) from error
