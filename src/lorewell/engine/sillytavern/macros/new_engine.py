r"""SillyTavern's new macro engine (docs/rules/sillytavern-macros.md §3).

A text is parsed once and evaluated from left to right, inner macros before outer ones. What a
macro returns is not parsed again.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import Final

from lorewell.engine.sillytavern.javascript import WHITESPACE, trim
from lorewell.engine.sillytavern.macros import card
from lorewell.engine.sillytavern.macros.parsing import (
    VARIABLE_NAME,
    Argument,
    MacroNode,
    find_else,
    inside,
    parse,
    place_units,
)
from lorewell.engine.sillytavern.macros.short_form import apply, is_false
from lorewell.engine.sillytavern.macros.state import MacroFailedError, MacroState, Miss, Report
from lorewell.engine.sillytavern.macros.table import (
    IF,
    MACROS,
    Macro,
    MacroCall,
    is_integer,
    too_large,
)
from lorewell.engine.sillytavern.macros.variables import VariablesFullError

MAX_DEPTH: Final = 50
_OLD_TIME = re.compile(r"\{\{time_(UTC[+-]\d+)\}\}", re.IGNORECASE | re.ASCII)
_SIGN = re.compile(r"<(user|bot|char|group|charifnotgroup)>", re.IGNORECASE | re.ASCII)
_SIGNS: Final = {
    "user": "{{user}}",
    "bot": "{{char}}",
    "char": "{{char}}",
    "group": "{{group}}",
    "charifnotgroup": "{{charIfNotGroup}}",
}
_SPELLINGS = re.compile(f"{_OLD_TIME.pattern}|{_SIGN.pattern}", re.IGNORECASE | re.ASCII)
_ONLY_VARIABLE = re.compile(rf"([.$])({VARIABLE_NAME})")
# To keep the search linear, line breaks without {{trim}} after them are consumed as well.
_TRIM = re.compile(
    r"(?:\r?\n)++(?:(\{\{trim\}\})(?:\r?\n)*+)?|(\{\{trim\}\})(?:\r?\n)*+", re.IGNORECASE
)
_INDENT = re.compile(r"[ \t]*+")


def expand(text: str, state: MacroState, report: Report) -> str:
    """Return a text with its macros expanded."""
    return Expansion(text, state, report).run()


class Expansion:
    """The expansion of one text.

    Attributes:
        is_card: whether the text is a field of the card.
    """

    def __init__(self, text: str, state: MacroState, report: Report | None) -> None:
        """Take a text.

        Args:
            text: the text.
            state: what macros read and change.
            report: takes the misses; without it they are left to the text around, which uses
                this one as a field of the card.
        """
        self.is_card = report is None
        self._written = text
        self._state = state
        self._report = report
        self._text, self._shifts = _respelled(text)
        self._fields: dict[str, str] = {}

    def run(self) -> str:
        """Return the text with its macros expanded."""
        return _finished(self._level(parse(self._text, self._state.steps), 0, 0))

    # What macros need of the text that they are in.

    @cached_property
    def digest(self) -> int:
        """The hash of the text as written."""
        return self._state.hash_of(self._written)

    def field(self, name: str) -> str:
        """Return a field of the card, expanded once for this text."""
        if self.is_card or not card.is_preferred(self._state, name):
            return ""
        return self._field(name, card.field_text(self._state, name))

    def greeting(self, index: int) -> str:
        """Return a first message of the card, expanded once for this text."""
        if self.is_card:
            return ""
        return self._field(f"greeting {index}", trim(card.greeting(self._state, index)))

    def _field(self, name: str, written: str) -> str:
        if name not in self._fields:
            expanded = Expansion(written, self._state, None).run()
            self._fields[name] = expanded.replace("\r", "")
        return self._fields[name]

    # Levels: the text, an argument, the inside of a pair.

    def _level(self, level: Argument, shift: int, depth: int, *, with_pairs: bool = True) -> str:
        """Return a level with its macros expanded.

        Args:
            level: the level.
            shift: added to the place of a macro, for picks in a branch.
            depth: how many macros it is in.
            with_pairs: whether tags make pairs.
        """
        text, nodes, steps = self._text, level.nodes, self._state.steps
        parts: list[str] = []
        at, index = level.start, level.first
        while index < level.last:
            node = nodes[index]
            parts.append(text[at : node.start])
            if with_pairs and index < node.partner < level.last:
                end = nodes[node.partner]
                between = inside(level, index + 1, node.end, node.partner, end.start)
                parts.append(self._pair(node, between, end, shift, depth))
                index = node.partner
                at = end.end
            else:
                parts.append(self._single(node, shift, depth))
                at = node.end
            steps.write("macros", len(parts[-1]) + len(parts[-2]))  # while they are made
            index += 1
        if not parts:
            return text[level.start : level.end]
        parts.append(text[at : level.end])
        steps.write("macros", len(parts[-1]))
        return "".join(parts)

    def _values(self, node: MacroNode, shift: int, depth: int) -> list[str]:
        return [self._level(argument, shift, depth + 1) for argument in node.arguments]

    def _as_written(self, node: MacroNode, values: Sequence[str]) -> str:
        """Return a macro that is not run: as written, but with its arguments expanded."""
        parts: list[str] = []
        at = node.start
        for argument, value in zip(node.arguments, values, strict=True):
            parts += (self._text[at : argument.start], value)
            at = argument.end
        parts.append(self._text[at : node.end])
        self._state.steps.write("macros", sum(map(len, parts)))
        return "".join(parts)

    def _is_too_deep(self, node: MacroNode, depth: int) -> bool:
        if depth < MAX_DEPTH:
            return False
        self._state.misses.append(Miss("macro_too_large", ""))
        self._flush(node, node.end)
        return True

    def _single(self, node: MacroNode, shift: int, depth: int) -> str:
        """Return the value of a macro that is no pair."""
        if self._is_too_deep(node, depth):
            return self._text[node.start : node.end]
        if node.kind == "variable":
            return self._variable(node, shift, depth)
        macro = self._find(node)
        if macro is None or not macro.takes(len(node.arguments)):
            return self._as_written(node, self._values(node, shift, depth))
        if node.name == IF:
            condition, branch = node.arguments
            return self._if(node, condition, branch, shift, depth)
        values = self._values(node, shift, depth)
        value = self._run(macro, node, values, shift, node.end)
        return self._as_written(node, values) if value is None else value

    def _pair(
        self, node: MacroNode, between: Argument, end: MacroNode, shift: int, depth: int
    ) -> str:
        """Return the value of a macro whose last argument is the text between its tags."""
        if self._is_too_deep(node, depth):
            return self._text[node.start : end.end]
        macro = self._find(node)
        arguments = len(node.arguments) + 1
        fits = macro is not None and macro.most is not None and macro.takes(arguments)
        if fits and node.name == IF:
            return self._if(node, node.arguments[0], between, shift, depth)
        values = self._values(node, shift, depth)
        text = self._level(between, shift, depth + 1)
        if macro is not None and not fits:
            closing = self._as_written(end, self._values(end, shift, depth))
            return self._as_written(node, values) + text + closing
        if macro is not None:
            given = text if node.keeps_blanks else _dedented(text)
            value = self._run(macro, node, [*values, given], shift, end.end, is_pair=True)
            if value is not None:
                return value
        # The end tag is lost where the macro is unknown or fails (an oddity).
        return self._as_written(node, values) + (text + "}}" if text else "")

    def _find(self, node: MacroNode) -> Macro | None:
        """Return the macro of a tag; None if it is unknown, an end tag, or can't be parsed."""
        if node.is_end or node.kind != "macro":
            return None
        return self._named(node.name)

    def _named(self, name: str) -> Macro | None:
        macro = MACROS.get(name)
        extra = self._state.extra.get(name) if macro is None else None
        return macro if extra is None else Macro(lambda _: extra)

    def _run(
        self,
        macro: Macro,
        node: MacroNode,
        values: Sequence[str],
        shift: int,
        end: int,
        *,
        is_pair: bool = False,
    ) -> str | None:
        """Return the value of a macro, None if it fails."""
        if macro.counts and values and not is_integer(values[-1]):
            return None
        place = self._units(node.start) + shift
        try:
            return macro.run(MacroCall(self._state, self, values, place, is_pair))
        except MacroFailedError:
            return None
        finally:
            self._flush(node, end)

    def _variable(self, node: MacroNode, shift: int, depth: int) -> str:
        if not node.name:  # {{.}}
            return ""
        variables = self._state.variables.shared if node.is_global else self._state.variables.local
        values: list[str] = []

        def value() -> str:
            if not values:
                values.append(self._level(node.arguments[0], shift, depth + 1, with_pairs=False))
            return values[0]

        try:
            return apply(variables, node.name, node.operator, value)
        except VariablesFullError:
            too_large(self._state)
            self._flush(node, node.end)
            return self._as_written(node, [value()] if node.arguments else [])

    # Conditions.

    def _if(
        self, node: MacroNode, condition: Argument, branch: Argument, shift: int, depth: int
    ) -> str:
        is_met = self._is_met(node, condition, shift, depth)
        split = find_else(branch)
        chosen: Argument | None = branch if is_met else None
        if split >= 0:
            middle = branch.nodes[split]
            if is_met:
                chosen = inside(branch, branch.first, branch.start, split, middle.start)
            else:
                chosen = inside(branch, split + 1, middle.end, branch.last, branch.end)
        if chosen is None:
            return ""
        inner = self._units(node.start) + shift - self._units(chosen.start)
        text = _finished(self._level(chosen, inner, depth + 1))
        return text if node.keeps_blanks else _dedented(text)

    def _is_met(self, node: MacroNode, condition: Argument, shift: int, depth: int) -> bool:
        start, inverted = condition.start, False
        first = condition.nodes[0].start if condition.nodes else condition.end
        if self._text.startswith("!", start, condition.end) and start < first:
            inverted = True
            rest = self._text[start + 1 : first]
            start += 1 + len(rest) - len(rest.lstrip(WHITESPACE))
        asked = Argument(start, condition.end, condition.nodes, condition.first, condition.last)
        text = self._level(asked, shift, depth + 1)
        variable = _ONLY_VARIABLE.fullmatch(text)
        macro = self._named(text.lower()) if text.isascii() else None
        if variable is not None:
            is_global = variable[1] == "$"
            variables = self._state.variables
            text = (variables.shared if is_global else variables.local).get(variable[2])
        elif macro is not None and macro.least == 0:
            text = self._run(macro, node, (), shift, node.end) or ""
        return is_false(text) is inverted

    # Places.

    @cached_property
    def _wide(self) -> Sequence[int]:
        return place_units(self._text)

    def _units(self, at: int) -> int:
        """Return a place in UTF-16 units."""
        return at + bisect_left(self._wide, at) if self._wide else at

    def _flush(self, node: MacroNode, end: int) -> None:
        """Report what a macro lacked."""
        misses = self._state.misses
        if misses and self._report is not None:
            span = self._in_written(node.start), self._in_written(end)
            for miss in misses:
                self._report(miss, node.name, span)
            misses.clear()

    def _in_written(self, at: int) -> int:
        """Return a place in the text as written, given that after the rewriting of spellings."""
        number = bisect_right(self._shifts, at, key=lambda each: each[0]) - 1
        return at if number < 0 else at - self._shifts[number][1]


def _respelled(text: str) -> tuple[str, Sequence[tuple[int, int]]]:
    """Return a text with old spellings rewritten, and how much longer it is from each of them."""
    if "<" not in text and "{{time_" not in text.lower():
        return text, ()
    parts: list[str] = []
    shifts: list[tuple[int, int]] = []
    at = length = 0
    for found in _SPELLINGS.finditer(text):
        new = f"{{{{time::{found[1]}}}}}" if found[1] else _SIGNS[found[2].lower()]
        parts += (text[at : found.start()], new)
        at = found.end()
        length += len(parts[-2]) + len(new)
        shifts.append((length, length - at))
    parts.append(text[at:])
    return "".join(parts), shifts


def _finished(text: str) -> str:
    r"""Return a text without the backslashes of `\{` and `\}`, and without its `{{trim}}`."""
    if "\\" in text:
        text = text.replace("\\{", "{").replace("\\}", "}")
    if "{{" not in text:
        return text
    return _TRIM.sub(lambda found: "" if found[1] or found[2] else found[0], text)


def _dedented(text: str) -> str:
    """Return a text without the indent of its first line that is not blank, and trimmed."""
    lines = text.split("\n")
    first = next((line for line in lines if trim(line)), "")
    found = _INDENT.match(first)
    width = found.end() if found else 0
    if width:
        lines = [_cut(line, width) for line in lines]
    return trim("\n".join(lines))


def _cut(line: str, width: int) -> str:
    found = _INDENT.match(line, 0, width)
    return line[found.end() :] if found else line
