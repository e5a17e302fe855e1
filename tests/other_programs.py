"""Files of other programs, for tests: reading them, and drawing odd ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from lorewell import Entry, ImportedBook, import_file
from property.test_import import SCALARS, VALUES
from support import Document


def read(document: object, name: str = "harbour.json") -> ImportedBook:
    return import_file(json.dumps(document).encode(), name=name)


def warnings_of(found: ImportedBook) -> list[tuple[str | None, str]]:
    """Return the warnings by entry and code, but those of entries without a trigger."""
    listed = found.report.warnings
    return [(each.entry_id, each.code) for each in listed if each.code != "no_trigger"]


def said(entry: Entry, *but: str) -> Document:
    """Return the fields of an entry that differ from the defaults of world info."""
    usual = Entry(content="", order=100, exclude_recursion=False, prevent_recursion=False)
    fields = entry.model_dump(exclude={"source", *but}, exclude_none=True)
    return {name: value for name, value in fields.items() if value != getattr(usual, name)}


def shapes(names: Sequence[str], wrap: Callable[[Any], object]) -> st.SearchStrategy[bytes]:
    """Draw files whose entries hold these members with any values, or are no entries at all."""
    values = VALUES | SCALARS | st.sampled_from(["lamp, oil", "/a,b/", "<% go() %>", True, 1, "x"])
    entry = st.dictionaries(st.sampled_from(names), values, max_size=10)
    entries = st.lists(entry | entry | VALUES, max_size=4) | VALUES
    return entries.map(lambda drawn: json.dumps(wrap(drawn)).encode())
