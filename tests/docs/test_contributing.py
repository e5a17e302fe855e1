"""The tables of CONTRIBUTING.md have every package and every folder of tests."""

from __future__ import annotations

import re
from pathlib import Path

from docs.manual import ROOT, rows, section

MANUAL = "CONTRIBUTING.md"
PACKAGE = ROOT / "src" / "lorewell"


def names(heading: str) -> list[str]:
    """Return the names in the first column of a section's table."""
    return [
        name for row in rows(section(MANUAL, heading)) for name in re.findall("`(.+?)`", row[0])
    ]


def holds_code(folder: Path) -> bool:
    return folder.is_dir() and any(folder.rglob("*.py"))


def test_every_package_has_a_row() -> None:
    packages = {path.name for path in PACKAGE.iterdir() if holds_code(path)}
    modules = {path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("_")}
    listed = names("Where code goes")
    assert len(listed) == len(set(listed))
    assert set(listed) == packages | modules


def test_every_folder_of_tests_has_a_row() -> None:
    folders = {f"tests/{path.name}" for path in (ROOT / "tests").iterdir() if holds_code(path)}
    listed = names("How are tests split, and which database do they use?")
    assert len(listed) == len(set(listed))
    assert set(listed) == folders
