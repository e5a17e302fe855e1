"""A book goes to SillyTavern and comes back whole; what SillyTavern can't run is listed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lorewell import BookCreate, Entry, import_file
from lorewell.formats.export import export_book, put_into_card, upgrades
from lorewell.formats.imported import ImportedBook
from lorewell.model import SillyTavernBlock
from lorewell.model.imports import ExportFormat

FORMATS: tuple[ExportFormat, ...] = ("st_world", "character_book", "lorebook_v3")
NATIVE = BookCreate.model_validate(
    {
        "name": "港",
        "description": "Маяк",
        "metadata": {"author": "Ä", "tags": ["灯"]},
        "entries": [
            {
                "id": "tide-law",
                "title": "Tide law",
                "content": "<% toll() %> 潮",
                "keys": ["灯塔", "/ประภาคาร/"],
                "required": True,
                "requires": ["7", "x"],
                "priority": 5,
                "conflict_key": "free",
                "audience": ["planner"],
                "kind": "rule",
                "match_whole_words": True,
                "metadata": {"note": [1.5]},
                "recall": False,
                "key_expression": "lamp and not fog",
                "replica": {"group": ["a"]},
            },
            {
                "id": "7",
                "content": "B",
                "conflict_key": "group:ruler",
                "position": "outlet",
                "outlet_name": "棚",
                "case_sensitive": False,
            },
            {
                "id": "x",
                "content": "{{time}}",
                "sillytavern": {"sticky": 2, "inherit": [], "triggers": ["quiet"]},
                "conditions": [{"path": "weather", "op": "eq", "value": "雨"}],
                "conditions_text": ["tb.力量 > 10"],
            },
        ],
    }
)


def read(document: Any) -> ImportedBook:
    return import_file(json.dumps(document).encode(), name="book.json")


def fields(entry: Entry) -> dict[str, Any]:
    own = {name: getattr(entry, name) for name in Entry.model_fields if name != "source"}
    return own | {"sillytavern": entry.sillytavern or SillyTavernBlock()}


def shown_title(entry: Entry) -> SillyTavernBlock:
    """Return the block as if the editor showed the title: a card does not say."""
    return (entry.sillytavern or SillyTavernBlock()).model_copy(update={"add_memo": True})


def listed(document: Any) -> list[Any]:
    entries = document.get("data", document)["entries"]
    return list(entries.values()) if isinstance(entries, dict) else entries


@pytest.mark.parametrize("word", FORMATS)
def test_a_native_book_comes_back_whole(word: ExportFormat) -> None:
    exported = export_book(NATIVE, word)
    back = read(exported.document).book
    assert [fields(entry) for entry in back.entries] == [fields(e) for e in NATIVE.entries]
    assert (back.name, back.description) == (NATIVE.name, NATIVE.description)
    assert {**back.metadata, **NATIVE.metadata} == back.metadata
    assert export_book(back, word).document == exported.document
    again = read(export_book(back, "st_world").document).book
    without_memo = {
        entry.id: fields(entry) | {"sillytavern": shown_title(entry)} for entry in again.entries
    }
    assert without_memo == {
        entry.id: fields(entry) | {"sillytavern": shown_title(entry)} for entry in back.entries
    }


@pytest.mark.parametrize("word", FORMATS)
def test_ids_are_unique_numbers_and_ours_are_beside_them(word: ExportFormat) -> None:
    entries = listed(export_book(NATIVE, word).document)
    name = "uid" if word == "st_world" else "id"
    assert [entry[name] for entry in entries] == [0, 7, 2]
    ours = [entry["extensions"]["lorewell"].get("id") for entry in entries]
    assert ours == ["tide-law", None, "x"]


def test_numbers_stay_where_they_were() -> None:
    raw = {str(n): {"uid": n, "key": ["灯"], "content": "x"} for n in (5, 0, 3)}
    book = read({"entries": raw}).book
    first, second, third = book.entries
    renamed = second.model_copy(update={"id": "лампа"})
    fresh = Entry(id="5-2", content="y")
    edited = book.model_copy(update={"entries": (first, renamed, third, fresh)})
    shown = export_book(edited, "st_world").document["entries"]
    assert [entry["uid"] for entry in shown.values()] == [5, 0, 3, 1]
    assert [entry.id for entry in read({"entries": shown}).book.entries] == [
        *("5", "лампа", "3", "5-2")
    ]


def test_what_sillytavern_does_not_run_is_listed() -> None:
    losses = export_book(NATIVE, "st_world").losses
    told = {loss.pointer for loss in losses if loss.why == "moved_to_extensions"}
    names = ("required", "requires", "priority", "conflict_key", "audience", "kind", "recall")
    assert {f"/entries/0/{name}" for name in (*names, "key_expression", "replica")} <= told
    assert {"/entries/2/conditions", "/entries/2/conditions_text"} <= told
    assert "/entries/0/id" not in told


def test_an_odd_value_of_ours_is_left_out() -> None:
    ours = {"required": "灯", "audience": 7, "recall": False, "requires": ["gone"], "未知": 1}
    found = read({"entries": {"0": {"uid": 0, "extensions": {"lorewell": ours}}}})
    (entry,) = found.book.entries
    assert (entry.required, entry.audience, entry.recall, entry.requires) == (
        *(False, ("actor",)),
        *(False, ()),
    )
    codes = [warning.code for warning in found.report.warnings]
    assert codes.count("wrong_type") == 2
    assert codes.count("requires_dropped") == 1
    assert export_book(found.book, "st_world").document["entries"]["0"]["extensions"][
        "lorewell"
    ] == ours | {"requires": []}


def test_entries_that_require_each_other_in_a_circle_require_nothing() -> None:
    raw = {
        str(n): {"uid": n, "extensions": {"lorewell": {"requires": [str(1 - n)]}}} for n in (0, 1)
    }
    found = read({"entries": raw})
    assert [entry.requires for entry in found.book.entries] == [(), ()]
    assert [warning.code for warning in found.report.warnings].count("requires_dropped") == 1


def test_an_entry_that_waives_a_requirement_is_a_warning() -> None:
    ours = {"runtime_requirements": [], "kind": "lore"}
    raw = {"uid": 0, "key": ["a"], "content": "<% go() %>", "extensions": {"lorewell": ours}}
    found = read({"entries": {"0": raw}})
    assert found.book.entries[0].runtime_requirements == ()
    assert "requirements_waived" in [warning.code for warning in found.report.warnings]


def test_a_cards_world_shows_its_titles_as_sillytaverns_own_conversion_does() -> None:
    card = {"entries": [{"id": 1, "keys": [], "content": "", "comment": c} for c in ("灯", "")]}
    shown = export_book(read(card).book, "st_world").document["entries"]
    assert [entry["addMemo"] for entry in shown.values()] == [True, False]


V1: dict[str, Any] = {
    "name": "Ода",
    "description": "灯",
    "first_mes": "Hi.",
    "creatorcomment": "note",
    "tags": ["海"],
    "talkativeness": "0.5",
    "metadata": {"tool": "x"},
    "character_book": {"entries": [{"keys": ["a"], "content": "old"}]},
}


def test_a_card_v1_with_a_book_becomes_a_card_v2() -> None:
    card = json.dumps(V1).encode()
    made = json.loads(put_into_card(NATIVE, card))
    assert upgrades(NATIVE, card)
    assert (made["spec"], made["spec_version"]) == ("chara_card_v2", "2.0")
    assert made.items() >= {n: v for n, v in V1.items() if n != "character_book"}.items()
    assert "character_book" not in made
    data = made["data"]
    assert (data["name"], data["description"], data["creator_notes"]) == ("Ода", "灯", "note")
    assert (data["tags"], data["extensions"]) == (["海"], {"talkativeness": "0.5"})
    assert [fields(entry) for entry in read(made).book.entries] == [
        fields(entry) for entry in NATIVE.entries
    ]


def test_other_cards_are_not_upgraded() -> None:
    empty = BookCreate(name="b")
    bare = {"name": "Oda", "first_mes": "Hi."}
    v2 = {"spec": "chara_card_v2", "data": {"name": "Oda"}}
    assert not upgrades(empty, json.dumps(bare).encode())
    assert json.loads(put_into_card(empty, json.dumps(bare).encode())) == bare
    assert not upgrades(NATIVE, json.dumps(v2).encode())
