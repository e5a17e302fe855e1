"""docs/lint.md: every code has a section in both languages, and its examples give its finding."""

from __future__ import annotations

import json
import re
from contextlib import redirect_stdout
from io import StringIO

import pytest

from docs.manual import code_blocks, read, section
from lorewell import BookCreate, lint
from lorewell.insight.lint import TABLE, LintCode
from lorewell.model.parse import parse_model

NAME = "docs/lint.md"
NAMES = (NAME, "docs/zh-CN/lint.md")


@pytest.mark.parametrize("name", NAMES)
def test_every_code_has_a_row_and_a_section(name: str) -> None:
    rows = re.findall(r"^\| \[(LW\d+)\]\(#[\w-]+\) \| `([\w-]+)` \|", read(name), re.MULTILINE)
    assert rows == [(row.code, row.name) for row in TABLE]
    headings = re.findall(r"^### (LW\d+) ([\w-]+)$", read(name), re.MULTILINE)
    assert headings == rows


def test_the_table_says_what_the_codes_say() -> None:
    for row in TABLE:
        fix = "yes" if row.fixable else ""
        shown = f"| `{row.name}` | {row.severity} | {row.summary} | {fix} |"
        assert shown in read(NAME)


@pytest.mark.parametrize("row", TABLE, ids=[row.code for row in TABLE])
def test_the_example_of_a_code_gives_its_finding(row: LintCode) -> None:
    text = section(NAME, f"{row.code} {row.name}")
    example = re.search(r"```json\n(.*?)```", text, re.DOTALL)
    if example is None:
        return
    entries = json.loads(example[1])
    findings = lint(parse_model(BookCreate, {"name": "Docs", "entries": entries}))
    assert [found.name for found in findings][:1] == [row.name]


def test_most_codes_have_an_example() -> None:
    examples = [text for language, text in code_blocks(NAME) if language == "json"]
    assert len(examples) > len(TABLE) * 3 // 4


def test_the_program_prints_what_the_manual_says() -> None:
    blocks = code_blocks(NAME)
    at = next(at for at, block in enumerate(blocks) if block.language == "python")
    printed = StringIO()
    with redirect_stdout(printed):
        exec(blocks[at].text, {})  # noqa: S102  the manual's own program
    assert printed.getvalue() == blocks[at + 1].text
