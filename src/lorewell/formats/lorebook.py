"""A foreign book as its file tells it: what every format module returns, still in raw form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lorewell.engine.sillytavern.entry import Form, ImportedEntry
from lorewell.engine.steps import Steps
from lorewell.formats.detect import FileKind

NO_BOOK: Final = "no_book"  # the code of the notice that a card holds no book

# Takes an entry as its file has it, the id that it gets, and what counts the work.
EntryReader = Callable[[Mapping[str, Any], str, Steps], ImportedEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lorebook:
    """A book out of a foreign file, with the way to read its entries.

    Attributes:
        format: the word for the report.
        source_format: the word for the `source` of its entries.
        form: the dialect of the container; an entry may be in the other one.
        book: the object with the entries; None for a card that has no book.
        at: the steps from the root of the document to `book`.
        card_name: what the card calls its character; a book without a name takes it.
        entries_name: the member of `book` that holds the entries; "" where the document itself is
            their list, which then stands in `book` under that name.
        read_entry: reads an entry; None where they are in SillyTavern's or the cards' names.
        keeps_empty: whether an empty object is an entry of this format.
        is_named: whether an entry of a map that has no id of its own is called as it is there.
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
        """The steps from the root of the document to the entries."""
        return (*self.at, self.entries_name) if self.entries_name else self.at


def list_book(kind: FileKind, entries: list[Any], read_entry: EntryReader) -> Lorebook:
    """Return a document that is nothing but a list of entries, as a book without a name."""
    return Lorebook(
        format=kind,
        source_format=kind,
        form="world_info",
        book={"": entries},
        entries_name="",
        read_entry=read_entry,
    )
