"""What words and similarity say about an entry, compared with texts that need no lore."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings, strategies as st

from lorewell import BookCreate, Entry, compile_book
from lorewell.retrieval.evidence import (
    FLOOR,
    SCRIPTS,
    QuietScale,
    choose_scale,
    vector_scale,
    weigh,
)
from lorewell.retrieval.quiet import QUIET_TEXTS
from lorewell.retrieval.scripts import main_script

FAR = st.floats(min_value=-50, max_value=50)
SCRIPT = st.sampled_from(["latin", "east_asian", "cyrillic", ""])


@settings(max_examples=60)
@given(
    words=FAR,
    more_words=FAR,
    similarity=FAR,
    more_similarity=FAR,
    query_script=SCRIPT,
    entry_script=SCRIPT,
)
def test_evidence_never_falls_when_a_part_rises(
    words: float,
    more_words: float,
    similarity: float,
    more_similarity: float,
    query_script: str,
    entry_script: str,
) -> None:
    scripts = {"query_script": query_script, "entry_script": entry_script}
    low = weigh(min(words, more_words), min(similarity, more_similarity), **scripts)
    high = weigh(max(words, more_words), max(similarity, more_similarity), **scripts)
    assert 0 <= low.value <= high.value <= 1
    alone = weigh(min(words, more_words), None, **scripts)
    assert alone.value <= weigh(max(words, more_words), None, **scripts).value
    assert alone.similarity is None


def test_evidence_follows_its_formula() -> None:
    found = weigh(3.0, 1.0, query_script="latin", entry_script="latin")
    expected = 1 / (1 + math.exp(-((3 + 1) / math.sqrt(2) - 1.6) / 2))
    assert found == (round(expected, 9), 3.0, 1.0)
    # A part that speaks against an entry counts one deviation at most.
    assert weigh(-9.0, 3.0, query_script="latin", entry_script="latin").value == pytest.approx(
        1 / (1 + math.exp(-((3 - 1) / math.sqrt(2) - 1.6) / 2))
    )


def test_words_found_in_parts_need_more() -> None:
    same = weigh(2.5, None, query_script="east_asian", entry_script="east_asian")
    letters = weigh(2.5, None, query_script="cyrillic", entry_script="cyrillic")
    assert same.value < FLOOR < letters.value


def test_missing_words_say_nothing_across_scripts() -> None:
    across = weigh(-5.0, 2.0, query_script="latin", entry_script="east_asian")
    within = weigh(-5.0, 2.0, query_script="latin", entry_script="latin")
    assert within.value < FLOOR < across.value
    # Shared words still speak for it: names are often written as they are.
    assert weigh(6.0, 2.0, query_script="latin", entry_script="east_asian").value > across.value


def test_a_query_takes_the_highest_scale_of_its_script() -> None:
    scales = {
        "en": QuietScale(0.2, 0.1),
        "es": QuietScale(0.3, 0.2),
        "zh": QuietScale(0.5, 0.1),
        "ru": QuietScale(0.1, 0.1),
    }
    chosen = [choose_scale(scales, script) for script in ("latin", "east_asian", "cyrillic")]
    assert chosen == [scales["es"], scales["zh"], scales["ru"]]
    assert choose_scale(scales, "arabic") == scales["zh"]
    assert choose_scale({}, "latin") is None


def test_a_scale_has_a_deviation_even_if_all_texts_reach_the_same() -> None:
    assert vector_scale([0.25, 0.25]) == (0.25, 0.01)
    assert vector_scale([0.0, 0.5]) == (0.25, 0.25)


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("", ""),
        ("123 !?", ""),
        ("…—", ""),
        ("The lamp", "latin"),
        ("Les forêts brûlent", "latin"),
        ("灯塔", "east_asian"),
        ("ランプが燃える", "east_asian"),
        ("등대", "east_asian"),
        ("Маяк горит", "cyrillic"),
        ("Ο φάρος", "greek"),
        ("منارة", "arabic"),
        ("मशाल", "devanagari"),
        ("A 灯", "east_asian"),
        ("The lamp of 灯", "latin"),
        ("\U000e0100a", "latin"),
    ],
)
def test_main_script(text: str, script: str) -> None:
    assert main_script(text) == script


def test_quiet_texts_are_of_five_languages_in_equal_shares() -> None:
    assert {language: len(set(texts)) for language, texts in QUIET_TEXTS.items()} == dict.fromkeys(
        ["en", "zh", "ja", "ru", "es"], 20
    )
    assert SCRIPTS == {
        "en": "latin",
        "es": "latin",
        "zh": "east_asian",
        "ja": "east_asian",
        "ru": "cyrillic",
    }


def test_words_of_a_book_are_measured_once_by_language() -> None:
    entries = [
        Entry(content="She walks down the street, and the door creaks in the rain."),
        Entry(content="The brass lamp of the northern pier burns whale oil."),
    ]
    book = compile_book(BookCreate(name="雾", entries=entries))
    scales = book.quiet_words()
    assert scales is book.quiet_words()
    assert list(scales) == list(QUIET_TEXTS)
    assert scales["en"].mean > scales["es"].mean == scales["zh"].mean == 0
    assert book.scripts() == ("latin", "latin")


def test_an_empty_book_can_be_measured() -> None:
    book = compile_book(BookCreate(name="leer", entries=[]))
    assert set(book.quiet_words().values()) == {(0.0, 0.03)}
