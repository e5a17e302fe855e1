"""Readers for values of a foreign file that never fail (docs/rules/replica.md §2)."""

from __future__ import annotations

import json
import math
import re
from typing import Final

from lorewell.engine.conditions.truth import as_text

Raw = object  # any JSON

_DIGITS: Final = re.compile(r"[+-]?[0-9]{1,15}")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?")
_MOST: Final = 2**53
MAX_ITEMS: Final = 10_000  # items read of a list or of a comma list


def as_integer(value: Raw) -> int | None:
    """Return an integer, also from a text of digits; None for anything else."""
    match value:
        case bool():
            return None
        case int() if abs(value) < _MOST:
            return value
        case float() if value.is_integer() and abs(value) < _MOST:
            return int(value)
        case str() if _DIGITS.fullmatch(value.strip()):
            return int(value)
        case _:
            return None


def as_number(value: Raw) -> float | None:
    """Return a number, also from a text; None for anything else."""
    match value:
        case bool():
            return None
        case int() | float():
            return value if abs(value) < _MOST and math.isfinite(value) else None
        case str() if _NUMBER.fullmatch(value.strip()):
            return float(value)
        case _:
            return None


def as_flag(value: Raw, *, default: bool = False) -> bool:
    """Return a boolean; the text `true` and the number 1 are true."""
    match value:
        case None:
            return default
        case bool():
            return value
        case str():
            return value.strip().lower() == "true"
        case _:
            return value == 1


def as_content(value: Raw) -> str:
    """Return a text; null becomes "", anything else its JSON."""
    match value:
        case None:
            return ""
        case str():
            return value
        case _:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def as_uid(value: Raw) -> str | None:
    """Return a text, or a number as decimal text; None for other values and an empty text."""
    match value:
        case bool() | None:
            return None
        case str():
            return value or None
        case int() | float():
            return as_text(value)
        case _:
            return None


def as_labels(value: Raw) -> tuple[str, ...]:
    """Return the distinct texts of a list or of a comma list, trimmed.

    Only the first 10,000 are read.
    """
    items = value.split(",", MAX_ITEMS) if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        return ()
    trimmed = (item.strip() for item in items[:MAX_ITEMS] if isinstance(item, str))
    return tuple(dict.fromkeys(item for item in trimmed if item))
