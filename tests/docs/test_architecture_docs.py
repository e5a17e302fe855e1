"""ARCHITECTURE.md and CONTRIBUTING.md name paths, classes and layers that exist."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from docs.manual import ROOT, read, row_names, rows, section
from lorewell.app.ledgers import LedgerRef
from lorewell.http.ledgers import ledger_path
from lorewell.model import Policy

ARCHITECTURE, CONTRIBUTING = "ARCHITECTURE.md", "CONTRIBUTING.md"
GUIDES = (ARCHITECTURE, CONTRIBUTING)
PACKAGE = ROOT / "src" / "lorewell"
IMPORTS = "What may import what?"
_QUOTED = re.compile(r"`([^`\n]+)`")
_COMMAND = re.compile(r"(?:dev\.py test|\.venv/bin/\w+) ([^`\n]+)")
_PATH = re.compile(r"[\w./-]+\.(?:py|html|md|toml|yaml)|\w+(?:/\w+)+")
_CLASS = re.compile(r"[A-Z][a-z]\w*(?:\.\w+)?")
_ALL_POLICIES: tuple[Policy, ...] = get_args(Policy)


def named_paths(manual: str) -> set[str]:
    """Return the quoted paths of files and folders, and those in commands."""
    text = read(manual)
    words = [
        *_QUOTED.findall(text),
        *(word for line in _COMMAND.findall(text) for word in line.split()),
    ]
    found = {word.rstrip("/") for word in words if _PATH.fullmatch(word.rstrip("/"))}
    return {path for path in found if not path.startswith("build/")}  # written by tests


@pytest.mark.parametrize("manual", GUIDES)
def test_every_named_path_exists(manual: str) -> None:
    paths = named_paths(manual)
    assert sum(path.endswith(".py") for path in paths) > 10
    assert not {path for path in paths if not any((top / path).exists() for top in (PACKAGE, ROOT))}


@pytest.mark.parametrize("manual", GUIDES)
def test_every_named_class_exists(manual: str) -> None:
    paths = [*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    words = set(re.findall(r"\w+", "\n".join(path.read_text(encoding="utf-8") for path in paths)))
    names = {name for name in _QUOTED.findall(read(manual)) if _CLASS.fullmatch(name)}
    assert names
    assert not {name for name in names if not words.issuperset(name.split("."))}


def test_every_rule_of_the_native_contract_has_its_module() -> None:
    manual = read("docs/rules/native.md")
    chapters = {int(number) for number in re.findall(r"^## (\d+)\.", manual, re.MULTILINE)}
    table = rows(section(ARCHITECTURE, "Where do I find rule X of the contract?"))
    native = table[: [cell for cell, *_ in table].index("§1.1, §6")]
    listed = {int(number) for cell, *_ in native for number in re.findall(r"§(\d+)", cell)}
    examples_and_notes = {1, 2, 14, 15, 16}
    assert listed == chapters - examples_and_notes


def test_index_has_every_question() -> None:
    text = read(ARCHITECTURE)
    index, *_ = re.split(r"^## ", text, maxsplit=1, flags=re.MULTILINE)
    questions = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert sorted(re.findall(r"\[([^\]]*)\]\(#", index)) == sorted(questions)


def contracts(kind: str) -> Iterator[dict[str, Any]]:
    """Yield the contracts of import-linter of this type, in order."""
    settings = tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]
    return (each for each in settings["contracts"] if each["type"] == kind)


def test_layers_are_those_that_are_checked() -> None:
    blocks = re.findall(r"(?:^    \S.*\n)+", section(ARCHITECTURE, IMPORTS), re.MULTILINE)
    shown = [[line.strip() for line in block.splitlines()] for block in blocks]
    assert shown == [each["layers"] for each in contracts("layers")]


def test_every_other_contract_has_a_row() -> None:
    table = [name for name, _ in rows(section(ARCHITECTURE, IMPORTS))]
    assert table == [each["name"] for each in contracts("forbidden")]


def test_every_package_of_the_core_is_pure() -> None:
    *_, core = contracts("forbidden")
    (_, meaning) = rows(section(ARCHITECTURE, IMPORTS))[-1]
    named = {name.removeprefix("lorewell.") for name in core["source_modules"]}
    assert named <= set(_QUOTED.findall(meaning))


def test_reasons_have_the_part_that_decides_them() -> None:
    table = rows(section(ARCHITECTURE, "Why did an entry fire, or not?"))
    explained = [name for cell, _ in table for name in _QUOTED.findall(cell)]
    documented = row_names(section("docs/reasons.md", "All reasons"))
    assert sorted(explained) == sorted(documented)


@pytest.mark.parametrize("policy", _ALL_POLICIES)
def test_every_policy_has_its_package_its_rules_and_its_ledger(policy: Policy) -> None:
    assert (PACKAGE / "engine" / policy / "__init__.py").exists()
    assert (ROOT / "docs" / "rules" / f"{policy}.md").exists()
    assert ledger_path(LedgerRef.of(policy, "demo", "1")).startswith("/v1/")
