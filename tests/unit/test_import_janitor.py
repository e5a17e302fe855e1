"""JanitorAI's lists as books of ours."""

from __future__ import annotations

import pytest
from hypothesis import given

from lorewell.model import SillyTavernBlock
from other_programs import read, said, shapes, warnings_of
from property.test_import import taken
from support import Document


def entry(**fields: object) -> Document:
    usual = {
        "id": "a-1",
        "name": "灯台",
        "key": ["lamp", "/.*/"],
        "keysRaw": "lamp",
        "keysecondary": [],
        "keysecondaryRaw": "",
        "content": "An oil lamp.",
        "comment": "memo",
        "enabled": True,
        "insertion_order": 20,
        "priority": 3,
        "probability": 100,
        "groupWeight": 100,
        "inclusionGroupRaw": "",
        "minMessages": 0,
        "activationMode": "standard",
        "activationScript": "",
        "keyMatchPriority": False,
    }
    return {**usual, **fields}


READ = {
    "id": "a-1",
    "title": "灯台",
    "content": "An oil lamp.",
    "keys": ("lamp", "/.*/"),
    "order": 20,
    "priority": 3,
}


def test_entry_is_read_into_native_fields() -> None:
    found = read([entry()])
    (lamp,) = found.book.entries
    assert said(lamp) == READ
    assert lamp.source == {"format": "janitor", "raw": entry(), "three_valued": True}
    assert found.report.format == "janitor"
    assert warnings_of(found) == []


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"enabled": False}, {"enabled": False}),
        ({"constant": True}, {"constant": True}),
        (
            {"case_sensitive": True, "matchWholeWords": True},
            {"case_sensitive": True, "match_whole_words": True},
        ),
        ({"name": ""}, {"title": "memo"}),
        ({"key": None, "keysRaw": "a, /b,c/"}, {"keys": ("a", "/b,c/")}),
        (
            {"keysecondary": ["oil"], "selectiveLogic": 2},
            {"secondary_keys": ("oil",), "selective": True, "logic": "not_any"},
        ),
        ({"probability": 12.5}, {"probability": 12.5}),
        ({"inclusionGroupRaw": "港"}, {"conflict_key": "group:港"}),
    ],
)
def test_each_member_has_its_meaning(fields: Document, shown: Document) -> None:
    found = read([entry(id="b"), entry(**fields)])
    assert said(found.book.entries[1]) == READ | shown
    assert warnings_of(found) == []


def test_groups_and_the_delay_are_sillytaverns() -> None:
    group = {"inclusionGroupRaw": "a, b", "groupWeight": 5, "prioritizeInclusion": True}
    found = read([entry(minMessages=3, **group)])
    (lamp,) = found.book.entries
    block = SillyTavernBlock(group="a, b", group_weight=5, group_override=True, delay=3)
    assert lamp.sillytavern == block
    assert (lamp.runtime_requirements, lamp.kind) == (("delay",), "lore")
    assert warnings_of(found) == [("a-1", "several_groups")]


@pytest.mark.parametrize(("script", "is_blocked"), [("go()", True), (" ", False), ({"a": 1}, True)])
def test_script_is_kept_and_blocks(script: object, *, is_blocked: bool) -> None:
    found = read([entry(activationScript=script)])
    (lamp,) = found.book.entries
    assert lamp.runtime_requirements == (("script",) if is_blocked else ())
    assert lamp.kind == ("presentation" if is_blocked else "lore")
    assert found.report.runtime_blocked_count == int(is_blocked)
    assert lamp.source["raw"]["activationScript"] == script


def test_what_has_no_place_is_named() -> None:
    found = read([entry(activationMode="script", keyMatchPriority=True)])
    assert warnings_of(found) == [("a-1", "not_kept")]
    assert "keyMatchPriority, activationMode" in found.report.warnings[0].message


@given(shapes([*entry(), "constant"], lambda drawn: [{"key": [], "keysRaw": ""}, drawn]))
def test_any_values_give_a_book_or_an_error_of_ours(data: bytes) -> None:
    taken(data)
