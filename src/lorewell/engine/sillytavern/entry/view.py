"""Views of an entry in SillyTavern's form: its raw form, overlaid with later changes.

Core and block decide. Raw only adds what they do not hold: the order of members, unknown fields,
and equivalent spellings of a value ("100", a null).
Source: docs/rules/formats.md §0.2, §2.2 to §2.4; docs/rules/native.md §11.4.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from lorewell.engine.sillytavern.entry.card_decorators import read_decorators
from lorewell.engine.sillytavern.entry.dynamic import kind_of
from lorewell.engine.sillytavern.entry.fields import (
    LACKING,
    find_value,
    group_of,
    join,
    member,
    read_values,
    split,
    values_of,
)
from lorewell.engine.sillytavern.entry.own import OWN, UNMAPPED, given_id, read_own
from lorewell.engine.sillytavern.entry.reading import requirements_of
from lorewell.engine.sillytavern.entry.table import TABLE, EntryField, Form, form_of
from lorewell.engine.sillytavern.entry.values import MisfitError, RepairNotes
from lorewell.model import Entry

_IDS: Mapping[Form, tuple[str, str]] = {"world_info": ("uid", "id"), "card": ("id", "uid")}
_CARD_FORMAT = re.compile(r"character_book|lorebook_v3|chara_card_v[0-9]{1,9}")
_CONTENT = next(field for field in TABLE if field.name == "content")
_MADE_ID = re.compile(r"entry-[0-9]+(-[0-9]+)?")
_SUFFIX = re.compile(r"(-[0-9]+)?")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,14}")


def _origin(entry: Entry) -> tuple[Mapping[str, Any], Form]:
    """Return the raw entry and its form, if it comes from a world-info file or a card.

    Any other entry, whatever its raw is, is treated as an empty world-info entry.
    """
    raw, written = entry.source.get("raw"), entry.source.get("format")
    if isinstance(raw, Mapping) and isinstance(written, str):
        if written == "st_world":
            return raw, form_of(raw, "world_info")
        if _CARD_FORMAT.fullmatch(written):
            return raw, form_of(raw, "card")
    return {}, "world_info"


def put(result: dict[str, Any], path: str, value: object) -> None:
    """Set a member; objects on its path are copied, because raw may own them."""
    *steps, last = path.split("/")
    for step in steps:
        below = result.get(step)
        result[step] = dict(below) if isinstance(below, Mapping) else {}
        result = result[step]
    result[last] = value


def _write(result: dict[str, Any], field: EntryField, form: Form, value: object) -> None:
    """Write a field under each of its names that the entry has, else under the form's own name.

    An alias stays as it is, because the own name wins over it; but an empty text does not.
    """
    names = field.names[form]
    chosen = [
        name
        for name in names
        if (member(result, name.path) is not LACKING and (name not in field.aliases or value == ""))
        or (name.along and form == "card")
    ]
    for name in chosen or names[:1]:
        put(result, name.path, (name.codec or field.codec).write(value))


def _overlay_fields(result: dict[str, Any], entry: Entry, form: Form, raw: _RawValues) -> set[str]:
    """Write the fields that changed; return their names."""
    now = values_of(entry)
    changed = set()
    content = _content_of(result, form)
    decorated = _with_decorators(content, raw.entry, now)
    if decorated != content:
        _write(result, _CONTENT, form, decorated)
        raw = _read_raw(result, form)
        changed.add("content")
    for field in TABLE:
        name = field.name
        if raw.entry[name] != now[name] or (
            # A probability that is switched on again must be the one of the core.
            name == "probability" and now["use_probability"] and raw.fields[name] != now[name]
        ):
            _write(result, field, form, now[name])
            changed.add(name)
    return changed


def _with_decorators(content: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the current text with the decorators of the raw content in front.

    A content without decorators that were read stays unchanged. If a field of a decorator has
    changed, or if the text can't follow decorators, all are dropped: the fields hold their values.
    """
    decorated = read_decorators(content)
    if not decorated.lines:
        return content
    if any(was[name] != now[name] for name in decorated.values):
        return decorated.content
    if was["content"] == now["content"]:
        return content
    joined = decorated.lines + now["content"]
    again = read_decorators(joined)
    is_stable = (again.values, again.content) == (decorated.values, now["content"])
    return joined if is_stable else decorated.content


class _RawValues(NamedTuple):
    """The values of a raw entry's fields: as written, and as an import stores them."""

    fields: dict[str, Any]
    entry: dict[str, Any]


def _read_raw(raw: Mapping[str, Any], form: Form) -> _RawValues:
    fields = read_values(raw, form, RepairNotes()).found
    return _RawValues(fields, join(*split(fields)))


def _content_of(raw: Mapping[str, Any], form: Form) -> str:
    """Return the content of a raw entry, including decorators."""
    found = find_value(raw, _CONTENT, form)
    return found[1] if found and isinstance(found[1], str) else ""


def _overlay_unmapped(result: dict[str, Any], entry: Entry, requirements: tuple[str, ...]) -> None:
    """Write fields without a SillyTavern name under `extensions.lorewell`.

    Args:
        result: the entry to change.
        entry: our entry.
        requirements: the requirements that an import gives the raw entry.
    """
    usual = {
        **UNMAPPED,
        "kind": kind_of(requirements),
        "runtime_requirements": requirements,
        "conflict_key": entry.conflict_key if group_of(entry.conflict_key) else None,
        **read_own(result, RepairNotes()).fields,
    }
    differing = [name for name, value in usual.items() if getattr(entry, name) != value]
    if differing:
        plain = entry.model_dump(mode="json", include=set(differing))
        for name in differing:
            put(result, f"{OWN}/{name}", plain[name])


def _given_id(raw: Mapping[str, Any], form: Form) -> Any:  # noqa: ANN401  a foreign value
    return next((raw[name] for name in _IDS[form] if raw.get(name) is not None), None)


def _shown_id(entry_id: str, given: object) -> object:
    """Return the id as raw spells it, as a number if it looks like one."""
    if given is not None and str(given) == entry_id:
        return given
    return int(entry_id) if _NUMBER.fullmatch(entry_id) else entry_id


def _is_given(entry_id: str, given: object) -> bool:
    """Return whether an import gives that id, with or without a suffix that makes it unique."""
    if given is None:
        return _MADE_ID.fullmatch(entry_id) is not None
    own = str(given)
    return entry_id.startswith(own) and _SUFFIX.fullmatch(entry_id, len(own)) is not None


def _overlay_id(result: dict[str, Any], entry: Entry, form: Form) -> None:
    given = _given_id(result, form)
    if given_id(result) == entry.id or _is_given(entry.id, given):
        return
    names = [name for name in _IDS[form] if name in result] or _IDS[form][:1]
    for name in names:
        result[name] = _shown_id(entry.id, given)


class _Overlaid(NamedTuple):
    """A raw entry with all changes, its form, and the names of the changed fields."""

    own: dict[str, Any]
    form: Form
    changed: set[str]


def _overlay(entry: Entry) -> _Overlaid:
    raw, form = _origin(entry)
    values = _read_raw(raw, form)
    requirements = requirements_of(raw, values.fields)
    own = dict(raw)
    changed = _overlay_fields(own, entry, form, values)
    _overlay_unmapped(own, entry, requirements)
    _overlay_id(own, entry, form)
    return _Overlaid(own, form, changed)


def overlaid(entry: Entry) -> dict[str, Any]:
    """Return the entry's raw form in its own dialect, overlaid with all later changes.

    A changed field is written under every name that raw has for it, in either dialect. An
    unchanged entry gives raw again: an id that the import generated, or made unique by a suffix,
    does not count as a change.
    """
    return _overlay(entry).own


def _in_world_names(own: Mapping[str, Any], field: EntryField, form: Form) -> Any:  # noqa: ANN401
    """Return the field's value in world-info form; unchanged if both dialects write it alike."""
    written = find_value(own, field, form)
    if written is None:
        return LACKING if field.optional else field.codec.write(field.default_in(form))
    name, value = written
    default = field.default_in(form)
    try:
        read = (name.codec or field.codec).read(value, RepairNotes())
    except MisfitError:
        read = default
        if default != field.default:  # in world info the odd value would mean another default
            return field.codec.write(default)
    is_alike = name.codec is None and name not in field.aliases
    return value if is_alike else field.codec.write(read)


_ROWS = [field for field in TABLE if "/" not in field.world]
_CONVERTED = {name.path for field in _ROWS for name in field.dialect_names} | {"id", "uid"}
# Members of a world-info entry that may hold a field under a card's name.
_CARD_STEPS = {
    name.path.partition("/")[0]
    for field in _ROWS
    for name in field.names["world_info"]
    if name.path != field.world
}


def _from_card(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a card's entry in world-info form: fields in SillyTavern's order, then the rest."""
    fields = {field.world: _in_world_names(own, field, "card") for field in _ROWS}
    known = {name: value for name, value in fields.items() if value is not LACKING}
    return known | {name: value for name, value in own.items() if name not in _CONVERTED}


def _from_world(own: Mapping[str, Any], names: Collection[str] | None = None) -> dict[str, Any]:
    """Return a world-info entry; fields found only under a card's name are added under their own.

    Args:
        own: the entry.
        names: names of the fields to add; None for all.
    """
    result = dict(own)
    if _CARD_STEPS.isdisjoint(own):
        return result
    for field in _ROWS:
        if names is not None and field.name not in names:
            continue
        written = find_value(own, field, "world_info")
        if written and written[0].path != field.world:
            result[field.world] = _in_world_names(own, field, "world_info")
    return result


def sillytavern_view(entry: Entry) -> dict[str, Any]:
    """Return the entry as SillyTavern's object, in world-info form.

    The result is raw in its own key order, overlaid with every value that differs from what an
    import of raw gives; unchanged odd values stay as written. A card's entry is converted as
    SillyTavern converts it, except that an entry without `enabled` is enabled, like our entry.
    Fields without a SillyTavern name are under `extensions.lorewell`. A missing member means the
    default of the table of fields.

    `uid` is always present, because policies identify entries by it: raw's own if it matches the
    entry's id, else the id, as a number if it consists of digits. So are `key` and `content`.

    >>> raw = {"key": ["lamp"], "content": "An oil lamp.", "order": "90"}
    >>> from lorewell.engine.sillytavern.entry import import_entry
    >>> imported = import_entry(raw, form="world_info", entry_id="7", source_format="st_world")
    >>> entry = Entry(**imported.entry)
    >>> sillytavern_view(entry.model_copy(update={"enabled": False}))
    {'uid': 7, 'key': ['lamp'], 'content': 'An oil lamp.', 'order': '90', 'disable': True}
    """
    own, form, _ = _overlay(entry)
    raw, _ = _origin(entry)
    view = _from_card(own) if form == "card" else _from_world(own)
    uid = {"uid": _shown_id(entry.id, _given_id(raw, form))}
    view = view | uid if "uid" in raw else uid | view | uid
    view.setdefault("key", list(entry.keys))
    view.setdefault("content", entry.content)
    return view


def file_view(entry: Entry) -> dict[str, Any] | None:
    """Return an entry of a world-info file as SillyTavern reads it there, with later changes.

    An unchanged entry is raw itself, without added members and with its own `uid`, even if another
    entry shares it. A field that the file holds only under a card's name is added under
    SillyTavern's name only after a change, because SillyTavern reads no other name. An entry
    without a `uid` gets one, because policies identify entries by it.

    None if the entry comes from another kind of file, or is in a card's dialect.
    """
    if entry.source.get("format") != "st_world" or "raw" not in entry.source:
        return None
    own, form, changed = _overlay(entry)
    if form == "card":
        return None
    view = _from_world(own, changed)
    if view.get("uid") is None:
        view = {"uid": _shown_id(entry.id, _given_id(own, form))} | view
    return view
