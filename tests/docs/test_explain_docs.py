"""docs/explain.md in both languages: its session and its program print what it says."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import get_args

import pytest

from docs.manual import code_blocks, named_files, read, row_names, run_python, section
from lorewell.insight.explain.native_gates import FILTERS, PACKING
from lorewell.model.explained import NearKind

NAMES = ("docs/explain.md", "docs/zh-CN/explain.md")
CLI = "from lorewell.cli.main import main; main()"
PROMPT = "$ python3 dev.py run "


@pytest.mark.parametrize("name", NAMES)
def test_the_session_prints_what_the_manual_says(name: str, tmp_path: Path) -> None:
    for file, text in named_files(name).items():
        (tmp_path / file).write_text(text, "utf-8")
    (session,) = [text for language, text in code_blocks(name) if language == "console"]
    command, _, output = session.partition("\n")
    arguments = shlex.split(command.removeprefix(PROMPT))
    assert run_python(["-c", CLI, *arguments], tmp_path) == output.strip()


@pytest.mark.parametrize("name", NAMES)
def test_the_program_prints_what_the_manual_says(name: str, tmp_path: Path) -> None:
    blocks = code_blocks(name)
    (program,) = [text for language, text in blocks if language == "python"]
    (printed,) = [text for language, text in blocks if language == "text"]
    assert run_python(["-c", program], tmp_path) == printed.strip()


@pytest.mark.parametrize("name", NAMES)
def test_all_gates_and_near_misses_are_documented(name: str) -> None:
    gates = row_names(section(name, "Gates", "关卡"))
    assert {*FILTERS.values(), *PACKING.values(), "keys", "secondary", "request"} <= {*gates}
    assert {*row_names(section(name, "Near misses", "差一点命中"))} == {*get_args(NearKind)}
    assert "/v1/context/explain" in read(name)
