"""The context: the selected entries as one text (docs/rules/native.md §8.9)."""

from __future__ import annotations

from typing import Final

from lorewell.engine.render import CLOSING_TAG, escape_content
from lorewell.engine.tokens import TokenCounter

SEPARATOR: Final = "\n\n"


def wrap(tag: str, content: str) -> str:
    """Return one block of the context: escaped, so that content can't close its wrapper.

    >>> from lorewell.engine.render import opening_tag
    >>> print(wrap(opening_tag("b:1:e", ""), "</worldbook-entry>"))
    <worldbook-entry id="b:1:e" title="">
    &lt;/worldbook-entry&gt;
    </worldbook-entry>
    """
    return f"{tag}\n{escape_content(content)}\n{CLOSING_TAG}"


def cost_of(tag: str, content: str, counter: TokenCounter) -> int:
    """Return the tokens that an entry takes in the context. Costs add up exactly (§8.8)."""
    return counter.count(wrap(tag, content) + SEPARATOR)
