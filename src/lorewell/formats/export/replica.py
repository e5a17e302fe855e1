"""A book as the program SillyTavern_replica would hold it, in its internal form.

Core and block are what counts; raw only keeps what they leave open. An entry is read again after
each step, so that whatever was written means what the core says: that alone tells what can't be
said there, and no list of it.

Source: docs/rules/formats.md §0.2, §12; docs/rules/replica.md §1, §6.4.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from lorewell.engine.conditions import (
    And,
    Comparison,
    Flaw,
    parse_condition,
    parse_expression,
    write,
)
from lorewell.engine.matching.keys import split_regex
from lorewell.engine.replica.positions import AT_DEPTH, NOTE, SYSTEM_MESSAGE
from lorewell.engine.replica.triggers import KINDS, MAX_CONDITIONS, derive_config, read_triggers
from lorewell.engine.replica.values import as_flag, as_labels, as_uid
from lorewell.engine.sillytavern.entry.fields import LACKING, group_of, member
from lorewell.engine.sillytavern.entry.table import ROLES
from lorewell.formats.build import is_imported_id, own_id
from lorewell.formats.detect import FileKind
from lorewell.formats.losses import Losses
from lorewell.formats.replica import (
    KEPT,
    KEYWORD_NAMES,
    LOGICS,
    OTHER_POSITION,
    POSITIONS,
    block_of,
    position_of,
    read_entry,
)
from lorewell.model import BookCreate, Entry

_CONFIG: Final = "trigger_config"
_OURS: Final = "extensions/lorewell"
_OLDER: Final = frozenset(
    {"variable_a", "operator", "variable_b"}
)  # of a condition in its older form
_NUMBERS: Final = {word: number for number, word in reversed(list(enumerate(POSITIONS)))} | {
    "author_note_bottom": NOTE,
    "at_depth": AT_DEPTH,
}
# What stands elsewhere in the entry, and what says nothing to that program.
_APART: Final = frozenset({"id", "source", "sillytavern", "replica"})
_GROUPS: Final = ("group", "group_weight")  # of the block of SillyTavern; they have a place here
_RECURSION: Final = ("exclude_recursion", "prevent_recursion")
_USUAL: Final = {
    name: about.get_default(call_default_factory=True)
    for name, about in Entry.model_fields.items()
    if name not in _APART
}


class Rebuilt(NamedTuple):
    """An entry in the internal form, and the fields of ours that it can't say.

    Attributes:
        raw: those fields stand under `extensions.lorewell`, where nothing acts on them.
        unsaid: their names, in the order of our contract.
    """

    raw: dict[str, Any]
    unsaid: tuple[str, ...]


def replica_document(book: BookCreate) -> dict[str, Any]:
    """Return a book as the policy `replica` takes it: its name and its entries."""
    return {"name": book.name, "entries": [replica_entry(entry) for entry in book.entries]}


def replica_entry(entry: Entry) -> dict[str, Any]:
    """Return the entry in the internal form, as the policy `replica` reads it.

    One from a file of that program is raw in its own key order, overlaid by every value that
    differs from what raw would import to; untouched it is raw itself. Any other is written out.

    >>> raw = {"uid": "u", "content": "灯。", "key": ["灯塔"], "disable": "false"}
    >>> source = {"format": "replica", "raw": raw}
    >>> lamp = Entry(**{**read_entry(raw, "u").entry, "keys": ("灯",)})
    >>> replica_entry(lamp)
    {'uid': 'u', 'content': '灯。', 'key': ['灯'], 'disable': 'false'}
    """
    return rebuild(entry).raw


def exported_entry(entry: Entry, at: int, losses: Losses) -> dict[str, Any]:
    """Return an entry of a file of that program.

    Args:
        entry: ours.
        at: its place in our book.
        losses: takes what has no place there.
    """
    own, unsaid = rebuild(entry)
    ours = member(own, _OURS)
    for name in unsaid:
        moved = ours is not LACKING and name in ours
        value = getattr(entry, name)
        losses.add(value, "moved_to_extensions" if moved else "unsupported", "entries", at, name)
    if not came_from_replica(entry):
        _note_others(entry, at, losses)
    for name, value in (entry.replica or {}).items():
        if name not in KEPT:
            losses.add(value, "unsupported", "entries", at, "replica", name)
    return own


def _note_others(entry: Entry, at: int, losses: Losses) -> None:
    """Note what an entry of another program has and this one knows nothing like."""
    if any(split_regex(key) for key in (*entry.keys, *entry.secondary_keys)):
        losses.add(entry.keys, "unsupported", "entries", at, "keys")  # plain text there
    if entry.sillytavern is not None:
        for name, value in entry.sillytavern.model_dump(exclude_defaults=True).items():
            if name not in _GROUPS:
                losses.add(value, "unsupported", "entries", at, "sillytavern", name)
    if entry.source.get("raw") is not None:
        losses.add(entry.source["raw"], "unsupported", "entries", at, "source", "raw")


def came_from_replica(entry: Entry) -> bool:
    """Return whether the entry is from a file of that program."""
    source = entry.source
    return source.get("format") == FileKind.REPLICA and isinstance(source.get("raw"), Mapping)


def rebuild(entry: Entry) -> Rebuilt:
    """Return the entry in the internal form, and what of it stands there without effect."""
    known = came_from_replica(entry)
    own = dict(entry.source["raw"]) if known else _blank(entry)
    told = entry.source.get("key")
    name = told if known and isinstance(told, str) else None  # under which it stood in a map
    if name is not None and as_uid(own.get("uid")) is None:
        own["uid"] = name
    _overlay_block(own, entry, block_of(own) if known else {})
    meant = _meant(own, entry)
    for step in _STEPS:
        changed = {name for name in step.names if getattr(entry, name) != meant[name]}
        if changed:
            step.write(own, entry, changed)
            meant = _meant(own, entry)
    if not known:  # that program has no recursion: neither value says anything there
        meant |= {name: getattr(entry, name) for name in _RECURSION}
    meant["requires"] = entry.requires  # an import leaves them to the block
    if meant["conditions_text"] and meant["conditions_text"] == _conditions(entry):
        meant["conditions_text"] = entry.conditions_text  # the same, one by one
    if _is_keyless(own, entry):
        meant |= {name: getattr(entry, name) for name in KEYWORD_NAMES}
    unsaid = tuple(name for name in _USUAL if getattr(entry, name) != meant[name])
    if unsaid and isinstance(own.get("extensions", {}), Mapping):
        plain = entry.model_dump(mode="json", include=set(unsaid))
        for name in unsaid:
            _put(own, f"{_OURS}/{name}", plain[name])
    if known and not is_imported_id(entry.id, own_id(own) or name):
        own["uid"] = entry.id
    return Rebuilt(own, unsaid)


def _meant(own: Mapping[str, Any], entry: Entry) -> dict[str, Any]:
    """Return what an import makes of the entry, field for field."""
    return _USUAL | read_entry(own, entry.id).entry


def _blank(entry: Entry) -> dict[str, Any]:
    """Return an entry of the internal form that leaves nothing out and says nothing yet."""
    own: dict[str, Any] = {
        "uid": entry.id,
        "content": "",
        "comment": "",
        "position": 0,
        "order": 100,
        "disable": False,
        _CONFIG: {
            "triggers": {
                "constant": [False, None],
                "keyword": [
                    False,
                    {
                        "key": [],
                        "keysecondary": [],
                        "selective": False,
                        "selectiveLogic": 0,
                        "matchWholeWords": False,
                        "caseSensitive": False,
                    },
                ],
                "condition": [False, {"conditions": []}],
                "rag": [False, {"threshold": 0.75, "top_k": 5, "query_template": None}],
            }
        },
        "probability": 100,
        "depth": 4,
        "role": 0,
        "group": None,
    }
    block = entry.sillytavern
    if block is not None and as_labels(block.group):
        own["group"] = list(as_labels(block.group))
    if block is not None and block.group_weight != type(block)().group_weight:
        own["groupWeight"] = block.group_weight
    return own


def _overlay_block(own: dict[str, Any], entry: Entry, before: Mapping[str, Any]) -> None:
    """Put in what the block says, where that is not what it said before."""
    now = entry.replica or {}
    for name in KEPT:
        value = now.get(name, LACKING)
        if value == before.get(name, LACKING):
            continue
        if value is LACKING:
            del own[name]
        else:
            own[name] = value


class _Step(NamedTuple):
    """Fields that are written together."""

    names: tuple[str, ...]
    write: Callable[[dict[str, Any], Entry, Collection[str]], None]


def _write_switches(own: dict[str, Any], entry: Entry, changed: Collection[str]) -> None:
    """Write whether the entry is constant, and its conditions.

    Triggers are alternatives there. So conditions can be said where they are all that makes the
    entry active; those that stand beside other triggers are not the core's, and stay.
    """
    texts = _conditions(entry)
    if own.get(_CONFIG) is None:
        if not texts:
            if "constant" in changed:
                _write_older_constant(own, constant=entry.constant)
            return
        own[_CONFIG] = derive_config(own)
    had_texts = bool(_meant(own, entry)["conditions_text"])
    if not texts:
        if had_texts:
            _switch(own, "condition", on=False)
        _switch(own, "constant", on=entry.constant)
        if "constant" in own:
            own["constant"] = entry.constant
        return
    if not had_texts:
        for kind in KINDS:
            _switch(own, kind, on=False)
    kept = {name: each for name, each in _settings(own, "condition").items() if name not in _OLDER}
    listed = [{"text": text} for text in texts]
    _switch(own, "condition", on=True, settings={**kept, "conditions": listed})


def _write_older_constant(own: dict[str, Any], *, constant: bool) -> None:
    if constant:
        kind = own.get("activationType")
        name, value = ("constant", True) if kind is None else ("activationType", "permanent")
        own[name] = value
        return
    if own.get("activationType") == "permanent":
        own["activationType"] = "keyword"
    if as_flag(own.get("constant")):
        own["constant"] = False


def _conditions(entry: Entry) -> tuple[str, ...]:
    """Return the conditions in that program's words; nothing where they can't be said there."""
    told: list[str] = []
    for text in entry.conditions_text if entry.constant else ():
        parts = _condition_texts(text)
        if not parts:
            return ()
        told += parts
    return tuple(told) if len(told) <= MAX_CONDITIONS else ()


def _condition_texts(text: str) -> list[str]:
    """Return the conditions that a text joins by and; none if it holds anything else.

    >>> _condition_texts("tb.力量≥10 且 tb.态度=友好"), _condition_texts("not tb.力量 = 1")
    (['tb.力量 >= 10', 'tb.态度 = "友好"'], [])
    """
    parsed = parse_expression(text)
    if isinstance(parsed, Flaw):  # what neither can read never holds in both
        return [text] if isinstance(parse_condition(text), Flaw) else []
    if parse_condition(text) == parsed:
        return [text]
    parts = parsed.parts if isinstance(parsed, And) else (parsed,)
    written = [write(part) for part in parts if isinstance(part, Comparison)]
    return written if tuple(map(parse_condition, written)) == parts else []


def _switch(
    own: dict[str, Any], kind: str, *, on: bool, settings: Mapping[str, Any] | None = None
) -> None:
    """Switch a trigger on or off, with other settings if they are given."""
    config = own.get(_CONFIG)
    config = dict(config) if isinstance(config, Mapping) else {}
    pairs = config.get("triggers")
    pairs = dict(pairs) if isinstance(pairs, Mapping) else {}
    pair = pairs.get(kind)
    parts = list(pair) if isinstance(pair, list) and pair else [None, None]
    if not on and parts[0] is not True:
        return
    before = parts[1] if len(parts) > 1 and isinstance(parts[1], Mapping) else None
    pairs[kind] = [on, before if settings is None else dict(settings), *parts[2:]]
    own[_CONFIG] = {**config, "triggers": pairs}


def _settings(own: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    pair = member(own, f"{_CONFIG}/triggers/{kind}")
    settings = pair[1] if isinstance(pair, list) and len(pair) > 1 else None
    return settings if isinstance(settings, Mapping) else {}


def _write_keywords(own: dict[str, Any], entry: Entry, _changed: Collection[str]) -> None:
    """Write the keys; not where conditions are to hold, as they would be another way in."""
    if _conditions(entry) or _is_keyless(own, entry):
        return
    if own.get(_CONFIG) is None and not _has_keyword(own):  # older entries have one kind of trigger
        own[_CONFIG] = derive_config(own)
    if own.get(_CONFIG) is not None:
        _switch(own, "keyword", on=True, settings=_settings(own, "keyword"))
    meant = _meant(own, entry)
    values = {
        KEYWORD_NAMES[name]: _written(name, getattr(entry, name))
        for name in KEYWORD_NAMES
        if getattr(entry, name) != meant[name]
    }
    if own.get(_CONFIG) is None:
        own.update(values)
        return
    _switch(own, "keyword", on=True, settings={**_settings(own, "keyword"), **values})
    own.update({name: value for name, value in values.items() if name in own})


def _has_keyword(own: Mapping[str, Any]) -> bool:
    config = own.get(_CONFIG)
    config = derive_config(own) if config is None else config
    return isinstance(config, Mapping) and read_triggers(config).keyword is not None


def _is_keyless(own: Mapping[str, Any], entry: Entry) -> bool:
    """Return whether there are no keys on either side, so that nothing about keys matters."""
    return not entry.keys and not entry.secondary_keys and not _has_keyword(own)


def _written(name: str, value: Any) -> Any:  # noqa: ANN401  each field has its own type
    if name == "logic":
        return LOGICS.index(value)
    return list(value) if isinstance(value, tuple) else value


def _write_position(own: dict[str, Any], entry: Entry, changed: Collection[str]) -> None:
    """Write the position; a message of its own at the start says its depth and role, too."""
    number = position_of(own)
    if "position" not in changed and number != SYSTEM_MESSAGE:
        return
    if number != _NUMBERS[entry.position]:
        own["position"] = _NUMBERS[entry.position]
    if member(own, OTHER_POSITION) is not LACKING:
        ours = own["extensions"]["lorewell"]
        kept = {name: each for name, each in ours.items() if name != "position"}
        own["extensions"] = {**own["extensions"], "lorewell": kept}


def _write_rest(own: dict[str, Any], entry: Entry, changed: Collection[str]) -> None:
    for name in changed:
        match name:
            case "title":
                own["comment"] = entry.title
            case "enabled":
                own["disable"] = not entry.enabled
            case "role":
                own["role"] = ROLES.index(entry.role)
            case "conflict_key":
                key = entry.conflict_key
                own["group"] = None if key is None else [group_of(key) or key]
            case "requires":
                own["requires"] = _joined(own.get("requires"), entry.requires)
            case _:
                own[name] = getattr(entry, name)


def _joined(before: object, uids: Sequence[str]) -> list[object]:
    """Return what an entry requires: what it did, which our core does not say, and what it says."""
    listed = before if isinstance(before, list) else [before] if before else []
    return [*listed, *(uid for uid in uids if uid not in listed)]


_STEPS: Final = (
    _Step(("constant", "conditions_text"), _write_switches),
    _Step(tuple(KEYWORD_NAMES), _write_keywords),
    _Step(("position", "depth", "role"), _write_position),
    _Step(
        (
            *("title", "content", "enabled", "order", "probability", "depth", "role"),
            *("conflict_key", "requires"),
        ),
        _write_rest,
    ),
)


def _put(own: dict[str, Any], path: str, value: object) -> None:
    """Set a member; objects on the way are copied, as they may be raw's own."""
    *steps, last = path.split("/")
    for step in steps:
        below = own.get(step)
        own[step] = dict(below) if isinstance(below, Mapping) else {}
        own = own[step]
    own[last] = value
