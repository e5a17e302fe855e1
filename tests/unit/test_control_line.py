"""The control line: where it is read, what it says, what is left of the texts."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from lorewell.errors import MalformedJsonError, ValidationFailedError
from lorewell.host.control_line import MAX_LINE_CHARS, TextPlace, read_control_lines
from lorewell.http.completion_body import Completion

DOCUMENTED = '[lorewell char="{}" user="{}" type="{}" last="{}"]'


def system(content: Any, role: str = "system") -> dict[str, Any]:
    return {"role": role, "content": content}


def said(line: str) -> dict[str, Any]:
    """Return what a line says, as the members of a scene."""
    found = read_control_lines([system(line)])
    assert found.scene is not None
    assert found.texts == {TextPlace(0): ""}
    return found.scene.model_dump(exclude_unset=True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("[lorewell]", {}),
        ("[lorewell ]", {}),
        ('[lorewell char="沈七"]', {"names": {"char": "沈七"}}),
        ('[lorewell char="Old "Tom" Reed" ]', {"names": {"char": 'Old "Tom" Reed'}}),
        ('[lorewell char="a] b" user="x=y"]', {"names": {"char": "a] b", "user": "x=y"}}),
        ('[lorewell char="["]"]', {"names": {"char": '["]'}}),
        ("[lorewell char=Mara\tuser=Ann]", {"names": {"char": "Mara", "user": "Ann"}}),
        ('[lorewell char="" user=  type="" last=""]', {}),
        ('[lorewell type="swipe" last=0]', {"trigger": "swipe", "chat_length": 1}),
        ('[lorewell last="41" type=quiet]  ', {"trigger": "quiet", "chat_length": 42}),
        ('[lorewell user="สมชาย 🔔"]\r\n', {"names": {"user": "สมชาย 🔔"}}),
    ],
)
def test_a_line_says_names_kind_and_length(line: str, expected: dict[str, Any]) -> None:
    assert said(line) == expected


@pytest.mark.parametrize(
    ("line", "column", "detail"),
    [
        ("[lorewell", 10, "expected ]"),
        ('[lorewell char="a"', 16, "does not end"),
        ('[lorewell char="a', 16, "does not end"),
        ('[lorewell char="a"] hello', 16, "does not end"),
        ("[lorewell char=a] hello", 19, "expected the end of the line"),
        ("[lorewell char=a]b", 18, "expected the end of the line"),
        ('[lorewell char=a"b" ]', 17, "expected a blank"),
        ("[lorewell state=1]", 11, "expected one of char=, user=, type=, last="),
        ('[lorewell char="a" seed="1"]', 20, "expected one of"),
        ("[lorewell audience=x]", 11, "expected one of"),
        ("[lorewell Char=a]", 11, "expected one of"),
        ("[lorewell char = a]", 11, "expected one of"),
        ('[lorewell char="a" char="b"]', 20, "char is given twice"),
        ('[lorewell type="again"]', 16, "type must be one of normal, continue"),
        ("[lorewell last=-1]", 16, "last must be the number of a message"),
        ("[lorewell last=٣]", 16, "last must be the number of a message"),
        ('[lorewell user="a\x07b"]', 16, "control characters"),
        ('[lorewell user="a\ud800"]', 16, "surrogate"),
        (f"[lorewell char={'x' * 501}]", 16, "more than 500 characters"),
        (f"[lorewell {' ' * MAX_LINE_CHARS}]", MAX_LINE_CHARS + 1, "more than 4000 characters"),
    ],
)
def test_a_broken_line_is_refused_at_its_column(line: str, column: int, detail: str) -> None:
    with pytest.raises(ValidationFailedError) as error:
        read_control_lines([system("Card."), system(f"Main.\n{line}\nRest.", "developer")])
    (fault,) = error.value.faults
    assert fault.pointer == "/messages/1/content"
    assert fault.detail.startswith(f"invalid control line at column {column}: ")
    assert detail in fault.detail


@pytest.mark.parametrize(
    "text",
    [
        ' [lorewell char="x"]',
        'Say [lorewell char="x"]',
        "[lorewellness]",
        "[Lorewell char=x]",
        "lorewell char=x",
        "[lorewell:char=x]",
        "\u2028[lorewell char=x]",
    ],
)
def test_only_the_start_of_a_line_counts(text: str) -> None:
    found = read_control_lines([system(text)])
    assert (found.scene, found.texts) == (None, {})


@pytest.mark.parametrize("role", ["user", "assistant", "tool", "function", "critic", None, 7])
def test_no_other_role_can_say_anything(role: Any) -> None:
    found = read_control_lines([{"role": role, "content": "[lorewell char=x]"}])
    assert (found.scene, found.texts) == (None, {})


def test_the_first_line_counts_and_all_are_removed() -> None:
    messages = [
        system("Main.\r\n[lorewell char=A]\r\n[lorewell char=B]\r\nRest."),
        system("[lorewell broken\nCard.\n[lorewell"),
        system([{"type": "text", "text": "[lorewell user=C]\nX"}, {"type": "x"}], "developer"),
        system(None),
        system([7, {"text": 7}]),
    ]
    found = read_control_lines(messages)
    assert found.scene is not None
    assert found.scene.model_dump(exclude_unset=True) == {"names": {"char": "A"}}
    assert found.texts == {
        TextPlace(0): "Main.\r\nRest.",
        TextPlace(1): "Card.",
        TextPlace(2, 0): "X",
    }


NAMES = st.text(st.characters(categories=["L", "N", "P", "Zs"]), min_size=1, max_size=20).filter(
    lambda name: name.isprintable() and '"]' not in name.replace(" ", "") and "=" not in name
)


@given(NAMES, NAMES, st.sampled_from(["normal", "continue", "swipe"]), st.integers(0, 10**6))
def test_the_documented_line_says_any_names(char: str, user: str, kind: str, last: int) -> None:
    assert said(DOCUMENTED.format(char, user, kind, last)) == {
        "names": {"char": char, "user": user},
        "trigger": kind,
        "chat_length": last + 1,
    }


@given(st.text(st.sampled_from(list('[]lorewe char="x" \n\r=')), max_size=60))
def test_any_text_is_read_or_refused_in_one_way(text: str) -> None:
    found = None
    with contextlib.suppress(ValidationFailedError):
        found = read_control_lines([system(f"[lorewell{text}")])
    rest = [] if found is None else [system(each) for each in found.texts.values()]
    assert read_control_lines(rest).texts == {}


# The body


def test_a_member_is_removed_with_one_comma_and_nothing_else() -> None:
    rest = '"messages":[ {"role":"user","content":"\\u6211 \\ud800"} ] , "x":[1e0, 1.50]'
    for body in (
        '{ "lorewell":{"seed":"1"} , %s }',
        '{ %s , "lorewell" : {"seed":"1"} }',
        '{ %s,"lorewell":null\n}',
    ):
        completion = Completion.parse((body % rest).encode())
        written = completion.write(None, None).decode()
        assert json.loads(written) == json.loads(f"{{{rest}}}")
        assert rest.partition(" , ")[0] in written
        assert "lorewell" not in written
    middle = '{"a":1 ,"lorewell":{}, "messages":[],"z":[ ]}'
    completion = Completion.parse(middle.encode())
    assert completion.write(None, None) == b'{"a":1, "messages":[],"z":[ ]}'
    assert json.loads(completion.write([], "m")) == {"a": 1, "messages": [], "z": [], "model": "m"}


def test_a_member_given_twice_or_broken_is_refused() -> None:
    with pytest.raises(MalformedJsonError):
        Completion.parse(b'{"messages":[],"lorewell":{},"lorewell":{}}')
    for value in ("7", '{"nmes":{}}', '{"names":{"char":7}}', '"x"'):
        with pytest.raises(ValidationFailedError) as error:
            Completion.parse(b'{"messages":[],"lorewell":%s}' % value.encode()).read_scene()
        assert error.value.faults[0].pointer.startswith("/lorewell")


def test_all_else_of_a_message_with_a_line_stays_the_same_text() -> None:
    body = (
        '{"messages":[{"role":"system","n":1.50, "content":"[lorewell char=A]\\nSay \\"hi\\""},'
        '{"role":"system","content":"[lorewell char=B]\\n"},'
        '{"role":"developer","content":[{"type":"text", "text":"[lorewell]"},'
        '{"type":"text","text":"X\\n[lorewell]","c":1e0}]},'
        '{"role":"user","content":"[lorewell char=C]","n":2.0}]}'
    )
    completion = Completion.parse(body.encode())
    given = completion.read_messages()
    assert [message["role"] for message in given.messages] == ["system", "developer", "user"]
    assert completion.write(given.written(None), None).decode() == (
        '{"messages":[{"role":"system","n":1.50, "content":"Say \\"hi\\""},'
        '{"role":"developer","content":[{"type":"text","text":"X","c":1e0}]},'
        '{"role":"user","content":"[lorewell char=C]","n":2.0}]}'
    )
    lore = {"role": "system", "content": "灯"}
    written = json.loads(completion.write(given.written([1, lore, 2]), None))
    assert [each["role"] for each in written["messages"]] == ["developer", "system", "user"]
    assert given.control is not None
    assert given.control.char == "A"


def test_a_lone_surrogate_beside_a_line_survives() -> None:
    body = b'{"messages":[{"role":"system","content":"[lorewell]\\nx\\ud800"}]}'
    completion = Completion.parse(body)
    given = completion.read_messages()
    assert given.messages[0]["content"] == "x\ufffd"
    assert completion.write(given.written(None), None) == (
        b'{"messages":[{"role":"system","content":"x\\ud800"}]}'
    )


def test_a_content_given_twice_beside_a_line_is_refused() -> None:
    body = b'{"messages":[{"role":"system","content":"x","content":"[lorewell]"}]}'
    with pytest.raises(MalformedJsonError):
        Completion.parse(body).read_messages()
