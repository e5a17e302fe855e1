"""Warnings of a turn: what its caller may not expect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

MAX_WARNINGS: Final = 100
MISSING: Final = "value_missing"
MacroProblem = Literal["value_missing", "time_missing", "macro_too_large"]
WarningCode = Literal["scene_unused"] | MacroProblem


class TurnWarning(NamedTuple):
    """A warning of a turn. Members that do not apply are None, and left out of the JSON.

    Attributes:
        code: `scene_unused`: the policy cannot use a member of the scene. `value_missing`: a macro
            needs a value that nobody gave, and is empty text or keeps its entry out.
            `time_missing`: the time is not given; `macro_too_large`: a limit is exceeded. In both
            cases, the macro stays as written.
        message: the warning for people.
        member: the member of the scene.
        entry: full id of the entry, or `book.uid`; None for a prompt.
        at: where the text stands: a JSON pointer into the entry, or into the request.
        macro: the macro, in lower case.
        span: the macro's place in that text, half-open, in code points; None if a value put it
            there. Decorators do not count as a part of `/content`.
        missing: what is not given, as a member of `macros` in the request.
    """

    code: WarningCode
    message: str
    member: str | None = None
    entry: str | None = None
    at: str | None = None
    macro: str | None = None
    span: tuple[int, int] | None = None
    missing: str | None = None


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


def macro_problem(code: MacroProblem, macro: str, missing: str | None) -> str:
    """Return the text of the warning for a macro of SillyTavern.

    >>> macro_problem("value_missing", "persona", "persona")
    '{{persona}} has no value: give `macros.persona`.'
    """
    written = f"{{{{{macro}}}}}"
    if code == "macro_too_large":
        return f"{written} stays as written: it exceeds a limit of macros."
    if missing in {"user", "char"}:
        return missing_name(f"{{{{{missing}}}}}")
    if code == "time_missing":
        return f"{written} stays as written: give `macros.{missing}`."
    return f"{written} has no value: give `macros.{missing}`."
