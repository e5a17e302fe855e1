"""Warnings of a turn: what its caller may not expect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

MAX_WARNINGS: Final = 100
MISSING: Final = "value_missing"


class TurnWarning(NamedTuple):
    """A warning of a turn. Members that do not apply are None, and left out of the JSON.

    Attributes:
        code: `scene_unused`: the policy cannot use a member of the scene. `value_missing`: an entry
            needs a name that nobody gave.
        message: the warning for people.
        member: the member of the scene.
        entry: full id of the entry.
    """

    code: Literal["scene_unused", "value_missing"]
    message: str
    member: str | None = None
    entry: str | None = None


def unused_warnings(members: Iterable[str], policy: str) -> tuple[TurnWarning, ...]:
    """Return a warning for each member of a scene that a policy cannot use."""
    return tuple(
        TurnWarning("scene_unused", f"The policy {policy} does not use {name}.", member=name)
        for name in members
    )


def missing_name(expression: str) -> str:
    """Return the text of the warning for a macro without a value.

    >>> missing_name("{{user}}")
    '{{user}} has no value: give the name of the user.'
    """
    role = "user" if "user" in expression.lower() else "character"
    return f"{expression} has no value: give the name of the {role}."
