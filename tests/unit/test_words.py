"""The tables copied from Unicode, held against Unicode.

`regex` brings its own copy of the Script property; the restriction to alphanumeric characters is
the one of the rule: anything else is no word character in any script.
"""

import sys
import unicodedata
from collections.abc import Callable

import pytest
import regex

from lorewell.engine.matching.fold import (
    changing_characters,
    composing_characters,
    growing_characters,
    joining_characters,
)
from lorewell.engine.matching.words import in_no_space_script
from lorewell.engine.sillytavern.buffer import GROWING
from lorewell.retrieval.normal import marks

SCRIPTS = ("Han", "Hiragana", "Katakana", "Hangul", "Thai", "Lao", "Khmer", "Myanmar")
NO_SPACES = regex.compile("[" + "".join(rf"\p{{Script={script}}}" for script in SCRIPTS) + "]")

# Unicode gives these to no one script (Common), but they are only written among Kana or Han.
SHARED = frozenset(
    {
        0x3006,  # 〆 ideographic closing mark
        0x3031,  # 〱 vertical Kana repeat mark
        0x3032,  # 〲 the same, voiced
        0x3033,  # 〳 upper half
        0x3034,  # 〴 upper half, voiced
        0x3035,  # 〵 lower half
        0x30FC,  # ー prolonged sound mark
        0xFF70,  # ｰ the same, half-width
        0xFF9E,  # ﾞ half-width voiced sound mark
        0xFF9F,  # ﾟ half-width semi-voiced sound mark
    }
)


def listed(points: set[int]) -> list[str]:
    return [f"U+{p:04X} {unicodedata.name(chr(p), '?')}" for p in sorted(points)]


def test_scripts_without_spaces_are_those_of_unicode() -> None:
    alphanumeric = {p for p in range(sys.maxunicode + 1) if chr(p).isalnum()}
    ours = {p for p in alphanumeric if in_no_space_script(chr(p))}
    unicodes = {p for p in alphanumeric if NO_SPACES.match(chr(p))}
    assert listed(unicodes - ours) == []
    assert listed(ours - unicodes - SHARED) == []


def test_marks_shared_by_scripts_without_spaces_are_among_them() -> None:
    for point in SHARED:
        assert chr(point).isalnum()
        assert not NO_SPACES.match(chr(point)), "no addition of ours any more"
        assert in_no_space_script(chr(point))


def test_second_halves_of_all_canonical_pairs_are_composing() -> None:
    halves = set()
    for point in range(sys.maxunicode + 1):
        parts = unicodedata.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            halves.add(int(parts[1], 16))
    assert halves
    assert listed(halves - {ord(character) for character in composing_characters()}) == []


def test_hangul_vowels_and_finals_are_composing() -> None:
    syllables = (chr(point) for point in range(0xAC00, 0xD7A4))
    halves = {part for s in syllables for part in unicodedata.normalize("NFD", s)[1:]}
    assert halves <= composing_characters()


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


TABLES: dict[str, tuple[Callable[[], frozenset[str]], Callable[[str], bool]]] = {
    "grows when it is folded": (growing_characters, lambda c: len(c.casefold()) > 1),
    "grows in lower case": (lambda: frozenset(GROWING), lambda c: len(c.lower()) > 1),
    "is another one in NFC": (changing_characters, lambda c: nfc(c) != c),
    "joins what is before it": (
        lambda: joining_characters() - composing_characters(),
        lambda c: (
            unicodedata.combining(unicodedata.normalize("NFD", c)[0]) > 0
            and c not in composing_characters()
        ),
    ),
    "begins with a mark": (
        marks,
        lambda c: unicodedata.combining(unicodedata.normalize("NFKD", c)[0]) > 0,
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_characters_looked_for_in_some_areas_are_all_there_are(name: str) -> None:
    find, has_it = TABLES[name]
    points = {p for p in range(sys.maxunicode + 1) if has_it(chr(p))}
    assert listed(points ^ set(map(ord, find()))) == []
