"""World files of the program SillyTavern_replica (docs/rules/formats.md §12).

Values mean here what they mean under the policy `replica`, as its own readers read them. The core
takes what it can say of an entry: keys, constant, conditions that stand alone, position. Further
triggers, groups, requirements and the position's own number stay in the block `replica`.
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

# By their numbers; SillyTavern swaps the first two and counts the others otherwise. The sixth is a
# message of its own. Source: docs/rules/formats.md §12, the way back to SillyTavern.
POSITIONS: Final = (
    *("after_character", "before_character", "before_examples", "after_examples"),
    *("author_note_top", "at_depth", "at_depth", "outlet"),
)
# Its own order, not SillyTavern's. Source: docs/rules/replica.md §4.2.
LOGICS: Final = ("and_any", "and_all", "not_any", "not_all")
# Where a keyword trigger has what our fields say.
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
# Which of two author's notes an entry of another program went to: here there is one.
OTHER_POSITION: Final = "extensions/lorewell/position"
# The members of the block.
KEPT: Final = (
    *("trigger_config", "group", "groupWeight", "requires", "position"),
    *("activationType", "logicExpression", "ragConfig"),
)
_COPIES: Final = (*KEYWORD_NAMES.values(), "constant")  # older members; a newer one beats them
_TRIGGERS_AT: Final = "trigger_config/triggers"
_MAX_BLOCK_BYTES: Final = 64 * 1024  # docs/rules/native.md §3.2
_USUAL_WEIGHTS: Final = (None, 100)
_DEPTH: Final = v.integer(0, MAX_DEPTH)


def read(document: Mapping[str, Any], notes: ImportNotes) -> Lorebook:
    """Return the world; its entries are a list, or a map by uid.

    In a map, entries without a trigger of their own have SillyTavern's numbers, which are
    translated; what comes out of it is a list again.
    """
    entries = document.get("entries")
    is_map = isinstance(entries, dict)
    if isinstance(entries, dict) and len(entries) <= MAX_ENTRIES:  # else it is refused
        notes.add("entries_map", "entries: is an object, not a list; its members are read")
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
    """Return an entry of a map in the internal form, but for its uid: that may be its name."""
    found = from_sillytavern(raw, uid="")
    uid = {"uid": raw["uid"]} if "uid" in raw else {}
    return {name: value for name, value in found.items() if name != "uid" or uid} | uid


def read_entry(raw: Mapping[str, Any], entry_id: str, steps: Steps | None = None) -> ImportedEntry:
    """Return an entry of the internal form as one of ours, and what is to be said of it.

    Without `steps` the work is not bounded.
    """
    members = Members(raw, Steps(UNCOUNTED) if steps is None else steps)
    normal, odd = normalise(raw, uid=entry_id)
    triggers = read_triggers(normal.config)
    if any(each.code == "trigger_broken" for each in odd):
        members.note("trigger_broken", "There are no triggers: none counts.", "trigger_config")
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
    meant: dict[str, str | float] = {
        "content": normal.content,
        "disable": normal.disable,
        "order": normal.order,
        "probability": normal.probability,
    }
    _note_odd(members, meant)
    if normal.requires:
        message = "What it requires is not brought in under the native policy."
        members.note("ignored_field", message, "requires")
    if normal.group and raw.get("groupWeight") not in _USUAL_WEIGHTS:
        message = "The native policy knows no weights in a group."
        members.note("group_weight_ignored", message, "groupWeight")
    members.know(*KEPT, *_COPIES, *meant, "depth", "role")
    return members.made(entry_id, FileKind.REPLICA, fields)


def block_of(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the core can't say of an entry, as it is in the file; nothing if too large."""
    block = {name: raw[name] for name in KEPT if name in raw}
    if not _may_fit(block):
        return {}
    return block if len(canonical_json(block)) <= _MAX_BLOCK_BYTES else {}


def _may_fit(block: Mapping[str, Any]) -> bool:
    """Return False for a block of which a few members show that it is too large."""
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
        message = "The triggers are too large for the block; kept in source.raw alone."
        members.note("not_kept", message, "trigger_config")
    return block or None


def _bounded(members: Members, name: str, reader: v.Reader, value: int) -> Any:  # noqa: ANN401
    """Return a number within the bounds of the core."""
    notes = v.RepairNotes()
    bounded = reader(value, notes)
    for repair in notes.repairs:
        members.note(repair.code, repair.message, name)
    return bounded


def _note_odd(members: Members, meant: Mapping[str, str | float]) -> None:
    """Note which members are not of the form that they should have, and what they count as."""
    for name, value in meant.items():
        found = members.raw.get(name)
        if found is None or (type(found) is type(value) and found == value):
            continue
        code = _oddity(found, value)
        if code:
            members.note(code, f"{v.shown(found)} counts as {v.shown(value)}.", name)


def _oddity(found: object, meant: str | float) -> str | None:
    """Return the word for a value that counts as another one; None if both are the same number."""
    kind = "text" if isinstance(found, str) else "number"
    plain = isinstance(found, str | int | float) and not isinstance(found, bool)
    if isinstance(meant, bool):
        return f"flag_from_{kind}" if plain else "wrong_type"
    if isinstance(meant, str):
        return "text_from_number" if plain else "wrong_type"
    number = as_number(found)
    if number is not None and number == meant:
        return "number_from_text" if kind == "text" else None
    beyond = number is not None and (number < meant == 0 or number > meant == CERTAIN)
    return "clamped" if beyond else "wrong_type"


def _placed(members: Members, normal: NormalEntry, entry_id: str) -> dict[str, Any]:
    """Return where the entry goes: position, depth, role, and the outlet named by its uid."""
    raw, number = members.raw, normal.position
    if "position" in raw and position_of(raw) is None:
        message = f"{v.shown(raw['position'])} is none of 0 to 7; it counts as 0."
        members.note("wrong_type", message, "position")
    position = POSITIONS[number]
    if number == SYSTEM_MESSAGE:
        members.note("position_changed", "A system message of its own goes to depth 0.", "position")
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
    """Return the number of an entry's position, given as a number or a word; None if it is none."""
    value = raw.get("position")
    number = BY_WORD.get(value) if isinstance(value, str) else None
    number = as_integer(value) if number is None else number
    return number if number in range(len(POSITIONS)) else None


def _conflict_key(members: Members, group: Sequence[str]) -> str | None:
    found = members.raw.get("group")
    if found is not None and not isinstance(found, str | list):
        members.note("wrong_type", f"{v.shown(found)} is no list of groups.", "group")
    if len(group) > 1:
        members.note("several_groups", "The entry is in several groups: none counts.", "group")
    if len(group) != 1:
        return None
    key = conflict_key(group[0])
    if key is None:
        members.note("group_too_long", "The group has a name that can't be said here.", "group")
    return key


def _triggered(members: Members, triggers: Triggers) -> dict[str, Any]:
    """Return keys, constant and conditions; note what of the triggers has no effect here."""
    at = _TRIGGERS_AT
    older = members.raw.get("trigger_config") is None
    for flaw in triggers.broken:
        kind = flaw.partition(" ")[0]
        named = kind in KINDS and not older
        name = f"{at}/{kind}" if named else ("" if older else "trigger_config")
        members.note("trigger_broken", f"Of the triggers {flaw}: it is off.", name)

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
            settings.note("ignored_field", "The conditions have no effect here.", "")
        _note_unreadable(settings, triggers.conditions)
    if triggers.rag is not None:
        settings = members.within({}, "ragConfig") if older else within("rag")
        settings.note("ignored_field", "The trigger by likeness (rag) has no effect.", "")
    if triggers.logic is not None:
        name = "logicExpression" if older else f"{at}/logic"
        members.note("ignored_field", "The trigger by an expression has no effect.", name)
    return fields


def _keywords(settings: Members, trigger: KeywordTrigger) -> dict[str, Any]:
    raw = settings.raw
    found = raw.get("key")
    if isinstance(found, list) and len(trigger.keys) < len(found):
        settings.note("wrong_type", "What is no text is no key.", "key")
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
    """Return keys as the policy reads them: a list's texts, or what a text's commas part."""
    if isinstance(value, list):
        return tuple(item for item in value if isinstance(item, str))
    return as_labels(value)


def _cut(settings: Members, name: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    if len(keys) > MAX_KEYS:
        message = f"{len(keys)} keys: the first {MAX_KEYS} count, the rest stay in source.raw."
        settings.note("keys_cut", message, name)
    return keys[:MAX_KEYS]


def _conditions(triggers: Triggers) -> tuple[str, ...]:
    """Return the conditions in our words, if they alone make the entry active; else nothing.

    Beside another trigger they are one way among several, which our fields can't say. All that
    hold together are one: an entry that is constant as long as they hold.
    """
    texts = triggers.conditions or ()
    keyword = triggers.keyword
    keyed = keyword is not None and any(key.strip() for key in keyword.keys)
    others = triggers.constant or keyed or triggers.rag or triggers.logic
    if others or len(texts) > MAX_CONDITIONS:
        return ()
    told = tuple(said for text in texts if (said := _native_text(text)) is not None)
    return told if len(told) == len(texts) else ()


def _native_text(text: str) -> str | None:
    """Return a condition as the native policy reads it, None if it would mean something else.

    A text that neither can read stays, as it never holds in both and a person can mend it.

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
    """Note which conditions can't be read: those are false, and never run."""
    listed = isinstance(settings.raw.get("conditions"), list)
    for index, text in enumerate(texts):
        parsed = parse_condition(text)
        if isinstance(parsed, Flaw):
            message = f"{v.shown(text)} is no condition, and so false: {parsed.detail}."
            at = f"conditions/{index}" if listed else "variable_a"
            settings.note("condition_unreadable", message, at)
    if len(texts) > MAX_CONDITIONS:
        message = f"There are more than {MAX_CONDITIONS} conditions: they count as false."
        settings.note("condition_unreadable", message, "conditions")
