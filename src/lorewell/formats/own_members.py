"""Native parts of a foreign book that an import restores: metadata, and what entries require.

Source: docs/rules/formats.md §14.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lorewell.engine.native.compile import check_requires
from lorewell.errors import InvalidDependencyError, ValidationFailedError
from lorewell.formats.notes import ImportNotes
from lorewell.model import BookCreate
from lorewell.model.entry import Entry
from lorewell.model.parse import parse_model

OURS: Final = "lorewell"
WRITTEN_BY_IMPORT: Final = ("raw", "given_name")  # members of the metadata


def take_metadata(
    members: Mapping[str, Any], notes: ImportNotes
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the author's metadata under `extensions.lorewell`, and the other members of a book."""
    rest = dict(members)
    extensions = rest.get("extensions")
    own = extensions.get(OURS) if isinstance(extensions, Mapping) else None
    found = own.get("metadata") if isinstance(own, Mapping) else None
    if not isinstance(extensions, Mapping) or not isinstance(own, Mapping):
        return {}, rest
    if not isinstance(found, Mapping) or not found or set(WRITTEN_BY_IMPORT) & set(found):
        return {}, rest
    try:
        parse_model(BookCreate, {"name": OURS, "metadata": found})
    except ValidationFailedError:
        notes.add("wrong_type", "extensions.lorewell.metadata of the book is invalid; kept raw")
        return {}, rest
    others = {name: value for name, value in own.items() if name != "metadata"}
    kept = {name: value for name, value in extensions.items() if name != OURS}
    kept |= {OURS: others} if others else {}
    del rest["extensions"]
    return dict(found), rest | ({"extensions": kept} if kept else {})


def without_unmet(entries: Sequence[Entry], notes: ImportNotes) -> Sequence[Entry]:
    """Return the entries without the ids in `requires` that the book can't meet.

    Ids of missing entries go, each with a warning. If the others form a circle, all of them go:
    which entry should lose its own is for the author to say.
    """
    if not any(entry.requires for entry in entries):
        return entries
    ids = {entry.id for entry in entries}
    met = [_with_known(entry, ids, notes) for entry in entries]
    try:
        check_requires(met)
    except InvalidDependencyError:
        message = "the entries require each other in a circle; requires is not used"
        notes.add("requires_dropped", message)
        return [entry.model_copy(update={"requires": ()}) for entry in met]
    return met


def _with_known(entry: Entry, ids: set[str], notes: ImportNotes) -> Entry:
    known = tuple(name for name in entry.requires if name in ids and name != entry.id)
    if known == entry.requires:
        return entry
    unknown = ", ".join(repr(name) for name in entry.requires if name not in known)
    notes.add("requires_dropped", f"there is no other entry {unknown} to require", entry.id)
    return entry.model_copy(update={"requires": known})
