"""docs/glossary.md defines each word once, in both languages, and other texts keep to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import get_args

import pytest

from docs.manual import ROOT, read, rows
from lorewell.model.binding import Policy

ROWS = rows(read("docs/glossary.md"))
HAN = re.compile("[\u4e00-\u9fff]")
# A revision is 版本; another word for it, in both scripts, is not used.
OTHER_REVISION = re.compile("\u4fee[\u8ba2\u8a02]")


def texts() -> Iterator[Path]:
    """Yield the files that people read: manuals, fragments, pages, messages, examples."""
    folders = ("docs", "changelog.d", "examples", "conformance", "src")
    found = chain.from_iterable((ROOT / folder).rglob("*") for folder in folders)
    yield from ROOT.glob("*.md")
    yield from (path for path in found if path.suffix in {".md", ".py", ".html"})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_term_has_both_languages(row: list[str]) -> None:
    term, chinese, meaning, chinese_meaning = row
    assert not HAN.search(term + meaning)
    assert HAN.search(chinese)
    assert HAN.search(chinese_meaning)
    assert meaning.endswith(".")
    assert chinese_meaning.endswith("。")


@pytest.mark.parametrize("column", [0, 1])
def test_every_term_is_defined_once(column: int) -> None:
    terms = [row[column].lower() for row in ROWS]
    assert len(terms) == len(set(terms)) > 50


def test_the_policies_are_those_of_the_contract() -> None:
    (meaning,) = (row[2] for row in ROWS if row[0] == "policy")
    assert set(re.findall(r"`(\w+)`", meaning)) == set(get_args(Policy))


def test_a_revision_has_one_word_in_chinese() -> None:
    assert ["revision", "版本"] in [row[:2] for row in ROWS]
    paths = list(texts())
    assert len(paths) > 100
    assert [path for path in paths if OTHER_REVISION.search(path.read_text("utf-8"))] == []
