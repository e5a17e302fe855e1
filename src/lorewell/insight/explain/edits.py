"""Edits of a request or an entry, and their effect on plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeVar

from lorewell.model.base import Bounded
from lorewell.model.explained import EditStep, WhatIfKind
from lorewell.model.text import pointer

Model = TypeVar("Model", bound=Bounded)


class Gone(Enum):
    """Stands for the value of a member that an edit removes."""

    GONE = 0


class EntryPlace(NamedTuple):
    """An entry of the request's books: the number of its book, and its index there."""

    book: int
    entry: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A new value for a member.

    Attributes:
        entry: the entry to edit; None for the request.
        path: names and indexes from the root; the name `-` appends to a list.
        value: the new value; `Gone.GONE` removes the member.
    """

    entry: EntryPlace | None = None
    path: tuple[str | int, ...]
    value: object


class Change(NamedTuple):
    """A change to try: its kind, and its edits in order."""

    kind: WhatIfKind
    edits: tuple[Edit, ...]


def of_entry(place: EntryPlace, name: str, value: object, *path: str | int) -> Change:
    """Return a change of one member of an entry."""
    return Change("entry", (Edit(entry=place, path=(name, *path), value=value),))


def of_request(name: str, value: object, *path: str | int) -> Change:
    """Return a change of one member of the request."""
    return Change("request", (Edit(path=(name, *path), value=value),))


def put(document: object, path: Sequence[str | int], value: object) -> object:
    """Return a copy of a plain value with one edit made; the original stays as it is."""
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(document, Bounded):
        return put_member(document, path, value)
    if isinstance(document, Mapping):
        changed = {**document}
        if not rest and value is Gone.GONE:
            del changed[first]
        else:
            changed[first] = put(document.get(first), rest, value)
        return changed
    items = list(document) if isinstance(document, list | tuple) else []
    if first == "-":
        items.append(value)
    elif isinstance(first, int) and not rest and value is Gone.GONE:
        del items[first]
    elif isinstance(first, int):
        items[first] = put(items[first], rest, value)
    return items if isinstance(document, list) else tuple(items)


def put_member(model: Model, path: Sequence[str | int], value: object) -> Model:
    """Return a copy of a request or an entry with one edit made; the path is not empty."""
    name, *rest = path
    return model.model_copy(update={str(name): put(getattr(model, str(name)), rest, value)})


def has(document: object, path: Sequence[str | int]) -> bool:
    """Return whether a plain value, a request or an entry has a member at a path."""
    for part in path:
        if isinstance(document, Bounded):
            document = getattr(document, str(part))
        elif isinstance(document, Mapping):
            if part not in document:
                return False
            document = document[part]
        elif isinstance(document, list | tuple) and isinstance(part, int):
            document = document[part]
        else:
            return part != "-" and document is not None
    return True


def step_of(edit: Edit, *, book_id: str | None, entry_id: str | None, known: bool) -> EditStep:
    """Return an edit in the form of the contract.

    Args:
        edit: the edit.
        book_id: the book of its entry.
        entry_id: its entry.
        known: whether the target has the member.
    """
    gone = edit.value is Gone.GONE
    value = edit.value.model_dump(mode="json") if isinstance(edit.value, Bounded) else edit.value
    return EditStep(
        target="request" if edit.entry is None else "entry",
        book_id=book_id,
        entry_id=entry_id,
        op="remove" if gone else "replace" if known else "add",
        path=pointer(*edit.path),
        value=None if gone else value,
    )
