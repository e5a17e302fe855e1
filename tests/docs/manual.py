"""The manuals as data: code blocks and tables of the Markdown files in this repository."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from forked import finished

ROOT = Path(__file__).resolve().parents[2]
READMES = ("README.md", "README.zh-CN.md")
GUIDES = ("docs/guide.md", "docs/zh-CN/guide.md")
MANUALS = (
    *READMES,
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "conformance/README.md",
    *sorted(
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "docs").rglob("*.md")
        if path.parent.name != "rules"
    ),
)
RULES = tuple(
    path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs" / "rules").glob("*.md"))
)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"`([^`\s]+\.jsonl?)`[^`]*\n\n```jsonl?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| `([^`]+)`", re.MULTILINE)


class CodeBlock(NamedTuple):
    """A fenced block: what its fence calls it, and what it holds."""

    language: str
    text: str


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def code_blocks(name: str) -> list[CodeBlock]:
    return [CodeBlock(*found) for found in _BLOCK.findall(read(name))]


def named_files(name: str) -> dict[str, str]:
    """Return the files that a reader is asked to save, by the name before each block."""
    return dict(_FILE.findall(read(name)))


def section(name: str, *headings: str) -> str:
    """Return what stands below the one of these headings that the manual has."""
    wanted = "|".join(re.escape(heading) for heading in headings)
    found = re.search(
        rf"^(##+) (?:{wanted})\n(.*?)(?=^##|\Z)", read(name), re.MULTILINE | re.DOTALL
    )
    assert found, f"{name} has none of {headings}"
    return found[2]


def row_names(text: str) -> list[str]:
    """Return what the first cells of the tables hold, in order."""
    return _ROW.findall(text)


def rows(text: str) -> list[list[str]]:
    """Return the cells of the tables, row by row, without heads and rules; `\\|` is no border."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    rules = {number for number, row in enumerate(cells) if set("".join(row)) <= set("-: ")}
    return [
        row for number, row in enumerate(cells) if number not in rules and number + 1 not in rules
    ]


def run_python(arguments: list[str], folder: Path, code: int = 0) -> str:
    """Return what our Python prints in a folder, in 80 columns and without spaces at line ends.

    With another exit code that is what it prints on standard error.
    """
    done = finished(arguments, {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}, folder=folder)
    assert done.returncode == code, done.stderr
    printed = done.stderr if code else done.stdout
    return "\n".join(line.rstrip() for line in printed.splitlines()).strip()
