"""The public door of the policy `sillytavern`: files in, requests in, answers out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lorewell import Attached, Library, SillyTavernRequest, activate, load_world
from lorewell.engine.sillytavern.turns import replay
from lorewell.engine.sillytavern.world import compile_world
from lorewell.errors import BookNotFoundError, ImportInvalidError
from lorewell.model.parse import parse_model
from world_info import expand, request

LAMP = expand({"uid": 7, "key": ["灯塔"], "content": "灯塔由哑女看守。"})


def saved(folder: Path, name: str, document: object) -> Path:
    path = folder / name
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def ids(book: Attached, *chat: str) -> list[str]:
    return [entry.id for entry in activate([book], request(list(chat))).activated]


def test_world_info_is_called_after_its_file_and_walked_in_object_order(tmp_path: Path) -> None:
    entries = {name: {**LAMP, "uid": int(name)} for name in ("10", "9")}
    book = load_world(saved(tmp_path, "雾隐渡.json", {"entries": entries, "name": "别的"}))
    assert ids(book, "灯塔") == ["雾隐渡.9", "雾隐渡.10"]


def test_world_info_keeps_the_hash_of_the_file_itself(tmp_path: Path) -> None:
    """An entry without a field hashes without it: SillyTavern's own state fits."""
    bare = {"uid": 7, "key": ["灯塔"], "content": "灯塔", "sticky": 2, "unknown": {"a": 1}}
    book = load_world(saved(tmp_path, "w.json", {"entries": {"0": bare}}))
    assert {*book.world.entries[0].fields} == {*bare, "world", "decorators"}


def test_a_name_of_ones_own_counts(tmp_path: Path) -> None:
    path = saved(tmp_path, "w.json", {"entries": {"0": LAMP}})
    assert ids(load_world(path, name="港"), "灯塔") == ["港.7"]


def test_other_books_are_taken_too(tmp_path: Path) -> None:
    native = {"name": "渡口", "entries": [{"id": "lamp", "content": "灯。", "keys": ["灯塔"]}]}
    card = {
        "spec": "chara_card_v2",
        "data": {
            "name": "Mira",
            "character_book": {
                "name": "Mira's",
                "entries": [{"keys": ["灯塔"], "content": "A lamp.", "id": 3, "enabled": True}],
            },
        },
    }
    assert ids(load_world(saved(tmp_path, "n.json", native)), "灯塔") == ["渡口.lamp"]
    assert ids(load_world(saved(tmp_path, "c.json", card)), "灯塔") == ["Mira's.3"]


def test_broken_world_info_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text('{"entries": {"0": {"uid": 1, "key": ["灯塔",], "content": "灯"}, "1": 5}}')
    assert ids(load_world(path), "灯塔") == ["w.1"]


def test_odd_world_info_is_empty_or_refused(tmp_path: Path) -> None:
    keyless = {"entries": {"0": {"key": [], "uid": 1}}}
    assert ids(load_world(saved(tmp_path, "w.json", keyless)), "灯塔") == []
    with pytest.raises(ImportInvalidError) as refused:
        load_world(saved(tmp_path, "w.json", {"entries": 3}))
    assert refused.value.details["file"] == "w.json"


def test_text_that_cannot_be_stored_is_mended(tmp_path: Path) -> None:
    half = {**LAMP, "content": "\ud800灯"}
    book = load_world(saved(tmp_path, "w.json", {"entries": {"0": half}}))
    assert book.world.entries[0].content == "\ufffd灯"


def test_card_without_a_book_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, "c.json", {"spec": "chara_card_v2", "data": {"name": "Mira"}})
    with pytest.raises(ImportInvalidError, match="without a lorebook"):
        load_world(path)


def test_inline_books_come_after_the_others() -> None:
    book = {"source": "character", "name": "里", "entries": {"0": LAMP}}
    asked = request(["灯塔"], books=[book, {**book, "name": "外", "source": "global"}])
    given = [Attached("chat", compile_world("聊", [LAMP]))]
    expected = ["聊.7", "里.7", "外.7"]
    for books in (given, iter(given), Library(given)):
        assert [entry.id for entry in activate(books, asked).activated] == expected


def test_stored_books_are_not_to_be_had_here() -> None:
    book_id = "00000000-0000-4000-8000-000000000001"
    with pytest.raises(BookNotFoundError, match=book_id):
        activate([], request([], books=[{"book_id": book_id}]))


def test_replay_hands_state_and_draws_on() -> None:
    entries = [
        {**LAMP, "sticky": 2, "probability": 50},
        expand({"uid": 8, "constant": True, "content": "雾", "probability": 50}),
    ]
    library = Library([Attached("global", compile_world("w", entries))])
    draws = [0.1, 0.9, 0.2, 0.9]  # 灯塔 and 雾; then 雾, as what is sticky does not roll; then 雾
    asked = request(["灯塔", "一", "二"], draws=draws, settings={"world_info_depth": 1})
    turns = list(replay(library, asked))
    assert [[entry.uid for entry in turn.activated] for turn in turns] == [[7], [7, 8], []]
    assert [turn.draws_used for turn in turns] == [2, 1, 1]
    assert turns[1].timed_state["sticky"]["w.7"]["end"] == 3


def test_replay_rolls_anew_every_turn() -> None:
    document = {"chat": [{"content": "x"}] * 40, "context_tokens": 1000, "seed": "雾"}
    fog = expand({"uid": 8, "constant": True, "content": "雾", "probability": 50})
    library = Library([Attached("global", compile_world("w", [fog]))])
    asked = parse_model(SillyTavernRequest, document)
    rolled = [bool(turn.activated) for turn in replay(library, asked)]
    assert 5 < sum(rolled) < 35
    assert rolled == [bool(turn.activated) for turn in replay(library, asked)]
