"""Finds the places where a key nearly matched."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from lorewell.engine.matching.fold import fold_case, keep_case
from lorewell.engine.matching.keys import fold_key, trim
from lorewell.engine.matching.window import Haystack
from lorewell.engine.steps import Steps
from lorewell.model.explained import NearKind, NearMiss

MAX_NEAR: Final = 20
_MAX_KEYS: Final = 50
_MAX_CHARS: Final = 20_000  # of a text that is searched for other forms and typos
_CHARS_PER_STEP: Final = 10
_SHORTEST_TYPO: Final = 5
_LATIN: Final = re.compile(r"[A-Za-zÀ-ÖØ-öø-ɏ]+")
_ORDER: Final[tuple[NearKind, ...]] = (
    *("inside_word", "case", "form", "outside_window", "not_waking", "round_limit", "excluded"),
    *("other_text", "typo", "secondary_missing"),
)


class NearKey(NamedTuple):
    """A plain key and how it is matched."""

    text: str
    case_sensitive: bool
    whole_words: bool


class NearText(NamedTuple):
    """A text of the turn.

    Attributes:
        text: the text.
        name: `query`, `message`, `entry`, or the name of another text.
        message, entry: its number or its entry.
        unseen: why the entry does not scan it; None if it does.
    """

    text: str
    name: str
    message: int | None = None
    entry: str | None = None
    unseen: NearKind | None = None


def find_key(text: str, key: NearKey, steps: Steps) -> tuple[int, int] | None:
    """Return the span of the first match of a key in a text."""
    form = keep_case if key.case_sensitive else fold_case
    haystack = Haystack([text], depth=1, form=form, steps=steps)
    wanted = fold_key(trim(key.text), case_sensitive=key.case_sensitive)
    if not wanted:
        return None
    for start in haystack.occurrences(wanted, 0, steps):
        place = haystack.place(start, start + len(wanted), alone=key.whole_words)
        if place is not None:
            return place.span
    return None


def find_near(
    keys: Iterable[NearKey], texts: Sequence[NearText], steps: Steps
) -> tuple[NearMiss, ...]:
    """Return where keys nearly matched, nearest first; at most one for each key and text."""
    wanted = list(keys)[:_MAX_KEYS]
    found = [miss for text in texts for miss in _near_in(wanted, text, steps)]
    found.sort(key=lambda miss: _ORDER.index(miss.kind))
    return tuple(found[:MAX_NEAR])


def _near_in(keys: Sequence[NearKey], text: NearText, steps: Steps) -> Iterator[NearMiss]:
    """Yield where keys nearly match in one text; at most once for each key."""
    plain: PlainForm | None = None
    for key in keys:
        span = find_key(text.text, key, steps)
        if text.unseen is not None:
            if span is not None:
                yield _miss(text.unseen, key, text, span)
            continue
        if span is not None:
            continue
        if plain is None:
            part = text.text[:_MAX_CHARS]
            steps.spend("matching", 1 + len(part) // _CHARS_PER_STEP)
            plain = plain_form(part)
        for kind, span in _looser(key, text.text, plain, steps):
            if span is not None:
                yield _miss(kind, key, text, span)
                break


def _looser(
    key: NearKey, text: str, plain: PlainForm, steps: Steps
) -> Iterator[tuple[NearKind, tuple[int, int] | None]]:
    """Yield matches of a key that is not found, under ever looser rules."""
    if key.whole_words:
        yield "inside_word", find_key(text, key._replace(whole_words=False), steps)
    if key.case_sensitive:
        yield "case", find_key(text, key._replace(case_sensitive=False, whole_words=False), steps)
    yield "form", _other_form(key.text, plain)
    yield "typo", _typo(key.text, text[:_MAX_CHARS])


def _miss(kind: NearKind, key: NearKey, text: NearText, span: tuple[int, int]) -> NearMiss:
    return NearMiss(
        kind=kind,
        key=key.text,
        found=text.text[span[0] : span[1]],
        text=text.name,
        message=text.message,
        entry=text.entry,
        span=span,
    )


class PlainForm(NamedTuple):
    """A text in its plain form, and the place in the text of each of its characters."""

    text: str
    places: list[int]


def plain_form(text: str) -> PlainForm:
    """Return a text without differences of width, composition, case and invisible characters.

    >>> plain_form("Ｌé").text == plain_form("le\u0301").text
    True
    """
    parts: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        if unicodedata.category(character) == "Cf":
            continue
        plain = unicodedata.normalize("NFKD", character).casefold()
        parts.append(plain)
        places += [place] * len(plain)
    return PlainForm("".join(parts), places)


def _other_form(key: str, plain: PlainForm) -> tuple[int, int] | None:
    wanted = plain_form(trim(key)).text
    start = plain.text.find(wanted) if wanted else -1
    if start < 0:
        return None
    return plain.places[start], plain.places[start + len(wanted) - 1] + 1


def _typo(key: str, text: str) -> tuple[int, int] | None:
    wanted = trim(key).casefold()
    if len(wanted) < _SHORTEST_TYPO or _LATIN.fullmatch(wanted) is None:
        return None
    for word in _LATIN.finditer(text):
        if len(word[0]) >= _SHORTEST_TYPO and is_one_edit(word[0].casefold(), wanted):
            return word.span()
    return None


def is_one_edit(one: str, other: str) -> bool:
    """Return whether two words differ by one letter added, dropped or changed.

    >>> is_one_edit("lantern", "lanten"), is_one_edit("castle", "cattle"), is_one_edit("ab", "ba")
    (True, True, False)
    """
    if one == other or abs(len(one) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    rest, tail = one[start:], other[start:]
    if len(one) == len(other):
        return rest[1:] == tail[1:]
    return rest[1:] == tail if len(one) > len(other) else rest == tail[1:]
