"""The end of a chat as one text to rank by (docs/rules/native.md §9.3.2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

# Characters of the newest message, and of the one before it: the newest weighs most.
_CHARS: Final = (400, 200)
_SENTENCE: Final = re.compile(r"[^.!?…。！？\n]*(?:[.!?…。！？\n]+[\"'”’」』)）]*\s*|$)")


def recent_text(query: str, history: Sequence[str]) -> str:
    r"""Return the ends of the newest two messages and the query, oldest first, a line each.

    Args:
        query: the current input, which stays whole.
        history: the messages before it, oldest first.

    >>> recent_text("He nods.", ["Hello.", "They met.\nWho keeps the lamp burning?"])
    'Hello.\nThey met.\nWho keeps the lamp burning?\nHe nods.'
    """
    newest = [_end(text, chars) for text, chars in zip(reversed(history), _CHARS, strict=False)]
    return "\n".join([*filter(None, reversed(newest)), query])


def _end(text: str, chars: int) -> str:
    """Return the last whole sentences that fit, or the end of a last one that does not."""
    text = text.strip()
    if len(text) <= chars:
        return text
    end = text[-chars:]
    sentences = _SENTENCE.findall(end)
    kept = "".join(sentences[1:])  # the first one may have begun before
    return kept.strip() or end.strip()
