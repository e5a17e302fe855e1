"""Key expressions that can stand, and where they hold in a text."""

from __future__ import annotations

from collections.abc import Mapping

from lorewell.engine.conditions.flaw import Flaw
from lorewell.engine.conditions.parsing import parse_key_expression
from lorewell.engine.conditions.syntax import Expression, words_of
from lorewell.engine.conditions.truth import holds
from lorewell.engine.matching.fold import fold_case, keep_case
from lorewell.engine.matching.hits import Hits
from lorewell.engine.matching.keys import LiteralKey, fold_key, split_regex, trim
from lorewell.engine.matching.literal import LiteralIndex
from lorewell.engine.matching.window import Haystack
from lorewell.engine.steps import Steps


def read_key_expression(text: str) -> Expression | Flaw:
    """Return a key expression that an entry can have, or why it would never hold.

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
    """Return where the keys of an expression are first found in a text, as an entry's keys are.

    Spans are half-open, in code points of the text; a key that is not found is not there.
    """
    patterns: dict[str, int] = {}
    keys = [
        LiteralKey(
            word,
            patterns.setdefault(fold_key(trim(word), case_sensitive=case_sensitive), len(patterns)),
            whole_words,
        )
        for word in dict(words_of(expression))
    ]
    steps = Steps()
    form = keep_case if case_sensitive else fold_case
    hits = Hits(
        LiteralIndex(tuple(patterns), [()] * len(patterns)),
        Haystack([text], depth=1, form=form, steps=steps),
        steps,
    )
    hits.advance()
    found = ((key.text, hits.first(key, 0)) for key in keys)
    return {word: place.span for word, place in found if place is not None}
