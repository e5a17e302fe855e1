"""World files of SillyTavern_replica (docs/rules/formats.md §12).

Values are read as under the policy `replica`. Keys, constant, position, and conditions that are
the only trigger become native fields. Other triggers, groups, requirements and the original
position stay in the block `replica`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lorewell.engine.conditions import (
    MAX_CHARS,
    Flaw,
    parse_condition,
    parse_expression,
    write,
)
from lorewell.engine.replica.entries import CERTAIN, NormalEntry, from_sillytavern, normalise
from lorewell.engine.replica.positions import BY_WORD, NOTE, SYSTEM_MESSAGE
from lorewell.engine.replica.triggers import (
    KINDS,
    MAX_CONDITIONS,
    KeywordTrigger,
    Triggers,
    read_triggers,
)
from lorewell.engine.replica.values import as_flag, as_integer, as_labels, as_number
from lorewell.engine.sillytavern.entry import ImportedEntry, values as v
from lorewell.engine.sillytavern.entry.dynamic import UNCOUNTED
from lorewell.engine.sillytavern.entry.fields import member
from lorewell.engine.sillytavern.entry.table import MAX_DEPTH, MAX_OUTLET_CHARS, ROLES
from lorewell.engine.steps import Steps
from lorewell.formats.detect import FileKind
from lorewell.formats.lorebook import Lorebook
from lorewell.formats.members import LEVEL, Members, conflict_key
from lorewell.formats.notes import ImportNotes
from lorewell.model.book import MAX_ENTRIES
from lorewell.model.entry import MAX_KEYS
from lorewell.model.text import canonical_json

# By number; SillyTavern swaps the first two and numbers the others differently. 5 is a separate
# system message. Source: docs/rules/formats.md §12, the way back to SillyTavern.
POSITIONS: Final = (
    *("after_character", "before_character", "before_examples", "after_examples"),
    *("author_note_top", "at_depth", "at_depth", "outlet"),
)
# In SillyTavern_replica's order, not SillyTavern's. Source: docs/rules/replica.md §4.2.
LOGICS: Final = ("and_any", "and_all", "not_any", "not_all")
# Native fields, and their names in a keyword trigger.
KEYWORD_NAMES: Final = {
    "keys": "key",
    "secondary_keys": "keysecondary",
    "selective": "selective",
    "logic": "selectiveLogic",
    "case_sensitive": "caseSensitive",
    "match_whole_words": "matchWholeWords",
}
NO_KEYWORD: Final = {
    "keys": (),
    "secondary_keys": (),
    "selective": False,
    "logic": LOGICS[0],
    "case_sensitive": False,
    "match_whole_words": False,
}
# SillyTavern_replica has one position at the author's note; this member keeps the native one.
OTHER_POSITION: Final = "extensions/lorewell/position"
# The members of the block.
KEPT: Final = (
    *("trigger_config", "group", "groupWeight", "requires", "position"),
    *("activationType", "logicExpression", "ragConfig"),
)
_COPIES: Final = (*KEYWORD_NAMES.values(), "constant")  # older members; `trigger_config` wins
_TRIGGERS_AT: Final = "trigger_config/triggers"
_MAX_BLOCK_BYTES: Final = 64 * 1024  # docs/rules/native.md §3.2
_USUAL_WEIGHTS: Final = (None, 100)
_DEPTH: Final = v.integer(0, MAX_DEPTH)


def read(document: Mapping[str, Any], notes: ImportNotes) -> Lorebook:
    """Return the world; its entries are a list, or a map by uid.

    In a map, entries without triggers have SillyTavern's numbers, which are translated.
    """
    entries = document.get("entries")
    is_map = isinstance(entries, dict)
    if isinstance(entries, dict) and len(entries) <= MAX_ENTRIES:  # larger maps are refused later
        notes.add("entries_map", "entries: must be a list, is an object; its members are read")
        internal = {
            name: _in_internal_numbers(raw) if isinstance(raw, dict) else raw
            for name, raw in entries.items()
        }
        document = {**document, "entries": internal}
    return Lorebook(
        format=FileKind.REPLICA,
        source_format=FileKind.REPLICA,
        form="world_info",
        book=document,
        read_entry=read_entry,
        keeps_empty=True,
        is_named=is_map,
    )


def _in_internal_numbers(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of a map in the internal form, without a made uid: its key may be its id."""
    found = from_sillytavern(raw, uid="")
    uid = {"uid": raw["uid"]} if "uid" in raw else {}
    return {name: value for name, value in found.items() if name != "uid" or uid} | uid


def read_entry(raw: Mapping[str, Any], entry_id: str, steps: Steps | None = None) -> ImportedEntry:
    """Return an entry in the internal form as a native one.

    Without `steps` the work is not bounded.
    """
    members = Members(raw, Steps(UNCOUNTED) if steps is None else steps)
    normal, odd = normalise(raw, uid=entry_id)
    triggers = read_triggers(normal.config)
    if any(each.code == "trigger_broken" for each in odd):
        message = "The value is not a trigger configuration; no trigger is used."
        members.note("trigger_broken", message, "trigger_config")
    fields: dict[str, Any] = {
        "title": members.title("comment"),
        "content": normal.content,
        "enabled": not normal.disable,
        "order": _bounded(members, "order", LEVEL, normal.order),
        "probability": normal.probability,
        **_placed(members, normal, entry_id),
        **_triggered(members, triggers),
        "conflict_key": _conflict_key(members, normal.group),
        "replica": _block(members),
    }
    normalised: dict[str, str | float] = {
        "content": normal.content,
        "disable": normal.disable,
        "order": normal.order,
        "probability": normal.probability,
    }
    _note_odd(members, normalised)
    if normal.requires:
        message = "The native policy ignores requirements of this format."
        members.note("ignored_field", message, "requires")
    if normal.group and raw.get("groupWeight") not in _USUAL_WEIGHTS:
        message = "The native policy ignores group weights."
        members.note("group_weight_ignored", message, "groupWeight")
    members.know(*KEPT, *_COPIES, *normalised, "depth", "role")
    return members.build_entry(entry_id, FileKind.REPLICA, fields)


def block_of(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that native fields can't hold, as in the file; empty if too large."""
    block = {name: raw[name] for name in KEPT if name in raw}
    if not _may_fit(block):
        return {}
    return block if len(canonical_json(block)) <= _MAX_BLOCK_BYTES else {}


def _may_fit(block: Mapping[str, Any]) -> bool:
    """Return False if a few members of the block already show that it is too large."""
    size = 0
    values: list[Any] = [block]
    while values and size <= _MAX_BLOCK_BYTES:
        value = values.pop()
        size += 1 + (len(value) if isinstance(value, str | list | dict) else 0)
        if size <= _MAX_BLOCK_BYTES and isinstance(value, list | dict):
            values += value.values() if isinstance(value, dict) else value
    return size <= _MAX_BLOCK_BYTES


def _block(members: Members) -> dict[str, Any] | None:
    block = block_of(members.raw)
    if not block and any(name in members.raw for name in KEPT):
        message = "The triggers are too large for the block; kept in source.raw only."
        members.note("not_kept", message, "trigger_config")
    return block or None


def _bounded(members: Members, name: str, reader: v.Reader, value: int) -> Any:  # noqa: ANN401
    """Return a number within the bounds of a native field."""
    notes = v.RepairNotes()
    bounded = reader(value, notes)
    for repair in notes.repairs:
        members.note(repair.code, repair.message, name)
    return bounded


def _note_odd(members: Members, normalised: Mapping[str, str | float]) -> None:
    """Note the members whose normalised values differ from those in the file."""
    for name, value in normalised.items():
        found = members.raw.get(name)
        if found is None or (type(found) is type(value) and found == value):
            continue
        code = _oddity(found, value)
        if code:
            members.note(code, f"{v.shown(found)} is read as {v.shown(value)}.", name)


def _oddity(found: object, normalised: str | float) -> str | None:
    """Return the warning code for a value that was normalised; None if both are one number."""
    kind = "text" if isinstance(found, str) else "number"
    plain = isinstance(found, str | int | float) and not isinstance(found, bool)
    if isinstance(normalised, bool):
        return f"flag_from_{kind}" if plain else "wrong_type"
    if isinstance(normalised, str):
        return "text_from_number" if plain else "wrong_type"
    number = as_number(found)
    if number is not None and number == normalised:
        return "number_from_text" if kind == "text" else None
    beyond = number is not None and (number < normalised == 0 or number > normalised == CERTAIN)
    return "clamped" if beyond else "wrong_type"


def _placed(members: Members, normal: NormalEntry, entry_id: str) -> dict[str, Any]:
    """Return position, depth, role, and the outlet named after the uid."""
    raw, number = members.raw, normal.position
    if "position" in raw and position_of(raw) is None:
        message = f"{v.shown(raw['position'])} is not a position from 0 to 7; it is read as 0."
        members.note("wrong_type", message, "position")
    position = POSITIONS[number]
    if number == SYSTEM_MESSAGE:
        message = "A separate system message is placed at depth 0."
        members.note("position_changed", message, "position")
        return {"position": position, "depth": 0, "role": ROLES[0], "outlet_name": None}
    if number == NOTE and member(raw, OTHER_POSITION) == "author_note_bottom":
        position = "author_note_bottom"
        members.know(OTHER_POSITION)
    _note_odd(members, {"depth": normal.depth})
    if not isinstance(raw.get("role"), str) or raw["role"] not in ROLES:
        _note_odd(members, {"role": normal.role})
    return {
        "position": position,
        "depth": _bounded(members, "depth", _DEPTH, normal.depth),
        "role": ROLES[normal.role],
        "outlet_name": entry_id[:MAX_OUTLET_CHARS] if position == "outlet" else None,
    }


def position_of(raw: Mapping[str, Any]) -> int | None:
    """Return the number of an entry's position, given as a number or a name; None if invalid."""
    value = raw.get("position")
    number = BY_WORD.get(value) if isinstance(value, str) else None
    number = as_integer(value) if number is None else number
    return number if number in range(len(POSITIONS)) else None


def _conflict_key(members: Members, group: Sequence[str]) -> str | None:
    found = members.raw.get("group")
    if found is not None and not isinstance(found, str | list):
        members.note("wrong_type", f"{v.shown(found)} is not a list of groups.", "group")
    if len(group) > 1:
        members.note("several_groups", "The entry has several groups: none is used.", "group")
    if len(group) != 1:
        return None
    key = conflict_key(group[0])
    if key is None:
        message = "The group's name is too long or holds a comma; it is not used."
        members.note("group_too_long", message, "group")
    return key


def _triggered(members: Members, triggers: Triggers) -> dict[str, Any]:
    """Return keys, constant and conditions; note the triggers without an effect."""
    at = _TRIGGERS_AT
    older = members.raw.get("trigger_config") is None
    for flaw in triggers.broken:
        kind = flaw.partition(" ")[0]
        named = kind in KINDS and not older
        name = f"{at}/{kind}" if named else ("" if older else "trigger_config")
        members.note("trigger_broken", f"Invalid trigger, which is off: {flaw}.", name)

    def within(kind: str) -> Members:
        found = member(members.raw, f"{at}/{kind}")
        settings = found[1] if isinstance(found, list) and len(found) > 1 else None
        return members.within(settings or {}, f"{at}/{kind}/1")

    fields: dict[str, Any] = {"constant": triggers.constant, "conditions_text": (), **NO_KEYWORD}
    if triggers.keyword is not None:
        fields |= _keywords(members if older else within("keyword"), triggers.keyword)
    if triggers.conditions is not None:
        settings = within("condition")
        texts = _conditions(triggers)
        if texts:
            fields |= {"constant": True, "conditions_text": texts}
        else:
            settings.note("ignored_field", "The native policy ignores these conditions.", "")
        _note_unreadable(settings, triggers.conditions)
    if triggers.rag is not None:
        settings = members.within({}, "ragConfig") if older else within("rag")
        settings.note("ignored_field", "The native policy ignores the trigger rag.", "")
    if triggers.logic is not None:
        name = "logicExpression" if older else f"{at}/logic"
        members.note("ignored_field", "The native policy ignores the trigger logic.", name)
    return fields


def _keywords(settings: Members, trigger: KeywordTrigger) -> dict[str, Any]:
    raw = settings.raw
    found = raw.get("key")
    if isinstance(found, list) and len(trigger.keys) < len(found):
        settings.note("wrong_type", "Keys that are not texts are ignored.", "key")
    secondary = raw.get("keysecondary")
    fields: dict[str, Any] = {
        "keys": _cut(settings, "key", trigger.keys),
        "secondary_keys": _cut(settings, "keysecondary", _texts(secondary)),
        "selective": as_flag(raw.get("selective"), default=True),
        "logic": LOGICS[trigger.logic],
        "case_sensitive": trigger.case_sensitive,
        "match_whole_words": trigger.whole_words,
    }
    names = ("selective", "case_sensitive", "match_whole_words")
    _note_odd(settings, {KEYWORD_NAMES[name]: fields[name] for name in names})
    _note_odd(settings, {KEYWORD_NAMES["logic"]: trigger.logic})
    return fields


def _texts(value: object) -> tuple[str, ...]:
    """Return keys as the policy reads them: the texts of a list, or a text split at its commas."""
    if isinstance(value, list):
        return tuple(item for item in value if isinstance(item, str))
    return as_labels(value)


def _cut(settings: Members, name: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    if len(keys) > MAX_KEYS:
        message = f"{len(keys)} keys: the first {MAX_KEYS} are used, source.raw has the rest."
        settings.note("keys_cut", message, name)
    return keys[:MAX_KEYS]


def _conditions(triggers: Triggers) -> tuple[str, ...]:
    """Return the conditions as native text if they are the entry's only trigger, else nothing.

    Next to another trigger they are one alternative of several, which native fields can't express.
    As the only trigger they mean a constant entry while all of them hold.
    """
    texts = triggers.conditions or ()
    keyword = triggers.keyword
    keyed = keyword is not None and any(key.strip() for key in keyword.keys)
    others = triggers.constant or keyed or triggers.rag or triggers.logic
    if others or len(texts) > MAX_CONDITIONS:
        return ()
    native = tuple(each for text in texts if (each := _native_text(text)) is not None)
    return native if len(native) == len(texts) else ()


def _native_text(text: str) -> str | None:
    """Return a condition as native text; None if the native policy would read it differently.

    A text that is invalid for both stays: it never holds in either, and its author can fix it.

    >>> _native_text('tb.态度 包括 "友"'), _native_text("tb.心情 = 且行且珍惜 or not")
    ('tb.态度 包括 "友"', 'tb.心情 = "且行且珍惜 or not"')
    """
    parsed = parse_condition(text)
    if isinstance(parsed, Flaw):
        unreadable = len(text) <= MAX_CHARS and isinstance(parse_expression(text), Flaw)
        return text if unreadable else None
    written = (text, write(parsed))
    return next((each for each in written if parse_expression(each) == parsed), None)


def _note_unreadable(settings: Members, texts: Sequence[str]) -> None:
    """Note the invalid conditions, which never hold."""
    listed = isinstance(settings.raw.get("conditions"), list)
    for index, text in enumerate(texts):
        parsed = parse_condition(text)
        if isinstance(parsed, Flaw):
            message = f"{v.shown(text)} is an invalid condition and never holds: {parsed.detail}."
            at = f"conditions/{index}" if listed else "variable_a"
            settings.note("condition_unreadable", message, at)
    if len(texts) > MAX_CONDITIONS:
        message = f"There are more than {MAX_CONDITIONS} conditions: they never hold."
        settings.note("condition_unreadable", message, "conditions")
