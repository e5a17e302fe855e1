"""Changes to single entries of a book, for previews."""

from __future__ import annotations

from lorewell.errors import Fault, ValidationFailedError
from lorewell.model import BookCreate, ChangedBook, Entry
from lorewell.model.parse import parse_model
from lorewell.model.text import pointer


def apply_changes(book: BookCreate, item: ChangedBook, *at: str | int) -> BookCreate:
    """Return the book with entries replaced, appended or removed.

    Args:
        book: the stored revision.
        item: the changes.
        at: the JSON path of `item` in the request.

    Raises:
        ValidationFailedError: a change does not fit the book.
    """
    entries: dict[str, Entry] = {entry.id: entry for entry in book.entries}
    faults = [
        Fault(pointer(*at, "removed", number), f"there is no entry {name!r} in this book")
        for number, name in enumerate(item.removed)
        if name not in entries
    ]
    faults += [
        Fault(pointer(*at, "changes", number, "id"), "must be given")
        for number, entry in enumerate(item.changes)
        if not entry.id
    ]
    if faults:
        raise ValidationFailedError.at(*faults)
    for name in item.removed:
        entries.pop(name, None)
    entries.update((entry.id, entry) for entry in item.changes)
    document = {**book.model_dump(exclude={"entries"}), "entries": tuple(entries.values())}
    try:
        return parse_model(BookCreate, document)
    except ValidationFailedError as error:  # too many entries now
        raise error.moved(lambda fault: Fault(pointer(*at, "changes"), fault.detail)) from error
