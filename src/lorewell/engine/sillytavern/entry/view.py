"""An entry as SillyTavern would hold it: its raw form, overlaid by what was changed since.

Core and block are what counts; raw only keeps what they leave open: the order of members, fields
that nobody knows, and values that mean the same in another form ("100", a null).
Source: docs/rules/formats.md §0.2, §2.2 to §2.4; docs/rules/native.md §11.4.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from lorewell.engine.sillytavern.entry.card_decorators import read_decorators
from lorewell.engine.sillytavern.entry.dynamic import kind_of
from lorewell.engine.sillytavern.entry.fields import (
    DEFAULT_BLOCK,
    LACKING,
    find_value,
    group_of,
    join,
    member,
    read_values,
    split,
)
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
# Fields that the rows of the table say, and those that say where the rest comes from.
_SAID = {field.name for field in TABLE if field.place == "core"} | {"id", "source", "sillytavern"}
_UNSAID = {
    name: about.get_default(call_default_factory=True)
    for name, about in Entry.model_fields.items()
    if name not in _SAID
}


def _origin(entry: Entry) -> tuple[Mapping[str, Any], Form]:
    """Return the raw entry and its own form, where its file is SillyTavern's or a card.

    Any other entry, whatever its raw is, counts as natively written: an empty one of world info.
    """
    raw, written = entry.source.get("raw"), entry.source.get("format")
    if isinstance(raw, Mapping) and isinstance(written, str):
        if written == "st_world":
            return raw, form_of(raw, "world_info")
        if _CARD_FORMAT.fullmatch(written):
            return raw, form_of(raw, "card")
    return {}, "world_info"


def _put(result: dict[str, Any], path: str, value: object) -> None:
    """Set a member; objects on the way are copied, as they may be raw's own."""
    *steps, last = path.split("/")
    for step in steps:
        below = result.get(step)
        result[step] = dict(below) if isinstance(below, Mapping) else {}
        result = result[step]
    result[last] = value


def _write(result: dict[str, Any], field: EntryField, form: Form, value: object) -> None:
    """Write a field under each name that the entry has for it, else under the form's own."""
    names = field.names[form]
    chosen = [
        name
        for name in names
        if member(result, name.path) is not LACKING or (name.along and form == "card")
    ]
    for name in chosen or names[:1]:
        _put(result, name.path, (name.codec or field.codec).write(value))


def _overlay_fields(result: dict[str, Any], entry: Entry, form: Form, meant: _Meant) -> set[str]:
    """Write the fields that changed; return their names."""
    block = entry.sillytavern.model_dump() if entry.sillytavern else DEFAULT_BLOCK
    now = join(dict(iter(entry)), block)  # a dict of the entry itself would take its `keys`
    changed = set()
    content = _content_of(result, form)
    told = _retold(content, meant.entry, now)
    if told != content:
        _write(result, _CONTENT, form, told)
        meant = _meant(result, form)
        changed.add("content")
    for field in TABLE:
        name = field.name
        if meant.entry[name] != now[name] or (
            # A probability that was switched off counts again: it must be the one of the core.
            name == "probability" and now["use_probability"] and meant.fields[name] != now[name]
        ):
            _write(result, field, form, now[name])
            changed.add(name)
    return changed


def _retold(content: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the content with the decorators that still hold in front of the text of now.

    A content that no decorator was read from stays as it is. Once a field was changed that one
    spoke for, or the text can't stand behind them, none is left: the fields say what they said.
    """
    decorated = read_decorators(content)
    if not decorated.lines:
        return content
    if any(was[name] != now[name] for name in decorated.values):
        return decorated.content
    if was["content"] == now["content"]:
        return content
    told = decorated.lines + now["content"]
    again = read_decorators(told)
    holds = (again.values, again.content) == (decorated.values, now["content"])
    return told if holds else decorated.content


class _Meant(NamedTuple):
    """What the fields of a raw entry say, and what they mean once it is an entry of ours."""

    fields: dict[str, Any]
    entry: dict[str, Any]


def _meant(raw: Mapping[str, Any], form: Form) -> _Meant:
    written = read_values(raw, form, RepairNotes()).found
    return _Meant(written, join(*split(written)))


def _content_of(raw: Mapping[str, Any], form: Form) -> str:
    """Return the content as raw has it, decorators and all."""
    found = find_value(raw, _CONTENT, form)
    return found[1] if found and isinstance(found[1], str) else ""


def _overlay_unsaid(result: dict[str, Any], entry: Entry, requirements: tuple[str, ...]) -> None:
    """Put what SillyTavern has no name for under `extensions.lorewell`.

    Args:
        result: is changed.
        entry: ours.
        requirements: what an import gives the raw entry.
    """
    usual = {
        **_UNSAID,
        "kind": kind_of(requirements),
        "runtime_requirements": requirements,
    }
    if group_of(entry.conflict_key):
        del usual["conflict_key"]
    differing = [name for name, value in usual.items() if getattr(entry, name) != value]
    if differing:
        plain = entry.model_dump(mode="json", include=set(differing))
        for name in differing:
            _put(result, f"extensions/lorewell/{name}", plain[name])


def _given_id(raw: Mapping[str, Any], form: Form) -> Any:  # noqa: ANN401  a foreign value
    return next((raw[name] for name in _IDS[form] if raw.get(name) is not None), None)


def _shown_id(entry_id: str, given: object) -> object:
    """Return the id in the form in which raw has it, a number if it looks like one."""
    if given is not None and str(given) == entry_id:
        return given
    return int(entry_id) if _NUMBER.fullmatch(entry_id) else entry_id


def _is_given(entry_id: str, given: object) -> bool:
    """Return whether an import gives that id, made unique by a suffix or not."""
    if given is None:
        return _MADE_ID.fullmatch(entry_id) is not None
    own = str(given)
    return entry_id.startswith(own) and _SUFFIX.fullmatch(entry_id, len(own)) is not None


def _overlay_id(result: dict[str, Any], entry: Entry, form: Form) -> None:
    given = _given_id(result, form)
    if _is_given(entry.id, given):
        return
    names = [name for name in _IDS[form] if name in result] or _IDS[form][:1]
    for name in names:
        result[name] = _shown_id(entry.id, given)


class _Overlaid(NamedTuple):
    """A raw entry with every change, its form, and the names of the fields that changed."""

    own: dict[str, Any]
    form: Form
    changed: set[str]


def _overlay(entry: Entry) -> _Overlaid:
    raw, form = _origin(entry)
    meant = _meant(raw, form)
    requirements = requirements_of(raw, meant.fields)
    own = dict(raw)
    changed = _overlay_fields(own, entry, form, meant)
    _overlay_unsaid(own, entry, requirements)
    _overlay_id(own, entry, form)
    return _Overlaid(own, form, changed)


def overlaid(entry: Entry) -> dict[str, Any]:
    """Return the entry's raw form in its own dialect, overlaid by every change since.

    A changed field is written under every name that raw has for it, in either dialect. An
    untouched entry gives raw again: an id that the import made up, or made unique by a suffix,
    is no change.
    """
    return _overlay(entry).own


def _in_world_names(own: Mapping[str, Any], field: EntryField, form: Form) -> Any:  # noqa: ANN401
    """Return the field's value as world info writes it: untouched where both write it alike."""
    written = find_value(own, field, form)
    if written is None:
        return LACKING if field.optional else field.codec.write(field.default_in(form))
    name, value = written
    default = field.default_in(form)
    try:
        meant = (name.codec or field.codec).read(value, RepairNotes())
    except MisfitError:
        meant = default
        if default != field.default:  # here the odd value would mean something else
            return field.codec.write(default)
    return value if name.codec is None else field.codec.write(meant)


_ROWS = [field for field in TABLE if "/" not in field.world]
_CONVERTED = {name.path for field in _ROWS for name in field.names["card"]} | {"id", "uid"}
# Where a world's entry may have something under a card's name: the members that lead there.
_CARD_STEPS = {
    name.path.partition("/")[0]
    for field in _ROWS
    for name in field.names["world_info"]
    if name.path != field.world
}


def _from_card(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a card's entry as world info: the fields in SillyTavern's order, then the rest."""
    fields = {field.world: _in_world_names(own, field, "card") for field in _ROWS}
    known = {name: value for name, value in fields.items() if value is not LACKING}
    return known | {name: value for name, value in own.items() if name not in _CONVERTED}


def _from_world(own: Mapping[str, Any], names: Collection[str] | None = None) -> dict[str, Any]:
    """Return a world's entry; what it says under a card's name alone is added under its own.

    Args:
        own: the entry.
        names: of the fields of which that is done; None is all.
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
    """Return the entry as SillyTavern's object, in the names of its world info.

    It is raw in its own key order, overlaid by every value that differs from what raw would
    import to, so that untouched odd values stay as they were. A card's entry is converted as
    SillyTavern does it, except that one without `enabled` is enabled, as the core says. What
    SillyTavern has no name for stands under `extensions.lorewell`. Where a member is missing,
    the default of the table of fields is meant.

    `uid` is always there, as a policy tells entries by it: raw's own if it is the entry's id,
    else the id, as a number if it is digits. So are `key` and `content`.

    >>> raw = {"key": ["lamp"], "content": "An oil lamp.", "order": "90"}
    >>> from lorewell.engine.sillytavern.entry import import_entry
    >>> lore = import_entry(raw, form="world_info", entry_id="7", source_format="st_world")
    >>> entry = Entry(**lore.entry)
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
    """Return the entry of a world-info file as SillyTavern reads it there, with every change since.

    Untouched it is raw itself: it lacks what its file lacks, and shares its `uid` with whichever
    entry does so there. `sillytavern_view` converts for others; here, what stands under a card's
    name alone is shown under SillyTavern's own only after a change, as SillyTavern looks for it
    nowhere else. Without a `uid` it gets one, as a policy tells entries by it.

    None if it comes from another file, or is in a card's dialect.
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
