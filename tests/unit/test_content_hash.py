"""A later field never changes the hash of an old book (docs/rules/native.md §3.5)."""

from __future__ import annotations

import json

import pytest

from lorewell import BookCreate, Entry, compile_book, import_file
from lorewell.model import book as module, content_hash
from lorewell.model.parse import parse_model


def test_the_blocks_of_other_policies_count_only_when_given() -> None:
    plain = BookCreate(name="B", entries=[Entry(content="x")])
    named = BookCreate(name="B", entries=[Entry(content="x", sillytavern=None, replica=None)])
    given = BookCreate(name="B", entries=[Entry(content="x", sillytavern={"sticky": 2})])
    assert content_hash(plain) == content_hash(named) != content_hash(given)


def test_recall_counts_only_when_it_is_off() -> None:
    bare, on, off = (
        BookCreate(name="雾", entries=[Entry(content="x", **given)])
        for given in ({}, {"recall": True}, {"recall": False})
    )
    assert content_hash(bare) == content_hash(on) != content_hash(off)


def test_conditions_in_words_count_only_when_there_are_some() -> None:
    bare, none, one, listed = (
        BookCreate(name="雾", entries=[Entry(content="x", **given)])
        for given in (
            {},
            {"conditions_text": []},
            {"conditions_text": "tb.力量 > 10"},
            {"conditions_text": ["tb.力量 > 10"]},
        )
    )
    assert content_hash(bare) == content_hash(none) != content_hash(one)
    assert content_hash(one) == content_hash(listed)


def test_a_field_that_is_added_later_leaves_old_hashes_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class LaterEntry(Entry):
        moods: tuple[str, ...] = ()

    class LaterBook(BookCreate):
        entries: tuple[LaterEntry, ...] = ()

    monkeypatch.setattr(module, "Entry", LaterEntry)
    old = BookCreate(name="B", entries=[Entry(content="x")])
    later = LaterBook(name="B", entries=[LaterEntry(content="x")])
    used = LaterBook(name="B", entries=[LaterEntry(content="x", moods=["calm"])])
    assert content_hash(later) == compile_book(old).content_hash
    assert content_hash(used) != content_hash(later)


def test_integers_and_decimals_keep_their_form() -> None:
    whole = Entry(content="x", probability=50)
    assert '"probability":50,' in whole.model_dump_json()
    assert '"probability":12.5,' in Entry(content="x", probability=12.5).model_dump_json()


def test_flags_that_can_be_null_keep_the_hash_of_earlier_imports() -> None:
    raw = {"uid": 0, "key": ["灯"], "content": "x", "caseSensitive": True}
    document = {"entries": {"0": raw}}
    (entry,) = import_file(json.dumps(document).encode(), name="b.json").book.entries
    earlier = parse_model(
        Entry,
        entry.model_dump()
        | {
            "match_whole_words": False,
            "source": {"format": "st_world", "raw": raw},
            "sillytavern": {"inherit": ["match_whole_words"]},
        },
    )
    own = entry.model_copy(update={"match_whole_words": False})
    found = [content_hash(BookCreate(name="b", entries=[e])) for e in (entry, earlier, own)]
    assert found[0] == found[1] != found[2]
