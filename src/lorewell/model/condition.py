"""Conditions over the caller's state (docs/rules/native.md §3.3)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from lorewell.model.base import Contract
from lorewell.model.text import Text, check_json, fault, pointer

MAX_CHOICES = 200


class Condition(Contract):
    """A test of one place in the state.

    `path` is dot-separated and relative to the state; `in` wants a list, `exists` true or false.
    """

    path: Annotated[Text, Field(min_length=1, max_length=200)]
    op: Literal["eq", "ne", "in", "exists"]
    value: Any = None

    @model_validator(mode="after")
    def _check_value(self) -> Self:
        given = "value" in self.model_fields_set
        if self.op == "exists":
            if not given:
                object.__setattr__(self, "value", True)  # stored conditions are fully written out
            elif not isinstance(self.value, bool):
                raise fault("/value", "exists takes true, false or nothing")
            return self
        if not given:
            raise fault("/value", f"{self.op} needs a value")
        if self.op == "in" and not (
            isinstance(self.value, list) and 1 <= len(self.value) <= MAX_CHOICES
        ):
            raise fault("/value", f"in needs a list of 1 to {MAX_CHOICES} items")
        check_json(self.value, pointer("value"))
        return self
