"""Changes of the state that conditions test."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from lorewell.engine.conditions import Comparison
from lorewell.engine.state import AbsentValue, look_up
from lorewell.insight.explain.edits import Change, of_request


def values_for(leaf: Comparison) -> Iterator[object]:
    """Yield values with which a comparison holds, and others with which it does not.

    >>> list(values_for(Comparison("力量", ">", "10")))
    [10, 11, 9]
    >>> list(values_for(Comparison("力量", ">", "1e999")))
    ['1e999', '1e999?']
    """
    try:
        number = float(leaf.value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):  # a text, or a number that JSON can't hold
        yield leaf.value
        yield f"{leaf.value}?"
        return
    plain = int(number) if number.is_integer() else number
    yield from (plain, plain + 1, plain - 1)


def set_value(
    state: Mapping[str, object], path: str, value: object, *, flat: bool = False
) -> Change:
    """Return a change of one value of the state; an object replaces what is in the way.

    Args:
        state: the state.
        path: names joined by dots.
        value: the new value; `Gone.GONE` removes it.
        flat: whether a member with the whole name comes before the path.
    """
    if flat and path in state:
        return of_request("state", value, path)
    names = path.split(".")
    if look_up({**state}, path) is not AbsentValue.ABSENT:
        return of_request("state", value, *_steps_to(state, names))
    kept = 0
    place: object = state
    while kept < len(names) - 1 and isinstance(place, Mapping) and names[kept] in place:
        if not isinstance(place[names[kept]], Mapping):
            break
        place, kept = place[names[kept]], kept + 1
    for name in reversed(names[kept + 1 :]):
        value = {name: value}
    return of_request("state", value, *names[: kept + 1])


def _steps_to(state: object, names: list[str]) -> list[str | int]:
    """Return the steps to an existing value; steps into lists are numbers."""
    steps: list[str | int] = []
    for name in names:
        steps.append(int(name) if isinstance(state, list) else name)
        if isinstance(state, list):
            state = state[int(name)]
        elif isinstance(state, Mapping):
            state = state[name]
    return steps
