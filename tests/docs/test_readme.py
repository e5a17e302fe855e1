"""What the manuals show is what happens: programs and commands are run, outputs compared."""

import itertools
import re
import shlex
from pathlib import Path
from typing import get_args

import pytest

from conform import ALL_CASES, load_cases
from docs.manual import (
    GUIDES,
    MANUALS,
    READMES,
    ROOT,
    RULES,
    code_blocks,
    named_files,
    read,
    run_python,
    section,
)
from forked import CLI
from lorewell.model import Reason

PROMPT = "$ python3 dev.py run "


@pytest.mark.parametrize("name", MANUALS)
def test_python_programs_print_what_the_manual_says(name: str, tmp_path: Path) -> None:
    blocks = code_blocks(name)
    for file, text in named_files(name).items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    for number, (block, after) in enumerate(itertools.pairwise(blocks)):
        if block.language == "python":
            assert after.language == "text", "the output follows its program"
            program = tmp_path / f"program_{number}.py"
            program.write_text(block.text, encoding="utf-8")
            assert run_python([program.name], tmp_path) == after.text.strip()
    assert not blocks or blocks[-1].language != "python", "a program without its output"


@pytest.mark.parametrize("name", GUIDES)
def test_command_prints_what_the_guide_says(name: str, tmp_path: Path) -> None:
    blocks = code_blocks(name)
    assert {"python", "json", "console"} <= {block.language for block in blocks}
    files = named_files(name)
    assert len(files) == 3
    for file, text in files.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    for session in blocks:
        if session.language == "console":
            command, _, output = session.text.partition("\n")
            assert command.startswith(PROMPT)
            arguments = shlex.split(command.removeprefix(PROMPT))
            assert run_python([*CLI, *arguments], tmp_path) == output.strip()


@pytest.mark.parametrize("pair", [READMES, GUIDES])
def test_both_languages_have_the_same_shape(pair: tuple[str, str]) -> None:
    shapes = [re.findall(r"^(#+ |- |```\w+|\| [`-])", read(name), re.MULTILINE) for name in pair]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("name", READMES)
def test_readme_is_short_and_shows_a_program(name: str) -> None:
    assert len(read(name).splitlines()) <= 120
    assert {"python", "text", "json", "sh"} <= {block.language for block in code_blocks(name)}


@pytest.mark.parametrize(
    ("name", "heading", "word"),
    [("README.md", "What sets it apart", "Proof: "), ("README.zh-CN.md", "与众不同之处", "证据：")],
)
def test_every_claim_of_the_readme_has_its_proof(name: str, heading: str, word: str) -> None:
    claims = re.findall(r"^- (.*)$", section(name, heading), re.MULTILINE)
    assert len(claims) == 5
    for claim in claims:
        proof = claim.partition(word)[2]
        assert re.search(r"`(tests/[\w/.]+)`|\]\(conformance/", proof), claim
        assert all((ROOT / path).exists() for path in re.findall(r"`(tests/[\w/.]+)`", proof))


@pytest.mark.parametrize("name", READMES)
def test_figures_of_the_readme_are_those_of_the_repository(name: str) -> None:
    recorded = load_cases(*ALL_CASES)
    scans = sum(len(case["steps"]) for case in recorded)
    figures = (
        len(get_args(Reason)),
        len(load_cases(ROOT / "tests" / "golden" / "native")),
        len(recorded),
        scans,
    )
    for figure in figures:
        assert re.search(rf"(?<![\d,]){figure:,}(?![\d,])", read(name)), figure


@pytest.mark.parametrize("name", [*MANUALS, *RULES])
def test_links_lead_somewhere(name: str) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", read(name)):
        path = ((ROOT / name).parent / target) if target else ROOT / name
        assert path.exists(), target
        assert not anchor or anchor in _anchors(path), (target, anchor)


def _anchors(path: Path) -> set[str]:
    """Return the anchors of the headings of a Markdown file, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("name", MANUALS)
def test_named_files_exist(name: str) -> None:
    named = set(re.findall(r"`((?:\w+/)*\w+\.py)`", read(name))) - {"first.py"}
    package = ROOT / "src" / "lorewell"
    places = (
        *(ROOT, ROOT / "conformance"),
        *(package, package / "engine", package / "engine" / "sillytavern"),
    )
    missing = [path for path in named if not any((place / path).exists() for place in places)]
    assert missing == []
