"""Texts in their form for comparison, against one that knows the way back for each character."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from growth import MOST, growth
from lorewell.engine.matching import fold
from lorewell.engine.matching.fold import (
    Folded,
    composing_characters,
    fold_case,
    keep_case,
    keep_text,
    steps_to_fold,
)
from lorewell.engine.steps import Steps
from lorewell.retrieval.normal import Form, marks, normalise

ODD = (
    "abZßİŉﬁ e\u0301\u0323가각\u1100\u1161\u11a8한ΐ\u0344\u0958\u2126ᾳ\u0345\uff9eＡ灯\u0f71\u0f73"
)
TEXTS = st.lists(st.sampled_from(f"{ODD}\u0f71\u0f73"), max_size=10).map("".join)


def slowly(text: str, *, case_sensitive: bool) -> tuple[str, list[int | None], list[int | None]]:
    """Return the folded text, and for each place in it where that begins and ends, if it does."""
    pieces: list[tuple[int, int, str]] = []
    cuts = [at for at in range(1, len(text)) if not joins(text[at])]
    for start, end in pairwise([0, *cuts, len(text)] if text else []):
        part = normal(text[start:end])
        if part == text[start:end]:
            pieces += [(start + n, start + n + 1, c) for n, c in enumerate(part)]
        else:
            pieces += [(start, end, c) for c in part]
    folded, begins, ends = "", list[int | None](), list[int | None]([0])
    for start, end, character in pieces:
        form = character if case_sensitive else character.casefold()
        folded += form
        begins += [start, *[None] * (len(form) - 1)]
        ends += [*[None] * (len(form) - 1), end]
    return folded, begins, ends


def joins(character: str) -> bool:
    """Return whether NFC may join a character to the one before it, or put it in order."""
    first = unicodedata.normalize("NFD", character)[0]
    return unicodedata.combining(first) > 0 or character in composing_characters()


def normal(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def spans(folded: Folded) -> list[tuple[int, int] | None]:
    places = range(len(folded.text) + 1)
    return [folded.original_span(low, high) for high in places for low in range(high)]


@given(text=TEXTS, case_sensitive=st.booleans(), piece=st.sampled_from([3, 10_000]))
def test_spans_are_those_of_the_slow_way(
    text: str,
    case_sensitive: bool,  # noqa: FBT001  drawn
    piece: int,
) -> None:
    form = keep_case if case_sensitive else fold_case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fold, "_PIECE_CHARS", piece)
        patch.setattr(fold, "_SHORT_CHARS", 0)
        folded = form(text, Steps())
    slow, begins, ends = slowly(text, case_sensitive=case_sensitive)
    assert folded.text == slow
    assert folded.length == len(text)
    assert spans(folded) == [
        None if begins[low] is None or ends[high] is None else (begins[low], ends[high])
        for high in range(len(slow) + 1)
        for low in range(high)
    ]


@given(text=TEXTS)
def test_a_short_text_is_folded_as_a_long_one(text: str) -> None:
    short = fold_case(text, Steps())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fold, "_SHORT_CHARS", 0)
        assert fold_case(text, Steps()) == short
    assert keep_text(text, Steps()) == Folded(text)


MARKS = st.lists(st.sampled_from(sorted(marks())), max_size=90).map("".join)


@given(
    form=st.sampled_from(["NFC", "NFKC"]),
    parts=st.lists(st.tuples(st.sampled_from("ae 가ｶ各\u1100"), MARKS), max_size=4),
)
def test_normal_forms_are_those_of_unicode(form: Form, parts: list[tuple[str, str]]) -> None:
    text = "".join(base + run for base, run in parts)
    assert normalise(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("form", ["NFC", "NFKC"])
@pytest.mark.parametrize("run", ["\uff9e\u0301\u0323", "\u0f73\u0301", "\u0344\u0323\uff9f"])
def test_long_runs_of_marks_have_their_normal_form(form: Form, run: str) -> None:
    text = f"ae{run * 40}b{run * 9}"
    assert normalise(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("piece", ["\u0301\u0323", "İ", "ß", "ﬁ", "e\u0301", "가\u11a8", "灯"])
def test_folding_takes_time_in_proportion_to_the_text(piece: str) -> None:
    def fold_all(text: str) -> None:
        fold_case(text, Steps())
        keep_case(text, Steps())

    assert growth(lambda size: "a" + piece * size, fold_all, 10_000) < MOST
    steps = Steps()
    text = "a" + "İ" * 10_000
    assert len(fold_case(text, steps).text) == 20_001
    assert steps.spent == 10_000
    assert steps_to_fold([text, "b"]) == 2 + 100
