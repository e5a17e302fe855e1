"""AI Dungeon's lists as books of ours."""

from __future__ import annotations

from hypothesis import given

from other_programs import read, said, shapes, warnings_of
from property.test_import import taken

RAW = {"id": "1.1", "keys": "lamp, 灯 ,( |the )tower", "entry": "An oil lamp.", "hidden": False}
CARD = {"keys": "tower", "value": "A tower.", "type": "location", "title": "塔"}


def test_world_info_is_read_into_native_fields() -> None:
    found = read([RAW])
    (entry,) = found.book.entries
    assert said(entry) == {
        "id": "1.1",
        "content": "An oil lamp.",
        "keys": ("lamp", "灯", "( |the )tower"),
    }
    assert entry.source == {"format": "aidungeon_wi", "raw": RAW, "three_valued": True}
    assert (found.report.format, found.book.name) == ("aidungeon_wi", "harbour")
    assert warnings_of(found) == [("1.1", "pattern_as_text")]


def test_story_cards_are_the_newer_form() -> None:
    found = read([CARD, None])
    assert said(found.book.entries[0]) == {
        "id": "entry-0",
        "title": "塔",
        "content": "A tower.",
        "keys": ("tower",),
    }
    assert warnings_of(found) == [(None, "entry_skipped")]
    assert found.report.warnings[0].message.startswith("/1: must be an entry, is null")


@given(shapes([*RAW, *CARD], lambda drawn: [{"keys": "", "entry": ""}, drawn]))
def test_any_values_give_a_book_or_an_error_of_ours(data: bytes) -> None:
    taken(data)
