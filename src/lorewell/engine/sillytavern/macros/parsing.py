"""Parses a text with macros for the new engine (docs/rules/sillytavern-macros.md §3).

One pass with a stack, whatever the nesting: an opening that is never closed turns out to be text,
and what it held belongs to the level around it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from lorewell.engine.sillytavern.javascript import WHITESPACE
from lorewell.engine.steps import Steps

COMMENT: Final = "//"
ELSE: Final = "else"
VARIABLE_NAME: Final = r"[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?"

Kind = Literal["macro", "variable", "broken"]

_BLANK: Final = f"[{WHITESPACE}]"
_TOKEN = re.compile(r"\{{2,}+|\}\}|::")
_FLAGS = re.compile(rf"(?:[{WHITESPACE}!?~>#]|/(?!/))*+")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*+")
# Signs right after a name are skipped (an oddity).
_SKIPPED = re.compile(rf"(?:[^{WHITESPACE}:|}}]|\}}(?!\}}))*+")
_BLANKS = re.compile(rf"{_BLANK}*+")
_VARIABLE = re.compile(rf"({VARIABLE_NAME}){_BLANK}*+")
_OPERATOR = re.compile(r"\|\|=|\?\?=|\|\||\?\?|\+\+|--|\+=|-=|==|!=|>=|<=|>|<|=")
# After a name, `++` or `--` one stray word or one flag is dropped (an oddity).
_STRAY = re.compile(
    rf"{_BLANK}*+(?:[A-Za-z](?:[^{WHITESPACE}:|{{}}]|\}}(?!\}}))*+|[!?~>#/])?+{_BLANK}*+"
)
_CHARS_PER_STEP, _STEPS_PER_MACRO = 100, 10


@dataclass(slots=True)
class Argument:
    """An argument, without the blanks written around it.

    Attributes:
        start, end: its span in the text.
        nodes: the macros in it, on its own level.
        first, last: the range of `nodes` that belongs to it.
    """

    start: int
    end: int
    nodes: list[MacroNode]
    first: int = 0
    last: int = 0


@dataclass(slots=True)
class MacroNode:
    """A complete macro in a text.

    Attributes:
        start, end: its span, braces included.
        kind: `broken` is a short form that can't be parsed.
        name: in lower case; `//` for a comment; for a variable as written, "" for none.
        is_end: whether it is an end tag.
        keeps_blanks: whether it has the flag `#`.
        operator: of a variable; "" reads it.
        is_global: whether the variable is global.
        arguments: its arguments; of a variable its value, if the operator has one.
        partner: the index of its end tag on its level; -1 for none.
    """

    start: int
    end: int
    kind: Kind
    name: str
    is_end: bool = False
    keeps_blanks: bool = False
    operator: str = ""
    is_global: bool = False
    arguments: list[Argument] = field(default_factory=list)
    partner: int = -1


@dataclass(slots=True)
class _Frame:
    """A macro that is still open; `splits` tells whether `::` separates arguments."""

    node: MacroNode
    begin: int  # of the argument that is being read; -1 for none
    splits: bool
    nodes: list[MacroNode] = field(default_factory=list)


def parse(text: str, steps: Steps) -> Argument:
    """Return the whole text as a level: its macros, each with its arguments."""
    steps.spend("macros", len(text) // _CHARS_PER_STEP)
    root: list[MacroNode] = []
    open_frames: list[_Frame] = []
    at = 0
    while (token := _TOKEN.search(text, at)) is not None:
        at = token.end()
        sign = token[0]
        if sign == "::":
            top = open_frames[-1] if open_frames else None
            if top is not None and top.splits:
                _end_argument(text, top, token.start())
                top.begin = at
        elif sign == "}}":
            if open_frames:
                steps.spend("macros", _STEPS_PER_MACRO)
                frame = open_frames.pop()
                _close(text, frame, token.start())
                (open_frames[-1].nodes if open_frames else root).append(frame.node)
        elif (opened := _open(text, at - 2)) is not None:
            frame, at = opened
            open_frames.append(frame)
    # What was never closed is text; the macros in it stand in the order of their ends.
    for frame in open_frames:
        arguments = frame.node.arguments
        root.extend(node for argument in arguments for node in argument.nodes)
        root.extend(frame.nodes)
    level = Argument(0, len(text), root)
    _find_partners(level)
    return level


def _open(text: str, start: int) -> tuple[_Frame, int] | None:
    """Return the macro that opens at a place, and where to go on; None if none does."""
    flags = _FLAGS.match(text, start + 2)
    at = flags.end() if flags else start + 2
    written = text[start + 2 : at]
    node = MacroNode(start, start, "macro", "")
    node.is_end, node.keeps_blanks = "/" in written, "#" in written
    if text.startswith(COMMENT, at):
        node.name = COMMENT
        at += len(COMMENT)
        after = _skip_blanks(text, at)
        if text.startswith("/", after):
            node.is_end = True
        return _open_arguments(text, node, at)
    if text[at : at + 1] in (".", "$") and at < len(text):
        node.is_global = text[at] == "$"
        return _open_variable(text, node, at + 1)
    name = _NAME.match(text, at)
    if name is None:
        return None
    node.name = name[0].lower()
    skipped = _SKIPPED.match(text, name.end())
    return _open_arguments(text, node, skipped.end() if skipped else name.end())


def _skip_blanks(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks else at


def _open_arguments(text: str, node: MacroNode, at: int) -> tuple[_Frame, int]:
    """Return a macro's frame, at the begin of its first argument if it has one."""
    after = _skip_blanks(text, at)
    if text.startswith("::", after):
        return _Frame(node, after + 2, splits=True), after + 2
    if text.startswith(":", after):
        return _Frame(node, after + 1, splits=False), after + 1
    if after == len(text) or text.startswith("}}", after):
        return _Frame(node, -1, splits=False), after
    return _Frame(node, after, splits=False), after


def _open_variable(text: str, node: MacroNode, at: int) -> tuple[_Frame, int]:
    """Return the frame of a variable in its short form."""
    node.kind = "variable"
    begin = _skip_blanks(text, at)
    name = _VARIABLE.match(text, begin)
    if name is None:
        if not text.startswith("}}", begin):
            node.kind = "broken"
        return _Frame(node, begin, splits=False), begin
    node.name = name[1]
    at = name.end()
    operator = _OPERATOR.match(text, at)
    if operator is not None:
        node.operator = operator[0]
        at = operator.end()
        if node.operator not in ("++", "--"):
            return _Frame(node, at, splits=False), at
    stray = _STRAY.match(text, at)
    end = stray.end() if stray else at
    if text.startswith("}}", end):
        return _Frame(node, -1, splits=False), end
    node.kind = "broken"
    return _Frame(node, at, splits=False), at


def _end_argument(text: str, frame: _Frame, end: int) -> None:
    """Add the argument that ends at a place, without the blanks around it."""
    start, nodes = frame.begin, frame.nodes
    head = text[start : nodes[0].start if nodes else end]
    start += len(head) - len(head.lstrip(WHITESPACE))
    tail_from = nodes[-1].end if nodes else start
    tail = text[tail_from:end]
    end = tail_from + len(tail.rstrip(WHITESPACE))
    argument = Argument(start, end, nodes)
    _find_partners(argument)
    frame.node.arguments.append(argument)
    frame.nodes = []


def _close(text: str, frame: _Frame, at: int) -> None:
    if frame.begin >= 0:
        _end_argument(text, frame, at)
    frame.node.end = at + 2


def _find_partners(level: Argument) -> None:
    """Find the end tag of each opening tag of a level; tags of one name nest."""
    level.first, level.last = 0, len(level.nodes)
    waiting: dict[str, list[MacroNode]] = {}
    for index, node in enumerate(level.nodes):
        node.partner = -1
        if node.kind != "macro":
            continue
        if not node.is_end:
            waiting.setdefault(node.name, []).append(node)
        elif waiting.get(node.name):
            waiting[node.name].pop().partner = index


def inside(level: Argument, first: int, start: int, last: int, end: int) -> Argument:
    """Return a part of a level: a range of its nodes, and its span in the text."""
    return Argument(start, end, level.nodes, first, last)


def find_else(level: Argument) -> int:
    """Return the index of the first `else` of a level that is in no pair; -1 if there is none."""
    index, nodes = level.first, level.nodes
    while index < level.last:
        node = nodes[index]
        if index < node.partner < level.last:
            index = node.partner
        elif node.kind == "macro" and node.name == ELSE and not node.is_end:
            return index
        index += 1
    return -1


def place_units(text: str) -> Sequence[int]:
    """Return the places of all characters that are two UTF-16 units."""
    if text.isascii():
        return ()
    return [at for at, character in enumerate(text) if character > "\uffff"]
