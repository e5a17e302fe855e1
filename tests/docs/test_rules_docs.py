"""Every rule that code, tests and manuals cite can be opened: as a heading of a manual of rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "docs" / "rules"
FOLDERS = ("src", "tests", "bench", "conformance", "docs")
# "docs/rules/native.md §8.4, §8.11" and the like; a section alone is of the package's own rules.
NAMED = re.compile(r"docs/rules/([\w-]+)\.md((?:(?:,| and| to)?\s+§\d+(?:\.\d+)*)*)")
ALONE = re.compile(r"§(\d+(?:\.\d+)*)")
HEADING = re.compile(r"^#{2,4} (\d+(?:\.\d+)*)[. ]", re.MULTILINE)
# What a section without a name means in a package; elsewhere the native contract.
OWN: Mapping[str, str] = {
    "src/lorewell/engine/sillytavern/macros/": "sillytavern-macros",
    "src/lorewell/engine/sillytavern/": "sillytavern",
    "src/lorewell/engine/replica/": "replica",
    "src/lorewell/app/replica/": "replica",
    "src/lorewell/host/": "host",
    "src/lorewell/turn/": "host",
    "src/lorewell/formats/": "formats",
}
# Sections of other documents.
FOREIGN = re.compile(r"(?:APPNOTE|PNG specification|Exif|RFC \d+|design\.md)[^;:\n]*")


class Citation(NamedTuple):
    """A section that is cited, and where."""

    place: str
    manual: str
    section: str | None


def sections(manual: str) -> frozenset[str]:
    return frozenset(HEADING.findall((RULES / f"{manual}.md").read_text(encoding="utf-8")))


def citations() -> Iterator[Citation]:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
    for path in [*paths, *ROOT.glob("*.md")]:
        if path.suffix not in {".py", ".md"} or RULES in path.parents:
            continue
        place = path.relative_to(ROOT).as_posix()
        text = FOREIGN.sub("", path.read_text(encoding="utf-8"))
        for name, listed in NAMED.findall(text):
            for section in ALONE.findall(listed) or [None]:
                yield Citation(place, name, section)
        if place.startswith("src/"):
            own = next((name for start, name in OWN.items() if place.startswith(start)), "native")
            for section in ALONE.findall(NAMED.sub("", text)):
                yield Citation(place, own, section)


MANUALS = sorted(path.stem for path in RULES.glob("*.md"))


@pytest.mark.parametrize("manual", MANUALS)
def test_each_cited_section_is_a_heading(manual: str) -> None:
    cited = [each for each in citations() if each.manual == manual]
    assert cited
    there = sections(manual)
    missing = {(place, section) for place, _, section in cited if section and section not in there}
    assert not missing


def test_each_cited_manual_is_there() -> None:
    assert {each.manual for each in citations()} <= set(MANUALS)


@pytest.mark.parametrize("manual", MANUALS)
def test_each_section_has_one_heading(manual: str) -> None:
    found = HEADING.findall((RULES / f"{manual}.md").read_text(encoding="utf-8"))
    assert len(found) == len(set(found))
