"""The manual of the policy `replica`: its `curl` lines are sent to a service."""

from __future__ import annotations

import re
from json import loads
from pathlib import Path

from docs.manual import code_blocks, read
from docs.test_curl import ADDRESS, check_shown, send_parsed, serving

MANUAL = "docs/replica.md"


def test_the_lines_about_books_give_what_the_manual_says(tmp_path: Path) -> None:
    lines, shown = [block.text for block in code_blocks(MANUAL) if block.language in ("sh", "json")]
    with serving(tmp_path, replica_tenant="demo") as url:
        for line in lines.splitlines():
            answer = send_parsed(line.replace(ADDRESS, url), tmp_path)
            assert answer.status in (200, 201), (line, answer.body)
    check_shown(loads(shown), answer.body)


def test_every_route_has_a_row_and_a_line() -> None:
    rows = re.findall(r"^\| `([A-Z]+) (/api/worldbooks[^`]*)` \|", read(MANUAL), re.MULTILINE)
    assert len(rows) == 12
    lines = next(block.text for block in code_blocks(MANUAL) if block.language == "sh")
    for method, path in rows:
        pattern = ADDRESS + re.sub(r"\{\w+\}", r"[a-z]+", path) + r"(?=[ ?\n]|$)"
        found = [line for line in lines.splitlines() if re.search(pattern, line)]
        assert any(_method(line) == method for line in found), (method, path)


def _method(line: str) -> str:
    given = re.search(r"-X ([A-Z]+)", line)
    if given:
        return given[1]
    return "POST" if re.search(r" -[dF] ", line) else "GET"
