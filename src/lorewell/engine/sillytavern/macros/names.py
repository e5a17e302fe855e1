"""The names of the macros that a text uses, without running any."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from lorewell.engine.sillytavern.javascript import WHITESPACE
from lorewell.engine.sillytavern.macros.parsing import COMMENT
from lorewell.engine.sillytavern.macros.table import MACROS
from lorewell.engine.steps import Steps

VARIABLES: Final = (".", "$")  # their short form
_OPENING = re.compile(
    rf"\{{\{{(?!\{{)(?P<flags>(?:[{WHITESPACE}!?~>#]|/(?!/))*+)"
    r"(?P<name>//|[.$]|[A-Za-z][A-Za-z0-9_-]*+)"
)
_OLD_TIME: Final = "time_utc"
_CHARS_PER_STEP: Final = 50


def macro_names(text: str, steps: Steps) -> Iterator[str]:
    """Yield the name of each macro of a text, in lower case; `.` and `$` for variables.

    >>> list(macro_names("{{ Char }} {{random::a::{{.x}}}} {{/if}} {{// note}}", Steps()))
    ['char', 'random', '.', '//']
    """
    if "{{" not in text:
        return
    steps.spend("texts", 1 + len(text) // _CHARS_PER_STEP)
    for found in _OPENING.finditer(text):
        if "/" not in found["flags"]:
            steps.spend("texts")
            yield found["name"].lower()


def is_known(name: str) -> bool:
    """Return whether the policy `sillytavern` has a macro, given its name in lower case."""
    return name in MACROS or name in VARIABLES or name in (COMMENT, _OLD_TIME)
