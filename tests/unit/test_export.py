"""What an export makes of single members; the rest is in the property and golden tests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lorewell import BookCreate, import_file
from lorewell.errors import FileTooLargeError, ImportInvalidError
from lorewell.formats.export import EXPORTS, export_book, put_into_card
from lorewell.formats.files import MAX_FILE_BYTES
from lorewell.model.imports import Loss
from lorewell.model.parse import parse_model
from pictures import chunk, png, text
from support import Document

KEYED = {"keys": ["lamp"], "content": "A lamp.", "insertion_order": 1, "enabled": True}
WORLD: Document = {"entries": {"0": {"uid": 0, "key": ["lamp"], "content": "A lamp.", "order": 1}}}
CARD: Document = {
    "spec": "chara_card_v2",
    "data": {"name": "Oda", "character_book": {"entries": [KEYED]}},
}
V3: Document = {**CARD, "spec": "chara_card_v3"}


def imported(document: Document, name: str = "harbour.json") -> BookCreate:
    return import_file(json.dumps(document).encode(), name=name).book


def native(**fields: Any) -> BookCreate:
    entry = {"id": "灯塔", "keys": ["lamp"], "content": "A lamp.", **fields}
    return parse_model(BookCreate, {"name": "Harbour", "entries": [entry]})


def found(losses: tuple[Loss, ...]) -> list[tuple[str, str, str, str]]:
    return [(loss.pointer, loss.field, loss.kind, loss.why) for loss in losses]


def dumped(document: object) -> bytes:
    return json.dumps(document).encode()


# Worlds


def test_key_that_is_not_the_uid_comes_back() -> None:
    document = {"entries": {"a": {**WORLD["entries"]["0"]}, "0": {"uid": 1, "content": "x"}}}
    book = imported(document)
    assert [entry.source.get("key") for entry in book.entries] == ["a", "0"]
    assert export_book(book, "st_world").document == document


def test_key_follows_a_changed_id() -> None:
    book = imported({"entries": {"a": {"uid": 4, "content": "x"}}})
    entry = book.entries[0].model_copy(update={"id": "9"})
    changed = book.model_copy(update={"entries": (entry,)})
    assert export_book(changed, "st_world").document == {
        "entries": {"9": {"uid": 9, "content": "x"}}
    }


def test_memo_that_its_title_shows_is_no_loss() -> None:
    entry = {**WORLD["entries"]["0"], "addMemo": True, "comment": "Lamp"}
    book = imported({"entries": {"0": {**entry, "extensions": {"lorewell": {"kind": "rule"}}}}})
    assert found(export_book(book, "character_book").losses) == [
        ("/entries/0/kind", "kind", "string", "moved_to_extensions")
    ]


def test_keys_stay_apart() -> None:
    book = imported({"entries": {"a": {"uid": 4, "content": "x"}}})
    twin = parse_model(BookCreate, native().model_dump()).entries[0].model_copy(update={"id": "a"})
    both = book.model_copy(update={"entries": (*book.entries, twin)})
    assert list(export_book(both, "st_world").document["entries"]) == ["a", "1"]


def test_key_that_means_something_in_javascript_gives_way_to_the_id_or_the_number() -> None:
    ids: list[Document] = [{"uid": 7}, {}, {"uid": "valueOf"}, {}]
    keys = ["__proto__", "constructor", "toString", "灯"]
    entries = {key: {**each, "content": "x"} for key, each in zip(keys, ids, strict=True)}
    exported = export_book(imported({"entries": entries}), "st_world")
    assert list(exported.document["entries"]) == ["7", "1", "2", "灯"]
    assert found(exported.losses) == [
        (f"/entries/{at}/source/key", "key", "string", "unsupported") for at in range(3)
    ]
    twin = native(id="constructor")
    assert list(export_book(twin, "st_world").document["entries"]) == ["0"]
    assert export_book(twin, "st_world").losses == ()


def test_very_long_key_is_not_kept() -> None:
    book = imported({"entries": {"k" * 70_000: {"uid": 4, "content": "x"}}})
    assert "key" not in book.entries[0].source
    assert list(export_book(book, "st_world").document["entries"]) == ["4"]


def test_native_entry_has_every_field_of_a_world() -> None:
    shown = export_book(native(position="at_depth", role="user"), "st_world")
    (entry,) = shown.document["entries"].values()
    assert shown.losses == ()
    assert (shown.document["name"], entry["uid"]) == ("Harbour", 0)
    assert entry["extensions"]["lorewell"]["id"] == "灯塔"
    assert (entry["position"], entry["role"], entry["depth"], entry["disable"]) == (4, 1, 0, False)
    assert (entry["probability"], entry["useProbability"], entry["order"]) == (100, True, 0)
    assert "characterFilter" not in entry


def test_priority_is_kept_and_told_where_the_program_does_not_use_it() -> None:
    shown = export_book(native(priority=7), "st_world")
    assert found(shown.losses) == [
        ("/entries/0/priority", "priority", "number", "moved_to_extensions")
    ]
    (entry,) = shown.document["entries"].values()
    assert entry["extensions"]["lorewell"]["priority"] == 7
    card = export_book(imported(shown.document), "character_book")
    assert card.losses == ()
    (entry,) = card.document["entries"]
    assert (entry["priority"], "priority" in entry["extensions"]["lorewell"]) == (7, False)
    both = imported(
        {"entries": {"0": {"uid": 0, "extensions": {"lorewell": {"priority": 7, "kind": "rule"}}}}}
    )
    card = export_book(both, "character_book").document["entries"][0]
    assert card["extensions"]["lorewell"] == {"kind": "rule"}


@pytest.mark.parametrize("word", EXPORTS[1:])
def test_recall_that_is_off_is_kept_and_told(word: str) -> None:
    shown = export_book(native(recall=False), word)
    book = shown.document.get("data", shown.document)["entries"]
    (entry,) = book.values() if isinstance(book, dict) else book
    assert entry["extensions"]["lorewell"]["recall"] is False
    assert found(shown.losses) == [
        ("/entries/0/recall", "recall", "boolean", "moved_to_extensions")
    ]
    bare = export_book(native(), word)
    assert "recall" not in str(bare.document)


def test_recall_survives_our_own_format() -> None:
    shown = export_book(native(recall=False), "native")
    assert parse_model(BookCreate, shown.document).entries[0].recall is False


def test_rules_of_ours_are_kept_and_told() -> None:
    other = {"id": "b", "content": "x"}
    entry = {"id": "a", "content": "y", "requires": ["b"], "audience": ["planner"]}
    book = parse_model(BookCreate, {"name": "H", "entries": [entry, other]})
    for word in (EXPORTS[1], EXPORTS[2]):
        exported = export_book(book, word)
        assert found(exported.losses) == [
            ("/entries/0/requires", "requires", "array", "moved_to_extensions"),
            ("/entries/0/audience", "audience", "array", "moved_to_extensions"),
        ]


def test_entry_of_another_program_is_written_from_its_fields() -> None:
    source = {"format": "nai_lorebook", "raw": {"text": "A lamp."}}
    for odd in (source, {**source, "format": 7}):
        exported = export_book(native(source=odd), "character_book")
        assert exported.document["entries"][0]["content"] == "A lamp."
        assert found(exported.losses) == [("/entries/0/source/raw", "raw", "object", "unsupported")]


def test_book_of_another_program_does_not_look_like_its_file() -> None:
    kept = native(source={"format": "agnai_memory", "raw": {}}).model_dump()
    kept["metadata"] = {"raw": {"kind": "memory", "scan_depth": 3}}
    book = parse_model(BookCreate, kept)
    for word in (EXPORTS[1], EXPORTS[2]):
        exported = export_book(book, word)
        assert exported.document["extensions"] == {"kind": "memory"}
        assert exported.document["scan_depth"] == 3
        assert imported(exported.document).entries[0].keys == ("lamp",)
    assert "extensions" not in export_book(native(), "st_world").document


# Names


@pytest.mark.parametrize("own", [None, "", "  ", 7, "n" * 301, "Own"])
@pytest.mark.parametrize("card_name", ["Oda", "c" * 301])
def test_name_comes_back_as_it_was(own: object, card_name: str) -> None:
    card: Document = {**CARD, "data": {"name": card_name, "character_book": {"entries": [KEYED]}}}
    if own is not None:
        card["data"]["character_book"]["name"] = own
    book = imported(card)
    made = json.loads(put_into_card(book, dumped(card)))
    assert made == card
    renamed = json.loads(put_into_card(book.model_copy(update={"name": "New"}), dumped(card)))
    assert renamed["data"]["character_book"]["name"] == "New"


@pytest.mark.parametrize("own", [None, "", 7, "d" * 10_001, "Own"])
def test_description_comes_back_as_it_was(own: object) -> None:
    document: Document = {**WORLD} if own is None else {**WORLD, "description": own}
    book = imported(document)
    assert export_book(book, "st_world").document == document
    for text_ in ("", "New"):
        changed = book.model_copy(update={"description": text_})
        shown = export_book(changed, "st_world").document
        assert imported(shown).description == text_


def test_name_of_the_file_is_written_into_another_format() -> None:
    assert export_book(imported(WORLD), "character_book").document["name"] == "harbour"


# From worlds to cards


def test_settings_of_a_world_get_the_names_of_cards() -> None:
    members = {"scanDepth": 3, "tokenBudget": 9, "token_budget": 5, "originalData": {}, "_x": None}
    exported = export_book(imported({**WORLD, **members}), "character_book")
    assert exported.document["scan_depth"] == 3
    assert exported.document["token_budget"] == 5
    assert exported.document["extensions"] == {"tokenBudget": 9, "_x": None}
    assert found(exported.losses) == [
        ("/metadata/raw/tokenBudget", "tokenBudget", "number", "moved_to_extensions"),
        ("/metadata/raw/originalData", "originalData", "object", "unsupported"),
        ("/metadata/raw/_x", "_x", "null", "moved_to_extensions"),
    ]


def test_odd_extensions_are_lost() -> None:
    document = {"entries": {"0": {**WORLD["entries"]["0"], "extensions": "x"}}, "extensions": True}
    exported = export_book(imported(document), "lorebook_v3")
    assert found(exported.losses) == [
        ("/entries/0/source/raw/extensions", "extensions", "string", "unsupported"),
        ("/metadata/raw/extensions", "extensions", "boolean", "unsupported"),
    ]


def test_filter_and_memo_are_told() -> None:
    only = {"isExclude": False, "names": ["Oda"], "tags": []}
    entry = {**WORLD["entries"]["0"], "characterFilter": only, "addMemo": True}
    exported = export_book(imported({"entries": {"0": entry}}), "character_book")
    at = "/entries/0/sillytavern"
    assert found(exported.losses) == [
        (f"{at}/character_filter", "character_filter", "object", "moved_to_extensions"),
        (f"{at}/add_memo", "add_memo", "boolean", "unsupported"),
    ]
    assert "character_filter" in exported.document["entries"][0]["extensions"]


def test_member_that_stands_twice_is_told() -> None:
    entry = {**WORLD["entries"]["0"], "odd": 1, "extensions": {"odd": 2}}
    exported = export_book(imported({"entries": {"0": entry}}), "character_book")
    assert exported.document["entries"][0]["extensions"]["odd"] == 2
    assert found(exported.losses) == [("/entries/0/source/raw/odd", "odd", "number", "unsupported")]


@pytest.mark.parametrize(
    ("key", "is_regex"),
    [("lamp", False), ("/lamp/i", True), ("/usr/bin/", False), (r"/usr\/灯/", True)],
)
def test_v3_says_whether_keys_are_regular_expressions(key: str, is_regex: bool) -> None:  # noqa: FBT001
    book = native(keys=[key])
    assert export_book(book, "lorebook_v3").document["data"]["entries"][0]["use_regex"] is is_regex
    assert "use_regex" not in export_book(book, "character_book").document["entries"][0]


def test_v2_has_fields_for_decorators() -> None:
    content = "@@depth 2\n@@is_greeting 1\n\n灯台の話"
    entry = {**KEYED, "content": content, "use_regex": True}
    book = imported({**V3, "data": {"character_book": {"entries": [entry]}}})
    exported = export_book(book, "character_book")
    (written,) = exported.document["entries"]
    assert written["content"] == "@@is_greeting 1\n\n灯台の話"
    assert written["extensions"] == {"position": 4, "depth": 2}
    assert found(exported.losses) == [("/entries/0/content", "content", "string", "unsupported")]
    assert export_book(book, "lorebook_v3").document["data"]["entries"] == [entry]
    again = json.loads(put_into_card(book, dumped(CARD)))["data"]["character_book"]["entries"]
    assert again == [written]


# Metadata


def test_notes_of_the_author_are_kept() -> None:
    book = imported({**WORLD, "extensions": {"lorewell": {"a": 1}, "b": 2}})
    noted = book.model_copy(update={"metadata": {**book.metadata, "by": "hand"}})
    exported = export_book(noted, "st_world")
    assert exported.document["extensions"] == {
        "lorewell": {"a": 1, "metadata": {"by": "hand"}},
        "b": 2,
    }
    assert found(exported.losses) == [("/metadata/by", "by", "string", "moved_to_extensions")]


def test_notes_of_the_author_without_a_place_are_told() -> None:
    book = imported({**WORLD, "extensions": 7})
    noted = book.model_copy(update={"metadata": {**book.metadata, "by": "hand"}})
    exported = export_book(noted, "st_world")
    assert exported.document["extensions"] == 7
    assert found(exported.losses) == [("/metadata/by", "by", "string", "unsupported")]


def test_raw_that_is_no_object_is_a_note() -> None:
    book = parse_model(BookCreate, {"name": "H", "metadata": {"raw": [1], "given_name": 3}})
    exported = export_book(book, "character_book")
    ours = {"raw": [1], "given_name": 3}
    assert exported.document["extensions"] == {"lorewell": {"metadata": ours}}
    assert exported.document["name"] == "H"


# Cards


def test_book_goes_where_the_card_has_it() -> None:
    card = {"spec": "chara_card_v2", "data": {"name": "Oda"}, "character_book": {"entries": []}}
    made = json.loads(put_into_card(native(), dumped(card)))
    assert made["data"] == {"name": "Oda"}
    assert made["character_book"]["entries"][0]["keys"] == ["lamp"]
    old = {"name": "Oda", "first_mes": "Hi."}
    made = json.loads(put_into_card(native(), dumped(old)))
    assert made["data"].pop("character_book")["name"] == "Harbour"
    assert made.items() >= old.items()
    made = json.loads(put_into_card(native(), dumped({"spec": "chara_card_v3", "data": {}})))
    assert made["data"]["character_book"]["entries"][0]["use_regex"] is False


def test_empty_book_is_not_put_into_a_card_without_one() -> None:
    card = {"spec": "chara_card_v2", "data": {"name": "Oda"}}
    book = imported(card)
    assert json.loads(put_into_card(book, dumped(card))) == card
    made = json.loads(put_into_card(book, dumped(CARD)))
    assert made["data"]["character_book"]["entries"] == []


def keywords(picture: bytes) -> list[str]:
    return [word for word in ("chara", "ccv3") if f"tEXt{word}\0".encode() in picture]


@pytest.mark.parametrize(
    ("chunks", "written"),
    [
        ((text(CARD),), ["chara"]),
        ((text(V3),), ["chara", "ccv3"]),
        ((text(V3, keyword="ccv3"),), ["chara", "ccv3"]),
        ((text(CARD), text(V3, keyword="ccv3"), text({}, keyword="ccv3")), ["chara", "ccv3"]),
        ((text(CARD), chunk(b"tEXt", b"ccv3\0????")), ["chara"]),
        ((chunk(b"tEXt", b"chara\0????"), text(V3, keyword="ccv3")), ["chara", "ccv3"]),
    ],
)
def test_picture_holds_the_book_in_all_its_cards(
    chunks: tuple[bytes, ...], written: list[str]
) -> None:
    made = put_into_card(native(), png(*chunks))
    assert keywords(made) == written
    assert import_file(made, name="a.png").book.entries[0].id == "灯塔"


@pytest.mark.parametrize(
    ("card", "says"),
    [
        (b"", "only be put into a card that is JSON or a PNG: The file is empty."),
        (b"\xff\xd8\xff", "A book can only be put into a card"),
        (b"[]", "The file is not a character card"),
        (dumped(WORLD), "The file is not a character card"),
        (png(), "This PNG has no card data (expected a chara or ccv3 chunk)."),
        (png(text(WORLD)), "The file is not a character card"),
        (png(chunk(b"tEXt", b"chara\0????")), "not valid base64"),
        (dumped({"spec": "chara_card_v2", "data": 7}), "data is missing"),
    ],
)
def test_what_is_no_card_is_refused(card: bytes, says: str) -> None:
    with pytest.raises(ImportInvalidError) as caught:
        put_into_card(native(), card)
    assert says in str(caught.value)
    assert caught.value.code == "import_invalid"


def test_card_that_is_too_large_is_refused() -> None:
    with pytest.raises(FileTooLargeError):
        put_into_card(native(), b" " * (MAX_FILE_BYTES + 1))


def test_entries_in_raw_are_not_the_books() -> None:
    book = imported({"gamestarted": True, "entries": {"灯": 1}})
    for exported in (export_book(book, "st_world"), export_book(book, "character_book")):
        assert not exported.document["entries"]
        expected = ("/metadata/raw/entries", "entries", "object", "unsupported")
        assert expected in found(exported.losses)


# World files of SillyTavern_replica

TRIGGERS = {"triggers": {"condition": [True, {"conditions": [{"text": "tb.力量 > 10"}]}]}}
REPLICA: Document = {
    "id": "b1",
    "name": "雾隐渡",
    "description": "d",
    "entries": [{"uid": "灯", "content": "灯。", "trigger_config": TRIGGERS, "position": 5}],
    "createdAt": 1700000000,
    "updatedAt": 1700000001.5,
    "version": 1,
}


def test_a_replica_world_comes_back_with_its_times() -> None:
    exported = export_book(imported(REPLICA), "replica")
    assert (exported.document, exported.losses) == (REPLICA, ())
    unnamed = {name: each for name, each in REPLICA.items() if name != "name"}
    assert export_book(imported(unnamed, "港.json"), "replica").document == unnamed
    empty = {**REPLICA, "entries": []}
    assert export_book(imported(empty), "replica").document == empty


def test_a_renamed_replica_world_says_so_and_keeps_what_was_noted() -> None:
    book = imported(REPLICA)
    changes = {"name": "港", "description": "e", "metadata": {**book.metadata, "by": "me"}}
    exported = export_book(book.model_copy(update=changes), "replica")
    assert exported.document == {
        **REPLICA,
        "name": "港",
        "description": "e",
        "extensions": {"lorewell": {"metadata": {"by": "me"}}},
    }
    assert found(exported.losses) == [("/metadata/by", "by", "string", "moved_to_extensions")]


def test_a_world_of_sillytavern_tells_what_the_replica_has_not() -> None:
    raw = {"uid": 3, "key": ["/lamp/i"], "content": "A lamp.", "sticky": 2, "group": "a,b"}
    world = {"entries": {"3": raw}, "name": "h", "scan_depth": 4}
    exported = export_book(imported(world), "replica")
    assert exported.document["extensions"] == {"scan_depth": 4}
    assert exported.document["entries"][0]["group"] == ["a", "b"]
    assert found(exported.losses) == [
        ("/entries/0/runtime_requirements", "runtime_requirements", "array", "moved_to_extensions"),
        ("/entries/0/keys", "keys", "array", "unsupported"),
        ("/entries/0/sillytavern/sticky", "sticky", "number", "unsupported"),
        ("/entries/0/source/raw", "raw", "object", "unsupported"),
        ("/metadata/raw/scan_depth", "scan_depth", "number", "moved_to_extensions"),
    ]


def test_a_native_entry_tells_what_the_replica_has_not() -> None:
    book = native(conditions_text=["tb.a = 1"], required=True, replica={"other": 1})
    exported = export_book(book, "replica")
    (entry,) = exported.document["entries"]
    assert entry["extensions"]["lorewell"] == {"required": True, "conditions_text": ["tb.a = 1"]}
    assert found(exported.losses) == [
        ("/entries/0/required", "required", "boolean", "moved_to_extensions"),
        ("/entries/0/conditions_text", "conditions_text", "array", "moved_to_extensions"),
        ("/entries/0/replica/other", "other", "number", "unsupported"),
    ]


def test_what_the_extensions_can_not_take_is_left_out() -> None:
    book = imported({**REPLICA, "entries": [{**REPLICA["entries"][0], "extensions": 7}]})
    entry = book.entries[0].model_copy(update={"required": True})
    exported = export_book(book.model_copy(update={"entries": (entry,)}), "replica")
    assert exported.document["entries"][0]["extensions"] == 7
    assert found(exported.losses) == [("/entries/0/required", "required", "boolean", "unsupported")]


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, {"position": 1}),
        (1, {"position": 0}),
        (2, {"position": 5}),
        (3, {"position": 6}),
        (4, {"position": 2}),
        (5, {"position": 4, "depth": 0, "role": 0}),
        (6, {"position": 4, "depth": 9, "role": 1}),
        (7, {"position": 7, "outletName": "灯"}),
    ],
)
def test_positions_turn_back_into_sillytavern_s(number: int, shown: Document) -> None:
    raw = {**REPLICA["entries"][0], "position": number, "depth": 9, "role": 1}
    book = imported({**REPLICA, "entries": [raw]})
    (entry,) = export_book(book, "st_world").document["entries"].values()
    assert {name: entry[name] for name in shown} == shown
