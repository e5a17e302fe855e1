"""World files of the program SillyTavern_replica (spec/formats.md §12).

The core takes what it can say of an entry: keys, constant, position. Conditions and the other
triggers, the groups and the position's own number stay in the block `replica`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from lorewell.engine.sillytavern import Imported, values as v
from lorewell.engine.sillytavern.fields import member
from lorewell.engine.sillytavern.table import MAX_DEPTH, MAX_OUTLET_CHARS, ROLES
from lorewell.formats.detect import Kind
from lorewell.formats.lorebook import Lorebook
from lorewell.formats.members import LEVEL, PERCENT, Members, comma_list, conflict_key
from lorewell.formats.notes import Notes
from lorewell.model.text import canonical_json, is_blank

_USUAL_DEPTH: Final = 4
_SYSTEM_MESSAGE: Final = 5
# By their numbers; SillyTavern swaps the first two and counts the others otherwise. The sixth is a
# message of its own. Source: spec/formats.md §12, the way back to SillyTavern.
_POSITIONS: Final = (
    *("after_character", "before_character", "before_examples", "after_examples"),
    *("author_note_top", "at_depth", "at_depth", "outlet"),
)
_WORDS: Final = {
    "after_char": 0,
    "before_char": 1,
    "before_example": 2,
    "after_example": 3,
    "author_note": 4,
    "system_prompt": _SYSTEM_MESSAGE,
    "at_depth": 6,
}
# Its own order, not SillyTavern's. Source: spec/replica.md §4.2.
_LOGICS: Final = ("and_any", "and_all", "not_any", "not_all")
_LOGIC: Final = v.choice(_LOGICS, {word: word for word in _LOGICS})
_ROLE: Final = v.choice(ROLES, {word: word for word in ROLES})
_DEPTH: Final = v.integer(0, MAX_DEPTH)
_OPERATORS: Final = frozenset(
    [
        *("等于", "大于", "小于", "不小于", "不大于", "不等于", "包括"),
        *("=", "==", "!=", ">", "<", ">=", "<="),
    ]
)
_LOGIC_OPERATORS: Final = frozenset(
    ["equals", "not_equals", "contains", "not_contains", "greater", "less"]
)
_WIDE: Final = str.maketrans(
    {"＞": ">", "＜": "<", "＝": "=", "≥": ">=", "≤": "<=", "“": '"', "”": '"'}
)
_KINDS: Final = ("constant", "keyword", "condition", "rag")
_OLDER_KINDS: Final = ("permanent", "keyword", "logic", "rag")
_NUMBER: Final = r"[+-]?[0-9]+(?:\.[0-9]+)?"
_QUOTED: Final = r'"[^"]*"'
_CONDITION: Final = re.compile(
    rf"tb\.[^\s<>=!][^<>=!]*?\s*"
    rf"(?:[<>]=?\s*{_NUMBER}|(?:[=!]=|=)\s*(?:{_NUMBER}|{_QUOTED})|包括\s*{_QUOTED})"
)
_MAX_CONDITION_CHARS: Final = 500
_MAX_BLOCK_BYTES: Final = 64 * 1024  # spec/native.md §3.2
_KEPT: Final = (
    *("trigger_config", "group", "position"),
    *("activationType", "logicExpression", "ragConfig"),
)


class _Trigger(NamedTuple):
    """One kind of trigger of an entry: whether it is switched on, and its settings."""

    on: bool
    settings: Members


def read(document: Mapping[str, Any], _notes: Notes) -> Lorebook:
    """Return the world; its entries are a list, or a map by uid."""
    return Lorebook(
        format=Kind.REPLICA,
        source_format=Kind.REPLICA,
        form="world_info",
        book=document,
        read_entry=_read,
    )


def _read(raw: Mapping[str, Any], entry_id: str) -> Imported:
    members = Members(raw)
    constant, keyword, condition, rag = _triggers(members)
    fields: dict[str, Any] = {
        "title": members.title("comment"),
        "content": members.content("content"),
        "enabled": not members.flag("disable"),
        "constant": constant.on,
        "order": members.read(LEVEL, 0, "order"),
        "probability": members.read(PERCENT, 100, "probability"),
        **_placed(members, entry_id),
    }
    if keyword.on:
        fields |= _keywords(keyword.settings)
    if condition.on:
        _note_conditions(condition.settings)
    if rag.on:
        rag.settings.note("ignored_field", "The trigger by likeness (rag) has no effect.", "")
    groups = members.read(comma_list, (), "group")
    if len(groups) == 1:
        fields["conflict_key"] = conflict_key(groups[0])
    elif groups:
        members.note("several_groups", "The entry is in several groups: none counts.")
    members.note_lost({"requires": ([],)})
    fields["replica"] = _block(members)
    members.know(*_KEPT)
    return members.made(entry_id, Kind.REPLICA, fields)


def _block(members: Members) -> dict[str, Any] | None:
    """Return what the core can't say, as it is in the file."""
    block = {name: members.raw[name] for name in _KEPT if name in members.raw}
    if len(canonical_json(block)) > _MAX_BLOCK_BYTES:
        message = "The triggers are too large for the block; kept in source.raw alone."
        members.note("not_kept", message, "trigger_config")
        return None
    return block or None


def _placed(members: Members, entry_id: str) -> dict[str, Any]:
    """Return where the entry goes: position, depth, role, and the outlet named by its uid."""
    number: int = members.read(_position, 0, "position")
    fields = {
        "position": _POSITIONS[number],
        "depth": members.read(_DEPTH, _USUAL_DEPTH, "depth"),
        "role": members.read(_ROLE, ROLES[0], "role"),
    }
    if number == _SYSTEM_MESSAGE:
        fields |= {"depth": 0, "role": ROLES[0]}
        members.note("position_changed", "A system message of its own goes to depth 0.", "position")
    if fields["position"] == "outlet":
        fields["outlet_name"] = entry_id[:MAX_OUTLET_CHARS]
    return fields


def _position(value: object, _notes: v.Notes) -> int:
    """Return a position's number; a word of SillyTavern's stands for one."""
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    found = v.integer(-1, len(_POSITIONS))(value, v.Notes())
    if not isinstance(found, int) or found not in range(len(_POSITIONS)):
        raise v.MisfitError
    return found


def _triggers(members: Members) -> list[_Trigger]:
    """Return the triggers in the order of their kinds; a broken one is off."""
    if members.raw.get("trigger_config") is None:
        return _older_triggers(members)
    at = "trigger_config/triggers"
    found = member(members.raw, at)
    if not isinstance(found, Mapping):
        members.note("trigger_broken", "There are no triggers: none counts.", "trigger_config")
        found = {}
    return [_trigger(members, found.get(kind), f"{at}/{kind}") for kind in _KINDS]


def _trigger(members: Members, pair: object, at: str) -> _Trigger:
    """Return the trigger that a pair of switch and settings tells; a missing one is off."""
    parts = pair if isinstance(pair, list) else []
    on = parts[0] if parts else None
    if pair is not None and not isinstance(on, bool):
        members.note("trigger_broken", "This is no switch with settings: it is off.", at)
    settings = parts[1] if len(parts) > 1 and isinstance(parts[1], Mapping) else {}
    return _Trigger(on is True, members.within(settings, f"{at}/1"))


def _older_triggers(members: Members) -> list[_Trigger]:
    """Return the one trigger of an entry that has no `trigger_config`."""
    kind = members.raw.get("activationType")
    if kind not in _OLDER_KINDS:
        kind = "permanent" if members.flag("constant") else "keyword"
    return [_Trigger(kind == older, members) for older in _OLDER_KINDS]


def _keywords(settings: Members) -> dict[str, Any]:
    return {
        "keys": settings.keys("key", reader=comma_list),
        "secondary_keys": settings.keys("keysecondary", reader=comma_list),
        "selective": settings.flag("selective", default=True),
        "logic": settings.read(_LOGIC, _LOGICS[0], "selectiveLogic"),
        "case_sensitive": settings.flag("caseSensitive"),
        "match_whole_words": settings.flag("matchWholeWords"),
    }


def _note_conditions(settings: Members) -> None:
    """Note that conditions are kept, and which can't be read: those are false, and never run."""
    listed = settings.raw.get("conditions")
    older = settings.raw.get("logicExpression")
    settings.note("ignored_field", "Conditions have no effect under the native policy.", "")
    if isinstance(listed, list):
        for index, item in enumerate(listed):
            text = item.get("text") if isinstance(item, Mapping) else item
            if not _is_condition(text):
                _note_unreadable(settings, text, f"conditions/{index}")
    elif "variable_a" in settings.raw:
        if not _is_triple(settings.raw, "variable_a", _OPERATORS):
            _note_unreadable(settings, settings.raw, "variable_a")
    elif not _is_triple(older, "variable1", _LOGIC_OPERATORS):
        _note_unreadable(settings, older, "logicExpression")


def _note_unreadable(settings: Members, condition: object, at: str) -> None:
    shown = v.shown(condition if isinstance(condition, str | None) else {})
    settings.note("condition_unreadable", f"{shown} is no condition; it counts as false.", at)


def _is_condition(text: object) -> bool:
    r"""Return whether a text is a condition.

    >>> (
    ...     _is_condition("tb.力量 > 10"),
    ...     _is_condition('tb.态度 包括 "友好"'),
    ...     _is_condition("rm -rf /"),
    ... )
    (True, True, False)

    Source: spec/formats.md §12; spec/replica.md §4.3 for the bound.
    """
    if not isinstance(text, str) or len(text) > _MAX_CONDITION_CHARS:
        return False
    return _CONDITION.fullmatch(text.translate(_WIDE).strip()) is not None


def _is_triple(found: object, variable: str, operators: frozenset[str]) -> bool:
    """Return whether an older condition names a variable and one of the operators."""
    if not isinstance(found, Mapping):
        return False
    name, operator = found.get(variable), found.get("operator")
    named = isinstance(name, str) and not is_blank(name)
    return named and isinstance(operator, str) and operator in operators
