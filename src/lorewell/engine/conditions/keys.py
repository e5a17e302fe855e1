"""Parses the key expressions of entries, and finds their keys in a text."""

from __future__ import annotations

from collections.abc import Mapping

from lorewell.engine.conditions.flaw import Flaw
from lorewell.engine.conditions.parsing import parse_key_expression
from lorewell.engine.conditions.syntax import Expression, words_of
from lorewell.engine.conditions.truth import holds
from lorewell.engine.matching.fold import fold_case, keep_case
from lorewell.engine.matching.hits import Hits
from lorewell.engine.matching.key_table import KeyTable
from lorewell.engine.matching.keys import LiteralKey, fold_key, split_regex, trim
from lorewell.engine.matching.window import Haystack
from lorewell.engine.steps import Steps


def read_key_expression(text: str) -> Expression | Flaw:
    """Parse a key expression of an entry, or return why an entry can't have it.

    >>> read_key_expression("not night").detail
    'it would hold where none of its keys is found'
    """
    parsed = parse_key_expression(text)
    if isinstance(parsed, Flaw):
        return parsed
    if any(split_regex(word) for word, _ in words_of(parsed)):
        return Flaw(0, "a regex can't be part of it")
    if holds(parsed, lambda _: False):
        return Flaw(0, "it would hold where none of its keys is found")
    return parsed


def find_words(
    expression: Expression, text: str, *, case_sensitive: bool, whole_words: bool
) -> Mapping[str, tuple[int, int]]:
    """Return the first span of each key of an expression in a text; keys not found are missing.

    Keys are matched like those of an entry. Spans are half-open, in code points of the text.
    """
    table = KeyTable()
    keys = [
        LiteralKey(
            word, table.add(fold_key(trim(word), case_sensitive=case_sensitive)), whole_words
        )
        for word in dict(words_of(expression))
    ]
    steps = Steps()
    form = keep_case if case_sensitive else fold_case
    hits = Hits(table.index(), Haystack([text], depth=1, form=form, steps=steps), steps)
    hits.advance()
    places = ((key.text, hits.first(key, 0)) for key in keys)
    return {word: place.span for word, place in places if place is not None}
