"""Nothing public is undocumented, and every example in a docstring works."""

import doctest
import importlib
import json
import pkgutil
import re
from pathlib import Path
from typing import Any, get_args

import pytest
import typer.main
from pydantic import BaseModel

import lorewell
from docs.manual import read, row_names, rows, section
from lorewell import Entry, SelectRequest, Steps, client, host, turn
from lorewell.cli.failures import EXIT_CODES, OTHER_EXIT_CODE
from lorewell.cli.inspections import inspection_json
from lorewell.cli.main import app
from lorewell.client import LorewellClient
from lorewell.client.problems import CLASSES
from lorewell.errors import LorewellError
from lorewell.formats.inspection import inspect_bytes
from lorewell.http.problems import status_of
from lorewell.model import Facts, Policy, Reason
from lorewell.model.decision import Recalled
from lorewell.model.scene_fields import FIELDS

API = "docs/api.md"
SOURCES = Path(lorewell.__file__).parent
# Kinds that a function is given as an argument.
EXTRA_KINDS: dict[str, set[str]] = {"spend": set(), "write": {"outlets"}}
ALEMBIC_ALONE = "lorewell.store.migrations.env"  # it can be imported by nobody else
MODULES = [
    "lorewell",
    *(
        module.name
        for module in pkgutil.walk_packages(lorewell.__path__, "lorewell.")
        if module.name != ALEMBIC_ALONE
    ),
]


# What reading a file counts; docs/limits.md says how much of it there may be.
FILE_KINDS = frozenset(
    [
        "bytes",
        "chunks",
        "entries",
        "inflating",
        "members",
        "objects",
        "quarantine",
        "repairs",
        "texts",
        "values",
    ]
)


def test_kinds_of_steps_are_documented() -> None:
    """What is counted anywhere has a row, and nothing else has one."""
    source = "".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))
    told = section(API, "Steps of a turn")
    for call, title in (("spend", "| Kind of steps |"), ("write", "| Kind of characters |")):
        kinds = set(re.findall(rf'\.{call}\(\s*"([a-z]+)"', source)) - FILE_KINDS
        table = told[told.index(title) :].split("\n\n")[0]
        assert kinds | EXTRA_KINDS[call] == set(row_names(table))
        assert all(f"`{kind}`" in (Steps.__doc__ or "") for kind in kinds)


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
    assert sorted(row_names(section(API, heading))) == sorted(model.model_fields)


def test_every_fact_and_outcome_of_recall_is_documented() -> None:
    first = Facts._fields.index("lexical_rank")
    documented = row_names(section(API, "Facts of recall"))
    assert documented == [*Facts._fields[first:], *get_args(Recalled)]


def test_every_reason_is_documented_in_both_languages() -> None:
    found = rows(section("docs/reasons.md", "All reasons"))
    assert [name.strip("`") for name, *_ in found] == list(get_args(Reason))
    assert {is_in for _, is_in, *_ in found} == {"yes", "no"}
    assert all(_is_in_both_languages(row) for row in found)


def test_every_error_code_is_documented_in_both_languages() -> None:
    found = rows(section("docs/errors.md", "All codes"))
    documented = [code.strip("`") for code, *_ in found]
    assert len(documented) == len(set(documented))
    assert set(documented) == codes(LorewellError)
    assert all(_is_in_both_languages(row) for row in found)


def test_every_error_code_has_its_status() -> None:
    found = rows(section("docs/errors.md", "All codes"))
    documented = {code.strip("`"): int(status) for code, status, *_ in found}
    assert documented == {code: status_of(CLASSES[code]) for code in documented}


def _is_in_both_languages(row: list[str]) -> bool:
    *_, english, chinese = row
    han = re.compile("[\u4e00-\u9fff]")
    return len(row) == 4 and bool(english and han.search(chinese)) and not han.search(english)


def offered(command: Any) -> set[str]:
    """Return the options of a command, each by its first name, and its arguments."""
    return {
        parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar
        for parameter in command.params
    } | {"--help"}


def documented_options(name: str) -> set[str]:
    return options(row_names(section(API, f"`{name}`")))


def test_every_option_is_documented() -> None:
    program: Any = typer.main.get_command(app)
    assert documented_options("lorewell") == offered(program)
    for name, command in program.commands.items():
        shared = {"--help"}
        if hasattr(command, "commands"):  # what all of a group have is said once
            if len(command.commands) > 1:
                shared = set.intersection(*map(offered, command.commands.values()))
            assert documented_options(f"lorewell {name}") == shared
        for below, each in getattr(command, "commands", {}).items():
            assert documented_options(f"lorewell {name} {below}") == offered(each) - shared
        if not hasattr(command, "commands"):
            assert documented_options(f"lorewell {name}") == offered(command)


def test_only_commands_are_documented() -> None:
    program: Any = typer.main.get_command(app)
    names = {"lorewell"}
    for name, command in program.commands.items():
        below = getattr(command, "commands", {})
        names |= {f"lorewell {name}", *(f"lorewell {name} {each}" for each in below)}
    assert set(re.findall(r"^##+ `(lorewell[ \w]*)`$", read(API), re.MULTILINE)) == names


def test_every_member_of_an_inspection_is_documented() -> None:
    seen = inspect_bytes(b"{}", name="x.json")
    printed = ["file", *json.loads(inspection_json(seen))]
    assert sorted(row_names(section(API, "Members of an inspection"))) == sorted(printed)


def test_every_method_of_the_client_is_documented() -> None:
    methods = {name for name in vars(LorewellClient) if not name.startswith("_")}
    documented = row_names(section(API, "Methods of the client"))
    assert sorted(documented) == sorted(methods - {"send", "session"})


def test_every_name_of_the_client_is_documented() -> None:
    documented = row_names(section(API, "`lorewell.client`"))
    assert sorted(documented) == sorted(client.__all__)


def test_every_name_of_the_host_kit_is_documented() -> None:
    names = row_names(section(API, "`lorewell.host`").partition("| Name |")[2])
    assert sorted(names) == sorted(host.__all__)


def test_every_name_of_a_turn_is_documented() -> None:
    names = row_names(section(API, "`lorewell.turn`"))
    assert sorted(names) == sorted(turn.__all__)


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


def test_every_setting_is_documented() -> None:
    """Variable and help, word for word, in docs/operations.md."""
    from lorewell.settings_table import list_settings  # noqa: PLC0415  the service's packages

    text = read("docs/operations.md")
    for setting in list_settings():
        assert f"| `{setting.env}` |" in text
        assert f"| {setting.help} |" in text


def test_the_table_of_the_scene_is_that_of_the_code() -> None:
    """Each member of a scene has a row with its field under each policy."""
    policies: tuple[Policy, ...] = ("native", "sillytavern", "replica")
    table = [row for row in rows(section(API, "The scene")) if row[0].strip("`") in FIELDS]
    assert [row[0].strip("`") for row in table] == list(FIELDS)
    for name, _, *cells in table:
        for policy, cell in zip(policies, cells, strict=True):
            fields = FIELDS[name.strip("`")].get(policy, ())
            assert re.findall(r"`([^`]+)`", cell) == list(fields)
            assert fields or cell == ("" if name == "`enabled`" else "–")
