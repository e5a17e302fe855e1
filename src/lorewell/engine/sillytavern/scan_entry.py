"""An entry with its values parsed as SillyTavern parses them (docs/rules/sillytavern.md §2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from lorewell.engine.sillytavern.decorators import ACTIVATE, DONT_ACTIVATE
from lorewell.engine.sillytavern.entry.fields import group_names
from lorewell.engine.sillytavern.javascript import MISSING, as_text, is_true, to_number
from lorewell.engine.sillytavern.keys import SillyTavernKey, read_key
from lorewell.engine.steps import weigh

Object = Mapping[str, Any]  # an entry as in its file, with values of any JSON type
MATCH_FLAGS = (
    *("matchPersonaDescription", "matchCharacterDescription", "matchCharacterPersonality"),
    *("matchCharacterDepthPrompt", "matchScenario", "matchCreatorNotes"),
)
AND_ANY, NOT_ALL, NOT_ANY, AND_ALL = range(4)  # `selectiveLogic`
_LOGICS = (AND_ANY, NOT_ALL, NOT_ANY, AND_ALL)
_UNKNOWN_LOGIC = -1
_WEIGHT = 100
_STEPS_PER_LOOK = 2
_STEPS_PER_ENTRY, _STEPS_PER_VALUE = 20, 4
_CERTAIN = 100  # percent


class EntryPosition(IntEnum):
    """The numbers of `position` (docs/rules/sillytavern.md §12)."""

    BEFORE = 0
    AFTER = 1
    NOTE_TOP = 2
    NOTE_BOTTOM = 3
    AT_DEPTH = 4
    BEFORE_EXAMPLES = 5
    AFTER_EXAMPLES = 6
    OUTLET = 7


_POSITIONS = frozenset(EntryPosition)


class EntryLimits(NamedTuple):
    """The filters of an entry: kinds of generation, and characters by file name and tag."""

    triggers: tuple[object, ...]
    names: tuple[object, ...]
    tags: tuple[object, ...]
    excludes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanEntry:
    """One entry with its values parsed as SillyTavern parses them.

    Attributes:
        id: "book.uid".
        fields: the entry's object without its decorators.
        hash: identifies the entry in timed effects; `MISSING` if the object never had one.
        activates, suppressed: whether it has the decorator `@@activate`, `@@dont_activate`.
        order: NaN if missing.
        position: an `EntryPosition`; None for any other value.
        depth, role: as written, or `MISSING`.
        has_keys: whether the list of primary keys is not empty, whatever it holds.
        logic: of the secondary keys; None if missing or null, -1 if unknown.
        scan_depth, case, whole, scoring: None where the settings decide.
        sources: one bit for each of `MATCH_FLAGS` that is set.
        level: the level of recursion from which the entry can activate; 0 for none.
        probability: in percent; None if the entry never rolls.
        group: as written; `groups` holds the names in it.
        sticky, cooldown, delay: in messages; None if off, NaN if not a number.
        look: steps that one loop of a scan spends on the entry.
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
    keys: tuple[SillyTavernKey, ...]
    has_keys: bool
    secondary: tuple[SillyTavernKey, ...]
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
    limits: EntryLimits | None
    look: int

    @property
    def uses_secondary(self) -> bool:
        """Whether the secondary keys take part in matching."""
        return self.selective and bool(self.secondary)


def _list(value: object) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else ()


def _keys(value: object) -> tuple[SillyTavernKey, ...]:
    return tuple(read_key(key) for key in _list(value) if isinstance(key, str))


def _inherited(value: object) -> bool | None:
    return None if value is None or value is MISSING else is_true(value)


def _turns(value: object) -> float | None:
    return to_number(value) if is_true(value) else None


def _limits(fields: Object) -> EntryLimits | None:
    characters = fields.get("characterFilter")
    members: Object = characters if isinstance(characters, Mapping) else {}
    limits = EntryLimits(
        _list(fields.get("triggers")),
        _list(members.get("names")),
        _list(members.get("tags")),
        is_true(members.get("isExclude", MISSING)),
    )
    return limits if any(limits[:3]) else None


def _logic(value: object) -> int | None:
    if value is None or value is MISSING:
        return None
    known = not isinstance(value, bool) and value in _LOGICS
    return int(value) if known and isinstance(value, int | float) else _UNKNOWN_LOGIC


def _position(value: object) -> int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and value in _POSITIONS else None  # type: ignore[call-overload]


def steps_to_read(fields: Object) -> int:
    """Return the steps that `read_scan_entry` takes for an object."""
    return _STEPS_PER_ENTRY + _STEPS_PER_VALUE * weigh(fields)


def read_scan_entry(fields: Object, *, digest: object = MISSING) -> ScanEntry:
    """Parse an entry's object, whose decorators are split off.

    Args:
        fields: the object; neither changed nor copied.
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
    keys, secondary = _keys(fields.get("key")), _keys(fields.get("keysecondary"))
    return ScanEntry(
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
        keys=keys,
        has_keys=bool(_list(fields.get("key"))),
        secondary=secondary,
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
        look=_STEPS_PER_LOOK + len(keys) + len(secondary),
    )
