"""docs/conditions.md: its examples can be read, and its session prints what it says."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from docs.manual import code_blocks, run_python
from forked import CLI
from lorewell import BookCreate, compile_book
from lorewell.model.parse import parse_model

NAME = "docs/conditions.md"
PROMPT = "$ python3 dev.py run "


def test_examples_are_entries_that_can_be_read() -> None:
    entries = [json.loads(text) for language, text in code_blocks(NAME) if language == "json"]
    assert len(entries) == 2
    book = compile_book(parse_model(BookCreate, {"name": "Docs", "entries": entries}))
    assert book.diagnostics == ()


def test_sessions_print_what_the_manual_says(tmp_path: Path) -> None:
    sessions = [text for language, text in code_blocks(NAME) if language == "console"]
    assert sessions
    for session in sessions:
        command, _, output = session.partition("\n")
        assert command.startswith(PROMPT)
        arguments = shlex.split(command.removeprefix(PROMPT))
        code = 2 if "^ expected" in output else 0
        assert run_python([*CLI, *arguments], tmp_path, code) == output.strip()
