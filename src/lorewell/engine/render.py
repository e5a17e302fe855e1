"""Wrapping and escaping of selected text (docs/rules/native.md §8.9), and `{{…}}` (§8.2)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from lorewell.model.text import BLANK, is_blank

SEPARATOR = "\n\n"

# No braces inside: of nested ones only the innermost counts (§8.11).
_EXPRESSION = re.compile(r"\{\{([^{}]*)\}\}")
_VARIABLES = frozenset({"char", "user"})
_IN_ATTRIBUTE = (('"', "&quot;"), ("\n", "&#10;"), ("\r", "&#13;"), ("\t", "&#9;"))


@dataclass(frozen=True, slots=True)
class Template:
    """What a text asks to be substituted.

    Attributes:
        counts: how often it names each variable.
        chars: length of the text without its expressions.
        has_text: whether anything else than blanks is left without them.
        unsupported: the first expression that we don't offer.
    """

    counts: Mapping[str, int]
    chars: int
    has_text: bool
    unsupported: str | None

    @property
    def variables(self) -> frozenset[str]:
        """The variables that it names."""
        return frozenset(self.counts)

    def length(self, variables: Mapping[str, str]) -> int:
        """Return how long the text is with the variables in their places."""
        return self.chars + sum(count * len(variables[name]) for name, count in self.counts.items())


def _variable(expression: str) -> str:
    return expression.strip(BLANK).lower()


def find_template(text: str) -> Template | None:
    """Return what a text asks to be substituted, None if it holds no expression."""
    expressions = _EXPRESSION.findall(text)
    if not expressions:
        return None
    names = [_variable(expression) for expression in expressions]
    odd = next(
        (e for e, name in zip(expressions, names, strict=True) if name not in _VARIABLES), None
    )
    rest = _EXPRESSION.sub("", text)
    return Template(
        counts=Counter(name for name in names if name in _VARIABLES),
        chars=len(rest),
        has_text=not is_blank(rest),
        unsupported=None if odd is None else f"{{{{{odd}}}}}",
    )


def other_expressions(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of the expressions that are not offered, from left to right."""
    for expression in _EXPRESSION.finditer(text):
        if _variable(expression[1]) not in _VARIABLES:
            yield expression.span()


class Expression(NamedTuple):
    """A `{{…}}` of a text: where it ends, and whether we substitute it."""

    end: int
    is_offered: bool


def expression_at(text: str, at: int) -> Expression | None:
    """Return the expression that begins at a place, None if there is none."""
    found = _EXPRESSION.match(text, at)
    return Expression(found.end(), _variable(found[1]) in _VARIABLES) if found else None


def substitute(text: str, variables: Mapping[str, str]) -> str:
    """Return the text with every `{{char}}` and `{{user}}` replaced, in one pass.

    >>> substitute("{{ User }} waves", {"user": "{{char}}"})
    '{{char}} waves'
    """
    return _EXPRESSION.sub(lambda match: variables[_variable(match[1])], text)


def _attribute(text: str) -> str:
    escaped = escape(text, quote=False)
    for character, entity in _IN_ATTRIBUTE:
        escaped = escaped.replace(character, entity)
    return escaped


def opening_tag(full_id: str, title: str) -> str:
    """Return what a block begins with.

    >>> opening_tag("b:1:e", 'The "old" king')
    '<worldbook-entry id="b:1:e" title="The &quot;old&quot; king">'
    """
    return f'<worldbook-entry id="{_attribute(full_id)}" title="{_attribute(title)}">'


def escaping_chars(content: str) -> int:
    """Return how many characters longer a content is when it is escaped."""
    return 4 * content.count("&") + 3 * (content.count("<") + content.count(">"))


def wrap(tag: str, content: str) -> str:
    """Return one block of the context: escaped, so that content can't close its wrapper.

    >>> print(wrap(opening_tag("b:1:e", ""), "</worldbook-entry>"))
    <worldbook-entry id="b:1:e" title="">
    &lt;/worldbook-entry&gt;
    </worldbook-entry>
    """
    return f"{tag}\n{escape(content, quote=False)}\n</worldbook-entry>"


def wrap_inline(tag: str, content: str) -> str:
    """Return one block as it stands in a message: escaped, in one run without added line breaks.

    Source: docs/rules/host.md §7.

    >>> wrap_inline(opening_tag("b:1:e", ""), "灯 & </worldbook-entry>")
    '<worldbook-entry id="b:1:e" title="">灯 &amp; &lt;/worldbook-entry&gt;</worldbook-entry>'
    """
    return f"{tag}{escape(content, quote=False)}</worldbook-entry>"
