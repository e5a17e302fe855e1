"""NovelAI's lorebooks, stories and scenarios as books of ours."""

from __future__ import annotations

import pytest
from hypothesis import given

from lorewell.errors import ImportInvalidError
from other_programs import read, said, shapes, warnings_of
from property.test_import import taken
from support import Document

WHOLE = {"match_whole_words": True}


def entry(**fields: object) -> Document:
    usual = {"text": "灯り。", "displayName": "灯", "keys": ["灯", "/ล(ำ)ปาง/"], "id": "a-1"}
    return {**usual, "enabled": True, "forceActivation": False, **fields}


def book(*entries: object, **members: object) -> Document:
    return {"lorebookVersion": 4, "entries": list(entries), **members}


def test_entry_is_read_into_native_fields() -> None:
    raw = entry(forceActivation=True, contextConfig={"budgetPriority": 700, "suffix": "\n"})
    found = read(book(raw, settings={"orderByKeyLocations": True}))
    (lamp,) = found.book.entries
    assert said(lamp) == {
        "id": "a-1",
        "title": "灯",
        "content": "灯り。",
        "keys": ("灯", "/ล(ำ)ปาง/"),
        "constant": True,
        "match_whole_words": True,
        "order": 700,
    }
    assert lamp.source == {"format": "nai_lorebook", "raw": raw, "three_valued": True}
    assert found.report.format == "nai_lorebook"
    kept = {"lorebookVersion": 4, "settings": {"orderByKeyLocations": True}}
    assert found.book.metadata["raw"] == kept
    assert found.book.name == "harbour"
    assert warnings_of(found) == []


def test_missing_flags_and_empty_objects_of_scripts_are_enabled_entries() -> None:
    found = read(book({"text": "x", "keys": ["a"]}, {}))
    assert [said(each) for each in found.book.entries] == [
        {"id": "entry-0", "content": "x", "keys": ("a",), "order": 400, **WHOLE},
        {"id": "entry-1", "order": 400, **WHOLE},
    ]
    assert warnings_of(found) == []


def test_a_category_that_is_off_switches_its_entries_off() -> None:
    categories = [
        *({"id": "c1", "enabled": False}, {"id": "c2", "enabled": True}, {"id": "c3"}),
        *({"id": 4, "enabled": False}, "none", {"id": "c5", "enabled": "?"}),
    ]
    names = ["c1", "c2", "c3", 4, "c5", "", None]
    entries = [entry(id=f"e{at}", category=name) for at, name in enumerate(names)]
    off = entry(id="e7", category="c1", enabled=False)
    found = read(book(*entries, off, categories=categories))
    disabled = [each.id for each in found.book.entries if not each.enabled]
    assert disabled == ["e0", "e7"]
    assert warnings_of(found) == [("e0", "category_disabled")]
    assert read(book(entry(category="c1"), categories="none")).report.enabled_count == 1


def test_what_has_no_place_is_named_and_kept() -> None:
    raw = entry(
        keys=["sea & fog", "/a & b/", "AT&T"],
        searchRange=5000,
        contextConfig={"prefix": "[", "insertionPosition": -1},
        loreBiasGroups=[{"phrases": []}, "odd", {"phrases": ["wave"]}],
    )
    found = read(book(raw))
    assert found.book.entries[0].keys == ("/a & b/", "AT&T")
    assert found.book.entries[0].key_expression == "sea and fog"
    assert found.book.entries[0].source["raw"] == raw
    assert warnings_of(found) == [
        ("a-1", "key_expression_read"),
        ("a-1", "not_kept"),
        ("a-1", "not_kept"),
    ]
    messages = [warning.message for warning in found.report.warnings]
    assert messages[1] == (
        "/entries/0/searchRange: searchRange, contextConfig/prefix:"
        " not supported; kept in source.raw only."
    )
    assert messages[2].startswith("/entries/0/loreBiasGroups: ")


def test_more_keys_than_an_entry_can_have_are_cut() -> None:
    found = read(book(entry(keys=[f"k{at}" for at in range(201)])))
    assert len(found.book.entries[0].keys) == 200
    assert warnings_of(found) == [("a-1", "keys_cut")]


@pytest.mark.parametrize(
    ("document", "name"),
    [
        (
            {
                "storyContainerVersion": 1,
                "metadata": {"title": "港"},
                "content": {"lorebook": book(entry()), "story": {"text": "…"}},
            },
            "港",
        ),
        ({"scenarioVersion": 1, "title": "霧", "lorebook": book(entry())}, "霧"),
        ({"storyContainerVersion": 1, "content": {"lorebook": book(entry())}}, "harbour"),
    ],
)
def test_story_and_scenario_give_their_lorebook(document: Document, name: str) -> None:
    found = read(document)
    assert (found.report.format, found.book.name) == ("nai_story", name)
    assert [each.keys[0] for each in found.book.entries] == ["灯"]
    assert warnings_of(found) == [(None, "not_kept")]


@pytest.mark.parametrize(
    "document",
    [
        {"storyContainerVersion": 1},
        {"storyContainerVersion": 1, "content": None},
        {"storyContainerVersion": 1, "content": {"lorebook": None}},
        {"scenarioVersion": 0},
    ],
)
def test_story_without_a_lorebook_holds_no_book(document: Document) -> None:
    found = read(document)
    assert not found.holds_book
    assert found.report.entry_count == 0


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (book() | {"entries": "[{'text': 'x'}]"}, "/entries: must be an object or a list"),
        ({"scenarioVersion": 1, "lorebook": [1]}, "/lorebook: must be an object, is a list"),
    ],
)
def test_wrong_shape_is_refused_by_its_place(document: Document, says: str) -> None:
    with pytest.raises(ImportInvalidError, match=says):
        read(document)


@pytest.mark.parametrize(("version", "codes"), [(6, []), (99, ["newer_version"]), ("9", [])])
def test_newer_version_is_taken_with_a_warning(version: object, codes: list[str]) -> None:
    found = read(book(entry()) | {"lorebookVersion": version})
    assert [code for _, code in warnings_of(found)] == codes


NAMES = [
    *("text", "displayName", "keys", "enabled", "forceActivation", "category", "id"),
    *("contextConfig", "contextConfig/prefix", "searchRange", "loreBiasGroups"),
]


@given(shapes(NAMES, lambda drawn: {"lorebookVersion": 1, "entries": drawn, "categories": drawn}))
def test_any_values_give_a_book_or_an_error_of_ours(data: bytes) -> None:
    taken(data)


@given(shapes(["content", "lorebook", "title"], lambda drawn: {"scenarioVersion": drawn}))
def test_any_scenario_gives_a_book_or_an_error_of_ours(data: bytes) -> None:
    taken(data)
