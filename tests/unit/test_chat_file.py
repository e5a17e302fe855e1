"""SillyTavern's chat files, as they are on disk and as crashes leave them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lorewell.errors import FileTooLargeError, ImportInvalidError
from lorewell.formats import chat_file
from lorewell.formats.card_texts import load_card_texts
from lorewell.formats.chat_file import ChatFile, load_chat

HEAD = {
    "user_name": "旅人",
    "character_name": "阿黛",
    "create_date": "2026-11-30",
    "chat_metadata": {},
}
SAID = {"name": "旅人", "is_user": True, "is_system": False, "mes": "灯塔 🕯", "send_date": 0}
HEARD = {
    "name": "阿黛",
    "is_user": False,
    "mes": "ประภาคาร",
    "swipes": ["a", "ประภาคาร"],
    "swipe_id": 1,
}


def chat(folder: Path, *lines: object, joint: bytes = b"\n", head: bytes = b"") -> ChatFile:
    written = [x if isinstance(x, bytes) else json.dumps(x).encode() for x in lines]
    path = folder / "chat.jsonl"
    path.write_bytes(head + joint.join(written))
    return load_chat(path)


def test_messages_come_with_their_names_and_lines(tmp_path: Path) -> None:
    found = chat(tmp_path, HEAD, SAID, HEARD)
    assert (found.user, found.char, found.warnings) == ("旅人", "阿黛", ())
    rows = [(each.name, each.content, each.is_user, each.line) for each in found.messages]
    assert rows == [("旅人", "灯塔 🕯", True, 2), ("阿黛", "ประภาคาร", False, 3)]


def test_hidden_messages_are_counted_alone(tmp_path: Path) -> None:
    found = chat(tmp_path, HEAD, {**SAID, "is_system": True}, HEARD)
    assert (len(found.messages), found.hidden) == (1, 1)


def test_mark_line_ends_and_blank_lines_do_no_harm(tmp_path: Path) -> None:
    plain = chat(tmp_path, HEAD, SAID, HEARD)
    odd = chat(tmp_path, HEAD, b"", SAID, b"  ", HEARD, b"", joint=b"\r\n", head=b"\xef\xbb\xbf")
    assert [m.content for m in odd.messages] == [m.content for m in plain.messages]
    assert (odd.user, odd.warnings) == ("旅人", ())


@pytest.mark.parametrize("cut", [b'{"name": "\xe6', b'{"mes"', b"[]", b"\x00\x00"])
def test_last_line_that_was_cut_off_is_passed_over(tmp_path: Path, cut: bytes) -> None:
    found = chat(tmp_path, HEAD, SAID, cut)
    assert len(found.messages) == 1
    assert found.warnings == ("line 3, the last one, is truncated and was skipped",)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([HEAD, b"{", SAID], "line 2 is invalid"),
        ([b"<html>"], "line 1 is invalid"),
        ([b"[" * 200], "line 1 is invalid"),
        ([{"entries": {}}], "Expected a message"),
        ([b"", b" "], "is empty"),
    ],
)
def test_what_is_no_chat_is_refused_by_name(
    tmp_path: Path, lines: list[object], message: str
) -> None:
    with pytest.raises(ImportInvalidError, match=message) as refused:
        chat(tmp_path, *lines)
    assert refused.value.details["file"] == "chat.jsonl"


def test_names_are_those_of_messages_where_the_head_has_none(tmp_path: Path) -> None:
    renamed = {**SAID, "name": "老旅人"}
    found = chat(
        tmp_path, {**HEAD, "user_name": "unused", "character_name": 7}, SAID, renamed, HEARD
    )
    assert (found.user, found.char) == ("老旅人", "阿黛")
    assert chat(tmp_path, SAID).char == ""


def test_state_and_book_of_the_chat_are_taken(tmp_path: Path) -> None:
    state = {"sticky": {"雾.1": {"hash": 1, "start": 2, "end": 3, "protected": False}}}
    metadata = {"timedWorldInfo": state, "world_info": "雾"}
    found = chat(tmp_path, {**HEAD, "chat_metadata": metadata}, SAID)
    assert (found.timed_state, found.book) == (state, "雾")
    odd = chat(tmp_path, {**HEAD, "chat_metadata": {"timedWorldInfo": 1, "world_info": []}})
    assert (odd.timed_state, odd.book) == ({}, None)
    assert chat(tmp_path, {**HEAD, "chat_metadata": []}).timed_state == {}


def test_texts_that_can_not_be_stored_are_mended(tmp_path: Path) -> None:
    found = chat(tmp_path, HEAD, {**SAID, "mes": "a\x00\ud800", "name": "\udfff"})
    assert (found.messages[0].content, found.messages[0].name) == ("a\ufffd\ufffd", "\ufffd")


def test_messages_without_a_text_are_told(tmp_path: Path) -> None:
    found = chat(tmp_path, HEAD, *[{"mes": None, "name": 1}] * 150, {"mes": "", "name": 1})
    assert [(each.name, each.content) for each in found.messages] == [("", "")]
    assert len(found.warnings) == 100
    assert found.warnings[0] == "line 2 has no text and was skipped"


def test_sizes_are_limited_while_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_file, "MAX_LINE_BYTES", 300)
    with pytest.raises(FileTooLargeError, match=r"Line 2 of chat\.jsonl"):
        chat(tmp_path, HEAD, {**SAID, "mes": "x" * 300})
    monkeypatch.setattr(chat_file, "MAX_CHAT_BYTES", 600)
    with pytest.raises(FileTooLargeError, match=r"^chat\.jsonl"):
        chat(tmp_path, HEAD, *[SAID] * 10)


def test_card_tells_what_is_scanned_and_what_macros_stand_for(tmp_path: Path) -> None:
    data = {
        "name": "阿黛",
        "description": "守灯人",
        "personality": 7,
        "extensions": {"depth_prompt": {"prompt": "深", "depth": 4}},
    }
    path = tmp_path / "阿黛.json"
    for document in ({"spec": "chara_card_v2", "data": data}, {**data, "first_mes": "…"}):
        path.write_text(json.dumps(document), encoding="utf-8")
        card = load_card_texts(path)
        assert (card.name, card.description, card.personality) == ("阿黛", "守灯人", "")
        assert (card.depth_prompt, card.scenario) == ("深", "")
    path.write_text(json.dumps({**data, "first_mes": "…", "extensions": []}), encoding="utf-8")
    assert load_card_texts(path).depth_prompt == ""


@pytest.mark.parametrize("text", ["[]", '{"entries": {}}', "{", "x"])
def test_what_is_no_card_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ImportInvalidError, match=r"x\.json"):
        load_card_texts(path)
