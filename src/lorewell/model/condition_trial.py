"""Trials of conditions and key expressions: whether they parse, and which parts hold."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from lorewell.model.base import Contract
from lorewell.model.text import Flag, StateObject, Text

Rules = Literal["native", "replica", "keys"]


class ConditionTrial(Contract):
    """A condition with the values it tests, or a key expression with a message.

    Attributes:
        text: the condition or key expression.
        table: the values that a condition tests; at most 256 KiB as JSON.
        rules: `native`: a condition with `and`, `or`, `not` and brackets, where dots in a field
            are steps of a path. `replica`: one comparison, where a field is an exact name. `keys`:
            a key expression.
        message: the text that a key expression searches.
        case_sensitive: whether a key expression matches case.
        match_whole_words: whether a key expression matches only at word boundaries.
    """

    text: Annotated[Text, Field(max_length=8_000)]
    table: StateObject = Field(default_factory=dict)
    rules: Rules = "native"
    message: Annotated[Text, Field(max_length=16_000)] = ""
    case_sensitive: Flag = False
    match_whole_words: Flag = False


class ConditionFlaw(Contract):
    """The syntax error of a text.

    Attributes:
        at: offset in code points; the length of the text means its end.
        detail: what is wrong, or what was expected.
    """

    at: int
    detail: str


class ConditionTried(Contract):
    """The result of a trial.

    Attributes:
        holds: whether the condition holds or the key expression matches; false if the text does
            not parse.
        written: the text in normal form; null if it does not parse.
        tree: the parsed text; null if it does not parse. Each node has `kind` (`and`, `or`, `not`,
            `comparison`, `key`) and `holds`. An operator has `parts`. A comparison has `field`,
            `operator`, `value` and `found`, the value in the table, which is null with `missing`
            if there is none. A key has `key` and `span`, the first hit, half-open in code points,
            or null.
        flaw: the syntax error; null if the text parses.
    """

    holds: bool
    written: str | None = None
    tree: dict[str, Any] | None = None
    flaw: ConditionFlaw | None = None
