"""Scripts without spaces between words, as ranges of code points, and the script of a text.

Source: the Script property of Unicode 17, neighbouring ranges joined.
"""

import re
import unicodedata
from collections import Counter

# Han, Hiragana, Katakana (with the marks that both share, ー among them) and Hangul.
EAST_ASIAN: tuple[tuple[int, int], ...] = (
    (0x1100, 0x11FF),
    (0x2E80, 0x2FD5),
    (0x3005, 0x3007),
    (0x3021, 0x302F),
    (0x3031, 0x3035),
    (0x3038, 0x303B),
    (0x3041, 0x30FF),
    (0x3131, 0x318E),
    (0x31F0, 0x321E),
    (0x3260, 0x327E),
    (0x32D0, 0x32FE),
    (0x3300, 0x3357),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xA960, 0xA97C),
    (0xAC00, 0xD7FB),
    (0xF900, 0xFAD9),
    (0xFF66, 0xFF9F),
    (0xFFA0, 0xFFDC),
    (0x16FE2, 0x16FF6),
    (0x1AFF0, 0x1B168),
    (0x1F200, 0x1F200),
    (0x20000, 0x33479),
)
# Thai, Lao, Khmer and Burmese (Myanmar).
SOUTH_EAST_ASIAN: tuple[tuple[int, int], ...] = (
    (0x0E01, 0x0E3A),
    (0x0E40, 0x0EDF),
    (0x1000, 0x109F),
    (0x1780, 0x17F9),
    (0x19E0, 0x19FF),
    (0xA9E0, 0xA9FE),
    (0xAA60, 0xAA7F),
    (0x116D0, 0x116E3),
)

_EAST_ASIAN = re.compile(f"[{''.join(f'{chr(a)}-{chr(b)}' for a, b in EAST_ASIAN)}]")
_READ_CHARS = 500
_LETTERS_PER_IDEOGRAPH = 3


def main_script(text: str) -> str:
    """Return the script of most of a text's first 500 characters; "" without letters.

    Han, Kana and Hangul count as one script, and each of their characters as much as three letters
    of another one. Ties go by name.

    >>> main_script("The 灯塔 stands on the northern cliff."), main_script("灯塔 (lamp)")
    ('latin', 'east_asian')
    """
    text = text[:_READ_CHARS]
    if text.isascii():
        return "latin" if any(map(str.isalpha, text)) else ""
    counts: Counter[str] = Counter()
    for character in filter(str.isalpha, text):
        if character.isascii():
            counts["latin"] += 1
        elif _EAST_ASIAN.match(character):
            counts["east_asian"] += _LETTERS_PER_IDEOGRAPH
        else:
            counts[unicodedata.name(character, "?").partition(" ")[0].lower()] += 1
    return min(counts, key=lambda name: (-counts[name], name), default="")
