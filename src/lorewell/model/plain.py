"""Text made safe for terminals and log lines: hidden characters become escapes.

Hidden characters are control characters (C0, DEL, C1), line and paragraph separators, lone
surrogates, and Unicode's default-ignorable characters: marks of direction, zero widths, fillers,
soft hyphens, variation selectors and tags. Three uses belong to readable text and stay:

- emoji: one variation selector after a picture, ZWJ between pictures, keycaps, and the tags of the
  flags of England, Scotland and Wales;
- ZWJ and ZWNJ, one of them after a letter or mark of a script that joins letters, from Arabic and
  Hebrew over those of India to Myanmar, Khmer and Mongolian;
- one variation selector after a Chinese character.

A run of hidden characters, which could carry a message, is therefore always visible.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

_CONTROLS: Final = "\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
# Default_Ignorable_Code_Point of Unicode, and the marks of interlinear annotation.
_IGNORABLE: Final = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_HIDDEN: Final = f"[{_CONTROLS}{_IGNORABLE}]"
_PICTURE: Final = (
    "[\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
    "[\ufe0e\ufe0f]?"
)
_JOINING: Final = (
    "[\u0590-\u061b\u061d-\u109f\u1780-\u17b3\u17b6-\u17ff\u1810-\u18aa\ua840-\ua877"
    "\ua8e0-\ua8ff\ufb1d-\ufdff\ufe70-\ufefc]"
)
_CHINESE: Final = "[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
_FLAGS: Final = (  # a black flag, and the code of a region in tags
    "\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067"
    "|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
_READABLE: Final = (
    f"{_FLAGS}"
    f"|{_PICTURE}(?:\u200d{_PICTURE})*"
    "|[0-9#*]\ufe0f\u20e3"
    f"|{_JOINING}[\u200c\u200d]"
    f"|{_CHINESE}[\ufe00-\ufe02\U000e0100-\U000e01ef]"
)
# A sequence at the end of a text that the next piece may continue.
_UNFINISHED: Final = re.compile(
    "(?:\U0001f3f4[\U000e0061-\U000e007a]{1,5}"
    f"|(?:{_PICTURE}\u200d){{0,10}}{_PICTURE}\u200d?"
    "|[0-9#*]\ufe0f?"
    f"|{_JOINING}"
    f"|{_CHINESE})\\Z"
)
_LONGEST: Final = 40

_ANY_HIDDEN: Final = re.compile(_HIDDEN)
_ANY_HIDDEN_IN_JSON: Final = re.compile(f"(?!\n){_HIDDEN}")
_PIECE: Final = re.compile(f"{_READABLE}|(?P<hidden>{_HIDDEN})")


def plain(text: str) -> str:
    r"""Return the text as one line, with every hidden character as an escape.

    So foreign text can't move the cursor, clear the screen, set a link, reverse the line or start
    a new line.

    >>> plain("a\x1b[2J\n\u202eb\U000e0041")
    'a\\x1b[2J\\n\\u202eb\\U000e0041'
    """
    if _ANY_HIDDEN.search(text) is None:
        return text
    return _PIECE.sub(_escaped, text)


def hidden_spans(text: str) -> Iterator[tuple[int, int]]:
    r"""Yield the span of every hidden character, half-open, in code points.

    >>> list(hidden_spans("a\u200bb"))
    [(1, 2)]
    """
    if _ANY_HIDDEN.search(text) is None:
        return
    for found in _PIECE.finditer(text):
        if found["hidden"] is not None:
            yield found.span("hidden")


def plain_lines(text: str) -> str:
    r"""Return the text with its line feeds kept and each line made `plain`.

    >>> plain_lines("a\r\nb")
    'a\\r\nb'
    """
    return "\n".join(map(plain, text.split("\n")))


def unfinished(text: str) -> int:
    r"""Return where a readable sequence begins that more text may continue; else the text's length.

    A program that shows a stream of text shows it up to there and keeps the rest for the next
    piece.

    >>> unfinished("Hello, \U0001f469\u200d")
    7
    """
    found = _UNFINISHED.search(text, max(0, len(text) - _LONGEST))
    return len(text) if found is None else found.start()


def plain_json(document: str) -> str:
    r"""Return the JSON document with every hidden character as a JSON escape; the values stay.

    >>> plain_json('["\x9b2J", "\U000e0041"]')
    '["\\u009b2J", "\\udb40\\udc41"]'
    """
    if _ANY_HIDDEN_IN_JSON.search(document) is None:
        return document
    return _PIECE.sub(_escaped_in_json, document)


def _escaped(found: re.Match[str]) -> str:
    hidden = found["hidden"]
    return found[0] if hidden is None else hidden.encode("unicode_escape").decode()


def _escaped_in_json(found: re.Match[str]) -> str:
    hidden = found["hidden"]
    if hidden is None or hidden == "\n":  # within values a line feed is already an escape
        return found[0]
    return json.dumps(hidden)[1:-1]
