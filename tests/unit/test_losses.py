"""What an import could not hold, place by place."""

from __future__ import annotations

import json

import pytest

from lorewell import ImportReport, import_file
from lorewell.formats import notes as notes_module
from lorewell.formats.losses import loss_of
from support import Document

LONG = "名" * 201  # too long a name to be said


def report_on(document: object, name: str = "港.json") -> ImportReport:
    return import_file(json.dumps(document).encode(), name=name).report


def losses_of(document: object) -> list[tuple[str, str, str]]:
    return [(loss.pointer, loss.kind, loss.why) for loss in report_on(document).losses]


def world(*entries: Document) -> Document:
    return {"entries": {str(at): raw for at, raw in enumerate(entries)}}


def test_a_book_that_is_held_whole_loses_nothing() -> None:
    raw = {
        "uid": 0,
        "key": ["灯"],
        "content": "ランプ",
        "order": "90",
        "disable": False,
        "role": None,
    }
    assert losses_of(world(raw)) == []


@pytest.mark.parametrize(
    ("raw", "losses"),
    [
        ({"未知": "x"}, [("/entries/0/未知", "string", "unsupported")]),
        ({"a/b~": [1]}, [("/entries/0/a~1b~0", "array", "unsupported")]),
        (
            {"extensions": {"a/b": 1}, "extensions/depth": 2},
            [
                ("/entries/0/extensions/a~1b", "number", "unsupported"),
                ("/entries/0/extensions~1depth", "number", "unsupported"),
            ],
        ),
        ({"vectorized": True}, [("/entries/0/vectorized", "boolean", "unsupported")]),
        (
            {
                "extensions": {
                    "depth": 2,
                    "chub": {"id": 1},
                    "lorewell": {"mood": "x", "kind": "rule"},
                }
            },
            [
                ("/entries/0/extensions/chub", "object", "unsupported"),
                ("/entries/0/extensions/lorewell/mood", "string", "unsupported"),
            ],
        ),
        ({"x": None, "y": "", "z": [], "w": {}, "v": False}, []),
        ({"depth": 10**7}, [("/entries/0/depth", "number", "clamped")]),
        ({"order": 1.5}, [("/entries/0/order", "number", "clamped")]),
        ({"order": [1]}, [("/entries/0/order", "array", "wrong_type")]),
        ({"comment": "题" * 501}, [("/entries/0/comment", "string", "cut")]),
        ({"key": ["a", 7, {}]}, [("/entries/0/key/2", "object", "wrong_type")]),
        ({"uid": ["灯"], "id": "a\x01"}, [("/entries/0/id", "string", "odd_id")]),
        (
            {LONG: "<% 灯 %>"},
            [
                (f"/entries/0/{LONG}", "string", "unsupported"),
                ("/entries/0", "object", "blocked"),
            ],
        ),
        ({"sticky": 2}, [("/entries/0/sticky", "number", "blocked")]),
        (
            {"characterFilter": {"names": ["Мара"]}},
            [("/entries/0/characterFilter", "object", "blocked")],
        ),
        ({"position": 7}, [("/entries/0/position", "number", "blocked")]),
        ({"group": "港, 灯"}, [("/entries/0/group", "string", "unsupported")]),
    ],
)
def test_each_member_of_an_entry_that_is_not_held_is_named(
    raw: Document, losses: list[tuple[str, str, str]]
) -> None:
    assert losses_of(world({"uid": 0, "key": ["灯"], "content": "x"} | raw)) == losses


def test_what_blocks_an_entry_is_named_where_it_first_shows() -> None:
    raw = {"uid": 0, "comment": "{{roll}}", "content": "{{roll}} <% a %>\n<% b %>", "key": ["灯"]}
    assert losses_of(world(raw)) == [
        ("/entries/0/content", "string", "blocked"),
        ("/entries/0/comment", "string", "blocked"),
    ]


def test_ids_that_are_given_anew_are_named() -> None:
    first, second = {"uid": 3, "content": "a"}, {"uid": 3, "content": "b"}
    odd = {"uid": "a\u0007", "content": "c"}
    assert losses_of(world(first, second, odd)) == [
        ("/entries/1/uid", "number", "duplicate_id"),
        ("/entries/2/uid", "string", "odd_id"),
    ]


def test_what_stands_beside_the_entries_and_what_is_none_is_named() -> None:
    book = {
        "name": 7,
        "scan_depth": 3,
        "extensions": {},
        "entries": {"0": {"content": "a"}, "1": 5},
    }
    assert losses_of(book) == [
        ("/scan_depth", "number", "unsupported"),
        ("/name", "number", "wrong_type"),
        ("/entries/1", "number", "no_entry"),
    ]
    long = {"description": "港" * 10_001, "entries": {"0": {"content": "a"}}}
    assert losses_of(long) == [("/description", "string", "cut")]


def test_what_a_card_holds_beside_its_book_is_not_taken() -> None:
    card = {
        "spec": "chara_card_v3",
        "spec_version": "3.0",
        "fav": True,
        "data": {
            "name": "Ода",
            "tags": [],
            "extensions": {"world": "港"},
            "character_book": {"token_budget": 500, "entries": [{"keys": ["a"], "content": "a"}]},
        },
    }
    assert losses_of(card) == [
        ("/fav", "boolean", "not_taken"),
        ("/data/name", "string", "not_taken"),
        ("/data/extensions", "object", "not_taken"),
        ("/data/character_book/token_budget", "number", "unsupported"),
    ]


def test_other_formats_name_what_nothing_acts_on() -> None:
    novelai = {
        "lorebookVersion": 4,
        "entries": [
            {
                "text": "灯",
                "keys": ["a"],
                "id": "x",
                "keyRelative": False,
                "searchRange": 300,
                "contextConfig": {"budgetPriority": 400, "prefix": "", "tokenBudget": 99},
            }
        ],
        "settings": {"orderByKeyLocations": False},
    }
    assert losses_of(novelai) == [
        ("/settings", "object", "unsupported"),
        ("/entries/0/searchRange", "number", "unsupported"),
        ("/entries/0/contextConfig/tokenBudget", "number", "unsupported"),
    ]
    assert losses_of([{"keys": "a", "entry": "b", "type": "место"}]) == [
        ("/0/type", "string", "unsupported")
    ]


def test_of_each_kind_there_is_an_end_and_the_rest_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notes_module, "MAX_NOTICES_A_CODE", 2)
    raw = {
        "constant": True,
        "content": "http://a.example http://b.example http://c.example",
        "a": 1,
        "b": 2,
        "c": 3,
    }
    report = report_on(world(raw))
    assert [loss.field for loss in report.losses] == ["a", "b"]
    assert len(report.quarantine) == 2
    assert [(each.code, each.message) for each in report.warnings] == [
        ("more_losses", "losses: 1 more of the kind unsupported"),
        ("more_quarantine", "quarantine: 1 more of the kind link"),
    ]


def test_a_pointer_is_told_by_its_last_step() -> None:
    assert loss_of(None, "cut", "/a/b~1c~0").field == "b/c~"
    assert loss_of((), "cut", "").kind == "array"


def test_a_huge_name_is_not_written_out_again_and_again() -> None:
    name = "п" * 300_000
    report = report_on(world({"content": "a", name: [{"b": "http://a.example"}] * 400}))
    assert len(report.quarantine) == 400
    assert len(report.model_dump_json()) < 3_000_000


def test_a_cut_name_of_a_card_is_no_loss_of_its_book() -> None:
    card = {"spec": "chara_card_v2", "data": {"name": "Ода" * 101, "character_book": {}}}
    assert losses_of(card) == [("/data/name", "string", "not_taken")]
    assert losses_of({"name": "港" * 301, "entries": []}) == [("/name", "string", "cut")]


def test_a_trigger_without_settings_is_lost_as_a_whole() -> None:
    triggers = {"condition": [True], "rag": [True, {}]}
    lost = losses_of({"entries": [{"trigger_config": {"triggers": triggers}}]})
    at = "/entries/0/trigger_config/triggers"
    assert lost == [
        (f"{at}/condition", "array", "unsupported"),
        (f"{at}/rag/1", "object", "unsupported"),
    ]
