"""An import says which macros an entry needs, and whether its policy has them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.console import Console

from lorewell import BookCreate, ImportedBook, import_file
from lorewell.cli.import_tables import report_tables
from lorewell.engine.sillytavern.macros.names import macro_names
from lorewell.engine.steps import Steps
from lorewell.formats.macros import entry_macros
from lorewell.model.parse import parse_model


def imported(*entries: dict[str, Any], **more: Any) -> ImportedBook:
    listed = {str(uid): {"uid": uid, "key": ["灯"], **each} for uid, each in enumerate(entries)}
    return import_file(json.dumps({"entries": listed, **more}).encode(), name="b.json")


def test_macros_of_a_world_are_those_of_sillytavern() -> None:
    found = imported(
        {"content": "{{ Char }}{{random::a::{{user}}}} {{.x}} {{summary}} {{/if}}{{char}}"},
        {"content": "no macro } {{"},
        {"key": ["{{getvar::灯}}"], "content": "{{time_UTC+2}}"},
    )
    assert [(each.macros, each.unknown) for each in found.report.macros] == [
        (("char", "random", "user", ".", "summary"), ("summary",)),
        (("getvar", "time_utc"), ()),
    ]
    assert found.report.macros[0].entry_id == found.book.entries[0].id


def test_macros_of_a_native_book_are_names_alone() -> None:
    entry = {"id": "a", "content": "{{user}} {{random::a}}", "keys": ["k"]}
    book = parse_model(BookCreate, {"name": "b", "entries": [entry]})
    assert [(each.macros, each.unknown) for each in entry_macros(book, Steps())] == [
        (("user", "random"), ("random",))
    ]


def test_lacking_macros_are_shown() -> None:
    console = Console(width=120)
    with console.capture() as shown:
        console.print(*report_tables(imported({"content": "{{summary}} {{char}}"})))
    told = shown.get()
    assert "Macros that the rules of this book lack" in told
    assert "summary" in told


@pytest.mark.parametrize(
    "text", ["{" * 100_000, "{{ " * 50_000, "{{a" * 50_000, "{{" + " " * 10**5]
)
def test_names_take_steps_in_proportion(text: str) -> None:
    steps = Steps()
    list(macro_names(text, steps))
    assert steps.spent < len(text)
