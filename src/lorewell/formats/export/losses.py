"""Collecting what an export has no place for."""

from __future__ import annotations

from typing import Any, Literal

from lorewell.model.imports import Loss
from lorewell.model.text import pointer

Why = Literal["unsupported", "moved_to_extensions"]
JsonType = Literal["null", "boolean", "number", "string", "array", "object"]


class Losses:
    """Takes losses in, in the order of the book."""

    def __init__(self) -> None:
        self._found: list[Loss] = []

    def add(self, value: Any, why: Why, *steps: str | int) -> None:  # noqa: ANN401  a foreign value
        """Note that the value at these steps is not where its program would look for it."""
        found = Loss(pointer=pointer(*steps), field=str(steps[-1]), kind=_type_of(value), why=why)
        self._found.append(found)

    def all(self) -> tuple[Loss, ...]:
        """Return what was noted."""
        return tuple(self._found)


def _type_of(value: object) -> JsonType:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"
