"""Reads a foreign entry's fields into core and block, and joins them again."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, get_args

from lorewell.engine.sillytavern.entry.card_decorators import DecoratedContent, read_decorators
from lorewell.engine.sillytavern.entry.dynamic import DynamicSign
from lorewell.engine.sillytavern.entry.table import TABLE, ByName, EntryField, FieldName, Form
from lorewell.engine.sillytavern.entry.values import MisfitError, Repair, RepairNotes, shown
from lorewell.engine.steps import Steps
from lorewell.model import Entry
from lorewell.model.entry import THREE_VALUED
from lorewell.model.text import pointer

INHERITED = ("case_sensitive", "match_whole_words")
DEFAULT_BLOCK: ByName = {
    "inherit": INHERITED,
    **{field.name: field.default for field in TABLE if field.place == "block"},
}
_REQUIREMENTS = {field.name: field.requirement for field in TABLE if field.requirement}
ALWAYS = 100  # percent
GENERATION_KINDS = frozenset(["normal", "continue", "impersonate", "swipe", "regenerate", "quiet"])
MAX_UNREAD = 5_000  # unread members of an entry that are listed
_AT_ONCE = 1_000
MAX_GROUP_NAME = 194  # a conflict_key of 200 characters without "group:"
# A comma and the blanks (JavaScript's \s) after it. Source: docs/rules/sillytavern.md §10.
_COMMA = re.compile(
    ",[\t\n\x0b\x0c\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]*"
)
_NOTHING: tuple[object, ...] = ("", [], {})
LACKING: Any = object()  # stands for a missing member; null is a value


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEntry:
    """The fields of a foreign entry.

    Attributes:
        core: values of all Entry fields that foreign entries have.
        block: the members of the block `sillytavern` that differ from its defaults.
        needs: requirements of the fields that the native policy does not meet.
        repairs: in the order of the table of fields.
    """

    core: dict[str, Any]
    block: dict[str, Any]
    needs: tuple[DynamicSign, ...]
    repairs: tuple[Repair, ...]


def member(raw: Mapping[str, Any], path: str) -> Any:  # noqa: ANN401  a foreign value
    """Return the value at a path of member names, `LACKING` if there is none."""
    if "/" not in path:
        return raw.get(path, LACKING)
    found: Any = raw
    for step in path.split("/"):
        if not isinstance(found, dict) or step not in found:
            return LACKING
        found = found[step]
    return found


class UnreadMembers(NamedTuple):
    """Members that no field is read from.

    Attributes:
        pointers: JSON pointers of the first 5,000, in the order of the entry.
        more: the number of further ones.
    """

    pointers: tuple[str, ...]
    more: int


def find_unread(raw: Mapping[str, Any], known: Container[str], steps: Steps) -> UnreadMembers:
    """Return the members that no field is read from; empty values don't count.

    Args:
        raw: the entry.
        known: the paths that are read, and their parents followed by "/"; see `with_parents`.
        steps: the step budget.
    """
    found = _unread(raw, known)
    pointers = tuple(islice(found, MAX_UNREAD))
    more = 0
    while count := sum(1 for _ in islice(found, _AT_ONCE)):
        steps.spend("entries", count)
        more += count
    return UnreadMembers(pointers, more)


def _unread(raw: Mapping[str, Any], known: Container[str], at: str = "") -> Iterator[str]:
    """Yield the JSON pointers of unread members of the entry, or of its part at `at`."""
    for name, value in raw.items():
        path, is_step = at + name, "/" not in name
        if (is_step and path in known) or value is None or value is False or value in _NOTHING:
            continue
        if is_step and f"{path}/" in known and isinstance(value, dict):
            yield from _unread(value, known, f"{path}/")
        else:
            yield f"/{at}{pointer(name)[1:]}"


def with_parents(paths: Iterable[str]) -> frozenset[str]:
    """Return the paths and all their parents, for `find_unread`."""
    known = set()
    for path in paths:
        known.add(path)
        known.update(path[: at + 1] for at, character in enumerate(path) if character == "/")
    return frozenset(known)


def find_value(
    raw: Mapping[str, Any], field: EntryField, form: Form
) -> tuple[FieldName, Any] | None:
    """Return the name that holds the field's value, and the value as written; None if none does.

    A null does not count as a value, nor an empty text in a text field: another name may hold one.
    """
    empty = (None, "") if field.default == "" else (None,)
    for name in field.names[form]:
        value = member(raw, name.path)
        if value is None and field.nullable and form == "world_info":
            return None  # the settings decide, whatever stale copies hold
        if value is not LACKING and not (value is None or value in empty):
            return name, value
    return None


class EntryValues(NamedTuple):
    """The values of an entry's fields.

    Attributes:
        found: the value of every field, by field name.
        written: by field name, the name that holds the value; only for fields that the entry has.
    """

    found: dict[str, Any]
    written: dict[str, FieldName]


class _Row(NamedTuple):
    """A field in one form.

    Attributes:
        default: the value of an entry without the field.
        first: the preferred name; `is_member` if that is a member of the entry itself.
        usual: the default as most entries write it; `LACKING` if reading it makes a repair note.
    """

    field: EntryField
    default: Any
    first: FieldName
    is_member: bool
    usual: Any


def _row(field: EntryField, form: Form) -> _Row:
    default, first = field.default_in(form), field.names[form][0]
    codec, notes = first.codec or field.codec, RepairNotes()
    try:
        usual = codec.write(default)
        is_plain = codec.read(usual, notes) == default and not notes.repairs
    except MisfitError:
        is_plain = False
    return _Row(field, default, first, "/" not in first.path, usual if is_plain else LACKING)


_ROWS: Mapping[Form, tuple[_Row, ...]] = {
    form: tuple(_row(field, form) for field in TABLE) for form in get_args(Form)
}


def read_values(raw: Mapping[str, Any], form: Form, notes: RepairNotes) -> EntryValues:
    """Return the value of every field."""
    found, names = {}, {}
    for field, default, first, is_member, usual in _ROWS[form]:
        found[field.name] = default
        name, value = first, raw.get(first.path) if is_member else None
        if value is None or value == "":  # another name may hold it, though few entries need that
            written = find_value(raw, field, form)
            if written is None:
                continue
            name, value = written
        names[field.name] = name
        if name in field.aliases:
            notes.at = f"/{name.path}"
            notes.add("alias_read", f"{name.path} is read as {first.path}.")
        if name is first and type(value) is type(usual) and value == usual:
            continue
        notes.at = f"/{name.path}"
        try:
            found[field.name] = (name.codec or field.codec).read(value, notes)
        except MisfitError:
            message = f"Invalid value {shown(value)}; the default is used."
            notes.add("wrong_type", message)
    _read_triggers(found, names, notes)
    _read_decorators(found, notes)
    return EntryValues(found, names)


def _read_triggers(found: dict[str, Any], names: dict[str, FieldName], notes: RepairNotes) -> None:
    """Read `triggers` as keys if none of them is a kind of generation: authors use it for both."""
    words = found["triggers"]
    if not words or not GENERATION_KINDS.isdisjoint(words):
        return
    notes.at = f"/{names.pop('triggers').path}"
    found["triggers"] = ()
    if found["keys"]:
        notes.add("ignored_field", "No trigger is a kind of generation; they are ignored.")
        return
    found["keys"] = words
    notes.add("alias_read", "triggers is read as keys: none of them is a kind of generation.")


def _read_decorators(found: dict[str, Any], notes: RepairNotes) -> None:
    """Read the decorators of the content; they override the fields of the same name."""
    decorated = read_decorators(found["content"])
    note_decorators(decorated, notes, at="/content")
    found.update(decorated.values)
    found["content"] = decorated.content


def note_decorators(decorated: DecoratedContent, notes: RepairNotes, *, at: str) -> None:
    """Note the decorators of a content that are read, and those that stay in it."""
    notes.at = at
    if decorated.lines:
        names = ", ".join(decorated.values)
        message = f"The decorators {shown(decorated.lines.strip())} are read as {names}."
        notes.add("decorators_read", message)
    for line in decorated.kept:
        notes.add("decorator_kept", f"{shown(line)} has no effect and stays in the content.")


def group_names(group: str) -> tuple[str, ...]:
    """Split a text into group names. Source: docs/rules/sillytavern.md §10."""
    return tuple(name for name in _COMMA.split(group) if name)


def _single_group(group: str) -> str:
    """Return the only group that a text names, "" if there are several or the name is too long."""
    names = group_names(group)
    return names[0] if len(names) == 1 and len(names[0]) <= MAX_GROUP_NAME else ""


def group_of(conflict_key: str | None) -> str:
    """Return the SillyTavern group of a conflict key, "" if it has none."""
    prefix, colon, name = (conflict_key or "").partition(":")
    return name if prefix + colon == "group:" and _single_group(name) == name else ""


def split(found: ByName) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the values of all fields into the core and the whole block of an entry."""
    core = {field.name: found[field.name] for field in TABLE if field.place == "core"}
    block = {field.name: found[field.name] for field in TABLE if field.place == "block"}
    block["inherit"] = INHERITED  # the core has null for the flags that follow the settings
    if not found["use_probability"]:
        core["probability"] = ALWAYS
    if found["position"] == "outlet" and not found["outlet_name"]:
        core["position"] = "before_character"
    if core["position"] != "outlet":
        core["outlet_name"] = None
    single = _single_group(found["group"])
    core["conflict_key"] = f"group:{single}" if single else None
    block["group"] = "" if single or not group_names(found["group"]) else found["group"]
    return core, block


def values_of(entry: Entry) -> dict[str, Any]:
    """Return the values of all fields of an entry; its core overrides its block."""
    block = entry.sillytavern.model_dump() if entry.sillytavern else DEFAULT_BLOCK
    found = join(dict(iter(entry)), block)  # dict(entry) would use its attribute `keys`
    if THREE_VALUED not in entry.source:
        found |= {name: found[name] or None for name in block["inherit"]}
    return found


def join(core: ByName, block: ByName) -> dict[str, Any]:
    """Join core and block into the values of all fields."""
    places = {"core": core, "block": block}
    found = {field.name: places[field.place][field.name] for field in TABLE}
    found["use_probability"] = block["use_probability"] or core["probability"] != ALWAYS
    found["outlet_name"] = core["outlet_name"] or ""
    found["group"] = group_of(core["conflict_key"]) or block["group"]
    return found


def needs_of(found: ByName) -> list[tuple[str, str]]:
    """Return the requirements that the native policy does not meet, each with its field name."""
    needs = [(word, name) for name, word in _REQUIREMENTS.items() if found[name]]
    if found["position"] == "outlet" and not found["outlet_name"]:
        needs.append(("outlet_name", "position"))
    return needs


def _group_warning(group: str) -> tuple[str, str]:
    if len(group_names(group)) != 1:
        message = f"{shown(group)} names several groups; the native policy ignores them."
        return "several_groups", message
    if _single_group(group):
        return "group_weight_ignored", "The native policy ignores weights in a group."
    return "group_too_long", f"The group's name is longer than {MAX_GROUP_NAME} characters."


def _warn_of_values(values: EntryValues, notes: RepairNotes) -> None:
    """Note values that the native policy ignores or interprets differently."""
    found = values.found
    for field in TABLE:
        value = found[field.name]
        if not value or value == field.default or field.name not in values.written:
            continue
        if field.name == "group_weight" and not found["group"]:
            continue  # a weight counts only within a group
        notes.at = f"/{values.written[field.name].path}"
        if field.ignored:
            message = f"{field.world} {shown(value)} has no effect under the native policy."
            notes.add(field.ignored, message)
        elif field.name == "group":
            notes.add(*_group_warning(value))
        elif value == "outlet" and not found["outlet_name"]:
            message = "The outlet has no name, so the entry can't be placed there."
            notes.add("outlet_without_name", message)


def _warn_of_null(raw: Mapping[str, Any], notes: RepairNotes) -> None:
    for name in ("enabled", "disable"):
        if raw.get(name, LACKING) is None:
            notes.at = f"/{name}"
            notes.add("null_value", f"{name} is null; the entry is enabled.")


def read_entry(raw: Mapping[str, Any], *, form: Form) -> ReadEntry:
    """Read a foreign entry and note every repair.

    Keys and content beyond the limits of the contract are kept; the model refuses them. All other
    values are brought within their limits, so that one odd value never fails a book.

    Args:
        raw: the entry as in its file; it is not changed.
        form: the dialect of the file. Names of the other dialect count where its own are missing.

    >>> read = read_entry({"keys": "lamp, oil", "enabled": None, "sticky": 2}, form="card")
    >>> read.core["keys"], read.core["enabled"], read.core["position"], read.block
    (('lamp', 'oil'), True, 'after_character', {'sticky': 2})
    >>> [need.requirement for need in read.needs], [repair.code for repair in read.repairs]
    (['sticky'], ['keys_split', 'null_value'])

    Source: docs/rules/native.md §11.4, §11.5; docs/rules/formats.md §0.6, §2.3, §2.4.
    """
    notes = RepairNotes()
    values = read_values(raw, form, notes)
    found = values.found
    _warn_of_null(raw, notes)
    _warn_of_values(values, notes)
    core, block = split(found)
    return ReadEntry(
        core=core,
        block={name: value for name, value in block.items() if value != DEFAULT_BLOCK[name]},
        needs=tuple(
            DynamicSign(word, f"/{values.written[name].path}") for word, name in needs_of(found)
        ),
        repairs=tuple(notes.repairs),
    )
