"""The questions that the quality of search is measured with are fair, and their answers exist."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from golden.test_corpus import CORPUS, VARIABLE
from lorewell import Entry
from lorewell.formats import open_book
from lorewell.retrieval.quiet import QUIET_TEXTS

FOLDER = Path(__file__).resolve().parents[2] / "bench" / "questions"
LANGUAGES = ("en", "zh")
HAN = re.compile("[\u4e00-\u9fff]")

Pair = dict[str, str]


def pairs(language: str) -> list[Pair]:
    text = (FOLDER / f"{language}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


ALL = [pair for language in LANGUAGES for pair in pairs(language)]


def books() -> list[Any]:
    """Return every book that a pair names; those of the corpus may be absent where nobody named it.

    A corpus that was named has to be there: then nothing is skipped.
    """
    absent = VARIABLE not in os.environ and not CORPUS.is_dir()
    skip = pytest.mark.skip(reason=f"there is no corpus in {CORPUS}")
    return [
        pytest.param(name, marks=[skip] if absent and not (FOLDER / name).is_file() else [])
        for name in dict.fromkeys(pair["book"] for pair in ALL)
    ]


@cache
def entries(book: str) -> dict[str, Entry]:
    own = FOLDER / book
    found = open_book(own if own.is_file() else CORPUS / book)
    return {entry.id: entry for entry in found.book.entries}


def level(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def test_there_are_enough_questions_in_each_language() -> None:
    counts = {language: len(pairs(language)) for language in LANGUAGES}
    assert min(counts.values()) >= 150
    assert sum(counts.values()) >= 300
    for language in LANGUAGES:
        assert len({pair["book"] for pair in pairs(language)}) >= 6


@pytest.mark.parametrize("language", LANGUAGES)
def test_pairs_are_well_formed(language: str) -> None:
    for pair in pairs(language):
        assert set(pair) == {"split", "book", "entry", "question"}
        assert all(value and value == value.strip() for value in pair.values())
        assert bool(HAN.search(pair["question"])) == (language == "zh"), pair["question"]


def test_no_question_is_asked_twice() -> None:
    asked = Counter(re.sub(r"\W", "", level(pair["question"])) for pair in ALL)
    assert [question for question, times in asked.items() if times > 1] == []
    answers = Counter((pair["book"], pair["entry"]) for pair in ALL)
    assert [answer for answer, times in answers.items() if times > 1] == []


@pytest.mark.parametrize("book", books())
def test_answers_exist_and_no_keyword_gives_them_away(book: str) -> None:
    for pair in ALL:
        if pair["book"] == book:
            entry = entries(book)[pair["entry"]]
            assert entry.content.strip()
            words = {level(word).strip() for word in (entry.title, *entry.keys)}
            words |= {level(word).strip() for word in entry.secondary_keys}
            question = level(pair["question"])
            assert [word for word in words if word and word in question] == [], pair["question"]


def lines(name: str) -> list[dict[str, Any]]:
    text = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_every_file_says_what_is_for_tuning_and_what_for_judging() -> None:
    for name in (*LANGUAGES, "cross", "quiet", "turns"):
        counts = Counter(line["split"] for line in lines(name))
        assert set(counts) == {"tune", "validate"}
        assert min(counts.values()) >= len(lines(name)) // 3


def test_quiet_turns_are_of_both_kinds_and_languages() -> None:
    quiet = lines("quiet")
    assert len(quiet) >= 100
    assert len({line["question"] for line in quiet}) == len(quiet)
    for language in LANGUAGES:
        kinds = Counter(line["kind"] for line in quiet if line["language"] == language)
        assert min(kinds["scene"], kinds["talk"]) >= 20
    shipped = {text for texts in QUIET_TEXTS.values() for text in texts}
    assert not shipped & {line["question"] for line in quiet}  # or the measure measures itself


@pytest.mark.parametrize("name", ["cross", "turns"])
def test_answers_of_the_other_files_exist(name: str) -> None:
    for line in lines(name):
        assert entries(line["book"])[line["entry"]].content
        asked = [*(message["content"] for message in line.get("history", ())), line["question"]]
        assert all(text == text.strip() != "" for text in asked)


def test_own_books_are_all_asked() -> None:
    files = {path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("books/*.json")}
    assert files
    assert files == {pair["book"] for pair in ALL if (FOLDER / pair["book"]).is_file()}
