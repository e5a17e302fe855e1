"""RisuAI's lorebooks as books of ours."""

from __future__ import annotations

import pytest
from hypothesis import given

from lorewell.errors import ImportInvalidError
from other_programs import read, said, shapes, warnings_of
from property.test_import import taken
from support import Document


def entry(**fields: object) -> Document:
    usual = {"key": "등대, lamp", "secondkey": "바다, oil", "comment": "등대", "content": "A lamp."}
    return {**usual, "insertorder": 80, "mode": "normal", "selective": True, **fields}


EXTRAS = "extentions"  # codespell:ignore extentions
FOLDER = {"key": "\uf000folder:a", "comment": "폴더", "insertorder": 9, "content": ""}
READ = {
    "id": "entry-0",
    "title": "등대",
    "content": "A lamp.",
    "keys": ("등대", "lamp"),
    "secondary_keys": ("바다", "oil"),
    "selective": True,
    "order": 80,
}


@pytest.mark.parametrize("is_list", [True, False])
def test_entry_is_read_into_native_fields(*, is_list: bool) -> None:
    raw = entry(**{EXTRAS: {"risu_case_sensitive": False}}, folder="\uf000folder:a", loreCache="x")
    found = read([raw] if is_list else {"type": "risu", "ver": 1, "data": [raw]})
    (lamp,) = found.book.entries
    assert said(lamp) == READ
    assert lamp.source == {"format": "risu", "raw": raw, "three_valued": True}
    assert found.report.format == "risu"
    assert found.book.metadata.get("raw") == (None if is_list else {"type": "risu", "ver": 1})
    assert warnings_of(found) == []


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"alwaysActive": True}, {"constant": True}),
        ({"mode": "constant"}, {"constant": True}),
        ({"activationPercent": 40}, {"probability": 40}),
        ({"activationPercent": 0}, {"probability": 0}),
        ({"activationPercent": None}, {}),
        ({EXTRAS: {"risu_case_sensitive": True}}, {"case_sensitive": True}),
        ({"useRegex": True, "key": "/a,b/i"}, {"keys": ("/a,b/i",)}),
        ({"useRegex": True, "key": ["/a/", "/b/"]}, {"keys": ("/a/", "/b/")}),
        ({"id": "7", "content": "@@is_greeting 2\nx"}, None),
    ],
)
def test_each_member_has_its_meaning(fields: Document, shown: Document | None) -> None:
    found = read({"type": "risu", "data": [entry(**fields)]})
    (lamp,) = found.book.entries
    assert warnings_of(found) == ([] if shown is not None else [("7", "decorator_kept")])
    if shown is None:
        assert (lamp.id, lamp.runtime_requirements) == ("7", ("decorators",))
    else:
        assert said(lamp) == READ | shown


def test_folders_are_kept_switched_off_and_have_no_keys() -> None:
    by_mode = {**FOLDER, "key": "odd", "mode": "folder", "alwaysActive": True}
    found = read([FOLDER, by_mode, entry(folder="\uf000folder:a")])
    folders = [said(each) for each in found.book.entries[:2]]
    assert folders == [
        {"id": f"entry-{at}", "title": "폴더", "order": 9, "enabled": False} for at in (0, 1)
    ]
    assert warnings_of(found) == [("entry-0", "folder"), ("entry-1", "folder")]
    assert (found.report.entry_count, found.report.enabled_count) == (3, 1)


def test_child_shares_the_content_of_the_entry_of_its_id() -> None:
    found = read(
        [
            entry(id="a"),
            entry(id="a", content="Later."),
            entry(id="a", mode="child", content="", key="tower"),
            entry(id="b", mode="child", content="Own."),
            entry(id=None, mode="child", content="Own."),
            "odd",
        ]
    )
    contents = [each.content for each in found.book.entries]
    assert contents == ["A lamp.", "Later.", "A lamp.", "Own.", "Own."]
    assert found.book.entries[2].keys == ("tower",)
    assert [code for _, code in warnings_of(found)] == [
        *("entry_skipped", "id_repeated", "id_repeated", "parent_missing", "parent_missing")
    ]


def test_what_has_no_place_is_named() -> None:
    found = read([entry(mode="new"), entry(useRegex=True)])
    assert warnings_of(found) == [("entry-0", "not_kept"), ("entry-1", "regex_without_slash")]
    assert found.book.entries[1].keys == ("등대, lamp",)


def test_data_that_is_no_list_is_refused() -> None:
    with pytest.raises(ImportInvalidError, match=r"/data: must be an object or a list"):
        read({"type": "risu", "data": "x"})
    assert warnings_of(read({"type": "risu"})) == [(None, "entries_missing")]


NAMES = [*entry(), "alwaysActive", "activationPercent", "useRegex", "folder", "id", EXTRAS]


@given(shapes(NAMES, lambda drawn: {"type": "risu", "data": drawn}))
def test_any_values_give_a_book_or_an_error_of_ours(data: bytes) -> None:
    taken(data)


@given(shapes(NAMES, lambda drawn: [{"key": "lamp", "insertorder": 1}, drawn]))
def test_any_list_gives_a_book_or_an_error_of_ours(data: bytes) -> None:
    taken(data)
