"""Losses: values that an import or export can't keep as they were."""

from __future__ import annotations

from typing import Any, Literal

from lorewell.model.imports import Loss, LossReason
from lorewell.model.text import pointer

JsonType = Literal["null", "boolean", "number", "string", "array", "object"]


class Losses:
    """Collects the losses of an export, in the order of the book."""

    def __init__(self) -> None:
        self._found: list[Loss] = []

    def add(self, value: Any, why: LossReason, *steps: str | int) -> None:  # noqa: ANN401  a foreign value
        """Note that the value at these steps is lost or moved."""
        self._found.append(loss_of(value, why, pointer(*steps)))

    def all(self) -> tuple[Loss, ...]:
        """Return all losses."""
        return tuple(self._found)


def loss_of(value: object, why: LossReason, at: str) -> Loss:
    """Return the loss of a value at a JSON pointer."""
    field = at.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
    # Not validated: a file can cause thousands of losses, and these values are valid.
    return Loss.model_construct(pointer=at, field=field, kind=json_type(value), why=why)


def holds_nothing(value: object) -> bool:
    """Return whether losing the value loses nothing: it is null or empty."""
    return value is None or value in ("", [], {})


def json_type(value: object) -> JsonType:
    """Return the JSON type of a value.

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
