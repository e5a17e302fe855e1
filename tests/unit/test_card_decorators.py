"""Decorators of cards V3: what means the same as a field becomes one, the rest stays as text."""

from __future__ import annotations

from typing import Any

import pytest

from lorewell.engine.sillytavern.entry import Form, import_entry, overlaid, sillytavern_view
from lorewell.engine.sillytavern.entry.card_decorators import read_decorators
from lorewell.model import Entry
from lorewell.model.parse import parse_model

AT_DEPTH = {"position": "at_depth"}


def imported(content: str, form: Form = "card", **fields: object) -> Entry:
    raw = {"id": 1, "keys": ["灯"], "content": content, "enabled": True, **fields}
    read = import_entry(raw, form=form, entry_id="1", source_format="chara_card_v3")
    return parse_model(Entry, read.entry)


def changed(entry: Entry, **fields: object) -> Entry:
    return parse_model(Entry, {**entry.model_dump(), **fields})


@pytest.mark.parametrize(
    ("content", "values", "left"),
    [
        ("@@depth 2\n灯", AT_DEPTH | {"depth": 2}, "灯"),
        ("@@depth 0\r\n灯", AT_DEPTH | {"depth": 0}, "灯"),
        ("@@depth -3\n灯", AT_DEPTH | {"depth": 0}, "灯"),
        (
            "@@role assistant\n@@scan_depth 7\n\n \nโคมไฟ 🏮\n",
            {"role": "assistant", "scan_depth": 7},
            "โคมไฟ 🏮\n",
        ),
        ("@@activate\n灯", {"constant": True}, "灯"),
        ("@@position after_desc\n@@depth 9\n灯", {"position": "after_character"}, "灯"),
        ("@@depth 9\n@@position before_desc\n灯", {"position": "before_character"}, "灯"),
        ("@@depth 1\n@@depth 2\n灯", AT_DEPTH | {"depth": 1}, "灯"),
        ("@@unheard 1\n@@@unheard 2\n@@@role user\n@@@role system\n灯", {"role": "user"}, "灯"),
        ("@@role user\n@@is_greeting 1\n灯", {"role": "user"}, "@@is_greeting 1\n灯"),
        ("@@activate\n", {"constant": True}, ""),
    ],
)
def test_what_means_the_same_is_read(content: str, values: dict[str, Any], left: str) -> None:
    found = read_decorators(content)
    assert dict(found.values) == values
    assert found.content == left


@pytest.mark.parametrize(
    "content",
    [
        *("灯", "", "text\n@@depth 2", "@ @depth 2\n灯", "@@dont_activate\n灯", "@@depth two\n灯"),
        *("@@role 灯\n灯", "@@scan_depth 101\n灯", "@@activate now\n灯", "@@additional_keys a\n灯"),
        "@@position scenario\n@@depth 2\n灯",  # the stronger place is not ours
        "@@depth 2",  # SillyTavern takes decorators without a text for the text
        "@@role user\n\n@@depth 2\n灯",  # what follows a blank line is text
    ],
)
def test_what_means_something_else_stays_text(content: str) -> None:
    found = read_decorators(content)
    assert (dict(found.values), found.content) == ({}, content)


def test_an_entry_that_was_read_whole_is_not_blocked_and_one_with_a_rest_is() -> None:
    whole, partly = imported("@@depth 2\n灯台"), imported("@@depth 2\n@@is_greeting 1\n灯台")
    assert (whole.depth, whole.position, whole.content) == (2, "at_depth", "灯台")
    assert whole.runtime_requirements == ()
    assert (partly.depth, partly.content) == (2, "@@is_greeting 1\n灯台")
    assert partly.runtime_requirements == ("decorators",)


def test_both_kinds_are_told() -> None:
    raw = {"content": "@@depth 2\n@@is_greeting 1\n灯台", "enabled": True}
    read = import_entry(raw, form="card", entry_id="1", source_format="chara_card_v3")
    assert [(repair.pointer, repair.code) for repair in read.repairs] == [
        ("/content", "decorators_read"),
        ("/content", "decorator_kept"),
    ]


def test_an_untouched_entry_and_one_with_another_field_keep_their_lines() -> None:
    content = "@@depth 2\n@@is_greeting 1\n灯台"
    entry = imported(content)
    assert sillytavern_view(entry)["content"] == content
    assert sillytavern_view(changed(entry, order=7))["content"] == content


def test_a_new_text_stays_behind_the_lines() -> None:
    entry = changed(imported("@@depth 2\n@@role user\n\n灯台"), content="Маяк")
    assert overlaid(entry)["content"] == "@@depth 2\n@@role user\nМаяк"
    assert "extensions" not in overlaid(entry)


@pytest.mark.parametrize("content", ["灯台", "\n灯台", "@@depth 5\n灯台"])
def test_a_changed_field_takes_the_place_of_the_lines(content: str) -> None:
    entry = changed(imported("@@depth 2\n@@role user\n灯台"), depth=5, content=content)
    shown = overlaid(entry)
    assert shown["content"] == content
    assert shown["extensions"] == {"depth": 5, "position": 4, "role": 1}


def test_a_text_that_would_be_read_as_more_lines_takes_their_place() -> None:
    entry = changed(imported("@@role user\n灯台"), content="\nМаяк")
    assert overlaid(entry)["content"] == "\nМаяк"
    assert overlaid(entry)["extensions"] == {"role": 1}
