"""Where a dotted path leads in the caller's state (docs/rules/native.md §3.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

_INDEX = re.compile(r"[0-9]+")
_LONGEST_INDEX = 9  # digits; a longer one lies beyond any list, and huge ones are slow to read


class AbsentValue(Enum):
    """What is found where there is nothing: not even null."""

    ABSENT = 0


def look_up(state: Mapping[str, object], path: str) -> object:
    """Return what lies at the path, `Absent.ABSENT` if nothing does.

    Args:
        state: JSON.
        path: names of members and indexes of lists, joined by dots.
    """
    place: object = state
    for segment in path.split("."):
        match place:
            case dict() if segment in place:
                place = place[segment]
            case list() if _INDEX.fullmatch(segment) and len(segment) <= _LONGEST_INDEX:
                if int(segment) >= len(place):
                    return AbsentValue.ABSENT
                place = place[int(segment)]
            case _:
                return AbsentValue.ABSENT
    return place
