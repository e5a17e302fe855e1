"""NovelAI: lorebooks, also in stories and scenarios (docs/rules/formats.md §6)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from lorewell.engine.sillytavern.entry import ImportedEntry, values as v
from lorewell.engine.steps import Steps
from lorewell.formats.detect import FileKind, find_object
from lorewell.formats.foreign_keys import all_of, expression_text
from lorewell.formats.lorebook import Lorebook
from lorewell.formats.members import LEVEL, Members
from lorewell.formats.notes import ImportNotes

_NEWEST_VERSION: Final = 6
_USUAL_PRIORITY: Final = 400
_BOTH: Final = " & "
# The values of an unchanged entry.
_USUAL: Final = {
    "searchRange": (1000,),
    "keyRelative": (False,),
    "nonStoryActivatable": (False,),
    "contextConfig/prefix": ("",),
    "contextConfig/suffix": ("", "\n"),
    "contextConfig/insertionPosition": (-1,),
}


def read_book(document: Mapping[str, Any], notes: ImportNotes) -> Lorebook:
    """Return a stand-alone lorebook."""
    return _lorebook(FileKind.NAI_LOREBOOK, document, notes)


def read_story(document: Mapping[str, Any], notes: ImportNotes) -> Lorebook:
    """Return the lorebook of a story or scenario, named by its title.

    Raises:
        ImportInvalidError: the lorebook is not an object.
    """
    is_story = "storyContainerVersion" in document
    at = ("content", "lorebook") if is_story else ("lorebook",)
    titled = document.get("metadata") if is_story else document
    title = titled.get("title") if isinstance(titled, dict) else None
    message = "only the lorebook is imported, not the story's text, memory and settings"
    notes.add("not_kept", message)
    book = find_object(document, *at)
    return _lorebook(FileKind.NAI_STORY, book, notes, at=at, title=title)


def _lorebook(
    kind: FileKind,
    book: Mapping[str, Any] | None,
    notes: ImportNotes,
    *,
    at: tuple[str, ...] = (),
    title: object = None,
) -> Lorebook:
    version = book.get("lorebookVersion") if book else None
    if isinstance(version, int | float) and version > _NEWEST_VERSION:
        message = f"the lorebook has version {version}; members new in it are unknown here"
        notes.add("newer_version", message)
    _note_categories(book or {}, notes)
    return Lorebook(
        format=kind,
        source_format=kind,
        form="card",
        book=book,
        at=at,
        card_name=title,
        read_entry=partial(
            _read, kind=kind, disabled=_disabled_categories(book or {}, notes.steps)
        ),
        keeps_empty=True,  # scripts that make files from web pages write {} for an empty page
    )


def _note_categories(book: Mapping[str, Any], notes: ImportNotes) -> None:
    """Note the settings of categories that are not supported."""
    listed = book.get("categories")
    for category in listed if isinstance(listed, list) else []:
        notes.steps.spend("entries")
        if not isinstance(category, dict):
            continue
        lost = ["createSubcontext"] if category.get("createSubcontext") is True else []
        lost += ["categoryBiasGroups"] if _has_bias(category.get("categoryBiasGroups")) else []
        if lost:
            shown = v.shown(category.get("name"))
            notes.add("not_kept", f"{', '.join(lost)} of the category {shown}: not supported")


def _disabled_categories(book: Mapping[str, Any], steps: Steps) -> frozenset[str]:
    """Return the ids of the categories that are switched off."""
    listed = book.get("categories")
    categories = listed if isinstance(listed, list) else []
    disabled: set[str] = set()
    for category in categories:
        steps.spend("entries")
        if not isinstance(category, dict) or not isinstance(category.get("id"), str):
            continue
        if not Members(category, steps).flag("enabled", default=True):
            disabled.add(category["id"])
    return frozenset(disabled)


def _read(
    raw: Mapping[str, Any], entry_id: str, steps: Steps, *, kind: FileKind, disabled: frozenset[str]
) -> ImportedEntry:
    """Return an entry; it is disabled by itself or by its category."""
    members = Members(raw, steps)
    keys, expression = _keys(members.keys("keys"), members)
    enabled = members.flag("enabled", default=True)
    category = raw.get("category")
    if enabled and isinstance(category, str) and category in disabled:
        enabled = False
        members.note("category_disabled", "The entry's category is disabled.", "category")
    fields = {
        "title": members.title("displayName"),
        "content": members.content("text"),
        "keys": keys,
        "key_expression": expression,
        "match_whole_words": True,
        "enabled": enabled,
        "constant": members.flag("forceActivation"),
        "order": members.read(LEVEL, _USUAL_PRIORITY, "contextConfig/budgetPriority"),
    }
    members.note_lost(_USUAL)
    members.know("category")
    if _has_bias(raw.get("loreBiasGroups")):
        message = "Phrase biases are not supported."
        members.note("not_kept", message, "loreBiasGroups")
    return members.build_entry(entry_id, kind, fields)


def _keys(found: tuple[str, ...], members: Members) -> tuple[tuple[str, ...], str | None]:
    """Return the keys, and the expression of those that need several words at once."""
    joined = [key for key in found if _BOTH in key and not key.startswith("/")]
    if not joined:
        return found, None
    parts = [[part.strip() for part in key.split(_BOTH) if part.strip()] for key in joined]
    needed = [all_of(each) for each in parts if each]
    expression = expression_text(needed) if needed else None
    if expression is None:
        for key in joined:
            members.note("and_key", f"{key!r} means all its parts; it is used as plain text.")
        return found, None
    message = f"Keys joined by & are read as the key expression {v.shown(expression)}."
    members.note("key_expression_read", message)
    return tuple(key for key in found if key not in joined), expression


def _has_bias(groups: object) -> bool:
    listed = groups if isinstance(groups, list) else []
    return any(isinstance(group, dict) and group.get("phrases") for group in listed)
