"""Looks up dotted paths in the caller's state (docs/rules/native.md §3.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

_INDEX = re.compile(r"[0-9]+")
_MAX_INDEX_DIGITS = 9  # a longer index is beyond any list, and huge numbers are slow to parse


class AbsentValue(Enum):
    """Stands for a missing value, as opposed to null."""

    ABSENT = 0


def look_up(state: Mapping[str, object], path: str) -> object:
    """Return the value at a path, `AbsentValue.ABSENT` if there is none.

    Args:
        state: a JSON object.
        path: names of members and indexes of lists, joined by dots.
    """
    place: object = state
    for segment in path.split("."):
        match place:
            case dict() if segment in place:
                place = place[segment]
            case list() if _INDEX.fullmatch(segment) and len(segment) <= _MAX_INDEX_DIGITS:
                if int(segment) >= len(place):
                    return AbsentValue.ABSENT
                place = place[int(segment)]
            case _:
                return AbsentValue.ABSENT
    return place
