"""A book as SillyTavern scans it, and all of it that can be known before a scan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from lorewell.engine.matching.literal import LiteralIndex
from lorewell.engine.sillytavern.decorators import ACTIVATE, DONT_ACTIVATE, split_decorators
from lorewell.engine.sillytavern.fields import group_names, group_of
from lorewell.engine.sillytavern.hashing import cyrb53
from lorewell.engine.sillytavern.javascript import (
    MISSING,
    as_text,
    in_object_order,
    is_true,
    json_text,
    to_number,
)
from lorewell.engine.sillytavern.keys import Key, read_key
from lorewell.engine.sillytavern.view import sillytavern_view
from lorewell.model import BookCreate, Entry

Object = Mapping[str, Any]  # an entry as its file has it: its values are known at run time alone
MATCH_FLAGS = (
    *("matchPersonaDescription", "matchCharacterDescription", "matchCharacterPersonality"),
    *("matchCharacterDepthPrompt", "matchScenario", "matchCreatorNotes"),
)
AND_ANY, NOT_ALL, NOT_ANY, AND_ALL = range(4)
_UNKNOWN_LOGIC = -1
_WEIGHT = 100
_CERTAIN = 100  # percent


class Limits(NamedTuple):
    """Whom an entry is for: kinds of generation, and characters by file name and tag."""

    triggers: tuple[object, ...]
    names: tuple[object, ...]
    tags: tuple[object, ...]
    excludes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Lore:
    """One entry with its values read as SillyTavern reads them.

    Attributes:
        id: "book.uid".
        fields: the object itself, decorators split off.
        hash: what a timed effect knows it by; `MISSING` if the object never had one.
        order: NaN if missing.
        position: None where it is no number that places it.
        depth, role: as written, or `MISSING`.
        has_keys: whether there is a list of keys with anything in it.
        logic: None if missing or null, -1 if unknown.
        scan_depth, case, whole, scoring: None for "as the settings say".
        sources: a bit for each of `MATCH_FLAGS` that is set.
        level: of recursion from which it may be found; 0 for at once.
        probability: None if it never rolls.
        group: as written; `groups` are the names in it.
        sticky, cooldown, delay: in messages; None if off, NaN if no number.
    """

    id: str
    fields: Object
    hash: object
    content: str
    activates: bool
    suppressed: bool
    order: float
    position: int | None
    depth: object
    role: object
    outlet: str
    keys: tuple[Key, ...]
    has_keys: bool
    secondary: tuple[Key, ...]
    selective: bool
    logic: int | None
    scan_depth: float | None
    case: bool | None
    whole: bool | None
    scoring: bool | None
    sources: int
    constant: bool
    disabled: bool
    excludes_recursion: bool
    prevents_recursion: bool
    level: float
    ignores_budget: bool
    probability: float | None
    group: object
    groups: tuple[str, ...]
    overrides: bool
    weight: float
    sticky: float | None
    cooldown: float | None
    delay: float | None
    limits: Limits | None

    @property
    def looks_at_secondary(self) -> bool:
        """Whether the secondary keys decide anything."""
        return self.selective and bool(self.secondary)


def _list(value: object) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else ()


def _keys(value: object) -> tuple[Key, ...]:
    return tuple(read_key(key) for key in _list(value) if isinstance(key, str))


def _inherited(value: object) -> bool | None:
    return None if value is None or value is MISSING else is_true(value)


def _turns(value: object) -> float | None:
    return to_number(value) if is_true(value) else None


def _limits(fields: Object) -> Limits | None:
    characters = fields.get("characterFilter")
    members: Object = characters if isinstance(characters, Mapping) else {}
    limits = Limits(
        _list(fields.get("triggers")),
        _list(members.get("names")),
        _list(members.get("tags")),
        is_true(members.get("isExclude", MISSING)),
    )
    return limits if any(limits[:3]) else None


def _logic(value: object) -> int | None:
    if value is None or value is MISSING:
        return None
    known = not isinstance(value, bool) and value in (AND_ANY, NOT_ALL, NOT_ANY, AND_ALL)
    return int(value) if known and isinstance(value, int | float) else _UNKNOWN_LOGIC


def _position(value: object) -> int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and value in range(8) else None  # type: ignore[call-overload]


def read_lore(fields: Object, *, digest: object = MISSING) -> Lore:
    """Return an entry of a book's list, as an object whose decorators are split off.

    Args:
        fields: it is neither changed nor copied.
        digest: its hash, if it has one.
    """

    def flag(name: str) -> bool:
        return is_true(fields.get(name, MISSING))

    decorators = _list(fields.get("decorators"))
    content, group = fields.get("content"), fields.get("group", MISSING)
    depth, rolls = fields.get("scanDepth"), flag("useProbability")
    chance = fields.get("probability", MISSING)
    is_certain = isinstance(chance, int | float) and chance == _CERTAIN
    level = fields.get("delayUntilRecursion", MISSING)
    weight = fields.get("groupWeight")
    return Lore(
        id=f"{as_text(fields.get('world', MISSING))}.{as_text(fields.get('uid', MISSING))}",
        fields=fields,
        hash=digest,
        content=content if isinstance(content, str) else "",
        activates=ACTIVATE in decorators,
        suppressed=DONT_ACTIVATE in decorators,
        order=to_number(fields.get("order", MISSING)),
        position=_position(fields.get("position")),
        depth=fields.get("depth", MISSING),
        role=fields.get("role", MISSING),
        outlet=as_text(fields["outletName"]) if flag("outletName") else "",
        keys=_keys(fields.get("key")),
        has_keys=bool(_list(fields.get("key"))),
        secondary=_keys(fields.get("keysecondary")),
        selective=flag("selective"),
        logic=_logic(fields.get("selectiveLogic", MISSING)),
        scan_depth=None if depth is None else to_number(depth),
        case=_inherited(fields.get("caseSensitive")),
        whole=_inherited(fields.get("matchWholeWords")),
        scoring=_inherited(fields.get("useGroupScoring")),
        sources=sum(1 << bit for bit, name in enumerate(MATCH_FLAGS) if flag(name)),
        constant=flag("constant"),
        disabled=to_number(fields.get("disable", MISSING)) == 1,
        excludes_recursion=flag("excludeRecursion"),
        prevents_recursion=flag("preventRecursion"),
        level=to_number(level) if is_true(level) else 0,
        ignores_budget=flag("ignoreBudget"),
        probability=to_number(chance) if rolls and not is_certain else None,
        group=group,
        groups=group_names(group) if isinstance(group, str) else (),
        overrides=flag("groupOverride"),
        weight=_WEIGHT if weight is None else to_number(weight),
        sticky=_turns(fields.get("sticky", MISSING)),
        cooldown=_turns(fields.get("cooldown", MISSING)),
        delay=_turns(fields.get("delay", MISSING)),
        limits=_limits(fields),
    )


def split_object(entry: Object, book: str) -> dict[str, Any]:
    """Return an entry's object as the list of entries has it: named, decorators split off."""
    rest = {name: value for name, value in entry.items() if name not in ("uid", "world")}
    uid = {"uid": entry["uid"]} if "uid" in entry else {}
    fields = {**uid, "world": entry.get("world", book), **rest}
    content = fields.get("content")
    decorators, left = split_decorators(content if isinstance(content, str) else "")
    return {**fields, "decorators": list(decorators), "content": left}


class Literals(NamedTuple):
    """All plain keys of a book: those for which case does not count, and does."""

    folded: LiteralIndex
    exact: LiteralIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A book, ready to be scanned. Immutable; safe to share between threads.

    Attributes:
        entries: in object order of the book.
        by_hash: the entries by their hash.
        always: places of the entries that can be candidates without a key.
        odd: places of the entries with a key that no automaton finds.
        literals: gives the keys' automata, if case counts by default or not; built when asked.
        deepest: the greatest scan depth that an entry sets for itself.
        ignored_rules: by entry id, the rules of ours that SillyTavern does not know.
    """

    name: str
    entries: tuple[Lore, ...]
    by_hash: Mapping[object, Lore]
    always: tuple[int, ...]
    odd: tuple[int, ...]
    literals: Callable[[bool], Literals]
    deepest: float
    ignored_rules: Mapping[str, tuple[str, ...]]


def compile_world(
    name: str,
    entries: Iterable[Object],
    *,
    ignored_rules: Mapping[str, tuple[str, ...]] | None = None,
) -> World:
    """Return a book ready to be scanned.

    Args:
        name: the book's name in SillyTavern; ids and hashes hold it.
        entries: its entries' objects, in object order; see `world_entries`.
        ignored_rules: by entry id, what else the entries say and SillyTavern does not know.
    """
    objects = [split_object(entry, name) for entry in entries]
    lore = tuple(read_lore(fields, digest=cyrb53(json_text(fields))) for fields in objects)
    return World(
        name=name,
        entries=lore,
        by_hash={each.hash: each for each in lore},
        always=tuple(i for i, e in enumerate(lore) if e.constant or e.activates),
        odd=tuple(i for i, e in enumerate(lore) if any(key.plain is None for key in e.keys)),
        literals=cache(lambda case: _literals(lore, case)),
        deepest=max((e.scan_depth for e in lore if e.scan_depth is not None), default=0),
        ignored_rules=ignored_rules or {},
    )


def world_entries(entries: Mapping[str, Object]) -> list[Object]:
    """Return the entries of a world-info file, in the order in which SillyTavern walks them."""
    return [entries[name] for name in in_object_order(entries)]


def _literals(entries: Sequence[Lore], default: bool) -> Literals:  # noqa: FBT001  a cache key
    """Return the automata of all plain keys; an entry is woken by its primary ones alone."""
    tables: tuple[dict[str, dict[int, None]], ...] = ({}, {})
    for index, lore in enumerate(entries):
        case = default if lore.case is None else lore.case
        for key in lore.keys:
            if key.plain is not None:
                wanted = key.plain.exact if case else key.plain.folded
                tables[case].setdefault(wanted, {})[index] = None
        for key in lore.secondary:
            if key.plain is not None:
                tables[case].setdefault(key.plain.exact if case else key.plain.folded, {})
    folded, exact = (LiteralIndex(tuple(t), [tuple(each) for each in t.values()]) for t in tables)
    return Literals(folded, exact)


def compile_stored(book: BookCreate, *, name: str | None = None) -> World:
    """Return a stored book ready to be scanned.

    Args:
        book: its revision; entries are scanned as `sillytavern_view` shows them.
        name: what SillyTavern calls it; its own name if not given.
    """
    name = book.name if name is None else name
    views = [sillytavern_view(entry) for entry in book.entries]
    ignored = {
        f"{as_text(view.get('world', name))}.{as_text(view['uid'])}": rules
        for view, entry in zip(views, book.entries, strict=True)
        if (rules := _ignored_rules(entry))
    }
    return compile_world(name, views, ignored_rules=ignored)


def _ignored_rules(entry: Entry) -> tuple[str, ...]:
    has = {
        "requires": bool(entry.requires),
        "conditions": bool(entry.conditions),
        "conflict_key": bool(entry.conflict_key) and not group_of(entry.conflict_key),
        "required": entry.required,
        "audience": entry.audience != Entry.model_fields["audience"].default,
    }
    return tuple(name for name, there in has.items() if there)
