"""Programs of a user pass a strict type checker: sequences in, tuples out."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

from docs.manual import ROOT, code_blocks
from lorewell import BookCreate, Entry, SelectRequest, SillyTavernRequest
from lorewell.model import BindingsPut, PublishRequest
from lorewell.model.base import Contract
from lorewell.model.select import PlacementCapabilities

MANUALS = ("README.md", "docs/guide.md", "docs/api.md", "docs/replica.md", "docs/zh-CN/guide.md")
PROGRAM = """
from collections.abc import Sequence
from typing import assert_type

from lorewell import BookCreate, Entry

words: Sequence[str] = ["lamp"]
entry = Entry(content="x", keys=words, requires=["y"], audience=["actor"])
assert_type(entry.keys, tuple[str, ...])
book = BookCreate(name="b", entries=[entry, {"content": "y"}])
assert_type(book.entries, tuple[Entry, ...])
"""


@pytest.mark.long
def test_programs_of_the_manuals_pass_a_strict_type_checker(tmp_path: Path) -> None:
    (tmp_path / "sequences.py").write_text(PROGRAM, encoding="utf-8")
    for manual in MANUALS:
        for at, block in enumerate(code_blocks(manual)):
            if block.language == "python":
                name = manual.replace("/", "_").replace("-", "_").removesuffix(".md")
                (tmp_path / f"{name}_{at}.py").write_text(block.text, encoding="utf-8")
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nstrict = True\n", encoding="utf-8")
    cache = ROOT / "build" / "mypy-of-users"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--config-file", str(config)),
            *("--cache-dir", str(cache), "--no-error-summary"),
            *sorted(str(path) for path in tmp_path.glob("*.py")),
        ],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    "model",
    [
        *(Entry, BookCreate, PublishRequest, BindingsPut),
        *(SelectRequest, SillyTavernRequest, PlacementCapabilities),
    ],
)
def test_signatures_for_type_checkers_have_every_field(model: type[Contract]) -> None:
    source = inspect.getsource(model)
    found = source.partition("def __init__(")[2].partition(") -> None: ...")[0]
    lines = (line.partition("#")[0].strip() for line in found.splitlines())
    parameters = [line for line in lines if ":" in line]
    by_name = {line.partition(":")[0]: line.endswith("= ...,") for line in parameters}
    fields = model.model_fields
    assert by_name == {name: not field.is_required() for name, field in fields.items()}
    assert set(get_type_hints(model)) >= set(fields)


@pytest.mark.parametrize("model", [Entry, BookCreate, SelectRequest, SillyTavernRequest])
def test_every_field_has_the_description_of_the_schema(model: type[Contract]) -> None:
    properties = model.model_json_schema()["properties"]
    for name, field in model.model_fields.items():
        assert field.description
        assert properties[name]["description"].startswith(field.description)
        assert properties[name]["description"].count(field.description) == 1
