"""Conditions over the caller's state (docs/rules/native.md §3.3)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from lorewell.model.base import Contract
from lorewell.model.text import Text, check_json, fault, pointer

MAX_CHOICES = 200


class Condition(Contract):
    """A test of one value in the state.

    Attributes:
        path: dot-separated steps from the root of the state, such as `weather.storm`.
        op: `eq` equal, `ne` not equal or absent, `in` equal to an item of a list, `exists` present.
        value: what to compare with; a list of 1 to 200 items for `in`; true, false or left out for
            `exists`.
    """

    path: Annotated[Text, Field(min_length=1, max_length=200)]
    op: Literal["eq", "ne", "in", "exists"]
    value: Any = None

    @model_validator(mode="after")
    def _check_value(self) -> Self:
        given = "value" in self.model_fields_set
        if self.op == "exists":
            if not given:
                object.__setattr__(self, "value", True)  # stored conditions have no defaults
            elif not isinstance(self.value, bool):
                raise fault("/value", "must be true, false or left out for op exists")
            return self
        if not given:
            raise fault("/value", f"must be given for op {self.op}")
        if self.op == "in" and not (
            isinstance(self.value, list) and 1 <= len(self.value) <= MAX_CHOICES
        ):
            raise fault("/value", f"must be a list of 1 to {MAX_CHOICES} items for op in")
        check_json(self.value, pointer("value"))
        return self
