"""Fills `{{…}}` in texts: names, and outlet markers (docs/rules/replica.md §7.5)."""

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
    """Fill names into a text; also return the macros that are left unchanged.

    Args:
        text: the content of an entry.
        names: the values of `{{char}}` and `{{user}}`; None leaves the macro unchanged.
        steps: the step budget.

    Raises:
        TooExpensiveError: macros would make more text in this turn than `steps` allows.

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
    """Replace outlet markers in a text of the host; also return the uids of the entries used.

    A marker without an active entry becomes empty. Markers in contents are not replaced.

    Args:
        text: a text of the host, never of the user.
        contents: contents of the active entries with the outlet position, by uid.
        steps: the step budget.

    Raises:
        TooExpensiveError: macros would make more text in this turn than `steps` allows.

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
    """Return the text with its macros filled; its new length is counted first."""
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
