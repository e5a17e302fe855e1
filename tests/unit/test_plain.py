"""Hidden characters are shown as escapes, and readable text is left as it is."""

from __future__ import annotations

import json
import sys
import unicodedata
from time import process_time

import pytest
import regex

from hostile import HOSTILE, UNSEEN
from lorewell.model.plain import plain, plain_json, plain_lines, unfinished

IGNORABLE = regex.compile(r"\p{Default_Ignorable_Code_Point}")
CONTROLS = frozenset(["Cc", "Cs", "Zl", "Zp"])
ANNOTATION = "\ufff9\ufffa\ufffb"
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
ENGLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
READABLE = {
    "words": "灯船 é ñ \u0e01\u0e33 a\u0301",
    "family": FAMILY,
    "astronaut": "\U0001f469\U0001f3fd\u200d\U0001f680",
    "rainbow": "\U0001f3f3\ufe0f\u200d\U0001f308",
    "heart": "\u2764\ufe0f",
    "keycap": "1\ufe0f\u20e3",
    "england": ENGLAND,
    "persian": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "malayalam": "\u0d15\u0d4d\u200d",
    "sinhala": "\u0dc1\u0dca\u200d\u0dbb\u0dd3",
    "han variant": "\u845b\U000e0100",
}
HIDDEN = {
    "\x1b[2J": r"\x1b[2J",
    "a\tb\r\n": r"a\tb\r\n",
    "\x85\u2028\u2029\x9b": r"\x85\u2028\u2029\x9b",
    "\ud800": r"\ud800",
    "\u202eabc\u2066": r"\u202eabc\u2066",
    "pass\u200bword": r"pass\u200bword",
    "a\u200db": r"a\u200db",
    "\U000e0001\U000e0041": r"\U000e0001\U000e0041",
    "\u3164\u115f\uffa0": r"\u3164\u115f\uffa0",
    "a\ufe0f": r"a\ufe0f",
    "\u2764\ufe0f\ufe0f": "\u2764\ufe0f" + r"\ufe0f",
    "\u845b\U000e0100\U000e0101": "\u845b\U000e0100" + r"\U000e0101",
    "\u0645\u200c\u200c\u0645": "\u0645\u200c" + r"\u200c" + "\u0645",
    "\U0001f469\u200d": "\U0001f469" + r"\u200d",
    "\U0001f3f4\U000e0061\U000e007f": "\U0001f3f4" + r"\U000e0061\U000e007f",
}


def test_every_character_that_nobody_sees_is_shown() -> None:
    for number in range(sys.maxunicode + 1):
        character = chr(number)
        is_hidden = (
            unicodedata.category(character) in CONTROLS
            or character in ANNOTATION
            or IGNORABLE.match(character) is not None
        )
        assert (plain(character) != character) == is_hidden, hex(number)


@pytest.mark.parametrize("name", READABLE)
def test_readable_text_is_left_as_it_is(name: str) -> None:
    text = READABLE[name]
    assert plain(text) == text
    # Beside what is hidden too, where each sequence is looked at.
    assert plain(f"\x07{text}\x07{text}") == rf"\x07{text}\x07{text}"
    assert json.loads(plain_json(json.dumps(text, ensure_ascii=False))) == text


@pytest.mark.parametrize(("text", "shown"), HIDDEN.items())
def test_hidden_characters_are_shown(text: str, shown: str) -> None:
    assert plain(text) == shown
    assert plain(shown) == shown


def test_lines_are_kept_where_they_may_be() -> None:
    assert plain_lines("a\x1b\r\n\nb") == "a\\x1b\\r\n\nb"


def test_json_keeps_its_values_and_its_layout() -> None:
    value = {HOSTILE: [HOSTILE, UNSEEN, FAMILY, 1.5, None]}
    for indent in (None, 2):
        document = json.dumps(value, ensure_ascii=False, indent=indent)
        shown = plain_json(document)
        assert json.loads(shown) == value
        assert plain_lines(shown) == shown
        assert shown.count("\n") == document.count("\n")
    assert plain_json("[1,\n2]") == "[1,\n2]"


@pytest.mark.parametrize("name", READABLE)
def test_text_in_pieces_is_shown_like_the_whole(name: str) -> None:
    whole = f"a{READABLE[name]}\u200b b{READABLE[name]}"
    shown, rest = "", ""
    for piece in whole:
        rest += piece
        end = unfinished(rest)
        shown, rest = shown + plain(rest[:end]), rest[end:]
        assert len(rest) <= 40
    assert shown + plain(rest) == plain(whole)


def test_little_waits_for_more() -> None:
    assert unfinished("") == 0
    assert unfinished("Hello.") == 6
    assert unfinished("钟声") == 1
    assert unfinished("\U0001f468\u200d" * 10_000) >= 20_000 - 40


@pytest.mark.parametrize(
    "piece",
    ["x", "灯", "\x1b", "\u200d", "\U0001f468", "\U0001f468\u200d", "1\ufe0f", "\u0645\u200c"],
)
def test_time_goes_with_length(piece: str) -> None:
    def best_s(size: int) -> float:
        text = piece * size + "\x07"
        times = []
        for _ in range(5):
            start = process_time()
            plain(text)
            unfinished(text)
            times.append(process_time() - start)
        return min(times)

    assert best_s(80_000) < 10 * best_s(20_000) + 0.001
