"""Corners of matching, conditions and parsing that the golden cases leave out."""

from __future__ import annotations

import pytest

from lorewell import BookCreate, CompiledBook, Entry, Message, SelectRequest, compile_book, select
from lorewell.engine.native import SnapshotLimits
from lorewell.errors import (
    Fault,
    MalformedJsonError,
    SnapshotTooLargeError,
    ValidationFailedError,
)
from lorewell.model.decision import SelectResponse
from lorewell.model.parse import parse_json, parse_model


def book_of(*entries: Entry, name: str = "B") -> CompiledBook:
    return compile_book(BookCreate(name=name, entries=entries))


def ask(book: CompiledBook, query: str, **members: object) -> SelectResponse:
    request = {"books": [book.ref.model_dump()], "query": query, **members}
    return select([book], parse_model(SelectRequest, request))


def test_a_key_with_a_line_break_is_found_across_two_messages() -> None:
    book = book_of(Entry(id="a", content="x", keys=["é.\nDusk"]))
    history = [{"role": "user", "content": "cafe\u0301."}]
    answer = ask(book, "dusk falls", history=history)
    facts = answer.decisions[0].facts
    # Measured in the message that it begins in, and on from its end: "é." + line break + "dusk".
    assert (answer.decisions[0].reason, facts.message, facts.span) == ("keyword", 0, (3, 11))


def test_a_key_with_a_line_break_is_found_across_message_and_supply() -> None:
    waker = Entry(id="w", content="falls", keys=["start"], prevent_recursion=False)
    woken = Entry(id="x", content="y", keys=["start\nfalls"], exclude_recursion=False)
    answer = ask(book_of(waker, woken), "start")
    assert [d.reason for d in answer.decisions] == ["keyword", "recursion"]


def test_a_key_that_ends_inside_a_folded_letter_is_no_hit() -> None:
    book = book_of(
        Entry(id="a", content="x", keys=["ẞS"]), Entry(id="b", content="x", keys=["s\nß"])
    )
    answer = ask(book, "ẞ", history=[{"role": "user", "content": "ß"}])
    assert [d.reason for d in answer.decisions] == ["not_triggered", "not_triggered"]


def test_a_mark_counts_as_the_letter_before_it() -> None:
    book = book_of(Entry(id="a", content="x", keys=["q"], match_whole_words=True))
    assert ask(book, "q\u0307").decisions[0].reason == "not_triggered"
    assert ask(book, "= q \u0307=").decisions[0].reason == "keyword"


def test_case_can_count_for_some_keys_only() -> None:
    entries = [
        Entry(id="a", content="x", keys=["Lamp"], case_sensitive=True),
        Entry(id="b", content="x", keys=["Lamp"]),
    ]
    assert [b.entry_id for b in ask(book_of(*entries), "a lamp").blocks] == ["b"]
    assert [b.entry_id for b in ask(book_of(*entries), "a Lamp").blocks] == ["a", "b"]


def test_an_empty_text_is_not_searched() -> None:
    book = book_of(Entry(id="a", content="x", keys=["/lamp/"]))
    assert ask(book, "a lamp", scan_depth=0).decisions[0].reason == "not_triggered"


@pytest.mark.parametrize(
    ("value", "state", "holds"),
    [
        ([1, {"a": 2.0}], [1.0, {"a": 2}], True),
        ([1], [1, 2], False),
        ({"a": 1}, {"b": 1}, False),
        (True, 1, False),
        (None, None, True),
        ("1", 1, False),
    ],
)
def test_json_values_are_equal_by_value_and_type(
    value: object, state: object, *, holds: bool
) -> None:
    conditions = [{"path": "v", "op": "eq", "value": value}]
    document = {
        "name": "B",
        "entries": [{"content": "x", "constant": True, "conditions": conditions}],
    }
    book = compile_book(parse_model(BookCreate, document))
    assert bool(ask(book, "q", state={"v": state}).blocks) is holds


@pytest.mark.parametrize("path", ["list.9", "list.1234567890", "list.x", "text.0"])
def test_a_path_that_leads_nowhere_is_absent(path: str) -> None:
    conditions = [{"path": path, "op": "exists", "value": False}]
    document = {
        "name": "B",
        "entries": [{"content": "x", "constant": True, "conditions": conditions}],
    }
    book = compile_book(parse_model(BookCreate, document))
    assert ask(book, "q", state={"list": [0], "text": "x"}).blocks


def test_a_snapshot_has_limits() -> None:
    book = book_of(Entry(content="four"), Entry(content="more"))
    request = SelectRequest(books=[book.ref], query="q")
    for limits in (SnapshotLimits(entries=1), SnapshotLimits(content_chars=7)):
        with pytest.raises(SnapshotTooLargeError, match="2 entries and 8 characters"):
            select([book], request, limits=limits)
    assert select([book], request, limits=SnapshotLimits(entries=2, content_chars=8))


def test_only_the_selected_are_told_of_when_asked() -> None:
    books = [
        book_of(Entry(id="a", content="x", constant=True), Entry(id="b", content="y"), name="1"),
        book_of(Entry(id="c", content="z", constant=True), name="2"),
    ]
    for explain, decided in (("selected", ["a", "c"]), ("none", [])):
        request = SelectRequest(books=[b.ref for b in books], query="q", explain=explain)
        assert [d.entry_id for d in select(books, request).decisions] == decided


def test_messages_are_of_the_contract() -> None:
    book = book_of(Entry(id="a", content="x", keys=["lamp"]))
    history = [Message(role="assistant", content="The lamp.")]
    request = SelectRequest(books=[book.ref], query="q", history=history)
    assert select([book], request).decisions[0].facts.message == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"\xff", "byte 0"),
        (b"[" * 101 + b"]" * 101, "deeper than 100"),
        (b'{"a": "\\"[", "b": ' + b"[" * 100 + b"]" * 100 + b"}", "deeper than 100"),
        (b"[NaN]", "NaN"),
        (b"[1e999]", "too large"),
        (b"[" + b"9" * 5000 + b"]", "digits"),
        (b"[1", "line 1"),
    ],
)
def test_what_is_no_json_is_refused_with_a_reason(text: bytes, why: str) -> None:
    with pytest.raises(MalformedJsonError, match=why):
        parse_json(text)


def test_brackets_in_strings_do_not_nest() -> None:
    assert parse_json(b'["' + b"[" * 200 + b'\\"[", [1.5]]') == ["[" * 200 + '"[', [1.5]]


def _nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("metadata", "fault"),
    [
        ({"a": float("inf")}, Fault("/metadata/a", "number must be finite")),
        ({"a": {"b": b"x"}}, Fault("/metadata/a/b", "must be a JSON value, is a Python bytes")),
        ({"a": {7: 1}}, Fault("/metadata/a", "member names must be text")),
        ({"a": {"x\0": 1}}, Fault("/metadata/a", "text must not contain U+0000")),
        ({"a": "x" * 65536}, Fault("/metadata", "must be at most 64 KiB as JSON, is 65544 bytes")),
    ],
)
def test_free_form_objects_hold_storable_json_only(metadata: object, fault: Fault) -> None:
    with pytest.raises(ValidationFailedError) as caught:
        parse_model(BookCreate, {"name": "B", "metadata": metadata})
    assert caught.value.faults == (fault,)


def test_free_form_objects_nest_to_a_hundred() -> None:
    parse_model(BookCreate, {"name": "B", "metadata": {"raw": _nested(99)}})
    with pytest.raises(ValidationFailedError, match="nesting must be at most 100"):
        parse_model(BookCreate, {"name": "B", "metadata": {"raw": _nested(100)}})


def test_exists_takes_a_boolean_only_and_ids_no_control_characters() -> None:
    conditions = [{"path": "a", "op": "exists", "value": 1}]
    document = {"name": "B", "entries": [{"id": "a\n", "content": "", "conditions": conditions}]}
    with pytest.raises(ValidationFailedError) as caught:
        parse_model(BookCreate, document)
    assert {fault.pointer for fault in caught.value.faults} == {
        "/entries/0/id",
        "/entries/0/conditions/0/value",
    }
