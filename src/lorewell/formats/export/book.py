"""Exports a book as a JSON document in any format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, assert_never, get_args

from lorewell.engine.sillytavern.entry import Form
from lorewell.formats.build import MAX_DESCRIPTION_CHARS, MAX_NAME_CHARS
from lorewell.formats.export.entries import (
    card_entry,
    container_of,
    map_key,
    number_entries,
    world_entry,
)
from lorewell.formats.export.replica import came_from_replica, exported_entry
from lorewell.formats.losses import Losses
from lorewell.model import BookCreate
from lorewell.model.imports import ExportFormat, Loss

EXPORTS: Final[tuple[ExportFormat, ...]] = get_args(ExportFormat)

_ENTRIES: Final = "entries"
_STALE_COPY: Final = "originalData"  # of a world that was a card's book; the entries have it all
# Top-level members of a world file, and their names in a card's book.
# Source: docs/rules/formats.md §1, §2.1.
_CARD_NAMES: Final[Mapping[str, str]] = {
    "name": "name",
    "description": "description",
    "scan_depth": "scan_depth",
    "token_budget": "token_budget",
    "recursive_scanning": "recursive_scanning",
    "scanDepth": "scan_depth",
    "tokenBudget": "token_budget",
    "recursiveScanning": "recursive_scanning",
}
_REPLICA_NAMES: Final[Mapping[str, str]] = {"name": "name", "description": "description"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """An exported book.

    Attributes:
        document: the JSON document.
        losses: values of the book that the format can't hold, in the order of the book.
    """

    document: dict[str, Any]
    losses: tuple[Loss, ...]


def export_book(book: BookCreate, format: ExportFormat) -> Exported:  # noqa: A002  the contract's word
    """Return a book as a JSON document in a format.

    An imported book that was not changed gives the content of its file, if it is exported to the
    same format; changes are written under the names that the file uses. Values without a name in
    the format are written under `extensions` and listed as losses.

    Args:
        book: the book; it is not changed.
        format: the format of the document.

    Source: docs/rules/formats.md §0.2, §1, §2, §3, §12, §14.

    >>> book = BookCreate(name="Harbour", entries=({"id": "0", "content": "A lamp."},))
    >>> exported = export_book(book, "character_book").document
    >>> exported["name"], exported["entries"][0]["content"], exported["entries"][0]["enabled"]
    ('Harbour', 'A lamp.', True)
    """
    losses = Losses()
    match format:
        case "native":
            document: dict[str, Any] = book.model_dump(mode="json")
        case "st_world":
            document = _world(book, losses)
        case "character_book":
            document = _card_book(book, losses, use_regex=False)
        case "lorebook_v3":
            document = {"spec": "lorebook_v3", "data": _card_book(book, losses, use_regex=True)}
        case "replica":
            document = _replica_world(book, losses)
        case _:
            assert_never(format)
    return Exported(document=document, losses=losses.all())


def origin_of(book: BookCreate) -> Form | None:
    """Return the form of the file that a book was imported from; None for a native book."""
    return next((form for entry in book.entries if (form := container_of(entry))), None)


def _world(book: BookCreate, losses: Losses) -> dict[str, Any]:
    shown = [world_entry(entry, at, losses) for at, entry in enumerate(book.entries)]
    number_entries(shown, book.entries, "world_info")
    entries: dict[str, Any] = {}
    for at, (entry, each) in enumerate(zip(book.entries, shown, strict=True)):
        entries[_free(map_key(entry, each, at, losses), entries)] = each
    return {"entries": entries, **_members(book, "world_info", losses)}


def _replica_world(book: BookCreate, losses: Losses) -> dict[str, Any]:
    entries = [exported_entry(entry, at, losses) for at, entry in enumerate(book.entries)]
    return {**_members(book, "replica", losses), "entries": entries}


def _free(key: str, taken: Mapping[str, Any]) -> str:
    free, number = key, 2
    while free in taken:
        free, number = f"{key}-{number}", number + 1
    return free


def _card_book(book: BookCreate, losses: Losses, *, use_regex: bool) -> dict[str, Any]:
    entries = [
        card_entry(entry, at, losses, use_regex=use_regex) for at, entry in enumerate(book.entries)
    ]
    number_entries(entries, book.entries, "card")
    return {**_members(book, "card", losses), "entries": entries}


def _members(book: BookCreate, form: Form | Literal["replica"], losses: Losses) -> dict[str, Any]:
    """Return the members of a book without its entries, in the file's order after the name."""
    # A book without entries has no known origin. In another format, members of another program
    # would make the document look like a file of that program.
    is_theirs = form == "replica" and any(map(came_from_replica, book.entries))
    origin = form if is_theirs or not book.entries else origin_of(book)
    stored = book.metadata.get("raw")
    raw = dict(stored) if isinstance(stored, Mapping) else {}
    _overlay_name(raw, book, same_form=origin == form)
    _overlay_description(raw, book)
    first = {name: raw.pop(name) for name in ("name", "description") if name in raw}
    members = {**first, **raw}
    if form == "replica" and origin != form:
        members = _renamed(members, _REPLICA_NAMES, losses)
    elif origin is None or (form == "card" and origin != form):
        members = _renamed(members, _CARD_NAMES, losses)
    if _ENTRIES in members:  # of a file that has another name for entries: it would replace them
        losses.add(members.pop(_ENTRIES), "unsupported", "metadata", "raw", _ENTRIES)
    added = {name: each for name, each in book.metadata.items() if not _is_imported(name, each)}
    if added:
        _add_metadata(members, added, losses)
    if form == "card" and origin != form:
        members.setdefault("extensions", {})
    return members


def _is_imported(name: str, value: object) -> bool:
    """Return whether an import wrote this member of the metadata."""
    return (name == "raw" and isinstance(value, Mapping)) or (
        name == "given_name" and isinstance(value, str)
    )


def _overlay_name(raw: dict[str, Any], book: BookCreate, *, same_form: bool) -> None:
    """Write the name, unless the file had none and the book still has the name it was given."""
    own, given = raw.get("name"), book.metadata.get("given_name")
    cut = own[:MAX_NAME_CHARS] if isinstance(own, str) else None
    if same_form and book.name == given:
        if cut == given:  # the card's long name, which was kept whole, is not the book's
            del raw["name"]
    elif cut != book.name:
        raw["name"] = book.name


def _overlay_description(raw: dict[str, Any], book: BookCreate) -> None:
    own = raw.get("description")
    cut = own[:MAX_DESCRIPTION_CHARS] if isinstance(own, str) else ""
    if cut != book.description:
        raw["description"] = book.description


def _renamed(
    members: Mapping[str, Any], names: Mapping[str, str], losses: Losses
) -> dict[str, Any]:
    """Return a world's members under another format's names; others move to extensions."""
    own = members.get("extensions")
    extensions = dict(own) if isinstance(own, Mapping) else {}
    result: dict[str, Any] = {}
    for name, value in members.items():
        at = ("metadata", "raw", name)
        theirs = names.get(name)
        if name == "extensions":
            if own is not None and not isinstance(own, Mapping):
                losses.add(value, "unsupported", *at)
        elif theirs == name or (theirs is not None and theirs not in members):
            result[theirs] = value
        else:
            kept = name != _STALE_COPY and name not in extensions
            if kept:
                extensions[name] = value
            losses.add(value, "moved_to_extensions" if kept else "unsupported", *at)
    return {**result, "extensions": extensions} if extensions else result


def _add_metadata(members: dict[str, Any], added: Mapping[str, Any], losses: Losses) -> None:
    """Write the author's own metadata under `extensions.lorewell`."""
    extensions = members.get("extensions", {})
    fits = isinstance(extensions, Mapping)
    for name, value in added.items():
        losses.add(value, "moved_to_extensions" if fits else "unsupported", "metadata", name)
    if fits:
        ours = extensions.get("lorewell")
        below = dict(ours) if isinstance(ours, Mapping) else {}
        members["extensions"] = {**extensions, "lorewell": {**below, "metadata": dict(added)}}
