"""World info of KoboldAI and Kobold Lite as books of ours."""

from __future__ import annotations

import pytest
from hypothesis import given

from lorewell.errors import ImportInvalidError, ValidationFailedError
from other_programs import read, said, shapes, warnings_of
from property.test_import import taken
from support import Document

EARLY = {"key": "lamp, 灯", "content": "An oil lamp."}
READ = {"id": "entry-0", "content": "An oil lamp.", "keys": ("lamp", "灯")}


@pytest.mark.parametrize(
    ("document", "rest"),
    [
        ([EARLY], {}),
        ({"gamestarted": True, "worldinfo": [EARLY]}, {"gamestarted": True}),
        ({"worldinfo": [EARLY], "actions": ["x"]}, {"actions": ["x"]}),
        ({"savedsettings": {"a": 1}, "worldinfo": [EARLY]}, {"savedsettings": {"a": 1}}),
        (
            {"gamestarted": True, "worldinfo": [EARLY], "entries": "odd"},
            {"gamestarted": True, "entries": "odd"},
        ),
    ],
)
def test_saves_and_lists_hold_the_same_entries(document: object, rest: Document) -> None:
    found = read(document)
    (entry,) = found.book.entries
    assert said(entry) == READ
    assert entry.source == {"format": "kobold", "raw": EARLY, "three_valued": True}
    assert found.report.format == "kobold"
    assert found.book.metadata.get("raw", {}) == rest
    assert warnings_of(found) == []


def test_save_without_world_info_is_an_empty_book() -> None:
    found = read({"gamestarted": True, "prompt": "x"})
    assert found.holds_book
    assert found.report.entry_count == 0
    assert warnings_of(found) == [(None, "entries_missing")]


def test_world_file_of_the_united_version() -> None:
    raw = {
        "uid": 7,
        "title": "灯台",
        "key": ["lamp", "tower "],
        "keysecondary": ["oil"],
        "folder": "Port",
        "constant": True,
        "content": "",
        "manual_text": "A tower.",
        "comment": "memo",
        "selective": True,
        "wpp": {"name": ""},
        "use_wpp": False,
    }
    found = read({"folders": {"Port": [7]}, "entries": {"7": raw}})
    assert said(found.book.entries[0]) == {
        "id": "7",
        "title": "灯台",
        "content": "A tower.",
        "keys": ("lamp", "tower "),
        "secondary_keys": ("oil",),
        "selective": True,
        "constant": True,
    }
    assert found.book.metadata["raw"] == {"folders": {"Port": [7]}}
    assert warnings_of(found) == []


def lite(**fields: object) -> Document:
    usual = {**EARLY, "keysecondary": "", "keyanti": "", "comment": "灯", "folder": None}
    return {**usual, "selective": False, "constant": False, "probability": "100", **fields}


@pytest.mark.parametrize(
    ("fields", "shown", "codes"),
    [
        ({}, {}, []),
        ({"probability": "35"}, {"probability": 35}, []),
        ({"probability": "135"}, {}, ["clamped"]),
        ({"probability": "x"}, {}, ["wrong_type"]),
        ({"widisabled": True}, {"enabled": False}, []),
        (
            {"keysecondary": "oil, wick", "selective": True},
            {"secondary_keys": ("oil", "wick"), "selective": True},
            [],
        ),
        (
            {"keyanti": "sun, day"},
            {"secondary_keys": ("sun", "day"), "selective": True, "logic": "not_any"},
            [],
        ),
        (
            {"keyanti": "sun", "keysecondary": "oil"},
            {"secondary_keys": ("oil",), "key_expression": "(lamp or 灯) and not sun", "keys": ()},
            ["key_expression_read"],
        ),
        ({"wigroup": "Port"}, {}, ["not_kept"]),
        (
            {"key": "Oda|(|the )pilot#[t=5]"},
            {"keys": ("Oda|(|the )pilot#[t=5]",)},
            ["pattern_as_text"],
        ),
    ],
)
def test_kobold_lite(fields: Document, shown: Document, codes: list[str]) -> None:
    found = read({"current_wi": [], "worldinfo": [lite(**fields)]})
    expected = READ | {"title": "灯"} | shown
    assert said(found.book.entries[0]) == {n: each for n, each in expected.items() if each != ()}
    assert [code for _, code in warnings_of(found)] == codes


def test_faults_are_named_by_their_place_in_the_file() -> None:
    with pytest.raises(ValidationFailedError) as caught:
        read([EARLY, {"key": ["k" * 501], "content": "x"}])
    assert [fault.pointer for fault in caught.value.faults] == ["/1/key/0"]
    with pytest.raises(ImportInvalidError, match=r"/worldinfo: must be an object or a list"):
        read({"gamestarted": True, "worldinfo": 7})


def test_deep_entries_of_a_list_are_refused_where_the_book_would_be_too_deep() -> None:
    deep: object = "x"
    for _ in range(95):
        deep = [deep]
    assert read([{**EARLY, "odd": deep}]).report.entry_count == 1
    for nested in ([deep], [[deep]], [[[deep]]]):
        with pytest.raises(ValidationFailedError, match="nests deeper than 100"):
            read([{**EARLY, "odd": nested}])


NAMES = [*lite(), "wigroup", "widisabled", "uid", "title", "use_wpp", "manual_text"]


@given(shapes(NAMES, lambda drawn: {"gamestarted": True, "worldinfo": drawn}))
def test_any_values_give_a_book_or_an_error_of_ours(data: bytes) -> None:
    taken(data)


@given(shapes(NAMES, lambda drawn: {"folders": {}, "entries": {"0": {"title": "x"}, "1": drawn}}))
def test_any_world_file_gives_a_book_or_an_error_of_ours(data: bytes) -> None:
    taken(data)
