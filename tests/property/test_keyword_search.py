"""Plain keys: the engine's search against a slow one, by docs/rules/native.md §8.4, §8.11."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

import pytest
import regex  # type: ignore[import-untyped]  # ships no types
from hypothesis import given, settings, strategies as st

from property.strategies import SCRIPT_TEXT, keys_and_texts
from support import ask, compiled, decision_of, entry, said

# Unicode White_Space and U+FEFF.
BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"
BLANKS += "".join(map(chr, range(0x2000, 0x200B)))
WITHOUT_SPACES = regex.compile(
    r"[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}"
    r"\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}ー]"
)


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def is_word_at(text: str, at: int) -> bool:
    """Say whether the character is a word character; a mark is what the one before it is."""
    while at >= 0 and unicodedata.category(text[at]).startswith("M"):
        at -= 1
    if at < 0:
        return False
    return text[at] == "_" or (text[at].isalnum() and not WITHOUT_SPACES.match(text[at]))


def find_spans(
    key: str, text: str, *, whole_words: bool, case_sensitive: bool
) -> Iterator[tuple[int, int]]:
    """Yield every span of the text that is the key, trying all of them.

    A span may start and end only where cutting the text does not change its NFC form, which is
    what "whole characters of the original text" means for composed and decomposed accents.
    """

    def form(part: str) -> str:
        return nfc(part) if case_sensitive else nfc(part).casefold()

    needle = form(key.strip(BLANKS))
    whole = nfc(text)
    cuts = [at for at in range(len(text) + 1) if nfc(text[:at]) + nfc(text[at:]) == whole]
    for start in cuts:
        for end in cuts:
            if not start < end or not needle or form(text[start:end]) != needle:
                continue
            touches_before = start > 0 and is_word_at(text, start - 1) and is_word_at(text, start)
            touches_after = end < len(text) and is_word_at(text, end - 1) and is_word_at(text, end)
            if not (whole_words and (touches_before or touches_after)):
                yield start, end


def stretched(text: str, span: tuple[int, int]) -> tuple[int, int]:
    """Widen a span to whole stretches of marks or jamo, which NFC may compose or reorder."""

    def goes_on(at: int) -> bool:
        mark = unicodedata.category(text[at]).startswith("M")
        return mark or 0x1160 <= ord(text[at]) <= 0x11FF

    start, end = span
    while start > 0 and goes_on(start):
        start -= 1
    while end < len(text) and goes_on(end):
        end += 1
    return start, end


def check_key(key: str, texts: list[str], *, whole_words: bool, case_sensitive: bool) -> None:
    """Assert that the engine hits exactly when the slow search does, at one of its places."""
    document = entry(
        "A", key, match_whole_words=whole_words, case_sensitive=case_sensitive, scan_depth=9
    )
    response = ask(
        compiled([document, entry("decoy", "a", "灯塔")]), texts[-1], history=said(*texts[:-1])
    )
    decision = decision_of(response, "A")
    found = {
        (message, span)
        for message, text in enumerate(texts)
        for span in find_spans(key, text, whole_words=whole_words, case_sensitive=case_sensitive)
    }
    assert decision.direct_keyword_hit is bool(found)
    assert decision.selected is bool(found)
    if found:
        assert decision.facts.key.strip(BLANKS) == key.strip(BLANKS)
        shown = (decision.facts.message, decision.facts.span)
        # Either end is the exact one, or that of the stretch which NFC recomposed around it.
        assert shown in {
            (at, (start, end))
            for at, span in found
            for start in (span[0], stretched(texts[at], span)[0])
            for end in (span[1], stretched(texts[at], span)[1])
        }


@settings(max_examples=4 * settings().max_examples)
@given(keys_and_texts(), st.booleans(), st.booleans())
def test_engine_finds_what_the_slow_search_finds(
    drawn: tuple[str, str],
    whole_words: bool,  # noqa: FBT001  drawn
    case_sensitive: bool,  # noqa: FBT001  drawn
) -> None:
    key, text = drawn
    check_key(key, [text], whole_words=whole_words, case_sensitive=case_sensitive)


@given(keys_and_texts(), st.lists(SCRIPT_TEXT, max_size=3), st.booleans())
def test_hits_name_the_message_they_are_in(
    drawn: tuple[str, str],
    others: list[str],
    whole_words: bool,  # noqa: FBT001  drawn
) -> None:
    key, text = drawn
    check_key(key, [text, *others], whole_words=whole_words, case_sensitive=False)


@pytest.mark.parametrize(
    ("key", "text", "hit"),
    [
        ("ß", "STRASSE", True),
        ("s", "ß", False),
        ("i", "İ", False),
        ("İ", "i\u0307", True),
        ("fi", "ﬁn", True),
        ("f", "ﬁ", False),
        ("Σ", "λόγος", True),
        ("é", "e\u0301", True),
        ("e", "e\u0301", False),
        ("하", "한", False),
        ("한", "한", True),
        ("ΐ", "ι\u0308\u0301", True),
        ("　lamp\ufeff", "lamp", True),
        ("\u0301й", "и\u0301и\u0306\u0306", True),
    ],
)
def test_known_answers(key: str, text: str, hit: bool) -> None:  # noqa: FBT001  a column
    """The slow search itself, against answers that the specification gives or implies."""
    assert any(find_spans(key, text, whole_words=False, case_sensitive=False)) is hit
    check_key(key, [text], whole_words=False, case_sensitive=False)
