"""Normalises entries before anything else happens (docs/rules/replica.md §1.3, §2)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from lorewell.engine.replica.positions import (
    BY_WORD,
    FROM_SILLYTAVERN,
    POSITIONS,
)
from lorewell.engine.replica.triggers import LOGIC_FROM_SILLYTAVERN, derive_config
from lorewell.engine.replica.values import (
    MAX_ITEMS,
    Raw,
    as_content,
    as_flag,
    as_integer,
    as_labels,
    as_number,
    as_uid,
)
from lorewell.model.replica import WarningCode

USUAL_DEPTH: Final = 4
USUAL_WEIGHT: Final = 100
CERTAIN: Final = 100  # percent
_ROLES: Final = {"system": 0, "user": 1, "assistant": 2}
_INTERNAL: Final = frozenset({"trigger_config", "activationType"})


class EntryOddity(NamedTuple):
    """An odd value in an entry that was normalised."""

    code: WarningCode
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalEntry:
    """An entry with all values normalised to their types.

    Attributes:
        group: labels; empty if the file has none.
        config: its `trigger_config`, from the file or derived.
    """

    uid: str
    content: str
    comment: str
    position: int
    order: int
    disable: bool
    probability: float
    depth: int
    role: int
    group: tuple[str, ...]
    group_weight: float
    requires: tuple[str, ...]
    config: Mapping[str, Raw]

    def members(self) -> dict[str, Raw]:
        """Return the entry under that program's names; `normalise` returns the same entry again."""
        return {
            "uid": self.uid,
            "content": self.content,
            "position": self.position,
            "order": self.order,
            "trigger_config": self.config,
            "comment": self.comment,
            "disable": self.disable,
            "probability": self.probability,
            "depth": self.depth,
            "role": self.role,
            "group": list(self.group) or None,
            "groupWeight": self.group_weight,
            "requires": list(self.requires),
        }


def normalise(raw: Mapping[str, Raw], *, uid: str) -> tuple[NormalEntry, list[EntryOddity]]:
    """Normalise an entry of the internal form; also return its oddities.

    Args:
        raw: the entry; it is not changed.
        uid: the uid of an entry without one; see `derived_uid`.

    Source: docs/rules/replica.md §2.
    """
    oddities: list[EntryOddity] = []
    return NormalEntry(
        uid=as_uid(raw.get("uid")) or uid,
        content=as_content(raw.get("content")),
        comment=as_content(raw.get("comment")),
        position=_position(raw, oddities),
        order=as_integer(raw.get("order")) or 0,
        disable=as_flag(raw.get("disable")),
        probability=_clamped(as_number(raw.get("probability"))),
        depth=_depth(raw.get("depth")),
        role=_role(raw.get("role")),
        group=as_labels(raw.get("group")),
        group_weight=_weight(raw.get("groupWeight")),
        requires=_uids(raw.get("requires")),
        config=_config(raw, oddities),
    ), oddities


def from_sillytavern(raw: Mapping[str, Raw], *, uid: str) -> Mapping[str, Raw]:
    """Convert an entry of a map (SillyTavern's form) to the internal form.

    An entry without a uid gets its name in the map. An entry with a trigger or an activation type
    of its own is already in the internal form, and its numbers are kept.

    Source: docs/rules/replica.md §1.2, §6.4.
    """
    named = {**raw, "uid": uid} if as_uid(raw.get("uid")) is None else dict(raw)
    if not _INTERNAL.isdisjoint(raw):
        return named
    numbers = {"position": FROM_SILLYTAVERN, "selectiveLogic": LOGIC_FROM_SILLYTAVERN}
    for member, internal in numbers.items():
        number = as_integer(raw.get(member))
        if number is not None and number in internal:
            named[member] = internal[number]
    if raw.get("useProbability") is False:
        named["probability"] = CERTAIN
    return named


def derived_uid(book_id: str, place: int) -> str:
    """Return the uid of an entry without one: a UUID from its book's id and its place there.

    It must not change between requests, because rolls and ties depend on it.

    >>> derived_uid("b", 0)
    'c4561e31-d44f-8883-8f9e-17810d195e2f'
    """
    digest = hashlib.sha256(f"{book_id}\0{place}".encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"


def _position(raw: Mapping[str, Raw], oddities: list[EntryOddity]) -> int:
    if "position" not in raw:
        return 0
    value = raw["position"]
    number = BY_WORD.get(value) if isinstance(value, str) else None
    number = as_integer(value) if number is None else number
    if number in range(len(POSITIONS)) and number is not None:
        return number
    oddities.append(
        EntryOddity("position_changed", "The position is not one of 0 to 7; 0 is used.")
    )
    return 0


def _clamped(percent: float | None) -> float:
    return CERTAIN if percent is None else min(max(percent, 0), CERTAIN)


def _depth(value: Raw) -> int:
    depth = as_integer(value)
    return USUAL_DEPTH if depth is None else max(depth, 0)


def _role(value: Raw) -> int:
    role = _ROLES.get(value) if isinstance(value, str) else None
    role = as_integer(value) if role is None else role
    return role if role in _ROLES.values() and role is not None else 0


def _weight(value: Raw) -> float:
    weight = as_number(value)
    return USUAL_WEIGHT if weight is None else weight


def _uids(value: Raw) -> tuple[str, ...]:
    items = value[:MAX_ITEMS] if isinstance(value, list) else [value]
    named = (as_uid(item) for item in items)
    return tuple(dict.fromkeys(uid for uid in named if uid is not None))


def _config(raw: Mapping[str, Raw], oddities: list[EntryOddity]) -> Mapping[str, Raw]:
    config = raw.get("trigger_config")
    if config is None:
        return derive_config(raw)
    if isinstance(config, Mapping):
        return config
    oddities.append(
        EntryOddity("trigger_broken", "trigger_config is not an object; triggers are off.")
    )
    return {"triggers": {}}
