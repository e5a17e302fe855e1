"""Exports a book in SillyTavern_replica's internal form.

Native fields and the block `replica` win over `source.raw`. After each step the entry is imported
again and compared with the native one. So the values that the format can't hold are found without
a list of them.

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
from lorewell.engine.sillytavern.entry.fields import INHERITED, LACKING, group_of, member
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
# Fields that are exported separately, or mean nothing to SillyTavern_replica.
_APART: Final = frozenset({"id", "source", "sillytavern", "replica"})
_GROUPS: Final = ("group", "group_weight")  # of the block `sillytavern`; these can be exported
_RECURSION: Final = ("exclude_recursion", "prevent_recursion")
_USUAL: Final = {
    name: about.get_default(call_default_factory=True)
    for name, about in Entry.model_fields.items()
    if name not in _APART
}


class Rebuilt(NamedTuple):
    """An entry in the internal form.

    Attributes:
        raw: the entry; native fields that the form can't hold are under `extensions.lorewell`.
        lost: names of these fields, in the order of the contract.
    """

    raw: dict[str, Any]
    lost: tuple[str, ...]


def replica_document(book: BookCreate) -> dict[str, Any]:
    """Return the name and the entries of a book, as the policy `replica` reads them."""
    return {"name": book.name, "entries": [replica_entry(entry) for entry in book.entries]}


def replica_entry(entry: Entry) -> dict[str, Any]:
    """Return the entry in the internal form, as the policy `replica` reads it.

    An entry imported from this format is its raw object, in the same order, overlaid by the values
    that were changed. Any other entry is written in full.

    >>> raw = {"uid": "u", "content": "灯。", "key": ["灯塔"], "disable": "false"}
    >>> source = {"format": "replica", "raw": raw}
    >>> lamp = Entry(**{**read_entry(raw, "u").entry, "keys": ("灯",)})
    >>> replica_entry(lamp)
    {'uid': 'u', 'content': '灯。', 'key': ['灯'], 'disable': 'false'}
    """
    return rebuild(entry).raw


def exported_entry(entry: Entry, at: int, losses: Losses) -> dict[str, Any]:
    """Return an entry for a file of SillyTavern_replica.

    Args:
        entry: the native entry.
        at: its index in the book.
        losses: collects the values that the format can't hold.
    """
    own, lost = rebuild(entry)
    ours = member(own, _OURS)
    for name in lost:
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
    """Note the values of another program's entry that SillyTavern_replica has no equivalent of."""
    if any(split_regex(key) for key in (*entry.keys, *entry.secondary_keys)):
        losses.add(entry.keys, "unsupported", "entries", at, "keys")  # plain text there
    if entry.sillytavern is not None:
        for name, value in entry.sillytavern.model_dump(exclude_defaults=True).items():
            if name not in _GROUPS:
                losses.add(value, "unsupported", "entries", at, "sillytavern", name)
    if entry.source.get("raw") is not None:
        losses.add(entry.source["raw"], "unsupported", "entries", at, "source", "raw")


def came_from_replica(entry: Entry) -> bool:
    """Return whether the entry was imported from a file of SillyTavern_replica."""
    source = entry.source
    return source.get("format") == FileKind.REPLICA and isinstance(source.get("raw"), Mapping)


def rebuild(entry: Entry) -> Rebuilt:
    """Return the entry in the internal form, with the fields that the form can't hold."""
    known = came_from_replica(entry)
    flags = {name: bool(getattr(entry, name)) for name in INHERITED}  # never null in this format
    entry = entry.model_copy(update=flags)
    own = dict(entry.source["raw"]) if known else _blank(entry)
    key = entry.source.get("key")
    name = key if known and isinstance(key, str) else None  # the entry's key in its map
    if name is not None and as_uid(own.get("uid")) is None:
        own["uid"] = name
    _overlay_block(own, entry, block_of(own) if known else {})
    imported = _imported(own, entry)
    for step in _STEPS:
        changed = {name for name in step.names if getattr(entry, name) != imported[name]}
        if changed:
            step.write(own, entry, changed)
            imported = _imported(own, entry)
    if not known:  # SillyTavern_replica has no recursion, so these values lose nothing
        imported |= {name: getattr(entry, name) for name in _RECURSION}
    imported["requires"] = entry.requires  # an import leaves them to the block
    if imported["conditions_text"] and imported["conditions_text"] == _conditions(entry):
        imported["conditions_text"] = entry.conditions_text  # the same ones, split into parts
    if _is_keyless(own, entry):
        imported |= {name: getattr(entry, name) for name in KEYWORD_NAMES}
    lost = tuple(name for name in _USUAL if getattr(entry, name) != imported[name])
    if lost and isinstance(own.get("extensions", {}), Mapping):
        plain = entry.model_dump(mode="json", include=set(lost))
        for name in lost:
            _put(own, f"{_OURS}/{name}", plain[name])
    if known and not is_imported_id(entry.id, own_id(own) or name):
        own["uid"] = entry.id
    return Rebuilt(own, lost)


def _imported(own: Mapping[str, Any], entry: Entry) -> dict[str, Any]:
    """Return the fields of the entry that an import of `own` gives."""
    return _USUAL | read_entry(own, entry.id).entry


def _blank(entry: Entry) -> dict[str, Any]:
    """Return an entry of the internal form with all members, and defaults for most."""
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
    """Write the members of the block that differ from those in the file."""
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
    """Fields that are written together, and the function that writes them."""

    names: tuple[str, ...]
    write: Callable[[dict[str, Any], Entry, Collection[str]], None]


def _write_switches(own: dict[str, Any], entry: Entry, changed: Collection[str]) -> None:
    """Write whether the entry is constant, and its conditions.

    Triggers are alternatives in this format. So native conditions can be written only if they are
    the entry's only trigger; conditions next to other triggers are not native ones, and stay.
    """
    texts = _conditions(entry)
    if own.get(_CONFIG) is None:
        if not texts:
            if "constant" in changed:
                _write_older_constant(own, constant=entry.constant)
            return
        own[_CONFIG] = derive_config(own)
    had_texts = bool(_imported(own, entry)["conditions_text"])
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
    """Return the conditions in SillyTavern_replica's syntax; none if it can't express them."""
    texts: list[str] = []
    for text in entry.conditions_text if entry.constant else ():
        parts = _condition_texts(text)
        if not parts:
            return ()
        texts += parts
    return tuple(texts) if len(texts) <= MAX_CONDITIONS else ()


def _condition_texts(text: str) -> list[str]:
    """Return the comparisons that a text joins by `and`; none if it holds anything else.

    >>> _condition_texts("tb.力量≥10 且 tb.态度=友好"), _condition_texts("not tb.力量 = 1")
    (['tb.力量 >= 10', 'tb.态度 = "友好"'], [])
    """
    parsed = parse_expression(text)
    if isinstance(parsed, Flaw):  # a text that is invalid for both never holds in either
        return [text] if isinstance(parse_condition(text), Flaw) else []
    if parse_condition(text) == parsed:
        return [text]
    parts = parsed.parts if isinstance(parsed, And) else (parsed,)
    written = [write(part) for part in parts if isinstance(part, Comparison)]
    return written if tuple(map(parse_condition, written)) == parts else []


def _switch(
    own: dict[str, Any], kind: str, *, on: bool, settings: Mapping[str, Any] | None = None
) -> None:
    """Switch a trigger on or off; `settings` replace its settings if given."""
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
    """Write the keys, unless the entry has conditions: keys would be an alternative to them."""
    if _conditions(entry) or _is_keyless(own, entry):
        return
    if own.get(_CONFIG) is None and not _has_keyword(own):  # older entries have a single trigger
        own[_CONFIG] = derive_config(own)
    if own.get(_CONFIG) is not None:
        _switch(own, "keyword", on=True, settings=_settings(own, "keyword"))
    imported = _imported(own, entry)
    values = {
        KEYWORD_NAMES[name]: _to_json(name, getattr(entry, name))
        for name in KEYWORD_NAMES
        if getattr(entry, name) != imported[name]
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
    """Return whether neither entry has keys, so that settings of keys don't matter."""
    return not entry.keys and not entry.secondary_keys and not _has_keyword(own)


def _to_json(name: str, value: Any) -> Any:  # noqa: ANN401  each field has its own type
    if name == "logic":
        return LOGICS.index(value)
    return list(value) if isinstance(value, tuple) else value


def _write_position(own: dict[str, Any], entry: Entry, changed: Collection[str]) -> None:
    """Write the position; a separate system message has no other depth or role."""
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
    """Return the requirements in the file, followed by the native ones that it lacks."""
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
    """Set a member; objects on the way are copied, as `source.raw` may share them."""
    *steps, last = path.split("/")
    for step in steps:
        below = own.get(step)
        own[step] = dict(below) if isinstance(below, Mapping) else {}
        own = own[step]
    own[last] = value
