"""Foreign books in raw form, as the format modules return them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lorewell.engine.sillytavern.entry import Form, ImportedEntry
from lorewell.engine.steps import Steps
from lorewell.formats.detect import FileKind

NO_BOOK: Final = "no_book"  # code of the warning that a card holds no book

EntryReader = Callable[[Mapping[str, Any], str, Steps], ImportedEntry]
"""Reads an entry of a file. Arguments: the raw entry, its new id, and what counts the work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lorebook:
    """A book out of a foreign file.

    Attributes:
        format: `format` of the import report.
        source_format: `source.format` of its entries.
        form: the dialect of the file; a single entry may use the other one.
        book: the object with the entries; None for a card without a book.
        at: steps from the root of the document to `book`.
        card_name: the name of the card's character; a fallback for the book's name.
        entries_name: the member of `book` that holds the entries; "" if the document itself is
            their list, which `book` then holds under this name.
        read_entry: reads an entry; None for entries with SillyTavern's or the cards' names.
        keeps_empty: whether an empty object counts as an entry.
        is_named: whether an entry of a map without an id gets its key as id.
    """

    format: str
    source_format: str
    form: Form
    book: Mapping[str, Any] | None
    at: tuple[str, ...] = ()
    card_name: object = None
    entries_name: str = "entries"
    read_entry: EntryReader | None = None
    keeps_empty: bool = False
    is_named: bool = False

    @property
    def entries_at(self) -> tuple[str, ...]:
        """Steps from the root of the document to the entries."""
        return (*self.at, self.entries_name) if self.entries_name else self.at


def list_book(kind: FileKind, entries: list[Any], read_entry: EntryReader) -> Lorebook:
    """Return a document that is a bare list of entries, as a book without a name."""
    return Lorebook(
        format=kind,
        source_format=kind,
        form="world_info",
        book={"": entries},
        entries_name="",
        read_entry=read_entry,
    )
