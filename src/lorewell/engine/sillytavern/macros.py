"""SillyTavern's `{{…}}`, as far as they depend on names and card alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from lorewell.model.activate import MacroValues

_HINT = re.compile(r"\{\{|<(?:user|bot)>", re.IGNORECASE)
_NAMES = re.compile(r"\{\{(user|char)\}\}|<(user|bot)>", re.IGNORECASE)
_TRIM = re.compile(r"(?:\r?\n)*\{\{trim\}\}(?:\r?\n)*", re.IGNORECASE)
_SIGNS = re.compile(r"\{\{(newline|noop)\}\}", re.IGNORECASE)
_VALUES = re.compile(
    r"\{\{(user|char|persona|description|personality|scenario)\}\}|<(user|bot)>", re.IGNORECASE
)
_REVERSE = re.compile(r"\{\{reverse:(.+?)\}\}", re.IGNORECASE)
_COMMENT = re.compile(r"\{\{//[\s\S]*?\}\}")


def may_hold_macro(text: str) -> bool:
    """Return whether a text can be other than it is when its macros are expanded."""
    return _HINT.search(text) is not None


def _put_sign(match: re.Match[str]) -> str:
    return "\n" if match[1].lower() == "newline" else ""


class Macros:
    """Expands the macros of a chat's texts; unknown ones stay as they are."""

    def __init__(self, values: MacroValues) -> None:
        """Bind them to names and card; a value of the card may itself name user and char."""
        names = {"user": values.user, "char": values.char}
        names["bot"] = names["char"]
        put_name = _putter(names)
        card = {
            name: _NAMES.sub(put_name, getattr(values, name))
            for name in ("persona", "description", "personality", "scenario")
        }
        self._put = _putter({**names, **card})

    def expand(self, text: str) -> str:
        """Return the text with its macros expanded."""
        if not may_hold_macro(text):
            return text
        expanded = _SIGNS.sub(_put_sign, text)
        expanded = _VALUES.sub(self._put, _TRIM.sub("", expanded))
        expanded = _REVERSE.sub(lambda match: match[1][::-1], expanded)
        return _COMMENT.sub("", expanded)


def _putter(values: Mapping[str, str]) -> Callable[[re.Match[str]], str]:
    return lambda match: values[(match[1] or match[2]).lower()]
