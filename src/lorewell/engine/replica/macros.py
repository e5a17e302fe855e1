"""`{{…}}` in texts: names, and entries in the place of a marker (spec/replica.md §7.5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_MACRO: Final = re.compile(r"\{\{([^{}]*)\}\}")
_OUTLET: Final = re.compile(r"\{\{outlet::([^{}]*)\}\}")


def fill_names(text: str, names: Mapping[str, str | None]) -> tuple[str, tuple[str, ...]]:
    """Return the text with its names filled in, and the macros that are left as they are.

    Args:
        text: of an entry.
        names: what `{{char}}` and `{{user}}` stand for; None leaves them.

    >>> fill_names("{{ Char }}问{{user}}：{{time}}？", {"char": "哑女", "user": None})
    ('哑女问{{user}}：{{time}}？', ('{{user}}', '{{time}}'))
    """
    left: dict[str, None] = {}

    def fill(found: re.Match[str]) -> str:
        value = names.get(found[1].strip().lower())
        if value is None:
            left[found[0]] = None
            return found[0]
        return value

    return _MACRO.sub(fill, text), tuple(left)


def fill_outlets(text: str, contents: Mapping[str, str]) -> tuple[str, frozenset[str]]:
    """Return a text of the host with entries in the place of their markers, and which those are.

    A marker without an active entry is left empty. What is put in is not looked at again.

    Args:
        text: of the host, never of the user.
        contents: of the active entries with that position, by uid.

    >>> fill_outlets("<{{outlet::a}}|{{outlet::b}}>", {"a": "{{outlet::a}}"})
    ('<{{outlet::a}}|>', frozenset({'a'}))
    """
    used: set[str] = set()

    def fill(found: re.Match[str]) -> str:
        uid = found[1].strip()
        if uid in contents:
            used.add(uid)
        return contents.get(uid, "")

    return _OUTLET.sub(fill, text), frozenset(used)
