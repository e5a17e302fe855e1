"""RisuAI: exported lorebooks, and bare lists of entries.

Source: docs/rules/formats.md §8.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from lorewell.engine.sillytavern.entry import ImportedEntry, values as v
from lorewell.engine.sillytavern.entry.card_decorators import read_decorators
from lorewell.engine.steps import Steps
from lorewell.errors import Fault, ImportInvalidError
from lorewell.formats.detect import FileKind, find_object
from lorewell.formats.lorebook import Lorebook
from lorewell.formats.members import LEVEL, PERCENT, USUAL_ORDER, Members, comma_list
from lorewell.formats.notes import ImportNotes

_FOLDER: Final = "folder"
_FOLDER_KEY: Final = "\uf000folder:"
_CASE_SENSITIVE: Final = "extentions/risu_case_sensitive"  # codespell:ignore extentions
_CHILD: Final = "child"
_MODES: Final = ("", "normal", "multiple", "constant", _CHILD, _FOLDER)


def read(document: Mapping[str, Any] | list[Any], notes: ImportNotes) -> Lorebook:
    """Return the lorebook: an object with `data`, or the list itself."""
    book, name = (document, "data") if isinstance(document, Mapping) else ({"": document}, "")
    return Lorebook(
        format=FileKind.RISU,
        source_format=FileKind.RISU,
        form="card",
        book=book,
        entries_name=name,
        read_entry=partial(_read, contents=_contents(book.get(name), notes.steps)),
    )


def read_module(document: Mapping[str, Any], notes: ImportNotes) -> Lorebook:
    """Return the lorebook of a module.

    Raises:
        ImportInvalidError: `module` is not an object.
    """
    module = find_object(document, "module")
    if module is None:
        detail = "module is missing: a RisuAI module (risu_module) has an object there"
        raise ImportInvalidError.at(Fault("/module", detail))
    entries = module.get("lorebook")
    return Lorebook(
        format=FileKind.RISU_MODULE,
        source_format=FileKind.RISU,
        form="card",
        book=module,
        at=("module",),
        entries_name="lorebook",
        read_entry=partial(_read, contents=_contents(entries, notes.steps)),
    )


def _contents(entries: object, steps: Steps) -> Mapping[str, str]:
    """Return, by id, the first content that a child with this id shares."""
    listed = entries if isinstance(entries, list) else []
    contents: dict[str, str] = {}
    for raw in listed:
        steps.spend("entries")
        if isinstance(raw, dict) and raw.get("mode") != _CHILD and isinstance(raw.get("id"), str):
            contents.setdefault(raw["id"], Members(raw, steps).content("content"))
    return contents


def _read(
    raw: Mapping[str, Any], entry_id: str, steps: Steps, *, contents: Mapping[str, str]
) -> ImportedEntry:
    members = Members(raw, steps)
    mode, key = raw.get("mode"), raw.get("key")
    is_folder = mode == _FOLDER or (isinstance(key, str) and key.startswith(_FOLDER_KEY))
    fields: dict[str, Any] = {
        "title": members.title("comment"),
        "content": _content(members, contents),
        "enabled": not is_folder,
        "order": members.read(LEVEL, USUAL_ORDER, "insertorder"),
        "case_sensitive": members.choice(_CASE_SENSITIVE),
        "probability": members.read(PERCENT, 100, "activationPercent"),
    }
    if is_folder:
        members.note("folder", "This is a folder, not a text; it is kept disabled.", "key")
    else:
        is_regex = members.flag("useRegex")
        keys = members.keys("key", reader=_one_key if is_regex else comma_list)
        if any(not each.startswith("/") for each in keys if is_regex):
            message = "The key must be a regular expression, but does not begin with a slash."
            members.note("regex_without_slash", message)
        fields |= {
            "keys": keys,
            "secondary_keys": members.keys("secondkey", reader=comma_list),
            "selective": members.flag("selective"),
            "constant": members.flag("alwaysActive") or mode == "constant",
        }
        decorated = read_decorators(fields["content"])
        fields |= {**decorated.values, "content": decorated.content}
        members.note_decorators(decorated)
    members.note_lost({"mode": _MODES})
    members.know("key")
    return members.build_entry(entry_id, FileKind.RISU, fields)


def _one_key(value: object, notes: v.RepairNotes) -> tuple[str, ...]:
    """Return a whole text as one key: a regular expression may contain commas."""
    return (value,) if isinstance(value, str) and value else comma_list(value, notes)


def _content(members: Members, contents: Mapping[str, str]) -> str:
    """Return the entry's content; a child has that of the entry with the same id."""
    own = members.content("content")
    shared = members.raw.get("id")
    if members.raw.get("mode") != _CHILD:
        return own
    if isinstance(shared, str) and shared in contents:
        return contents[shared]
    members.note("parent_missing", "The entry whose content this child shares is missing.", "id")
    return own
