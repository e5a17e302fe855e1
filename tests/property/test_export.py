"""An export gives back what was imported, shows every change, and touches nothing else."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import assume, given, strategies as st

from lorewell import BookCreate, import_file
from lorewell.engine.sillytavern.entry import import_entry
from lorewell.errors import LorewellError
from lorewell.formats.build import own_id
from lorewell.formats.export import EXPORTS, export_book, put_into_card
from lorewell.formats.native import is_native, read_native
from lorewell.model import Entry, SillyTavernBlock
from lorewell.model.imports import ExportFormat
from lorewell.model.parse import parse_model
from property.foreign import core_changes, raw_entries
from property.strategies import ANY_TEXT, entries
from support import Document

FOREIGN: tuple[ExportFormat, ...] = ("st_world", "character_book", "lorebook_v3")
FORMAT = st.sampled_from(FOREIGN)
NAME = "book.json"
VALUES: st.SearchStrategy[Any] = st.one_of(
    st.none(), ANY_TEXT, st.integers(-3, 3), st.just({"a": [1]})
)
MEMBERS = st.dictionaries(
    st.sampled_from(
        [
            *("name", "description", "scan_depth", "scanDepth", "extensions", "originalData"),
            *("token_budget", "is_creation", "未知"),
        ]
    ),
    VALUES,
    max_size=4,
)
OWN = {"id", "source", "sillytavern", "outlet_name", "replica"}
CORE = sorted(set(Entry.model_fields) - OWN)


@st.composite
def documents(draw: st.DrawFn, format_word: str) -> Document:
    """Draw a book's document of that format."""
    listed = draw(st.lists(raw_entries().filter(bool), min_size=1, max_size=3))
    book = draw(MEMBERS)
    if format_word == "st_world":
        keys = draw(st.lists(ANY_TEXT, min_size=3, max_size=3, unique=True))
        numbered = draw(st.booleans())
        named = {str(at) if numbered else keys[at]: raw for at, raw in enumerate(listed)}
        return {**book, "entries": named}
    book["entries"] = listed
    return book if format_word == "character_book" else {"spec": "lorebook_v3", "data": book}


def imported(document: Document) -> BookCreate:
    try:
        return import_file(json.dumps(document).encode(), name=NAME).book
    except LorewellError:
        assume(False)  # noqa: FBT003  hypothesis' way; the drawn values break a limit
        raise


FILES = FORMAT.flatmap(lambda word: documents(word).map(lambda document: (word, document)))


@given(FILES)
def test_an_untouched_book_comes_back(file: tuple[ExportFormat, Document]) -> None:
    word, document = file
    text = json.dumps(document)
    book = imported(document)
    exported = export_book(book, word)
    assert exported.document == json.loads(text)
    assert exported.losses == ()
    assert imported(exported.document) == book


@given(FILES)
def test_nothing_of_the_book_is_changed(file: tuple[ExportFormat, Document]) -> None:
    book = imported(file[1])
    before = book.model_dump_json()
    for word in EXPORTS:
        json.dumps(export_book(book, word).document)
    assert book.model_dump_json() == before


def entry_list(document: Document) -> list[Document]:
    held = document.get("data", document)["entries"]
    return list(held.values()) if isinstance(held, dict) else held


@given(FILES, core_changes(CORE))
def test_a_change_is_shown_and_alone(
    file: tuple[ExportFormat, Document], change: tuple[str, Any]
) -> None:
    word, document = file
    book = imported(document)
    name, value = change
    fields = book.entries[0].model_dump() | {name: value}
    if name == "position":
        fields["outlet_name"] = "棚" if value == "outlet" else None
    entry = parse_model(Entry, fields)
    assume(getattr(entry, name) != getattr(book.entries[0], name))
    changed = book.model_copy(update={"entries": (entry, *book.entries[1:])})
    first, *others = entry_list(export_book(changed, word).document)
    old, *rest = entry_list(export_book(book, word).document)
    assert json.dumps(first) != json.dumps(old)
    assert others == rest
    # What knows no such field keeps it under a name of ours.
    ours = first.get("extensions")
    told = ours.get("lorewell", {}) if isinstance(ours, dict) else {}
    if name in told and (name != "priority" or word == "st_world") and value:
        losses = export_book(changed, word).losses
        assert (f"/entries/0/{name}", "moved_to_extensions") in {
            (loss.pointer, loss.why) for loss in losses
        }
    again = imported(export_book(changed, word).document)
    if name != "requires":  # of entries that the book lacks
        assert getattr(again.entries[0], name) == getattr(entry, name)


@given(FILES, FORMAT, core_changes(CORE))
def test_a_value_that_is_set_is_there_in_every_format(
    file: tuple[ExportFormat, Document], target: ExportFormat, change: tuple[str, Any]
) -> None:
    book = imported(file[1])
    name, value = change
    assume(name != "requires")
    update = {name: value}
    if name == "position":
        update["outlet_name"] = "棚" if value == "outlet" else None
    entry = parse_model(Entry, book.entries[0].model_dump() | update)
    changed = book.model_copy(update={"entries": (entry, *book.entries[1:])})
    (first, *_) = imported(export_book(changed, target).document).entries
    assert getattr(first, name) == getattr(entry, name)


def meaning(entry: Entry) -> tuple[Document, Document]:
    """Return what an entry says, but for the sign of its editor and what dead text made it need."""
    block = entry.sillytavern or SillyTavernBlock()
    unlike = {"source", "sillytavern", "runtime_requirements", "kind"}
    return entry.model_dump(exclude=unlike), block.model_dump(exclude={"add_memo"})


@given(FILES, FORMAT)
def test_a_converted_book_means_the_same(
    file: tuple[ExportFormat, Document], target: ExportFormat
) -> None:
    book = imported(file[1])
    again = imported(export_book(book, target).document)
    assert (again.name, again.description) == (book.name, book.description)
    for old, new in zip(book.entries, again.entries, strict=True):
        assert meaning(new) == meaning(old)


@given(entries("灯塔", []), FORMAT)
def test_a_native_book_is_written_out(document: Document, target: ExportFormat) -> None:
    book = parse_model(BookCreate, {"name": "港", "description": "d", "entries": [document]})
    exported = export_book(book, target)
    again = imported(exported.document)
    assert (again.name, again.description) == ("港", "d")
    old, new = book.entries[0], again.entries[0]
    compared = set(Entry.model_fields) - {"source"}
    assert {n: getattr(new, n) for n in compared} == {n: getattr(old, n) for n in compared}
    number = entry_list(exported.document)[0]["uid" if target == "st_world" else "id"]
    assert number == 0


@given(FILES)
def test_our_own_format_holds_all(file: tuple[ExportFormat, Document]) -> None:
    book = imported(file[1])
    document = json.loads(json.dumps(export_book(book, "native").document))
    assert is_native(document)
    assert read_native(document, file_name=NAME) == book


@given(
    FILES, st.sampled_from(["chara_card_v2", "chara_card_v3"]), st.dictionaries(ANY_TEXT, VALUES)
)
def test_a_card_keeps_all_but_its_book(
    file: tuple[ExportFormat, Document], spec: str, others: Document
) -> None:
    book = imported(file[1])
    data = {**others, "name": "Oda", "character_book": {"entries": [{"keys": ["a"]}]}}
    card = {**others, "spec": spec, "data": data}
    written = json.loads(put_into_card(book, json.dumps(card).encode()))
    made = written["data"].pop("character_book")
    data.pop("character_book")
    assert written == card
    assert [own_id(entry) is not None or entry for entry in made["entries"]]
    again = import_entry(made["entries"][0], form="card", entry_id="a", source_format="").entry
    assert again["content"] == book.entries[0].content
