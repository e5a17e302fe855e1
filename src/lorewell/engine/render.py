"""Wraps and escapes selected text, for the context and for messages of a prompt."""

from __future__ import annotations

from html import escape
from typing import Final

CLOSING_TAG: Final = "</worldbook-entry>"
_IN_ATTRIBUTE = (('"', "&quot;"), ("\n", "&#10;"), ("\r", "&#13;"), ("\t", "&#9;"))


def _attribute(text: str) -> str:
    escaped = escape_content(text)
    for character, entity in _IN_ATTRIBUTE:
        escaped = escaped.replace(character, entity)
    return escaped


def opening_tag(full_id: str, title: str) -> str:
    """Return the opening tag of an entry's block.

    >>> opening_tag("b:1:e", 'The "old" king')
    '<worldbook-entry id="b:1:e" title="The &quot;old&quot; king">'
    """
    return f'<worldbook-entry id="{_attribute(full_id)}" title="{_attribute(title)}">'


def escape_content(content: str) -> str:
    """Return the content with `&`, `<` and `>` escaped, so that it can't close its wrapper."""
    return escape(content, quote=False)


def escaping_chars(content: str) -> int:
    """Return how many characters `escape_content` adds."""
    return 4 * content.count("&") + 3 * (content.count("<") + content.count(">"))


def wrap_inline(tag: str, content: str) -> str:
    """Return one block of a message: escaped, without added line breaks.

    Source: docs/rules/host.md §7.

    >>> wrap_inline(opening_tag("b:1:e", ""), "灯 & </worldbook-entry>")
    '<worldbook-entry id="b:1:e" title="">灯 &amp; &lt;/worldbook-entry&gt;</worldbook-entry>'
    """
    return f"{tag}{escape_content(content)}{CLOSING_TAG}"
