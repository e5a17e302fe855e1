"""Turns the key syntax of other programs into native keys and key expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lorewell.engine.conditions import And, Expression, Flaw, Not, Or, Word, write
from lorewell.engine.conditions.keys import read_key_expression
from lorewell.engine.matching.keys import split_regex
from lorewell.engine.matching.words import is_word_character
from lorewell.model.entry import MAX_KEY_CHARS

_ANY: Final = "*"
_ONE: Final = "?"
_LETTER: Final = r"[\p{L}\p{M}\p{N}_]"
_SYNTAX: Final = frozenset("\\^$.|+()[]{}/")


def has_wildcard(key: str) -> bool:
    """Return whether a key of Agnai has a wildcard, and is not a regular expression."""
    return split_regex(key) is None and (_ANY in key or _ONE in key)


def wildcard_key(key: str) -> str | None:
    r"""Return a key with wildcards as a regex key; None if it would be too long.

    `*` stands for any characters or none, `?` for one letter or digit. The key is bounded at word
    ends, except where it begins or ends with `*`.

    >>> wildcard_key("book*")
    '/(?<![\\p{L}\\p{M}\\p{N}_])book/iu'

    Source: docs/rules/formats.md §7.
    """
    inner = key.strip(_ANY)
    pattern = "".join(_piece(character) for character in _once(inner))
    if _is_bounded(key, inner, first=True):
        pattern = f"(?<!{_LETTER}){pattern}"
    if _is_bounded(key, inner, first=False):
        pattern = f"{pattern}(?!{_LETTER})"
    written = f"/{pattern}/iu"
    return written if len(written) <= MAX_KEY_CHARS else None


def _once(text: str) -> str:
    while _ANY * 2 in text:
        text = text.replace(_ANY * 2, _ANY)
    return text


def _piece(character: str) -> str:
    if character == _ANY:
        return ".*?"
    if character == _ONE:
        return _LETTER
    return f"\\{character}" if character in _SYNTAX else character


def _is_bounded(key: str, inner: str, *, first: bool) -> bool:
    """Return whether one end of a key must be the end of a word."""
    at = 0 if first else -1
    edge = inner[at]
    return key[at] != _ANY and (edge == _ONE or is_word_character(edge))


def any_of(keys: Sequence[str]) -> Expression:
    """Return the expression that one of the keys is found."""
    return _joined(Or, keys)


def all_of(keys: Sequence[str]) -> Expression:
    """Return the expression that every key is found."""
    return _joined(And, keys)


def _joined(kind: type[And | Or], keys: Sequence[str]) -> Expression:
    parts = tuple(Word(key) for key in keys)
    return parts[0] if len(parts) == 1 else kind(parts)


def without(found: Expression, excluded: Sequence[str]) -> Expression:
    """Return the expression that also needs every excluded key to be absent."""
    return And((found, *(Not(Word(key)) for key in excluded)))


def expression_text(expressions: Sequence[Expression]) -> str | None:
    """Return a `key_expression` that holds if one of these does; None if an entry can't have it."""
    joined = expressions[0] if len(expressions) == 1 else Or(tuple(expressions))
    written = write(joined)
    parsed = read_key_expression(written)
    return None if isinstance(parsed, Flaw) or write(parsed) != written else written
