"""What the manuals show is what happens: programs and commands are run, outputs compared."""

import itertools
import re
import shlex
from pathlib import Path

import pytest

from docs.manual import MANUALS, READMES, ROOT, code_blocks, read, run_python

PROMPT = "$ python3 dev.py run "
CLI = "from lorewell.cli.main import main; main()"


@pytest.mark.parametrize("name", MANUALS)
def test_python_programs_print_what_the_manual_says(name: str, tmp_path: Path) -> None:
    blocks = code_blocks(name)
    for number, (block, after) in enumerate(itertools.pairwise(blocks)):
        if block.language == "python":
            assert after.language == "text", "the output follows its program"
            program = tmp_path / f"program_{number}.py"
            program.write_text(block.text, encoding="utf-8")
            assert run_python([program.name], tmp_path) == after.text.strip()
    assert not blocks or blocks[-1].language != "python", "a program without its output"


@pytest.mark.parametrize("name", READMES)
def test_command_prints_what_the_readme_says(name: str, tmp_path: Path) -> None:
    blocks = code_blocks(name)
    assert {"python", "json", "console"} <= {block.language for block in blocks}
    book = next(block for block in blocks if block.language == "json")
    (tmp_path / "low-ferry.json").write_text(book.text, encoding="utf-8")
    for session in blocks:
        if session.language == "console":
            command, _, output = session.text.partition("\n")
            assert command.startswith(PROMPT)
            arguments = shlex.split(command.removeprefix(PROMPT))
            assert run_python(["-c", CLI, *arguments], tmp_path) == output.strip()


def test_readmes_have_the_same_shape() -> None:
    shapes = [re.findall(r"^(#+ |- |```\w+|\| [`-])", read(name), re.MULTILINE) for name in READMES]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("name", MANUALS)
def test_links_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", read(name)):
        assert ((ROOT / name).parent / target).exists(), target


@pytest.mark.parametrize("name", MANUALS)
def test_named_files_exist(name: str) -> None:
    named = set(re.findall(r"`((?:\w+/)*\w+\.py)`", read(name))) - {"first.py"}
    package = ROOT / "src" / "lorewell"
    places = (ROOT, package, package / "engine", package / "engine" / "sillytavern")
    missing = [path for path in named if not any((place / path).exists() for place in places)]
    assert missing == []
