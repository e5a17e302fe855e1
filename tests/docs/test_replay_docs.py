"""The manual of whole chats, in both languages: commands and programs print what is shown."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from docs.manual import CodeBlock, code_blocks, named_files, run_python

MANUALS = ("docs/replay.md", "docs/zh-CN/replay.md")
_PROGRAM = "from lorewell.cli.main import main; main()"


def shown_pairs(name: str) -> list[tuple[CodeBlock, str]]:
    """Return each command or program with the text that is shown after it."""
    pairs, last = [], None
    for block in code_blocks(name):
        if block.language == "text":
            assert last is not None, block.text
            pairs.append((last, block.text.strip()))
        elif block.language in ("sh", "python"):
            last = block
    return pairs


@pytest.mark.parametrize("name", MANUALS)
def test_examples_print_what_is_shown(name: str, tmp_path: Path) -> None:
    for file, text in named_files(name).items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    pairs = shown_pairs(name)
    assert len(pairs) == 4
    for block, shown in pairs:
        if block.language == "sh":
            arguments = ["-c", _PROGRAM, *shlex.split(block.text)[1:]]
        else:
            arguments = ["-c", block.text]
        assert run_python(arguments, tmp_path) == shown, block.text


def test_both_languages_have_the_same_examples() -> None:
    english, chinese = ([block.language for block in code_blocks(name)] for name in MANUALS)
    assert english == chinese
