"""Foreign books as books of ours: kinds, ids, names, limits, and what a report says."""

from __future__ import annotations

import builtins
import hashlib
import json
import socket
from pathlib import Path
from typing import Any, NoReturn

import pytest

from lorewell import BookCreate, ImportedBook, ImportReport, import_file, load_book
from lorewell.errors import ImportInvalidError, ValidationFailedError
from lorewell.formats import build, open_book
from lorewell.formats.detect import detect
from lorewell.model.parse import parse_json, parse_model
from pictures import png, text
from support import Document, ask, chosen, reasons


def read(document: object, name: str = "harbour.json") -> ImportedBook:
    return import_file(json.dumps(document).encode(), name=name)


def warnings_of(found: ImportedBook) -> list[tuple[str | None, str]]:
    listed = found.report.warnings
    return [(each.entry_id, each.code) for each in listed if each.code != "no_trigger"]


def world_entry(uid: object = 0, **fields: object) -> Document:
    return {"uid": uid, "key": ["lamp"], "content": "A lamp.", "order": 1, **fields}


def card_entry(entry_id: object = 0, **fields: object) -> Document:
    entry = {"id": entry_id, "keys": ["lamp"], "content": "A lamp.", "insertion_order": 1}
    return {**entry, "enabled": True, **fields}


def world(*entries: object, **members: object) -> Document:
    return {"entries": {str(at): entry for at, entry in enumerate(entries)}, **members}


def card(*entries: object, version: int = 2, **book: object) -> Document:
    data = {"name": "Oda", "character_book": {"entries": list(entries), **book}}
    return {"spec": f"chara_card_v{version}", "spec_version": f"{version}.0", "data": data}


# Kinds


@pytest.mark.parametrize(
    ("document", "kind", "source"),
    [
        (world(world_entry()), "st_world", "st_world"),
        ({"entries": [card_entry()]}, "character_book", "character_book"),
        ({"entries": [world_entry()]}, "character_book", "character_book"),
        ({"spec": "lorebook_v3", "data": {"entries": [card_entry()]}}, "lorebook_v3", None),
        (card(card_entry()), "card_v2_json", "chara_card_v2"),
        (card(card_entry(), version=3), "card_v3_json", "chara_card_v3"),
        (card(card_entry(), version=9), "card_v3_json", "chara_card_v9"),
        (
            {"name": "Oda", "first_mes": "", "character_book": {"entries": [card_entry()]}},
            "card_v1_json",
            "character_book",
        ),
        ({"spec": "chara_card_v1", "character_book": {"entries": [card_entry()]}}, None, None),
        ({"data": {"character_book": {"entries": [card_entry()]}}}, "card_v2_json", None),
        ({**card(), "data": {}, "character_book": {"entries": [card_entry()]}}, None, None),
        ({**card(), "data": None, "character_book": {"entries": [card_entry()]}}, None, None),
        ({"spec": "odd", **world(world_entry())}, "st_world", "st_world"),
        ({"kind": [], "type": {}, **world(world_entry())}, "st_world", "st_world"),
    ],
)
def test_content_tells_the_kind(document: Document, kind: str | None, source: str | None) -> None:
    found = read(document)
    assert kind in {None, found.report.format}
    assert source in {None, found.book.entries[0].source["format"]}
    assert found.book.entries[0].keys == ("lamp",)
    assert found.report.entry_count == found.report.enabled_count == 1


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({"lorebookVersion": 5, "entries": []}, "nai_lorebook"),
        ({"storyContainerVersion": 1}, "nai_story"),
        ({"scenarioVersion": 1}, "nai_story"),
        ({"kind": "memory", "entries": []}, "agnai_memory"),
        ({"kind": "character"}, "agnai_character"),
        ({"type": "risu", "data": []}, "risu"),
        ({"type": "risuModule"}, "risu_module"),
        ({"gamestarted": True}, "kobold"),
        ({"worldinfo": [], "actions": []}, "kobold"),
        ({"worldinfo": [], "savedsettings": {}}, "kobold"),
        ({"folders": {}, "entries": {"0": {"title": "A", "key": []}}}, "kobold"),
        ({"entries": [{"trigger_config": {}}]}, "replica"),
        ({"entries": {"0": None, "1": {"activationType": "keyword"}}}, "replica"),
        ({"char_name": "Oda"}, "pygmalion"),
        ({"name": "Oda", "greeting": "Hello."}, "pygmalion"),
        ([{"keys": "lamp", "entry": "A lamp."}], "aidungeon_wi"),
        ([{"keys": "lamp", "value": "A lamp."}], "aidungeon_wi"),
        ([None, {"key": "lamp", "insertorder": 1}], "risu"),
        ([{"key": ["lamp"], "keysRaw": "lamp"}], "janitor"),
        ([{"key": "lamp", "content": "A lamp."}], "kobold"),
    ],
)
def test_content_tells_the_kind_of_other_programs(document: object, kind: str) -> None:
    assert detect(document) == kind


def test_module_without_its_content_is_refused() -> None:
    with pytest.raises(ImportInvalidError, match=r"module is missing"):
        read({"type": "risuModule"})


def test_cards_and_pictures_of_both_versions_give_equal_entries() -> None:
    entries = [card_entry(1, extensions={"position": 4, "depth": 2}), card_entry(2, constant=True)]
    pictures = [png(text(card(*entries))), png(text(card(*entries, version=3), "ccv3"))]
    founds = [
        read(card(*entries)),
        read(card(*entries, version=3)),
        *(import_file(data, name="harbour.png") for data in pictures),
    ]
    dumps = [
        [entry.model_dump(exclude={"source"}) for entry in found.book.entries] for found in founds
    ]
    assert dumps[0] == dumps[1] == dumps[2] == dumps[3]
    assert founds[0].book.entries[0].position == "at_depth"
    formats = [found.report.format for found in founds]
    assert formats == ["card_v2_json", "card_v3_json", "card_png", "card_png"]


@pytest.mark.parametrize(
    ("document", "warned"),
    [
        (card(version=9), True),
        ({**card(version=3), "spec_version": "3.1"}, False),
        ({**card(version=3), "spec_version": 4}, True),
        ({**card(), "spec_version": 2.0}, False),
        ({**card(), "spec_version": "newest"}, False),
        ({**card(), "spec_version": 10**400}, False),
        ({**card(), "spec_version": True}, False),
        ({**card(), "spec_version": None}, False),
    ],
)
def test_newer_card_is_taken_with_a_warning(document: Document, *, warned: bool) -> None:
    assert warnings_of(read(document)) == ([(None, "newer_version")] if warned else [])


def test_card_without_spec_is_taken_with_a_warning() -> None:
    assert warnings_of(read({"data": {"character_book": {"entries": []}}})) == [
        (None, "spec_missing")
    ]


# Cards without a book


@pytest.mark.parametrize(
    "document",
    [
        {"spec": "chara_card_v2", "data": {"name": "Oda"}},
        {"spec": "chara_card_v3", "data": {"name": "Oda", "character_book": None}},
        {"spec": "chara_card_v3", "data": {"name": "Oda", "character_book": []}},
        {"name": "Oda", "first_mes": "Hello."},
        {"name": "Oda", "description": "A pilot."},
    ],
)
def test_card_without_a_book_is_looked_at_and_not_loaded(
    tmp_path: Path, document: Document
) -> None:
    found = read({**document, "talkativeness": "0.5"})
    assert (found.book.name, found.book.entries, found.report.entry_count) == ("Oda", (), 0)
    assert warnings_of(found) == [(None, "no_book")]
    assert not found.holds_book
    if document.keys() == {"name", "description"}:
        return  # such a file is taken as a book of our own
    path = tmp_path / "oda.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ImportInvalidError, match=r"oda\.json is a card without a lorebook"):
        load_book(path)


@pytest.mark.parametrize(
    ("document", "pointer", "says"),
    [
        ({"spec": "chara_card_v2", "data": None}, "/data", "data is missing"),
        ({"spec": "chara_card_v3"}, "/data", "data is missing"),
        ({"spec": "lorebook_v3", "data": 7}, "/data", "data is missing"),
        (
            {"spec": "chara_card_v2", "data": {"character_book": "text"}},
            "/data/character_book",
            "must be an object, is a text",
        ),
        ({"name": "Oda", "character_book": [1]}, "/character_book", "is a list"),
        ({"entries": 7}, "/entries", "must be an object or a list, is a number"),
        ({"entries": "text"}, "/entries", "is a text"),
        (card(entries=True), "/data/character_book/entries", "is true or false"),
    ],
)
def test_wrong_shape_is_named_by_its_place(document: object, pointer: str, says: str) -> None:
    with pytest.raises(ImportInvalidError) as caught:
        read(document)
    assert [fault.pointer for fault in caught.value.faults] == [pointer]
    assert says in str(caught.value)
    assert f"harbour.json can't be imported (at {pointer}: " in str(caught.value)


# Entries


def test_what_is_no_entry_is_left_out_by_name() -> None:
    found = read(world(None, "text", 5, ["a"], world_entry(4), {}, *[True]))
    assert [entry.id for entry in found.book.entries] == ["4"]
    messages = [warning.message for warning in found.report.warnings]
    assert messages == [
        "/entries/0: must be an entry, is null; left out",
        "/entries/1: must be an entry, is a text; left out",
        "/entries/2: must be an entry, is a number; left out",
        "/entries/3: must be an entry, is a list; left out",
        "/entries/5: must be an entry, is an empty object; left out",
        "/entries/6: must be an entry, is true or false; left out",
    ]


def test_entries_may_be_null_or_missing() -> None:
    assert warnings_of(read({"entries": None})) == [(None, "entries_missing")]
    document = card()
    del document["data"]["character_book"]["entries"]
    document["data"]["character_book"]["name"] = "Harbour"
    found = read(document)
    assert warnings_of(found) == [(None, "entries_missing")]
    assert found.holds_book


def test_card_whose_entries_are_an_object_is_read_with_a_warning() -> None:
    document = card()
    document["data"]["character_book"]["entries"] = {"0": card_entry(), "1": card_entry(1)}
    found = read(document)
    assert found.report.entry_count == 2
    assert warnings_of(found) == [(None, "entries_map")]


def test_ids_come_from_the_file_and_differ() -> None:
    entries = [
        world_entry(7),
        world_entry("seven"),
        world_entry(7.0),
        world_entry(None),
        {**world_entry(""), "id": 9},
        {"content": "x", "order": 1},
        world_entry("7-2"),
        world_entry(7),
        {**world_entry(), "uid": True},
        world_entry("entry-3"),
        world_entry([]),
    ]
    found = read({"entries": entries})
    assert [entry.id for entry in found.book.entries] == [
        *("7", "seven", "7-3", "entry-3-2", "9", "entry-5", "7-2", "7-4", "entry-8", "entry-3"),
        "entry-10",
    ]
    repeated = [entry_id for entry_id, code in warnings_of(found) if code == "id_repeated"]
    assert repeated == ["7-3", "entry-3-2", "7-4"]


def test_ids_that_cannot_be_kept_are_mended() -> None:
    found = read(world(world_entry("a\nb"), world_entry("x" * 200), world_entry("x" * 150)))
    assert [entry.id for entry in found.book.entries] == ["a�b", "x" * 150, "x" * 148 + "-2"]
    assert [code for _, code in warnings_of(found)] == ["id_mended", "id_mended", "id_repeated"]


def test_many_equal_ids_take_time_in_proportion() -> None:
    entries = [world_entry("same") for _ in range(5_000)]
    ids = [entry.id for entry in read({"entries": entries}).book.entries]
    assert len(set(ids)) == 5_000
    assert ids[-1] == "same-5000"


def test_repair_of_an_entry_names_entry_and_place() -> None:
    found = read(card(card_entry(3, insertion_order="20")))
    (warning,) = found.report.warnings
    assert warning.entry_id == "3"
    assert warning.message.startswith("/data/character_book/entries/0/insertion_order: ")
    assert found.book.entries[0].order == 20


# Names


@pytest.mark.parametrize(
    ("document", "file", "name"),
    [
        (world(name="Pilots"), "harbour.json", "Pilots"),
        (world(name=" \t"), "harbour.json", "harbour"),
        (world(name=" " * 300 + "x"), "harbour.json", "harbour"),
        (world(), "harbour.v2.json", "harbour.v2"),
        (world(), "C:\\lore\\harbour.json", "harbour"),
        (world(), "../../etc/passwd", "passwd"),
        (world(), "盐镜港", "盐镜港"),
        (world(), ".json", ".json"),
        (world(), "", "Untitled"),
        (world(), " .json", "Untitled"),
        (card(), "harbour.json", "Oda"),
        (card(name="Pilots"), "harbour.json", "Pilots"),
        (card(name=None), "harbour.json", "Oda"),
        ({"spec": "chara_card_v2", "data": {"character_book": {}}}, "harbour.png", "harbour"),
        ({"spec": "chara_card_v2", "data": {"name": 7, "character_book": {}}}, "a.b", "a"),
    ],
)
def test_book_is_named_by_itself_its_card_or_its_file(
    document: Document, file: str, name: str
) -> None:
    assert read(document, file).book.name == name


def test_everything_else_is_kept_as_raw() -> None:
    original = {"entries": [card_entry()], "extensions": {"a": 1}}
    members = {"name": "Pilots", "description": "Of the harbour.", "originalData": original}
    found = read(world(world_entry(colour="red"), **members, scan_depth=4))
    assert found.book.metadata == {"raw": {"originalData": original, "scan_depth": 4}}
    assert found.book.description == "Of the harbour."
    assert found.book.entries[0].source["raw"]["colour"] == "red"
    assert read(world()).book.metadata == {}
    document = card(name="Pilots", extensions={"b": 2})
    document["data"]["extensions"] = {"world": "not the book's"}
    assert read(document).book.metadata == {"raw": {"extensions": {"b": 2}}}


def test_name_and_description_of_a_wrong_type_are_kept_as_raw() -> None:
    found = read(world(name=7, description={"a": 1}))
    assert (found.book.name, found.book.description) == ("harbour", "")
    assert found.book.metadata == {"raw": {"name": 7, "description": {"a": 1}}}
    messages = [warning.message for warning in found.report.warnings]
    assert messages == [
        "the book's name must be a text, is a number; kept raw",
        "the book's description must be a text, is an object; kept raw",
    ]
    assert warnings_of(read(world(name=None, description=None))) == []


def test_long_name_and_description_are_cut_and_kept_whole() -> None:
    name, description = "灯" * 301, "d" * 10_001
    found = read(world(name=name, description=description))
    assert (found.book.name, found.book.description) == (name[:300], description[:10_000])
    assert found.book.metadata == {"raw": {"name": name, "description": description}}
    assert warnings_of(found) == [(None, "name_cut"), (None, "description_cut")]
    assert warnings_of(read(world(name=name[:300], description=description[:10_000]))) == []


# Limits


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"entries": [None] * 5_001}, "/entries"),
        (world(*[world_entry()] * 5_001), "/entries"),
        (card(*[card_entry()] * 5_001), "/data/character_book/entries"),
        (world(None, world_entry(content="x" * 200_001)), "/entries/1/content"),
        (world(world_entry(key=["k" * 501])), "/entries/0/key/0"),
        (world(world_entry(key="a, " + "k" * 501)), "/entries/0/key"),
        (world(world_entry(key=["k"] * 201)), "/entries/0/key"),
        (card(card_entry(secondary_keys=["a", "k" * 501])), None),
        ({"entries": {"a/b": world_entry(keysecondary=["k" * 501])}}, None),
    ],
)
def test_limit_is_a_fault_with_its_place_in_the_file(document: object, pointer: str | None) -> None:
    with pytest.raises(ValidationFailedError) as caught:
        read(document)
    places = [fault.pointer for fault in caught.value.faults]
    expected = (
        pointer
        or {
            True: "/data/character_book/entries/0/secondary_keys/1",
            False: "/entries/a~1b/keysecondary/0",
        }["spec" in json.dumps(document)[:10]]
    )
    assert places == [expected]
    assert caught.value.details == {"file": "harbour.json"}


def test_largest_book_is_taken() -> None:
    assert read(world(*[world_entry()] * 5_000)).report.entry_count == 5_000
    assert read(world(world_entry(content="x" * 200_000))).report.entry_count == 1


def test_integers_of_thousands_of_digits_are_kept() -> None:
    found = read(world(world_entry(extra=10**4_000), big=10**4_000))
    assert json.loads(found.book.model_dump_json())["metadata"]["raw"]["big"] == 10**4_000


def test_fault_without_a_place_of_its_own_is_told_of_the_entry() -> None:
    source = build._Source(("data", "book", "entries", 0), {"content": "x", "": "灯"})
    for below in ("/title", ""):
        fault = build._in_file(build.Fault(below, "is odd"), source)
        assert fault == ("/data/book/entries/0", "is odd", None)


def test_fault_of_a_book_is_told_of_the_whole_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lorebook = build.Lorebook(
        format="x", source_format="x", form="card", book={"entries": []}, at=("data", "book")
    )
    monkeypatch.setattr(build, "UNTITLED", "")
    with pytest.raises(ValidationFailedError) as caught:
        build.build_book(lorebook, file_name="", depth=1, notes=build.ImportNotes())
    assert [fault.pointer for fault in caught.value.faults] == ["/data/book"]


# Reports


def test_report_counts_and_names_what_is_blocked() -> None:
    entries = {
        "0": world_entry(0, content="<% ejs %>"),
        "1": world_entry(1, content="<UpdateVariable>", comment="Mood"),
        "2": world_entry(2, content="<charinfo>"),
        "3": world_entry(3, content="<script>alert(1)</script>"),
        "4": world_entry(4, sticky=3),
        "5": world_entry(5),
        "6": world_entry(6, disable=True),
    }
    data = json.dumps({"entries": entries}).encode()
    report = import_file(data, name="lore\x00.json").report
    assert (report.entry_count, report.enabled_count, report.runtime_blocked_count) == (7, 6, 5)
    assert [(entry.entry_id, *entry.requirements) for entry in report.blocked] == [
        ("0", "ejs"),
        ("1", "mvu"),
        ("2", "charinfo"),
        ("3", "script"),
        ("4", "sticky"),
    ]
    assert report.blocked[1].title == "Mood"
    source = report.source_file
    assert (source.name, source.size) == ("lore�.json", len(data))
    assert source.sha256 == hashlib.sha256(data).hexdigest()
    again = parse_model(ImportReport, json.loads(report.model_dump_json()))
    assert again == report
    assert list(json.loads(report.model_dump_json())) == [
        *("format", "entry_count", "enabled_count", "runtime_blocked_count", "blocked"),
        *("warnings", "losses", "quarantine", "source_file", "macros"),
    ]


def test_blocked_entries_are_kept_and_never_selected(tmp_path: Path) -> None:
    path = tmp_path / "lore.json"
    entries = [
        world_entry(0, content="<% ejs %>"),
        world_entry(1, content="_.set('a', 1)"),
        world_entry(2, comment="CharInfo of Oda"),
        world_entry(3, content="javascript:x"),
        world_entry(4, cooldown=3),
        world_entry(5),
    ]
    path.write_text(json.dumps(world(*entries)))
    answer = ask(load_book(path), "lamp")
    assert chosen(answer) == ["5"]
    assert reasons(answer) == {
        **dict.fromkeys("01234", "runtime_unsupported"),
        "5": "keyword",
    }


def test_book_of_a_report_is_taken_by_our_own_door() -> None:
    found = read(card(card_entry(constant=True), card_entry(content="{{random::a::b}}")))
    book = parse_model(BookCreate, parse_json(found.book.model_dump_json().encode()))
    assert book == found.book


# Our own format at both doors

NATIVE: Document = {
    "name": "Kiln Row",
    "entries": [
        {"id": "kiln", "content": "窑火不熄。", "keys": ["窑"], "requires": [], "order": 3},
        {"id": "fire", "content": "Fire.", "conflict_key": "f", "prevent_recursion": True},
    ],
    "metadata": {"by": "hand"},
}


def test_our_own_format_at_the_file_door_is_read_by_foreign_rules() -> None:
    found = read(NATIVE)
    assert found.report.format == "character_book"
    assert warnings_of(found)[0] == (None, "looks_native")
    assert "requires, conflict_key, prevent_recursion" in found.report.warnings[0].message
    for entry in found.book.entries:
        assert (entry.exclude_recursion, entry.prevent_recursion) == (False, False)
        assert entry.conflict_key is None
    assert [entry.id for entry in found.book.entries] == ["kiln", "fire"]
    assert found.book.metadata == {"raw": {"metadata": {"by": "hand"}}}


def test_files_without_recursion_fields_recurse() -> None:
    for document in (world(world_entry()), card(card_entry()), {"entries": [card_entry()]}):
        entry = read(document).book.entries[0]
        assert (entry.exclude_recursion, entry.prevent_recursion) == (False, False)


def opened(folder: Path, document: object) -> ImportedBook:
    path = folder / "lore.json"
    path.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
    return open_book(path)


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (NATIVE, "native"),
        ({"name": "Kiln Row"}, "native"),
        ({"name": "Kiln Row", "description": "d"}, "native"),
        ({"name": "Kiln Row", "entries": []}, "native"),
        ({"name": "Kiln Row", "entries": [{"content": "x", "keys": ["k"]}]}, "native"),
        (world(world_entry()), "st_world"),
        (world(world_entry(), name="Kiln Row"), "st_world"),
        (world({"content": "x", "keys": ["k"]}, name="Kiln Row"), "st_world"),
        ({"entries": {}}, "st_world"),
        ({"entries": {}, "name": "Kiln Row", "extensions": {}}, "st_world"),
        ({"entries": [card_entry()], "name": "Kiln Row"}, "character_book"),
        ({"entries": [{"content": "x", "key": ["k"]}], "name": "Kiln Row"}, "character_book"),
        ({"entries": [], "name": "Kiln Row", "extensions": {}}, "character_book"),
        ({"entries": [{"content": "x"}], "name": "K", "scan_depth": 2}, "character_book"),
        (card(card_entry()), "card_v2_json"),
        ({"name": "Oda", "first_mes": "Hello."}, "card_v1_json"),
    ],
)
def test_opening_tells_our_own_format_from_foreign_ones(
    tmp_path: Path, document: Document, kind: str
) -> None:
    found = opened(tmp_path, document)
    assert found.report.format == kind
    if kind == "native":
        assert found.book == parse_model(BookCreate, document)
        assert found.report.warnings == ()


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"name": "K", "entries": [{"content": "x", "title": "t", "key": ["k"]}]}, "entries/0/key"),
        (
            {"name": "K", "entries": [{"content": "x"}, {"content": "x", "comment": "c"}]},
            "entries/1/comment",
        ),
        ({"name": "K", "entries": [{"content": "x"}, 7]}, "entries/1"),
        ({"name": "K", "entries": [{"content": "x", "requires": []}], "extensions": {}}, None),
        ({"name": "K", "entries": [{"content": "x"}], "metadata": {}, "extensions": {}}, None),
        ({"name": "K", "description": "d", "tags": []}, "tags"),
        ({"entries": [{"content": "x", "keys": ["k"]}]}, "name"),
        ({"name": "K", "entries": None}, "entries"),
        ({"name": "K", "entries": 7}, "entries"),
    ],
)
def test_slip_in_our_own_format_is_named(
    tmp_path: Path, document: Document, pointer: str | None
) -> None:
    with pytest.raises(ValidationFailedError, match=r"lore\.json is not a valid book") as caught:
        opened(tmp_path, document)
    places = [fault.pointer for fault in caught.value.faults]
    assert places == [f"/{pointer or 'extensions'}"]


@pytest.mark.parametrize(
    "data",
    [
        b'{"name": "K", "entries": [{"content": "x"},]}',
        b'{"name": "K", /* why */ "entries": []}',
        '{"name": "K", "entries": []}'.encode("utf-16"),
        b'{"name": "K", "entries": [{"content": "x", "order": 1e999}]}',
    ],
)
def test_our_own_format_is_not_mended(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(ImportInvalidError, match=r"lore\.json can't be read: Invalid"):
        opened(tmp_path, data)


def test_foreign_file_is_mended_when_it_is_opened(tmp_path: Path) -> None:
    data = json.dumps(world(world_entry()))[:-1].encode() + b",}"
    assert warnings_of(opened(tmp_path, data)) == [(None, "json_trailing_commas")]
    assert opened(tmp_path, png(text(card(card_entry())))).report.format == "card_png"


# The same entries in other words


@pytest.mark.parametrize("key", ["key", "keys"])
@pytest.mark.parametrize("secondary", ["keysecondary", "secondary_keys"])
@pytest.mark.parametrize("marks", [{}, {"order": 5, "disable": False, "position": 1}])
def test_names_of_keys_do_not_matter(key: str, secondary: str, marks: Document) -> None:
    def entries_of(first: str, second: str) -> list[Document]:
        entry = {"uid": 1, first: ["alice"], second: ["bob"], "content": "x", "selective": True}
        found = read(world({**entry, **marks}))
        return [each.model_dump(exclude={"source"}) for each in found.book.entries]

    assert entries_of(key, secondary) == entries_of("key", "keysecondary")
    assert entries_of(key, secondary)[0]["keys"] == ("alice",)


def test_list_and_object_of_the_same_entries_give_the_same_book() -> None:
    entries = [card_entry(1, keys=["alice"]), card_entry(2, keys=["bob"])]
    as_list = read({"name": "B", "entries": entries}).book
    as_object = read({"name": "B", "entries": {str(each["id"]): each for each in entries}}).book
    left, right = (
        [entry.model_dump(exclude={"source"}) for entry in book.entries]
        for book in (as_list, as_object)
    )
    assert left == right
    assert [entry.keys for entry in as_object.entries] == [("alice",), ("bob",)]


def test_comma_text_is_cut_outside_of_regex_keys() -> None:
    found = read(world(world_entry(key="/Test[,;]/, plain")))
    assert found.book.entries[0].keys == ("/Test[,;]/", "plain")


def test_keys_of_a_wrong_type_are_named_by_their_place(tmp_path: Path) -> None:
    entries: list[Any] = [{"content": "x"} for _ in range(3)]
    entries.append({"content": "x", "keys": 7})
    with pytest.raises(ValidationFailedError) as caught:
        opened(tmp_path, {"name": "K", "entries": entries})
    assert [fault.pointer for fault in caught.value.faults] == ["/entries/3/keys"]
    found = read(world(world_entry(key=7)))
    assert found.report.warnings[0].message.startswith("/entries/0/key: ")


def test_constant_entry_without_keys_is_selected(tmp_path: Path) -> None:
    path = tmp_path / "lore.json"
    path.write_text(json.dumps(world({"uid": 0, "content": "Always.", "constant": True})))
    assert chosen(ask(load_book(path), "anything")) == ["0"]


def test_card_behind_the_pixels_is_the_card_before_them() -> None:
    chunk = text(card(card_entry()))
    before = import_file(png(chunk), name="a.png")
    after = import_file(png(after=[chunk]), name="a.png")
    assert before.book == after.book


@pytest.mark.parametrize("name", ["../../etc/x\x00<script>", "C:\\x\ud800", "\x1b[2J"])
def test_hostile_name_is_text_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    document = card(card_entry(name), name=name)
    found = import_file(json.dumps(document).encode(), name=name)
    kept = name.replace("\x00", "�").replace("\ud800", "�")
    assert found.book.name == found.report.source_file.name == kept
    assert found.book.entries[0].id == kept.replace("\x1b", "�")
    assert found.book.model_dump_json().encode()
    assert list(tmp_path.iterdir()) == []


def test_importing_touches_no_network_and_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_options: object) -> NoReturn:
        raise AssertionError("importing is pure")

    link = card_entry(content="![](https://example.invalid/x.png) <script src='//x'></script>")
    data = png(text(card(link, extensions={"world": "/etc/passwd"})))
    import_file(data, name="warm-up.png")
    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(builtins, "open", refuse)
    monkeypatch.setattr(Path, "open", refuse)
    assert import_file(data, name="/etc/passwd").report.entry_count == 1
    with pytest.raises(ImportInvalidError):
        import_file(b"{", name="https://example.invalid/x.json")
