"""Keys of other programs mean what they mean there, or the report says so."""

from __future__ import annotations

import io
import json
import re
import zipfile
from typing import Any

import pytest

from lorewell import Entry, SelectRequest, compile_book, import_file, select
from lorewell.errors import ImportInvalidError
from lorewell.formats.foreign_keys import wildcard_key
from lorewell.formats.imported import ImportedBook
from support import BOOK_ID


def read(document: Any, name: str = "book.json") -> ImportedBook:
    return import_file(json.dumps(document).encode(), name=name)


def codes(found: ImportedBook) -> list[str]:
    return [warning.code for warning in found.report.warnings]


def hits(found: ImportedBook, query: str) -> bool:
    """Return whether the only entry is selected for a query."""
    compiled = compile_book(found.book, book_id=BOOK_ID)
    request = SelectRequest.model_validate({"books": [{"book_id": BOOK_ID}], "query": query})
    return bool(select([compiled], request).blocks)


def agnai(*keywords: str) -> ImportedBook:
    entry = {"name": "n", "entry": "x", "keywords": keywords, "enabled": True}
    return read({"kind": "memory", "name": "b", "entries": [entry]})


# Source: Agnai's guide, "Memory Books": `*` is any characters, `?` one, a lone `*` always matches.
@pytest.mark.parametrize(
    ("keyword", "text", "found"),
    [
        ("book*", "two bookings", True),
        ("book*", "an ebook", False),
        ("?book", "an ebook", True),
        ("?book", "a book", False),
        ("book", "a book.", True),
        ("book", "bookings", False),
        ("dragon*fire", "the dragon breathes fire", True),
        ("灯*", "那盏灯塔亮了", True),
        ("маяк?", "два маяка", True),
        ("c++*", "he knows C++ well", True),
        ("*", "anything", True),
    ],
)
def test_agnais_wildcards_and_word_ends(keyword: str, text: str, *, found: bool) -> None:
    assert hits(agnai(keyword), text) is found


def test_a_lone_wildcard_is_a_constant_entry() -> None:
    found = agnai("*", "lamp")
    assert (found.book.entries[0].constant, found.book.entries[0].keys) == (True, ("lamp",))
    assert "always_on" in codes(found)
    assert "wildcards_read" in codes(agnai("la?p"))
    assert wildcard_key("a" * 500 + "*") is None
    assert "not_kept" in codes(agnai("a" * 490 + "*"))


def novelai(*keys: str, **book: Any) -> ImportedBook:
    entry = {"text": "x", "displayName": "n", "keys": keys, "enabled": True}
    return read({"lorebookVersion": 5, "entries": [entry], **book})


# Source: docs/rules/formats.md §6.
@pytest.mark.parametrize(
    ("key", "text", "found"),
    [
        ("king", "the king.", True),
        ("king", "a kingdom", False),
        ("'s", "the king's men", True),
        ("king & lamp", "a lamp for the king", True),
        ("king & lamp", "the king", False),
        ("灯 & 塔", "塔上的灯", True),
        ("not & and", "and he did not", True),
        ("/kings?/", "kingdom", True),
    ],
)
def test_novelais_keys(key: str, text: str, *, found: bool) -> None:
    assert hits(novelai(key), text) is found


def test_novelais_joined_keys_stay_beside_others() -> None:
    found = novelai("king & lamp", "oil", "a & b & c")
    (entry,) = found.book.entries
    assert (entry.keys, entry.key_expression) == (("oil",), "king and lamp or a and b and c")
    assert codes(found) == ["key_expression_read"]
    assert "and_key" in codes(novelai("a" * 400 + " & " + "b" * 90 + " \"'“「"))


def test_novelais_settings_of_categories_are_named() -> None:
    found = novelai("a", categories=[{"name": "灯", "id": "1", "createSubcontext": True}])
    (warning,) = found.report.warnings
    assert (warning.code, "createSubcontext" in warning.message) == ("not_kept", True)


def kobold(**fields: Any) -> ImportedBook:
    entry = {"key": "lamp, light", "content": "x", **fields}
    return read({"gamestarted": True, "worldinfo": [entry]})


@pytest.mark.parametrize(
    ("text", "found"),
    [("a lamp of oil", True), ("a lamp", False), ("a lamp of oil in fog", False), ("oil", False)],
)
def test_kobolds_excluded_words_beside_secondary_keys(text: str, *, found: bool) -> None:
    book = kobold(keysecondary="oil", keyanti="fog, mist", selective=True)
    assert hits(book, text) is found
    assert codes(book) == ["key_expression_read"]
    assert book.book.entries[0].secondary_keys == ("oil",)


def test_kobolds_excluded_words_that_make_no_expression_are_named() -> None:
    book = kobold(key="/a/", keysecondary="b", keyanti="c", selective=True)
    assert codes(book) == ["not_kept"]


def risu(**fields: Any) -> dict[str, Any]:
    return {"key": "lamp", "content": "x", "insertorder": 1, **fields}


def test_risus_decorators_are_read_as_in_a_card() -> None:
    content = "@@depth 2\n@@role user\n@@probability 50\n灯"
    (entry,) = read({"type": "risu", "data": [risu(content=content)]}).book.entries
    assert (entry.position, entry.depth, entry.role) == ("at_depth", 2, "user")
    assert entry.content == "@@probability 50\n灯"


def test_risus_module_as_json_is_a_book() -> None:
    module = {"name": "箱", "lorebook": [risu()], "regex": [], "id": "7"}
    found = read({"type": "risuModule", "module": module})
    assert (found.report.format, found.book.name) == ("risu_module", "箱")
    assert found.book.entries[0].keys == ("lamp",)


HELPER: dict[str, Any] = {
    "uid": 3,
    "name": "灯塔",
    "enabled": True,
    "strategy": {
        "type": "selective",
        "keys": ["灯", "/塔+/"],
        "keys_secondary": {"logic": "not_any", "keys": ["雾"]},
        "scan_depth": "same_as_global",
    },
    "position": {"type": "at_depth", "role": "assistant", "depth": 2, "order": 7},
    "content": "x",
    "probability": 90,
    "recursion": {"prevent_incoming": True, "prevent_outgoing": False, "delay_until": None},
    "effect": {"sticky": None, "cooldown": None, "delay": None},
}


@pytest.mark.parametrize("document", [{"entries": [HELPER]}, [HELPER], {"entries": {"3": HELPER}}])
def test_the_shape_of_tavern_helper(document: Any) -> None:
    found = read(document)
    (entry,) = found.book.entries
    assert found.report.format == "tavern_helper"
    assert (entry.id, entry.title, entry.keys) == ("3", "灯塔", ("灯", "/塔+/"))
    assert (entry.secondary_keys, entry.selective, entry.logic) == (("雾",), True, "not_any")
    assert (entry.position, entry.role, entry.depth, entry.order) == (
        *("at_depth", "assistant"),
        *(2, 7),
    )
    assert (entry.probability, entry.scan_depth, entry.constant) == (90, None, False)
    assert (entry.exclude_recursion, entry.prevent_recursion) == (True, False)
    assert codes(found) == []
    assert found.report.losses == ()


def test_tavern_helpers_other_kinds_and_effects() -> None:
    constant = HELPER | {"strategy": {"type": "constant", "scan_depth": 3}}
    timed = HELPER | {"uid": 4, "effect": {"sticky": 2}, "recursion": {"delay_until": 1}}
    near = HELPER | {"uid": 5, "strategy": {"type": "vectorized"}}
    found = read({"entries": [constant, timed, near]})
    first, second, third = found.book.entries
    assert (first.constant, first.scan_depth) == (True, 3)
    assert second.runtime_requirements == ("sticky", "delay_until_recursion")
    assert third.sillytavern is not None
    assert third.sillytavern.vectorized


@pytest.mark.parametrize(
    ("raw", "field", "value"),
    [
        ({"keywords": ["灯", "塔"]}, "keys", ("灯", "塔")),
        ({"trigger": "灯，塔、港；海\n湾"}, "keys", ("灯", "塔", "港", "海", "湾")),
        ({"triggers": ["灯"]}, "keys", ("灯",)),
        ({"keys": ["a"], "title": ["Tide", "law"]}, "title", "Tide, law"),
        ({"keys": ["a"], "content": "", "text": "lore"}, "content", "lore"),
        ({"alwaysActive": True}, "constant", True),
        ({"secondary_keywords": ["b"], "keys": ["a"]}, "secondary_keys", ("b",)),
    ],
)
@pytest.mark.parametrize("listed", [True, False])
def test_names_that_authors_use(
    raw: dict[str, Any], field: str, value: object, *, listed: bool
) -> None:
    entry = {"content": "x", **raw}
    found = read({"entries": [entry] if listed else {"0": entry}})
    assert getattr(found.book.entries[0], field) == value
    assert "alias_read" in codes(found)
    assert found.book.entries[0].runtime_requirements == ()


def test_an_alias_beside_the_own_name_does_not_count() -> None:
    found = read({"entries": {"0": {"uid": 0, "key": ["a"], "keywords": ["b"], "content": "x"}}})
    assert found.book.entries[0].keys == ("a",)
    assert "/entries/0/keywords" in [loss.pointer for loss in found.report.losses]


def test_separators_in_a_list_item_warn() -> None:
    found = read({"entries": {"0": {"key": ["灯，塔", "/a、b/", "c, d"], "content": "x"}}})
    assert found.book.entries[0].keys == ("灯，塔", "/a、b/", "c, d")
    assert codes(found) == ["separator_in_key"]


def byaf(**files: Any) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, document in files.items():
            archive.writestr(name, json.dumps(document))
    return packed.getvalue()


CHARACTER: dict[str, Any] = {
    "schemaVersion": 1,
    "id": "c1",
    "name": "mara",
    "displayName": "Мара",
    "persona": "p",
    "loreItems": [
        {"key": "lamp, 灯", "value": "{user} lights it for {character}."},
        {"key": "oil", "value": "Oil."},
    ],
}
MANIFEST: dict[str, Any] = {
    "schemaVersion": 1,
    "characters": ["characters/c1/character.json"],
    "scenarios": [],
}


def test_backyards_archive_is_read() -> None:
    data = byaf(**{"manifest.json": MANIFEST, "characters/c1/character.json": CHARACTER})
    found = import_file(data, name="mara.byaf")
    first, second = found.book.entries
    assert (found.report.format, found.book.name) == ("backyard", "Мара")
    assert (first.keys, first.content) == (("lamp", "灯"), "{{user}} lights it for {{char}}.")
    assert (first.order, second.order) == (0, 1)
    assert "/persona" in [loss.pointer for loss in found.report.losses]
    two = byaf(
        **{
            "manifest.json": MANIFEST,
            "characters/c0/character.json": CHARACTER | {"loreItems": []},
            "characters/c1/character.json": CHARACTER,
        }
    )
    other = import_file(two, name="mara.byaf")
    assert (len(other.book.entries), "not_kept" in codes(other)) == (2, True)


def test_refusals_name_the_programs() -> None:
    with pytest.raises(ImportInvalidError, match=re.escape("archive of Backyard (.byaf)")):
        import_file(byaf(**{"manifest.json": MANIFEST}), name="a.byaf")
    with pytest.raises(ImportInvalidError, match=r"neither a charx .* nor a byaf of Backyard"):
        import_file(byaf(**{"other.json": {}}), name="a.zip")


def test_an_enabled_entry_without_a_trigger_is_a_warning() -> None:
    entries: list[dict[str, Any]] = [
        {"keys": [], "content": "x", "enabled": True},
        {"keys": [" "], "content": "x", "enabled": True},
        {"keys": [], "content": "x", "enabled": False},
        {"keys": [], "content": "x", "constant": True},
        {"keys": [], "content": "x", "extensions": {"vectorized": True}},
        {"keys": [], "content": "x", "extensions": {"lorewell": {"id": "needed"}}},
        {"keys": ["a"], "content": "x", "extensions": {"lorewell": {"requires": ["needed"]}}},
    ]
    found = read({"entries": entries})
    told = [w.entry_id for w in found.report.warnings if w.code == "no_trigger"]
    assert told == ["entry-0", "entry-1"]
    assert isinstance(found.book.entries[0], Entry)
