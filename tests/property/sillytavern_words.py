"""JavaScript's idea of values, and texts, keys and hashes as SillyTavern has them; for its oracle.

Source: docs/rules/sillytavern.md §4, §7 and its notes on the language.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import Any, Final

from py_mini_racer import MiniRacer, init_mini_racer

from lorewell.jsregex.engine import FLAGS

BLANK: Final = r"\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"


class _Missing:
    """JavaScript's `undefined`."""


MISSING: Final = _Missing()


def or_else(value: Any, other: Any) -> Any:
    return other if value is None or value is MISSING else value


def truthy(value: Any) -> bool:
    if value is MISSING or value is None:
        return False
    if isinstance(value, list | dict):
        return True
    return bool(value) and not (isinstance(value, float) and math.isnan(value))


def is_same(value: Any, figure: Any) -> bool:
    """Return whether both are the same number, or equal texts."""
    kinds = {bool: "flag", int: "number", float: "number", str: "text"}
    kind = kinds.get(type(value))
    return kind is not None and kind == kinds.get(type(figure)) and bool(value == figure)


def number(value: Any) -> float:
    if isinstance(value, str):
        text = trim(value)
        if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII):
            return float(text)
        if re.fullmatch("0[xX][0-9a-fA-F]+", text):
            return int(text, 16)
        return math.nan if text else 0.0
    if isinstance(value, list):
        return number(string(value))
    if value is MISSING or isinstance(value, dict):
        return math.nan
    return value if isinstance(value, int | float) else 0


def is_loosely_true(value: Any) -> bool:
    return value is not None and number(value) == 1


def number_text(value: float) -> str:
    sign, digits, exponent = Decimal(repr(float(value))).as_tuple()
    assert isinstance(exponent, int)
    written = "".join(map(str, digits)).rstrip("0")
    point = len(digits) + exponent
    lead = written.lstrip("0")
    written = lead
    if not written:
        return "0"
    minus = "-" if sign else ""
    if len(written) <= point <= 21:
        return minus + written.ljust(point, "0")
    if 0 < point <= 21:
        return f"{minus}{written[:point]}.{written[point:]}"
    if -6 < point <= 0:
        return f"{minus}0.{'0' * -point}{written}"
    fraction = f".{written[1:]}" if len(written) > 1 else ""
    return f"{minus}{written[0]}{fraction}e{'+' if point > 0 else '-'}{abs(point - 1)}"


def string(value: Any) -> str:
    if value is MISSING:
        return "undefined"
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return ",".join("" if each is None else string(each) for each in value)
    return "[object Object]" if isinstance(value, dict) else number_text(value)


def object_order(value: Mapping[str, Any]) -> dict[str, Any]:
    def is_index(name: str) -> bool:
        return bool(re.fullmatch("0|[1-9][0-9]*", name)) and int(name) < 2**32 - 1

    indexes = sorted(filter(is_index, value), key=int)
    return {name: value[name] for name in [*indexes, *(n for n in value if not is_index(n))]}


# §4: the hash


def quoted(text: str) -> str:
    def escaped(match: re.Match[str]) -> str:
        short = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f"}
        short |= {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
        return short.get(match[0], f"\\u{ord(match[0]):04x}")

    return '"' + re.sub(r'["\\\x00-\x1f\ud800-\udfff]', escaped, text) + '"'


def json_text(value: Any) -> str:
    if isinstance(value, dict):
        members = object_order(value).items()
        return "{" + ",".join(f"{quoted(name)}:{json_text(each)}" for name, each in members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    return quoted(value) if isinstance(value, str) else string(value)


def hash_of(value: Any) -> int:
    coded = json_text(value).encode("utf-16-le")
    full = 2**32 - 1
    a, b = 0xDEADBEEF, 0x41C6CE57
    for at in range(0, len(coded), 2):
        unit = int.from_bytes(coded[at : at + 2], "little")
        a = (a ^ unit) * 2654435761 & full
        b = (b ^ unit) * 1597334677 & full
    a = ((a ^ a >> 16) * 2246822507 & full) ^ ((b ^ b >> 13) * 3266489909 & full)
    b = ((b ^ b >> 16) * 2246822507 & full) ^ ((a ^ a >> 13) * 3266489909 & full)
    return 2**32 * (b & 0x1FFFFF) + a


# §7: texts and keys


def trim(text: str) -> str:
    return re.sub(rf"\A[{BLANK}]+|[{BLANK}]+\Z", "", text)


def lower(text: str) -> str:
    return text.lower()


@cache
def _javascript() -> MiniRacer:
    init_mini_racer(flags=FLAGS, ignore_duplicate_init=True)
    engine = MiniRacer()
    engine.eval(
        "function search(pattern, flags, text) {"
        "  try { return new RegExp(pattern, flags).test(text); } catch (error) { return null; }"
        "}"
    )
    return engine


def search_regex(pattern: str, flags: str, text: str) -> bool | None:
    """Return whether JavaScript finds the pattern; None if it refuses the pattern or the flags."""
    arguments = ",".join(map(json.dumps, (pattern, flags, text)))
    found = _javascript().eval(f"search({arguments})")
    return found if isinstance(found, bool) else None


def holds(text: str, key: str, *, case_sensitive: bool, whole_words: bool) -> bool:
    form = re.fullmatch(r"/([\s\S]+)/([gimsuy]*)", key)
    if form and not re.search(r"(?:^|[^\\])/", form[1]):
        found = search_regex(form[1], form[2], text)
        if found is not None:
            return found
    if not case_sensitive:
        text, key = lower(text), lower(key)
    if not whole_words or len(re.split(f"[{BLANK}]+", key)) > 1:
        return key in text
    for start in range(len(text) - len(key) + 1):
        end = start + len(key)
        beside = (text[start - 1 : start] if start else "", text[end : end + 1])
        if text[start:end] == key and not any(re.fullmatch("[A-Za-z0-9_]", at) for at in beside):
            return True
    return False
