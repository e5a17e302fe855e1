"""Exports an entry for a world file or a card's book.

An entry that goes back to its own kind of file is the original, overlaid by the changes. For the
other kind it is converted.

Source: docs/rules/formats.md §0.2, §2.2, §2.4, §14.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from lorewell.engine.matching.keys import split_regex
from lorewell.engine.sillytavern.entry import Form, overlaid, sillytavern_view
from lorewell.engine.sillytavern.entry.card_decorators import read_decorators
from lorewell.engine.sillytavern.entry.dynamic import kind_of
from lorewell.engine.sillytavern.entry.fields import (
    DEFAULT_BLOCK,
    LACKING,
    member,
    read_values,
    values_of,
)
from lorewell.engine.sillytavern.entry.own import OWN, OWN_ID, OWN_INHERIT, read_own
from lorewell.engine.sillytavern.entry.reading import requirements_of
from lorewell.engine.sillytavern.entry.table import TABLE, EntryField
from lorewell.engine.sillytavern.entry.values import RepairNotes
from lorewell.engine.sillytavern.entry.view import put
from lorewell.formats.build import imported_id, is_imported_id, own_id
from lorewell.formats.detect import CARD_SPEC, FileKind
from lorewell.formats.losses import Losses
from lorewell.model import Entry
from lorewell.model.entry import THREE_VALUED

_CARD_KINDS = frozenset([FileKind.CHARACTER_BOOK.value, FileKind.LOREBOOK_V3.value])
_OURS = f"{OWN}/"
_NUMBER = re.compile(r"0|[1-9][0-9]{0,14}")
_WORLD_ROWS = tuple(field for field in TABLE if "/" not in field.world)
_CARD_ROWS = tuple(field for field in TABLE if field.card)
# Fields that a card's entry must have, and the names that a conversion writes.
_REQUIRED = frozenset(["keys", "content", "enabled", "order"])
_CONVERTED = {name.path for field in TABLE for name in field.dialect_names}
_WRITTEN_ANEW = _CONVERTED | {"uid", "id", "extensions", "use_regex"}
# Properties of every JavaScript object, which programs would find in place of an entry.
_JAVASCRIPT = frozenset(
    [
        *("__proto__", "constructor", "prototype", "toString", "toLocaleString", "valueOf"),
        *("hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable"),
        *("__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__"),
    ]
)


def container_of(entry: Entry) -> Form | None:
    """Return the form of the file that an entry was imported from; None for any other entry."""
    word = entry.source.get("format")
    if not isinstance(word, str) or not isinstance(entry.source.get("raw"), Mapping):
        return None
    if word == FileKind.ST_WORLD.value:
        return "world_info"
    return "card" if word in _CARD_KINDS or CARD_SPEC.fullmatch(word) else None


def says_use_regex(entry: Entry) -> bool:
    """Return whether an entry was imported from a format that has `use_regex`."""
    word = str(entry.source.get("format"))
    spec = CARD_SPEC.fullmatch(word)
    newest_without = 2
    return word == FileKind.LOREBOOK_V3.value or (
        spec is not None and int(spec[1]) > newest_without
    )


def map_key(entry: Entry, raw: Mapping[str, Any], at: int, losses: Losses) -> str:
    """Return the key of an entry in a world's map: the original one, unless its id was changed.

    A key that is a property of JavaScript objects is replaced by the id or the entry's index.
    """
    original, before, own = entry.source.get("key"), entry.source.get("raw"), own_id(raw)
    kept = isinstance(before, Mapping) and own_id(before) == own
    key = original if kept and isinstance(original, str) else own or entry.id
    if key not in _JAVASCRIPT:
        return key
    if key == original:
        losses.add(original, "unsupported", "entries", at, "source", "key")
    return own if own and own not in _JAVASCRIPT else str(at)


def world_entry(entry: Entry, at: int, losses: Losses) -> dict[str, Any]:
    """Return an entry of a world file."""
    container = container_of(entry)
    if container is None:
        result = _spelled_out(entry)
    elif container == "world_info":
        result = _as_it_came(entry)
    else:
        result = sillytavern_view(entry)
        result["addMemo"] = result.get("addMemo", False) or bool(entry.title)
    _put_own(result, entry, container, "world_info")
    _note_ours(result, entry, at, losses)
    written = member(result, f"{OWN}/priority")
    before = member(entry.source["raw"], f"{OWN}/priority") if container else LACKING
    if entry.priority and written == entry.priority and written != before:
        losses.add(entry.priority, "moved_to_extensions", "entries", at, "priority")
    _note_raw(entry, at, losses)
    return result


def card_entry(entry: Entry, at: int, losses: Losses, *, use_regex: bool) -> dict[str, Any]:
    """Return an entry of a card's book.

    Args:
        entry: the native entry.
        at: its index in the book.
        losses: collects the values that the format can't hold.
        use_regex: whether to write `use_regex`, as in V3.
    """
    container = container_of(entry)
    if container == "card" and says_use_regex(entry) and not use_regex:
        result = _as_in_v2(entry, at, losses)
    elif container == "card":
        result = _as_it_came(entry)
        if says_use_regex(entry):
            use_regex = False  # the original is kept
    else:
        result = _converted(entry, container, at, losses)
    if use_regex and "use_regex" not in result:
        result["use_regex"] = any(split_regex(key) for key in entry.keys)
    _put_own(result, entry, container, "card")
    _note_ours(result, entry, at, losses)
    _note_raw(entry, at, losses)
    return result


def _as_in_v2(entry: Entry, at: int, losses: Losses) -> dict[str, Any]:
    """Return an entry of a card V3 for a card V2, which has no decorators.

    Supported decorators become fields; unknown ones stay in the text, as other programs' marks
    look like them, and are listed as losses.

    Source: docs/rules/formats.md §3.1, §14.
    """
    raw = entry.source["raw"]
    if isinstance(raw.get("content"), str):
        raw = {**raw, "content": read_decorators(raw["content"]).content}
    if read_decorators(entry.content).kept:
        losses.add(entry.content, "unsupported", "entries", at, "content")
    return _as_it_came(entry.model_copy(update={"source": {**entry.source, "raw": raw}}))


def _as_it_came(entry: Entry) -> dict[str, Any]:
    raw = entry.source["raw"]
    result = overlaid(entry)
    if is_imported_id(entry.id, imported_id(raw)):
        for name in ("uid", "id"):
            result.pop(name, None)
        ids = {name: raw[name] for name in ("uid", "id") if name in raw}
        return {name: result.get(name, ids.get(name)) for name in (raw | result)}
    return result


def _spelled_out(entry: Entry) -> dict[str, Any]:
    """Return a native entry with all fields, as SillyTavern's own files have them."""
    shown = sillytavern_view(entry.model_copy(update={"source": {}}))
    fields = {
        field.world: shown.get(field.world, field.codec.write(field.default))
        for field in _WORLD_ROWS
        if field.world in shown or not field.optional
    }
    return {"uid": shown["uid"], **fields, **shown}


def _converted(entry: Entry, container: Form | None, at: int, losses: Losses) -> dict[str, Any]:
    """Return an entry under a card's names; values without a name are in `extensions`."""
    foreign = entry if container else entry.model_copy(update={"source": {}})
    shown = sillytavern_view(foreign)
    values = values_of(entry)
    result: dict[str, Any] = {"id": shown["uid"]}
    extensions = _extensions(shown, at, losses)
    for field, value in _card_fields(shown, values):
        for name in field.card:
            if name is field.card[0] or name.along:
                _put(result, extensions, name.path, (name.codec or field.codec).write(value))
    if values["character_filter"] is not None:
        found = values["character_filter"]
        losses.add(found, "moved_to_extensions", *_block(at), "character_filter")
    if "addMemo" in shown and values["add_memo"] != bool(values["title"]):
        losses.add(values["add_memo"], "unsupported", *_block(at), "add_memo")
    return {**result, "extensions": extensions}


def _put_own(result: dict[str, Any], entry: Entry, container: Form | None, target: Form) -> None:
    """Write what an import of the written entry would not give again.

    These are the flags of a native entry that follow SillyTavern's settings, and for a converted
    entry the requirements and the kind, which depend on all of its texts.
    """
    listed = DEFAULT_BLOCK["inherit"] if entry.sillytavern is None else entry.sillytavern.inherit
    inherit = [name for name in listed if getattr(entry, name) is not None]
    is_native = container is None and THREE_VALUED not in entry.source
    if is_native or member(result, OWN_INHERIT) not in (LACKING, inherit):
        put(result, OWN_INHERIT, inherit)
    if container == target:
        return
    words = requirements_of(result, read_values(result, target, RepairNotes()).found)
    usual: dict[str, Any] = {"runtime_requirements": words, "kind": kind_of(words)}
    now = usual | dict(read_own(result, RepairNotes()).fields)
    for name in usual:
        if now[name] != getattr(entry, name):
            put(result, f"{OWN}/{name}", entry.model_dump(mode="json", include={name})[name])


def _block(at: int) -> tuple[str | int, ...]:
    return ("entries", at, "sillytavern")


def _extensions(shown: Mapping[str, Any], at: int, losses: Losses) -> dict[str, Any]:
    """Return the entry's extensions, with unknown members added."""
    own = shown.get("extensions")
    extensions = dict(own) if isinstance(own, Mapping) else {}
    raw_at = ("entries", at, "source", "raw")
    if own is not None and not isinstance(own, Mapping):
        losses.add(own, "unsupported", *raw_at, "extensions")
    for name, value in shown.items():
        if name not in _WRITTEN_ANEW:
            moved = name not in extensions
            extensions.setdefault(name, value)
            losses.add(value, "moved_to_extensions" if moved else "unsupported", *raw_at, name)
    return extensions


def _card_fields(
    shown: Mapping[str, Any], values: Mapping[str, Any]
) -> Iterator[tuple[EntryField, Any]]:
    """Yield the fields to write: those in the original, required ones, and non-default values."""
    for field in _CARD_ROWS:
        value = values[field.name]
        is_present = field.world in shown or field.name in _REQUIRED
        if is_present or value != field.default_in("card"):
            yield field, value


def _put(result: dict[str, Any], extensions: dict[str, Any], path: str, value: object) -> None:
    if path.startswith(_OURS):  # a card's entry has its own member for it
        ours = extensions.get("lorewell")
        if isinstance(ours, Mapping):
            rest = {name: each for name, each in ours.items() if name != path[len(_OURS) :]}
            extensions["lorewell"] = rest
            if not rest:
                del extensions["lorewell"]
        return
    _, below, name = path.rpartition("extensions/")
    if below:
        extensions[name] = value
    else:
        result[path] = value


def _note_ours(result: Mapping[str, Any], entry: Entry, at: int, losses: Losses) -> None:
    """Note the native fields that other programs lack."""
    extensions = result.get("extensions")
    ours = extensions.get("lorewell") if isinstance(extensions, Mapping) else None
    if not isinstance(ours, Mapping):
        return
    names = [name for name in Entry.model_fields if name in ours and name not in {"id", "priority"}]
    plain = entry.model_dump(mode="json", include=set(names))
    for name in names:
        if plain[name] == ours[name]:
            losses.add(plain[name], "moved_to_extensions", "entries", at, name)


def _note_raw(entry: Entry, at: int, losses: Losses) -> None:
    raw = entry.source.get("raw")
    if raw is not None and container_of(entry) is None:
        losses.add(raw, "unsupported", "entries", at, "source", "raw")


def number_entries(shown: Sequence[dict[str, Any]], entries: Sequence[Entry], target: Form) -> None:
    """Give the entries of a document numbers as ids, as SillyTavern writes them.

    An entry of the same kind of file whose id was not changed keeps what it had. The others get
    their id if it is a number, else one that is free; then their own id is under
    `extensions.lorewell`.
    """
    name, other = ("uid", "id") if target == "world_info" else ("id", "uid")
    anew = [at for at, entry in enumerate(entries) if not _keeps_id(entry, target)]
    renamed = set(anew)
    kept = [each.get(name) for at, each in enumerate(shown) if at not in renamed]
    taken = {number for number in kept if isinstance(number, int)}
    numbers: dict[int, int] = {}
    for at in anew:
        wanted = int(entries[at].id) if _NUMBER.fullmatch(entries[at].id) else None
        if wanted is not None and wanted not in taken:
            numbers[at] = wanted
            taken.add(wanted)
    free = 0
    for at in anew:
        result, entry_id = shown[at], entries[at].id
        if at not in numbers:
            before = _number_before(entries[at], name, target)
            if before is None or before in taken:
                before = at if at not in taken else next(n for n in count(free) if n not in taken)
                free = free if before == at else before
            numbers[at] = before
            taken.add(before)
        result[name] = numbers[at]
        if other in result:
            result[other] = numbers[at]
        if str(numbers[at]) != entry_id or member(result, OWN_ID) is not LACKING:
            put(result, OWN_ID, entry_id)


def _number_before(entry: Entry, name: str, target: Form) -> int | None:
    """Return the number that a renamed entry had in its file."""
    raw = entry.source.get("raw") if container_of(entry) == target else None
    found = raw.get(name) if isinstance(raw, Mapping) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _keeps_id(entry: Entry, target: Form) -> bool:
    if container_of(entry) != target:
        return False
    return is_imported_id(entry.id, imported_id(entry.source["raw"]))
