"""The end of a chat as one text to rank by."""

from __future__ import annotations

import pytest

from lorewell import BookCreate, Entry, SelectRequest, compile_book, select
from lorewell.retrieval.recent import recent_text


def test_newest_messages_come_before_the_query_and_older_ones_do_not() -> None:
    assert recent_text("他点点头。", []) == "他点点头。"
    history = ["old", "灯塔灭了。", "Who lit it?"]
    assert recent_text("他点点头。", history) == "灯塔灭了。\nWho lit it?\n他点点头。"
    assert recent_text("x", [" \n", "a"]) == "a\nx"


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("a" * 390 + ". Long ago. The lamp burns!", "Long ago. The lamp burns!"),
        ("雾" * 398 + "。哑女守着灯塔。", "哑女守着灯塔。"),
        ("о" * 500, "о" * 400),
        ("x" * 380 + "\n" + "y" * 100, "y" * 100),
    ],
)
def test_a_long_message_gives_its_last_sentences(text: str, end: str) -> None:
    assert recent_text("q", [text]) == f"{end}\nq"
    assert len(recent_text("q", [text, "b"])) <= 200 + len("\nb\nq")


def test_what_the_turn_before_was_about_is_recalled_only_if_asked() -> None:
    entries = [
        Entry(id="lamp", content="哑女守着灯塔，每逢初七熄灯。"),
        Entry(id="salt", content="盐引一张准运二百斤，过期作废。"),
    ]
    book = compile_book(BookCreate(name="雾隐渡", entries=entries))
    asked = {
        "books": [book.ref],
        "strategy": "hybrid",
        "recall_floor": "auto",
        "history": [{"role": "assistant", "content": "初七的夜里，哑女又把灯塔熄了。"}],
        "query": "我跟着她走了上去。",
    }
    plain = select([book], SelectRequest.model_validate(asked))
    assert plain.blocks == ()
    same = select([book], SelectRequest.model_validate({**asked, "recall_query": "query"}))
    assert same.selection_fingerprint == plain.selection_fingerprint
    recent = select([book], SelectRequest.model_validate({**asked, "recall_query": "recent"}))
    assert [block.entry_id for block in recent.blocks] == ["lamp"]
    assert recent.selection_fingerprint != plain.selection_fingerprint
