"""Finds and substitutes `{{char}}` and `{{user}}` in a content (docs/rules/native.md §8.2)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lorewell.model.text import BLANK, is_blank

# No braces inside: of nested expressions only the innermost counts (§8.11).
EXPRESSION: Final = re.compile(r"\{\{([^{}]*)\}\}")
_VARIABLES: Final = frozenset({"char", "user"})


@dataclass(frozen=True, slots=True)
class Template:
    """The expressions of a text that holds any.

    Attributes:
        counts: how often each variable occurs.
        chars: length of the text without its expressions.
        has_text: whether the text without its expressions is not blank.
        unsupported: the first expression that is not a variable.
    """

    counts: Mapping[str, int]
    chars: int
    has_text: bool
    unsupported: str | None

    @property
    def variables(self) -> frozenset[str]:
        """The variables that occur."""
        return frozenset(self.counts)

    def length(self, variables: Mapping[str, str]) -> int:
        """Return the length of the text after substitution."""
        return self.chars + sum(count * len(variables[name]) for name, count in self.counts.items())


def _name_of(expression: str) -> str:
    return expression.strip(BLANK).lower()


def is_variable(expression: str) -> bool:
    """Return whether we substitute an expression, given the text between its braces."""
    return _name_of(expression) in _VARIABLES


def find_template(text: str) -> Template | None:
    """Return the expressions of a text, None if it holds none."""
    expressions = EXPRESSION.findall(text)
    if not expressions:
        return None
    names = [_name_of(expression) for expression in expressions]
    odd = next(
        (e for e, name in zip(expressions, names, strict=True) if name not in _VARIABLES), None
    )
    rest = EXPRESSION.sub("", text)
    return Template(
        counts=Counter(name for name in names if name in _VARIABLES),
        chars=len(rest),
        has_text=not is_blank(rest),
        unsupported=None if odd is None else f"{{{{{odd}}}}}",
    )


def substitute(text: str, variables: Mapping[str, str]) -> str:
    """Return the text with every `{{char}}` and `{{user}}` replaced, in one pass.

    >>> substitute("{{ User }} waves", {"user": "{{char}}"})
    '{{char}} waves'
    """
    return EXPRESSION.sub(lambda match: variables[_name_of(match[1])], text)
