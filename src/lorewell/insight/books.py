"""Compares two books, field by field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from lorewell.model.records import BookDiff, ChangedEntry, FieldChange
from lorewell.model.text import canonical_json

_BOOK_FIELDS: Final = ("name", "description", "metadata")


def compare_books(
    old: Mapping[str, Any], new: Mapping[str, Any], *, values: bool = False
) -> BookDiff:
    """Return the difference of two documents; `book_fields` has `entries` if the order differs.

    Args:
        old: a book as JSON.
        new: another one.
        values: whether to return the values of the fields that differ.

    >>> old = {"name": "雾隐渡", "entries": [{"id": "lamp", "content": "A lamp."}]}
    >>> new = {"name": "雾隐渡", "entries": [{"id": "lamp", "content": "灯"}]}
    >>> compare_books(old, new, values=True).changed[0].values
    (FieldChange(name='content', before='A lamp.', after='灯'),)
    """
    before = {entry["id"]: entry for entry in old["entries"]}
    after = {entry["id"]: entry for entry in new["entries"]}
    common = [name for name in after if name in before]
    changed = tuple(
        ChangedEntry(
            id=name,
            fields=fields,
            values=_values(fields, before[name], after[name]) if values else None,
        )
        for name in common
        if (fields := _changed_fields([*after[name], *before[name]], before[name], after[name]))
    )
    fields = _changed_fields(_BOOK_FIELDS, old, new)
    orders = {"entries": [*before]}, {"entries": [*after]}
    if common != [name for name in before if name in after]:
        fields = (*fields, "entries")
    return BookDiff(
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        changed=changed,
        book_fields=fields,
        book_values=_values(fields, {**old, **orders[0]}, {**new, **orders[1]}) if values else None,
    )


def _changed_fields(
    names: Iterable[str], old: Mapping[str, Any], new: Mapping[str, Any]
) -> tuple[str, ...]:
    # Compared as JSON: in Python, 1 equals True.
    return tuple(
        name
        for name in dict.fromkeys(names)
        if canonical_json([old.get(name)]) != canonical_json([new.get(name)])
    )


def _values(
    names: Iterable[str], old: Mapping[str, Any], new: Mapping[str, Any]
) -> tuple[FieldChange, ...]:
    return tuple(
        FieldChange(name=name, before=old.get(name), after=new.get(name)) for name in names
    )
