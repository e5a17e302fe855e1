"""SillyTavern's macros `{{…}}` that depend only on names and the character card."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lorewell.engine.steps import Steps
from lorewell.model.activate import MacroValues

_HINT = re.compile(r"\{\{|<(?:user|bot)>", re.IGNORECASE)
_NAMES = re.compile(r"\{\{(user|char)\}\}|<(user|bot)>", re.IGNORECASE)
# To keep the search linear, these also consume text that can't match: line breaks without {{trim}}
# after them, and everything after the start of a macro that never ends.
_TRIM = re.compile(
    r"(?:\r?\n)++(?:(\{\{trim\}\})(?:\r?\n)*+)?|(\{\{trim\}\})(?:\r?\n)*+", re.IGNORECASE
)
_REVERSE = re.compile(r"\{\{reverse:(?:(.+?)\}\}|.*+)", re.IGNORECASE)
_COMMENT = re.compile(r"\{\{//(?:[\s\S]*?(\}\})|[\s\S]*+)")
_SIGNS = re.compile(r"\{\{(newline|noop)\}\}", re.IGNORECASE)
_VALUES = re.compile(
    r"\{\{(user|char|persona|description|personality|scenario)\}\}|<(user|bot)>", re.IGNORECASE
)
_CHARS_PER_STEP, _MACROS_PER_WATCH = 50, 10_000
_SHORT_CHARS = 1_000  # searching so short a text for macros is included in other costs


def may_hold_macro(text: str) -> bool:
    """Return whether expanding macros can change a text."""
    return _HINT.search(text) is not None


def _put_sign(match: re.Match[str]) -> str:
    return "\n" if match[1].lower() == "newline" else ""


def _trim(match: re.Match[str]) -> str:
    return "" if match[1] or match[2] else match[0]


def _reverse(match: re.Match[str]) -> str:
    return match[0] if match[1] is None else match[1][::-1]


def _drop(match: re.Match[str]) -> str:
    return "" if match[1] else match[0]


class Macros:
    """Expands macros; unknown ones stay unchanged."""

    def __init__(self, values: MacroValues, steps: Steps) -> None:
        """Bind the macros to names and card. Values of the card may use the names as macros."""
        self._steps = steps
        names = {"user": values.user, "char": values.char}
        names["bot"] = names["char"]
        card = {
            name: self._fill(_NAMES, names, getattr(values, name))
            for name in ("persona", "description", "personality", "scenario")
        }
        self._values = {**names, **card}

    def expand(self, text: str) -> str:
        """Return the text with its macros expanded.

        Raises:
            TooExpensiveError: macros would make more text in this turn than `steps` allows.
        """
        if len(text) > _SHORT_CHARS:
            self._steps.spend("macros", len(text) // _CHARS_PER_STEP)
        if not may_hold_macro(text):
            return text
        expanded = _TRIM.sub(_trim, _SIGNS.sub(_put_sign, text))
        expanded = self._fill(_VALUES, self._values, expanded)
        return _COMMENT.sub(_drop, _REVERSE.sub(_reverse, expanded))

    def _fill(self, macros: re.Pattern[str], values: Mapping[str, str], text: str) -> str:
        """Return the text with macros replaced by values; its new length is counted first."""

        def value_of(match: re.Match[str]) -> str:
            return values[(match[1] or match[2]).lower()]

        count, length = 0, len(text)
        for match in macros.finditer(text):
            count += 1
            if count % _MACROS_PER_WATCH == 0:
                self._steps.watch()
            length += len(value_of(match)) - len(match[0])
        if not count:
            return text
        self._steps.write("macros", length)
        self._steps.spend("macros", count + length // _CHARS_PER_STEP)
        return macros.sub(value_of, text)
