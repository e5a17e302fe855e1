"""Which macros the entries of a book need, and which of them its policy lacks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from lorewell.engine.sillytavern.macros.names import is_known, macro_names
from lorewell.engine.steps import Steps
from lorewell.model import BookCreate
from lorewell.model.binding import original_policy
from lorewell.model.imports import EntryMacros

MAX_ENTRIES: Final = 5_000
MAX_NAMES: Final = 100
_MAX_NAME_CHARS: Final = 100
_NATIVE: Final = frozenset({"char", "user"})


def entry_macros(book: BookCreate, steps: Steps) -> tuple[EntryMacros, ...]:
    """Return the macros of each entry that has any, under the policy that the book belongs to."""
    return tuple(islice(_of_entries(book, steps), MAX_ENTRIES))


def _of_entries(book: BookCreate, steps: Steps) -> Iterator[EntryMacros]:
    is_sillytavern = original_policy(book) == "sillytavern"
    for entry in book.entries:
        texts = (*entry.keys, *entry.secondary_keys, entry.content)
        found = (name for text in texts for name in macro_names(text, steps))
        names = tuple(islice(dict.fromkeys(name[:_MAX_NAME_CHARS] for name in found), MAX_NAMES))
        if names:
            lacking = (
                name
                for name in names
                if not (is_known(name) if is_sillytavern else name in _NATIVE)
            )
            yield EntryMacros(entry_id=entry.id, macros=names, unknown=tuple(lacking))
