"""Nothing public is undocumented, and every example in a docstring works."""

import doctest
import importlib
import pkgutil
from typing import get_args

import pytest
import typer.main
from pydantic import BaseModel

import lorewell
from docs.manual import READMES, row_names, section
from lorewell import Entry, SelectRequest
from lorewell.cli.main import EXIT_CODES, OTHER_EXIT_CODE, app
from lorewell.errors import LorewellError
from lorewell.model import Reason

API = "docs/api.md"
MODULES = ["lorewell", *(m.name for m in pkgutil.walk_packages(lorewell.__path__, "lorewell."))]


def codes(error: type[LorewellError]) -> set[str]:
    return {error.code}.union(*map(codes, error.__subclasses__()))


def options(names: list[str]) -> set[str]:
    return {name.split()[0] for name in names}


def test_every_public_name_is_documented() -> None:
    assert sorted(row_names(section(API, "Public names"))) == sorted(lorewell.__all__)


@pytest.mark.parametrize(
    ("heading", "model"), [("Fields of an entry", Entry), ("Fields of a request", SelectRequest)]
)
def test_every_field_is_documented(heading: str, model: type[BaseModel]) -> None:
    assert row_names(section(API, heading)) == list(model.model_fields)


@pytest.mark.parametrize("name", READMES)
def test_every_reason_is_documented(name: str) -> None:
    assert row_names(section(name, "Reasons", "理由")) == list(get_args(Reason))


@pytest.mark.parametrize("name", READMES)
def test_every_error_code_is_documented(name: str) -> None:
    documented = row_names(section(name, "Errors", "错误"))
    assert len(documented) == len(set(documented))
    assert set(documented) == codes(LorewellError)


def test_every_option_is_documented() -> None:
    program = typer.main.get_command(app)
    commands = program.commands  # type: ignore[attr-defined]
    for heading, command in {
        "`lorewell`": program,
        **{f"`lorewell {name}`": command for name, command in commands.items()},
    }.items():
        offered = {
            name
            for parameter in command.params
            for name in (parameter.opts if parameter.param_type_name == "option" else ["FILE"])
        }
        assert options(row_names(section(API, heading))) == offered | {"--help"}
    assert set(commands) == {"import", "select", "show"}


def test_every_exit_code_is_documented() -> None:
    documented = section(API, "`lorewell select`").partition("| Exit code |")[2]
    for code in {0, OTHER_EXIT_CODE, *(code for _, code in EXIT_CODES)}:
        assert f"\n| {code} |" in documented


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_work(name: str) -> None:
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


def test_doctests_are_found() -> None:
    modules = map(importlib.import_module, MODULES)
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = [test for module in modules for test in finder.find(module) if test.examples]
    assert {"lorewell", "lorewell.engine.native.select.select"} <= {test.name for test in examples}
