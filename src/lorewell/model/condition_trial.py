"""Trying conditions and key expressions out: is it sound, does it hold, and what of each part?"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from lorewell.model.base import Contract
from lorewell.model.text import Flag, StateObject, Text

Rules = Literal["native", "replica", "keys"]


class ConditionTrial(Contract):
    """A condition, and the values that it looks at; or a key expression, and a message.

    Under the rules `native` it may hold and, or, not and brackets, and dots are paths; under those
    of `replica` it is one comparison, and fields are exact names. Under `keys` it is a key
    expression, looked for in `message` as an entry with these switches does.
    """

    text: Annotated[Text, Field(max_length=8_000)]
    table: StateObject = Field(default_factory=dict)
    rules: Rules = "native"
    message: Annotated[Text, Field(max_length=16_000)] = ""
    case_sensitive: Flag = False
    match_whole_words: Flag = False


class ConditionFlaw(Contract):
    """What is wrong with a text, and where: in code points, its length being its end."""

    at: int
    detail: str


class ConditionTried(Contract):
    """What a condition came to.

    `written` is the text in its plainest form. `tree` has `kind` (`and`, `or`, `not`,
    `comparison`, `key`) and `holds` at each node, and `parts`; or the comparison's `field`,
    `operator`, `value` and what was `found`: JSON, or null with `missing`; or the `key` and the
    `span` of its first place, half-open in code points, or null. If the text can't be read both
    are null, `flaw` says why, and it does not hold.
    """

    holds: bool
    written: str | None = None
    tree: dict[str, Any] | None = None
    flaw: ConditionFlaw | None = None
