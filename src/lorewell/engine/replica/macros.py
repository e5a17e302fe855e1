"""`{{…}}` in texts: names, and entries in the place of a marker (docs/rules/replica.md §7.5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from lorewell.engine.steps import Steps

_CHARS_PER_STEP: Final = 200
_MACRO: Final = re.compile(r"\{\{([^{}]*)\}\}")
_OUTLET: Final = re.compile(r"\{\{outlet::([^{}]*)\}\}")


def fill_names(
    text: str, names: Mapping[str, str | None], steps: Steps
) -> tuple[str, tuple[str, ...]]:
    """Return the text with its names filled in, and the macros that are left as they are.

    Args:
        text: of an entry.
        names: what `{{char}}` and `{{user}}` stand for; None leaves them.
        steps: what it may cost.

    Raises:
        TooExpensiveError: the texts of this turn get too long.

    >>> names = {"char": "哑女", "user": None}
    >>> fill_names("{{ Char }}问{{user}}：{{time}}？", names, Steps())
    ('哑女问{{user}}：{{time}}？', ('{{user}}', '{{time}}'))
    """
    left: dict[str, None] = {}

    def fill(found: re.Match[str]) -> str:
        value = names.get(found[1].strip().lower())
        if value is None:
            left[found[0]] = None
            return found[0]
        return value

    return _fill("macros", _MACRO, fill, text, steps), tuple(left)


def fill_outlets(
    text: str, contents: Mapping[str, str], steps: Steps
) -> tuple[str, frozenset[str]]:
    """Return a text of the host with entries in the place of their markers, and which those are.

    A marker without an active entry is left empty. What is put in is not looked at again.

    Args:
        text: of the host, never of the user.
        contents: of the active entries with that position, by uid.
        steps: what it may cost.

    Raises:
        TooExpensiveError: the texts of this turn get too long.

    >>> fill_outlets("<{{outlet::a}}|{{outlet::b}}>", {"a": "{{outlet::a}}"}, Steps())
    ('<{{outlet::a}}|>', frozenset({'a'}))
    """
    used: set[str] = set()

    def fill(found: re.Match[str]) -> str:
        uid = found[1].strip()
        if uid in contents:
            used.add(uid)
        return contents.get(uid, "")

    return _fill("outlets", _OUTLET, fill, text, steps), frozenset(used)


def _fill(
    kind: str,
    macro: re.Pattern[str],
    fill: Callable[[re.Match[str]], str],
    text: str,
    steps: Steps,
) -> str:
    """Return the text with its macros filled; how long it gets is counted first."""
    count, length = 0, len(text)
    steps.spend("macros", 1 + length // _CHARS_PER_STEP)
    for found in macro.finditer(text):
        count += 1
        length += len(fill(found)) - len(found[0])
        steps.spend("macros")
    if not count:
        return text
    steps.write(kind, length)
    steps.spend("macros", length // _CHARS_PER_STEP)
    return macro.sub(fill, text)
