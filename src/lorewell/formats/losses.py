"""Naming what a format, or we, have no place for."""

from __future__ import annotations

from typing import Any, Literal

from lorewell.model.imports import Loss, LossReason
from lorewell.model.text import pointer

JsonType = Literal["null", "boolean", "number", "string", "array", "object"]


class Losses:
    """Takes the losses of an export in, in the order of the book."""

    def __init__(self) -> None:
        self._found: list[Loss] = []

    def add(self, value: Any, why: LossReason, *steps: str | int) -> None:  # noqa: ANN401  a foreign value
        """Note that the value at these steps is not where its program would look for it."""
        self._found.append(loss_of(value, why, pointer(*steps)))

    def all(self) -> tuple[Loss, ...]:
        """Return what was noted."""
        return tuple(self._found)


def loss_of(value: object, why: LossReason, at: str) -> Loss:
    """Return the loss of a value that stands at a JSON pointer."""
    field = at.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
    # Not validated: a file can make thousands of them, of values that are sound.
    return Loss.model_construct(pointer=at, field=field, kind=json_type(value), why=why)


def holds_nothing(value: object) -> bool:
    """Return whether a value says nothing, so that nobody misses it: null, or an empty one."""
    return value is None or value in ("", [], {})


def json_type(value: object) -> JsonType:
    """Return what JSON calls the type of a value.

    >>> json_type(False), json_type(0.5)
    ('boolean', 'number')
    """
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
