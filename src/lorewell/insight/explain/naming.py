"""Finds the entry that an explanation is about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from lorewell.errors import Fault, ValidationFailedError
from lorewell.model.explained import EntryName

Found = TypeVar("Found")


def find_entry(known: Iterable[tuple[str, str, Found]], entry: str | EntryName) -> Found:
    """Return the entry with a name.

    Args:
        known: the book, the id and the value of each entry.
        entry: its id, or its book and its id.

    Raises:
        ValidationFailedError: there is no such entry, or several.
    """
    wanted = (None, entry) if isinstance(entry, str) else (entry.book_id, entry.entry_id)
    found = [
        (book_id, value)
        for book_id, entry_id, value in known
        if entry_id == wanted[1] and wanted[0] in (None, book_id)
    ]
    if len(found) == 1:
        return found[0][1]
    if not found:
        raise ValidationFailedError.at(Fault("/entry", "no book of the request has this entry"))
    books = ", ".join(book_id for book_id, _ in found)
    reason = f"several books have this entry; give `book_id` and `entry_id`: {books}"
    raise ValidationFailedError.at(Fault("/entry", reason))
