"""SillyTavern's macros as their contract says it, for the oracle: both engines, by plain recursion.

Written from the text alone, without a look at the engine. It knows the macros that random cases
use: names, card, variables, conditions, chance without picks, and texts.

Source: docs/rules/sillytavern-macros.md; the sections are named at the functions.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from property.sillytavern_words import BLANK, json_text, number, string, trim

NAME = "[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?"
OPERATORS = (
    "||=",
    "??=",
    "||",
    "??",
    "++",
    "--",
    "+=",
    "-=",
    "==",
    "!=",
    ">=",
    "<=",
    ">",
    "<",
    "=",
)
SIGNS = {"user": "user", "bot": "char", "char": "char", "group": "group"}
CARD = ("description", "persona", "scenario", "personality")


class StaysError(Exception):
    """The macro stays as written."""


@dataclass
class Tag:
    """A complete macro: the pieces of its text, every second one an argument."""

    pieces: list[str]
    name: str
    is_end: bool = False
    keeps: bool = False
    operator: str | None = None  # of a variable in short form

    @property
    def args(self) -> list[str]:
        return self.pieces[1::2]

    @property
    def raw(self) -> str:
        return "".join(self.pieces)


@dataclass
class Values:
    """What macros read and set in a turn."""

    names: Mapping[str, str]
    card: Mapping[str, str]
    variables: dict[str, dict[str, Any]]
    draw: Callable[[], float]
    in_card: bool = False
    fields: dict[str, str] = field(default_factory=dict)

    # §6: variables

    def read(self, scope: str, name: str) -> str:
        value = self.variables[scope].get(name, "")
        figure = number(value) if isinstance(value, int | float) or trim(value) else math.nan
        return string(value) if math.isnan(figure) else string(figure)

    def add(self, scope: str, name: str, value: Any, *, old: bool = False) -> str:
        held = self.read(scope, name)
        listed = as_json(held)
        if isinstance(listed, list):
            listed.append(value)
            self.variables[scope][name] = json_text(listed)
            return string(listed) if old else self.variables[scope][name]
        one, two = number(held), number(value)
        if math.isnan(one) or math.isnan(two):
            self.variables[scope][name] = held + string(value)
        else:
            self.variables[scope][name] = one + two
        return self.read(scope, name)

    def chosen(self, items: list[str]) -> str:
        return items[math.floor(self.draw() * len(items))] if items else ""

    def rolled(self, formula: str) -> str:
        if re.fullmatch("[1-9][0-9]*", formula):
            formula = f"d{formula}"
        parts = re.fullmatch(r"([1-9]\d*)?[dD]([1-9]\d*)([+-]\d+)?", formula, re.ASCII)
        if parts is None:
            return ""
        dice = [1 + math.floor(self.draw() * int(parts[2])) for _ in range(int(parts[1] or 1))]
        return str(sum(dice) + int(parts[3] or 0))


def as_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def list_of(args: list[str]) -> list[str]:
    if len(args) != 1:
        return args
    parted = args[0].split("::") if "::" in args[0] else commas(args[0])
    return [trim(each) for each in parted]


def commas(text: str) -> list[str]:
    return [each.replace("\x00", ",") for each in text.replace("\\,", "\x00").split(",")]


# §3: the new engine


def expand(text: str, values: Values) -> str:
    text = re.sub(
        r"\{\{time_(UTC[+-]\d+)\}\}", r"{{time::\1}}", text, flags=re.IGNORECASE | re.ASCII
    )
    text = re.sub(
        "<(user|bot|char|group|charifnotgroup)>",
        lambda m: "{{" + SIGNS.get(m[1].lower(), "group") + "}}",
        text,
        flags=re.IGNORECASE,
    )
    values.fields.clear()
    return whole(text, values)


def whole(text: str, values: Values) -> str:
    """A text, or a branch: evaluated, unescaped, trimmed around its trim macros."""
    text = level(text, values)
    text = text.replace("\\{", "{").replace("\\}", "}")
    return re.sub(r"(?:\r?\n)*\{\{trim\}\}(?:\r?\n)*", "", text, flags=re.IGNORECASE)


def items_of(text: str) -> list[str | Tag]:
    found: list[str | Tag] = []
    at = 0
    while at < len(text):
        tag = tag_at(text, at)
        if tag is None:
            found.append(text[at])
            at += 1
        else:
            found.append(tag)
            at += len(tag.raw)
    return found


def tag_at(text: str, at: int) -> Tag | None:
    """The macro that begins here: of more than two braces the last two begin it."""
    if not text.startswith("{{", at) or text.startswith("{{{", at):
        return None
    start = at
    at += 2
    while re.match(f"[{BLANK}!?~>#/]", text[at : at + 1]) and not text.startswith("//", at):
        at += 1
    flags = text[start + 2 : at]
    tag = Tag([], "", "/" in flags, "#" in flags)
    if text.startswith("//", at):
        tag.name = "//"
        at += 2
        if re.match(f"[{BLANK}]*/", text[at:]):
            tag.is_end = True
    elif text[at : at + 1] in (".", "$") and at < len(text):
        return short_form(text, start, at, tag)
    else:
        name = re.match("[A-Za-z][A-Za-z0-9_-]*", text[at:])
        if name is None:
            return None
        tag.name = name[0].lower()
        at += len(name[0])
        while at < len(text) and not re.match(rf"[{BLANK}:|]|\}}\}}", text[at:]):
            at += 1
    blanks = len(re.match(f"[{BLANK}]*", text[at:])[0])  # type: ignore[index]
    after = at + blanks
    if text.startswith("}}", after):
        tag.pieces = [text[start : after + 2]]
        return tag
    if text.startswith("::", after):
        return with_args(text, start, after + 2, tag, splits=True)
    return with_args(text, start, after + (text[after : after + 1] == ":"), tag, splits=False)


def with_args(text: str, start: int, at: int, tag: Tag, *, splits: bool) -> Tag | None:
    bounds, begin = [], at
    while True:
        if at >= len(text):
            return None
        inner = tag_at(text, at)
        if inner is not None:
            at += len(inner.raw)
        elif text.startswith("}}", at):
            bounds.append((begin, at))
            break
        elif splits and text.startswith("::", at):
            bounds.append((begin, at))
            at += 2
            begin = at
        else:
            at += 1
    last = start
    for low, high in bounds:
        held = text[low:high]
        inside = trim(held)
        first = low + len(held) - len(re.sub(f"^[{BLANK}]+", "", held))
        tag.pieces += [text[last:first], inside]
        last = first + len(inside)
    tag.pieces.append(text[last : at + 2])
    return tag


def short_form(text: str, start: int, at: int, tag: Tag) -> Tag | None:
    scope, rest = text[at], text[at + 1 :]
    parsed = re.match(rf"[{BLANK}]*({NAME})[{BLANK}]*", rest)
    tag.name, tag.operator, tag.is_end = scope, "broken", False
    if parsed is None:
        blanks = re.match(f"[{BLANK}]*", rest)
        assert blanks
        at += 1 + blanks.end()
        if text.startswith("}}", at):
            tag.operator = "nothing"
        return with_args(text, start, at, tag, splits=False)
    at += 1 + parsed.end()
    operator = next((each for each in OPERATORS if text.startswith(each, at)), "")
    at += len(operator)
    if operator in ("", "++", "--"):
        word = rf"[A-Za-z](?:[^{BLANK}:|{{}}]|\}}(?!\}}))*"
        stray = re.match(rf"[{BLANK}]*(?:{word}|[!?~>#/])?[{BLANK}]*", text[at:])
        assert stray
        if text.startswith("}}", at + stray.end()):
            tag.name, tag.operator = scope + parsed[1], operator
            tag.pieces = [text[start : at + stray.end() + 2]]
            return tag
        return with_args(text, start, at, tag, splits=False)
    tag.name, tag.operator = scope + parsed[1], operator
    return with_args(text, start, at, tag, splits=False)


def partner(items: list[str | Tag], at: int) -> int:
    """Where the end tag of an opening tag is; 0 if it has none on its level."""
    tag, depth = items[at], 0
    assert isinstance(tag, Tag)
    if tag.operator is not None or tag.is_end:
        return 0
    for index in range(at, len(items)):
        each = items[index]
        if isinstance(each, Tag) and each.name == tag.name and each.operator is None:
            depth += -1 if each.is_end else 1
            if not depth:
                return index
    return 0


def level(text: str, values: Values, *, pairs: bool = True) -> str:
    items, parts, at = items_of(text), [], 0
    while at < len(items):
        item = items[at]
        if isinstance(item, str):
            parts.append(item)
        elif pairs and (end := partner(items, at)):
            between = "".join(e if isinstance(e, str) else e.raw for e in items[at + 1 : end])
            closing = items[end]
            assert isinstance(closing, Tag)
            parts.append(pair(item, between, closing, values))
            at = end
        else:
            parts.append(single(item, values))
        at += 1
    return "".join(parts)


def written(tag: Tag, args: list[str]) -> str:
    pieces = list(tag.pieces)
    pieces[1::2] = args
    return "".join(pieces)


def single(tag: Tag, values: Values) -> str:
    if tag.operator is not None:
        return variable(tag, values)
    takes = None if tag.is_end else MACROS.get(tag.name)
    count = len(tag.args)
    if takes is not None and tag.name == "if" and count == 2:
        return condition(tag, tag.args[0], tag.args[1], values)
    args = [level(each, values) for each in tag.args]
    if takes is None or not takes[0] <= count <= takes[1]:
        return written(tag, args)
    try:
        return run(tag.name, args, values)
    except StaysError:
        return written(tag, args)


def pair(tag: Tag, between: str, end: Tag, values: Values) -> str:
    takes = MACROS.get(tag.name)
    count = len(tag.args) + 1
    fits = takes is not None and takes[1] < 99 and takes[0] <= count <= takes[1]
    if fits and tag.name == "if":
        return condition(tag, tag.args[0], between, values)
    args = [level(each, values) for each in tag.args]
    text = level(between, values)
    if takes is not None and not fits:
        closing = written(end, [level(each, values) for each in end.args])
        return written(tag, args) + text + closing
    try:
        given = text if tag.keeps else dedented(text)
        return given if tag.name == "trim" else run(tag.name, [*args, given], values)
    except StaysError:
        return written(tag, args) + (f"{text}}}}}" if text else "")


def dedented(text: str) -> str:
    lines = text.split("\n")
    first = next((line for line in lines if trim(line)), "")
    width = len(first) - len(first.lstrip(" \t"))
    kept = []
    for line in lines:
        indent = len(line) - len(line.lstrip(" \t"))
        kept.append(line[min(width, indent) :])
    return trim("\n".join(kept))


def condition(tag: Tag, asked: str, branch: str, values: Values) -> str:
    inverted = asked.startswith("!")
    if inverted:
        asked = re.sub(f"^![{BLANK}]*", "", asked)
    told = level(asked, values)
    if re.fullmatch(f"[.$]{NAME}", told):
        told = values.read(told[0], told[1:])
    elif MACROS.get(told.lower(), (1,))[0] == 0:
        told = run(told.lower(), [], values)
    items, at, split = items_of(branch), 0, None
    while at < len(items):
        item = items[at]
        if isinstance(item, Tag):
            if end := partner(items, at):
                at = end
            elif item.name == "else" and not item.is_end and item.operator is None:
                split = at
                break
        at += 1
    raws = [each if isinstance(each, str) else each.raw for each in items]
    yes = "".join(raws[:split])
    no = "" if split is None else "".join(raws[split + 1 :])
    text = whole(no if is_false(told) is not inverted else yes, values)
    return text if tag.keeps else dedented(text)


def is_false(text: str) -> bool:
    return trim(text).lower() in ("", "0", "off", "false")


def variable(tag: Tag, values: Values) -> str:
    scope, name, operator = tag.name[0], tag.name[1:], tag.operator
    if operator in ("nothing", "broken"):
        return "" if operator == "nothing" else written(tag, [level(e, values) for e in tag.args])
    held = values.read(scope, name)
    if operator in ("++", "--"):
        return values.add(scope, name, 1 if operator == "++" else -1)
    is_kept = {"": True, "|": not is_false(held), "?": name in values.variables[scope]}
    if is_kept.get(str(operator)[:1], False):
        return held
    value = level(tag.args[0], values, pairs=False)
    if operator in COMPARISONS:
        return "true" if COMPARISONS[operator](held, value) else "false"
    if operator == "+=":
        values.add(scope, name, value)
    elif operator == "-=":
        if not math.isnan(number(value)):
            values.add(scope, name, string(-number(value)))
    elif str(operator).endswith("="):
        values.variables[scope][name] = value
    return value if str(operator)[0] in "|?" else ""


COMPARISONS: Mapping[str | None, Callable[[str, str], bool]] = {
    "==": lambda one, two: one == two,
    "!=": lambda one, two: one != two,
    ">": lambda one, two: number(one) > number(two),
    ">=": lambda one, two: number(one) >= number(two),
    "<": lambda one, two: number(one) < number(two),
    "<=": lambda one, two: number(one) <= number(two),
}


# §5: the table, as the least and the most arguments of each macro; 99 is a list.
MACROS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("user", "char", "group", "charifnotgroup", "notchar", "noop", "else"), (0, 0)),
    **dict.fromkeys((*CARD, "original"), (0, 0)),
    **dict.fromkeys(("newline", "space", "trim"), (0, 1)),
    **dict.fromkeys(("reverse", "roll", "//", "comment"), (1, 1)),
    **dict.fromkeys(("random",), (0, 99)),
    "if": (2, 2),
    **{
        f"{verb}{scope}": (count, count)
        for scope in ("var", "globalvar")
        for verb, count in {"set": 2, "add": 2, "inc": 1, "dec": 1, "get": 1, "has": 1}.items()
    },
}


def run(name: str, args: list[str], values: Values) -> str:
    if name in CARD:
        return field_of(name, values)
    if found := re.fullmatch("(set|add|inc|dec|get|has)(global)?var", name):
        return of_variable(found[1], "$" if found[2] else ".", args, values)
    if name in ("newline", "space"):
        count = args[0] if args else "1"
        if not re.fullmatch("-?[0-9]+", count) or int(count) < 0:
            raise StaysError
        return ("\n" if name == "newline" else " ") * int(count)
    if name not in VALUES:
        raise StaysError
    return VALUES[name](args, values)


# Other names, and `original`, stay as written.
VALUES: Mapping[str, Callable[[list[str], Values], str]] = {
    **dict.fromkeys(("user", "notchar"), lambda _, values: values.names["user"]),
    **dict.fromkeys(("char", "group", "charifnotgroup"), lambda _, values: values.names["char"]),
    **dict.fromkeys(("noop", "else", "//", "comment"), lambda *_: ""),
    "trim": lambda *_: "{{trim}}",
    "reverse": lambda args, _: args[0][::-1],
    "random": lambda args, values: values.chosen(list_of(args)),
    "roll": lambda args, values: values.rolled(args[0]),
}


def field_of(name: str, values: Values) -> str:
    if values.in_card:
        return ""
    if name not in values.fields:
        kept, values.fields, values.in_card = values.fields, {}, True
        made = expand(trim(values.card.get(name, "")), values).replace("\r", "")
        values.fields, values.in_card = kept, False
        values.fields[name] = made
    return values.fields[name]


def of_variable(verb: str, scope: str, args: list[str], values: Values) -> str:
    name = args[0]
    if not name:
        raise StaysError
    match verb:
        case "set":
            values.variables[scope][name] = args[1]
        case "add":
            values.add(scope, name, args[1])
        case "inc" | "dec":
            return values.add(scope, name, 1 if verb == "inc" else -1)
        case "get":
            return values.read(scope, name)
        case "has":
            return "true" if name in values.variables[scope] else "false"
    return ""


# §4: the old engine


def expand_old(text: str, values: Values) -> str:
    fields: dict[str, str] = {}
    if not values.in_card:
        values.in_card = True
        for name in ("description", "personality", "scenario", "persona"):
            made = expand_old(trim(values.card.get(name, "")), values)
            fields[name] = made.replace("\r", "")
        values.in_card = False
    for sign, name in (*SIGNS.items(), ("charifnotgroup", "char")):
        person = values.names["user" if name == "user" else "char"]
        text = re.sub(f"<{sign}>", lambda _, v=person: v, text, flags=re.IGNORECASE)  # type: ignore[misc]
    for pattern, value in passes(values, fields):
        if "{{" not in text:
            break
        try:
            text = re.sub(pattern, value, text, flags=re.IGNORECASE)
        except StaysError:
            continue
    return text


def passes(
    values: Values, fields: Mapping[str, str]
) -> list[tuple[str, Callable[[re.Match[str]], str]]]:
    found: list[tuple[str, Callable[[re.Match[str]], str]]] = [
        (rf"\{{\{{roll[{BLANK}:]([^}}]+)\}}\}}", lambda m: values.rolled(m[1]))
    ]
    for scope, word in ((".", "var"), ("$", "globalvar")):
        found += variable_passes(scope, word, values)
    found += [
        (r"\{\{newline\}\}", lambda _: "\n"),
        (r"(?:\r?\n)*\{\{trim\}\}(?:\r?\n)*", lambda _: ""),
        (r"\{\{noop\}\}", lambda _: ""),
    ]
    for name, text in fields.items():
        found.append((rf"\{{\{{{name}\}}\}}", lambda _, v=text: v))  # type: ignore[misc]
    for name in ("user", "char", "group", "charIfNotGroup", "notChar"):
        person = values.names["user" if name in ("user", "notChar") else "char"]
        found.append((rf"\{{\{{{name}\}}\}}", lambda _, v=person: v))  # type: ignore[misc]
    return [
        *found,
        (r"\{\{reverse:(.+?)\}\}", lambda m: m[1][::-1]),
        (r"\{\{//[\s\S]*?\}\}", lambda _: ""),
        (rf"\{{\{{random[{BLANK}]?::?([^}}]+)\}}\}}", lambda m: values.chosen(old_list(m[1]))),
    ]


def old_list(text: str) -> list[str]:
    return text.split("::") if "::" in text else [trim(each) for each in commas(text)]


def variable_passes(
    scope: str, word: str, values: Values
) -> list[tuple[str, Callable[[re.Match[str]], str]]]:
    def named(found: re.Match[str]) -> str:
        if not trim(found[1]):
            raise StaysError
        return trim(found[1])

    def put(found: re.Match[str]) -> str:
        values.variables[scope][named(found)] = found[2]
        return ""

    def more(found: re.Match[str]) -> str:
        values.add(scope, named(found), found[2])
        return ""

    return [
        (rf"\{{\{{set{word}::([^:}}]+)::([^}}]*)\}}\}}", put),
        (rf"\{{\{{add{word}::([^:}}]+)::([^}}]+)\}}\}}", more),
        (
            rf"\{{\{{inc{word}::([^}}]+)\}}\}}",
            lambda m: values.add(scope, named(m), 1, old=True),
        ),
        (
            rf"\{{\{{dec{word}::([^}}]+)\}}\}}",
            lambda m: values.add(scope, named(m), -1, old=True),
        ),
        (rf"\{{\{{get{word}::([^}}]+)\}}\}}", lambda m: values.read(scope, named(m))),
    ]
