"""Checks of texts and free-form JSON, which every string and object of the contract passes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Annotated, Any

import orjson
from pydantic import AfterValidator, Field, PlainSerializer, ValidationInfo, WrapValidator
from pydantic_core import PydanticCustomError

MAX_NESTING = 100
MAX_STEP_CHARS = 200
MAX_POINTER_CHARS = 500

_LEVELS_IN_PIECES = 3  # a book, its entries, and each entry
_BATCH = 1_000
_EXACT = 2**53
_SMALLEST_WITHOUT_EXPONENT = 1e-4

# Unicode White_Space and U+FEFF; `str.strip()` alone also takes U+001C to U+001F, not U+FEFF.
BLANK = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
    "\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
)


def is_blank(text: str) -> bool:
    """Return whether the text is empty or holds only blanks.

    Source: docs/rules/native.md §8.11.
    """
    return not text.strip(BLANK)


def fault(at: str, detail: str) -> PydanticCustomError:
    """Return the error of a pydantic validator; `at` is a JSON pointer from the validated value."""
    return PydanticCustomError("contract", "{detail}", {"detail": detail, "at": at})


def text_flaw(text: str) -> str | None:
    """Return why the text can't be stored, or None."""
    if "\x00" in text:
        return "text must not contain U+0000"
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"text must not contain a lone surrogate (at character {error.start})"
    return None


def _check_text(text: str) -> str:
    flaw = text_flaw(text)
    if flaw:
        raise fault("", flaw)
    return text


# The category Cc of Unicode.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")


def _check_identifier(text: str) -> str:
    if CONTROLS.search(text):
        raise fault("", "must not contain control characters")
    return text


def _keep_integer(value: Any, handler: Any) -> Any:  # noqa: ANN401  any input of a pydantic validator
    number = handler(value)
    return value if isinstance(value, int) else number


Text = Annotated[str, Field(strict=True), AfterValidator(_check_text)]
Identifier = Annotated[Text, AfterValidator(_check_identifier)]
# Texts joined from many entries or messages; otherwise only the size of the body bounds them.
MAX_WHOLE_CHARS = 10_000_000
WholeText = Annotated[Text, Field(max_length=MAX_WHOLE_CHARS)]
Name = Annotated[Text, Field(max_length=500)]
ScannedText = Annotated[Text, Field(max_length=200_000)]
Flag = Annotated[bool, Field(strict=True)]
Integer = Annotated[int, Field(strict=True)]
Count = Annotated[Integer, Field(ge=0, le=1_000_000_000)]
# Integer or decimal, in the form it was given, so that 100 is never stored as 100.0.
Number = Annotated[
    float,
    Field(strict=True, allow_inf_nan=False),
    WrapValidator(_keep_integer),
    PlainSerializer(lambda number: number, return_type=int | float),
]


def pointer(*steps: str | int) -> str:
    """Return the JSON pointer (RFC 6901) of a path."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def short_pointer(*steps: str | int) -> str:
    """Return the JSON pointer of a path, or that of a container if it would be very long.

    >>> short_pointer("entries", "9" * 201, "content")
    '/entries'
    """
    short = ""
    for step in steps:
        if isinstance(step, str) and len(step) > MAX_STEP_CHARS:
            break
        longer = short + pointer(step)
        if len(longer) > MAX_POINTER_CHARS:
            break
        short = longer
    return short


Spend = Callable[[int], object]


def spend_nothing(_count: int) -> None:
    """Count nothing."""


def check_json(value: object, at: str = "", *, spend: Spend = spend_nothing) -> None:
    """Raise a fault for the first part of a free-form value that is not storable JSON.

    Args:
        value: the value.
        at: JSON pointer to it.
        spend: called with the number of members or items of each list and object; it may raise.
    """
    found = _find_flaw(value, 1, spend)
    if found is not None:
        steps, flaw = found
        raise fault(at + pointer(*reversed(steps)), flaw)


def _find_flaw(value: object, depth: int, spend: Spend) -> tuple[list[str | int], str] | None:
    """Return the steps to the first flaw, the last step first, and the flaw."""
    if not isinstance(value, dict | list):
        flaw = _scalar_flaw(value)
        return ([], flaw) if flaw else None
    if depth > MAX_NESTING:
        return [], f"nesting must be at most {MAX_NESTING}"
    flaw = _name_flaw(value) if isinstance(value, dict) else None
    if flaw:
        return [], flaw
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for batch in _in_batches(members, len(value), spend):
        for name, member in batch:
            if member is None or isinstance(member, int) or _is_plain(member):
                continue  # most values of large files; a bool is an int
            found = _find_flaw(member, depth + 1, spend)
            if found is not None:
                found[0].append(name)
                return found
    return None


def _name_flaw(names: Iterable[object]) -> str | None:
    """Return why the name of a member can't be stored, or None."""
    for name in names:
        if _is_plain(name):
            continue
        flaw = text_flaw(name) if isinstance(name, str) else "member names must be text"
        if flaw:
            return flaw
    return None


def _in_batches(
    members: Iterable[tuple[Any, object]], count: int, spend: Spend
) -> Iterable[Iterable[tuple[Any, object]]]:
    """Return the members in batches, and spend before each of them."""
    if count <= _BATCH:
        spend(count)
        return (members,)
    return _sliced(iter(members), spend)


def _sliced(
    members: Iterator[tuple[Any, object]], spend: Spend
) -> Iterator[Sequence[tuple[Any, object]]]:
    while batch := tuple(islice(members, _BATCH)):
        spend(len(batch))
        yield batch


def _is_plain(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and "\x00" not in value


def _scalar_flaw(value: object) -> str | None:
    if isinstance(value, str):
        return text_flaw(value)
    if isinstance(value, float):
        return None if math.isfinite(value) else "number must be finite"
    if value is None or isinstance(value, int):  # also bool
        return None
    return f"must be a JSON value, is a Python {type(value).__name__}"


def canonical_json(value: object, *, free: object = ...) -> bytes:
    """Return the canonical JSON of a value, the input of hashes.

    Keys sorted, no spaces, UTF-8, non-ASCII unescaped, numbers as Python writes them.

    Args:
        value: any JSON value; tuples count as lists.
        free: the parts of it that may hold any number; by default the whole value. Checking
            numbers takes longer than writing the rest.

    Source: docs/rules/native.md §3.5.
    """
    if not _encodes_alike(value if free is ... else free):
        return _write_in_pieces(value, _LEVELS_IN_PIECES)
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _write_in_pieces(value: object, levels: int) -> bytes:
    """Encode a value as Python's json does, in pieces: json blocks all other threads."""
    if levels and isinstance(value, dict):
        members = (
            _write_in_pieces(name, 0) + b":" + _write_in_pieces(value[name], levels - 1)
            for name in sorted(value)
        )
        return b"{" + b",".join(members) + b"}"
    if levels and isinstance(value, list | tuple):
        return b"[" + b",".join(_write_in_pieces(each, levels - 1) for each in value) + b"]"
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def _encodes_alike(value: object) -> bool:
    """Return whether orjson, which is 20 times as fast, encodes the value as Python's json does.

    orjson writes numbers with an exponent differently and refuses some integers of over 53 bits.
    """
    if value is None or isinstance(value, str | bool):
        return True
    if isinstance(value, list | tuple):
        return all(map(_encodes_alike, value))
    if isinstance(value, dict):
        return all(map(_encodes_alike, value.values()))
    if isinstance(value, int):
        return -_EXACT < value < _EXACT
    if isinstance(value, float):
        return value == 0 or _SMALLEST_WITHOUT_EXPONENT <= abs(value) < _EXACT
    return False


def check_object(
    value: dict[str, Any], *, kib: int, uncounted: str | None = None, spend: Spend = spend_nothing
) -> dict[str, Any]:
    """Return the free-form object, if it is storable JSON of at most `kib` KiB.

    Args:
        value: the object; it is not changed.
        kib: the bound on its compact JSON in UTF-8.
        uncounted: name of a member that does not count towards the bound.
        spend: as for `check_json`.

    Raises:
        PydanticCustomError: it is not.
    """
    check_json(value, spend=spend)
    size = len(canonical_json({k: v for k, v in value.items() if k != uncounted}))
    if size > kib * 1024:
        raise fault("", f"must be at most {kib} KiB as JSON, is {size} bytes")
    return value


def _up_to(kib: int, uncounted: str | None = None) -> AfterValidator:
    def check(value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        spend = spend_nothing if info.context is None else info.context.spend
        return check_object(value, kib=kib, uncounted=uncounted, spend=spend)

    return AfterValidator(check)


FreeObject = Annotated[dict[str, Any], _up_to(64)]
SourceObject = Annotated[dict[str, Any], _up_to(64, uncounted="raw")]
StateObject = Annotated[dict[str, Any], _up_to(256)]
