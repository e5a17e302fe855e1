"""The parts of the gateway alone: what messages are, what stays of a body, what is remembered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from lorewell.app.gateway.scenes import ClientScene
from lorewell.app.runtime.gateway import KnownCounts, SentPrompt, SentPrompts
from lorewell.engine.tokens import counter
from lorewell.errors import MalformedJsonError, ValidationFailedError
from lorewell.host.completions import character_text, find_name, read_completion, spoken
from lorewell.http.completion_body import Completion
from lorewell.model.parse import parse_elements, parse_json, parse_members, parse_model
from lorewell.model.scene import Scene
from property.test_import import VALUES

CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}


def said(role: str, content: object = "x", **members: object) -> dict[str, Any]:
    return {"role": role, "content": content, **members}


def kinds(*messages: dict[str, Any]) -> str:
    return " ".join(item.kind for item in read_completion(messages))


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], ""),
        ([said("system"), said("developer"), said("user")], "character character input"),
        ([said("user"), said("assistant"), said("system")], "chat chat template"),
        (
            [said("user"), said("assistant"), said("user"), said("system")],
            "chat chat input template",
        ),
        ([said("user"), CALL, said("tool"), CALL, said("tool")], "input tool tool tool tool"),
        ([said("user"), said("assistant"), said("function")], "chat chat tool"),
        (
            [
                said("system"),
                said("system", name="example_user"),
                said("system", name="example_assistant"),
                said("system"),
                said("user"),
            ],
            "character examples examples template input",
        ),
        (
            [said("system"), said("system", name="character"), said("system", name="author_note")],
            "template character author_note",
        ),
        ([said("user", name="character"), said("critic")], "input template"),
        ([said("system", name=7), said("system", name="沈七")], "character character"),
    ],
)
def test_roles_and_names_tell_what_a_message_is(messages: list[Any], expected: str) -> None:
    assert kinds(*messages) == expected


def test_names_and_texts_of_a_chat_are_found() -> None:
    parts = [{"type": "text", "text": "灯"}, {"type": "image_url"}, {"type": "text", "text": "🔔"}]
    draft = read_completion(
        [
            said("system", "Card."),
            said("user", parts, name="Ann"),
            said("assistant", "Hm.", name="沈七"),
            said("user", "So?", name=""),
        ]
    )
    assert character_text(draft) == "Card."
    assert [(each.name, each.text) for each in spoken(draft)] == [
        ("Ann", "灯\n🔔"),
        ("沈七", "Hm."),
        (None, "So?"),
    ]
    assert find_name(draft, "assistant") == "沈七"
    assert find_name(draft, "user") is None  # it is not told who speaks now


@given(st.dictionaries(st.text(), VALUES, max_size=5), st.sampled_from([None, 1]))
def test_members_are_where_they_are_said_to_be(
    document: dict[str, Any], indent: int | None
) -> None:
    text = json.dumps(document, indent=indent)
    found = parse_members(text)
    assert {each.name: each.value for each in found} == parse_json(text.encode())
    for each in found:
        assert json.loads(text[slice(*each.span)]) == each.value


@given(st.lists(VALUES, max_size=5), st.sampled_from([None, 1]))
def test_elements_are_where_they_are_said_to_be(values: list[Any], indent: int | None) -> None:
    text = json.dumps(values, indent=indent)
    assert [json.loads(text[slice(*span)]) for span in parse_elements(text)] == values


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a"}', '{"a":}', '{"a":1', '{"a":1,}', "{,}", '{"a":1} x', '{"a":NaN}', "{'a':1}"],
)
def test_what_is_no_json_is_said(text: str) -> None:
    with pytest.raises(MalformedJsonError):
        parse_members(text)
    with pytest.raises(MalformedJsonError):
        parse_elements(text.replace("{", "[", 1))


@pytest.mark.parametrize("text", ["[1]", "null", ' "x"'])
def test_what_is_no_object_is_said(text: str) -> None:
    with pytest.raises(ValidationFailedError):
        parse_members(text)


def test_a_body_without_a_model_gets_one() -> None:
    body = Completion.parse(b'\xef\xbb\xbf { "messages": [] }')
    assert json.loads(body.write(None, "雾")) == {"model": "雾", "messages": []}
    assert body.write(None, None) == b' { "messages": [] }'


def test_odd_members_are_not_taken_for_what_they_are_not() -> None:
    text = (
        b'{"messages": [{"role": "user", "content": "\\ud800"}], "user": 7, "model": "\\u0000",'
        b' "max_tokens": true, "max_completion_tokens": -1, "tools": [1, {"a": "\\udfff"}]}'
    )
    body = Completion.parse(text)
    assert body.find_text("user") is None
    assert body.find_text("model") is None
    assert body.find_count("max_completion_tokens", "max_tokens") is None
    assert body.find_objects("tools") == [{"a": "\ufffd"}]
    assert body.find_objects("user") == []
    assert body.read_messages().messages == [{"role": "user", "content": "\ufffd"}]
    lore = {"role": "system", "content": "灯"}
    assert body.write([0, lore], None).startswith(
        b'{"messages": [{"role": "user", "content": "\\ud800"},'
        + json.dumps(lore, ensure_ascii=False, separators=(",", ":")).encode()
        + b"]"
    )


def test_the_layers_of_a_scene_have_an_order() -> None:
    def scene(char: str | None, **members: Any) -> Scene:
        return parse_model(Scene, {"names": {"char": char}, **members})

    said = ClientScene(
        member=scene(None, seed="m"),
        control=scene("L", trigger="swipe", seed="l"),
        char="H",
        user="H2",
    )
    bound = scene("B", audience="cast", trigger="quiet", names={"char": "B", "group": "G"})
    merged = said.merged(bound)
    assert merged is not None
    assert (merged.char, merged.user, merged.seed) == ("L", "H2", "m")
    assert (merged.trigger, merged.audience) == ("swipe", "cast")
    assert merged.names is not None
    assert merged.names.group == "G"
    speakers = said.speakers()
    assert speakers is not None
    assert (speakers.char, speakers.user) == ("L", None)
    assert ClientScene().merged() is None


def test_the_last_prompts_are_held_within_bounds() -> None:
    held = SentPrompts()
    for number in range(600):
        held.keep("t", str(number), SentPrompt(messages=({"n": number},), chars=100))
    assert held.find("t", "99") is None
    assert held.find("t", "100") == ({"n": 100},)
    assert held.find("other", "100") is None
    held.keep("t", "599", SentPrompt(messages=(), chars=1_000_001))
    assert held.find("t", "599") is None
    for number in range(30):
        held.keep("t", f"long {number}", SentPrompt(messages=(), chars=1_000_000))
    kept = [number for number in range(30) if held.find("t", f"long {number}") is not None]
    assert kept == list(range(14, 30))
    assert held.find("t", "598") is None


def test_known_counts_are_those_of_the_counter() -> None:
    plain = counter()
    known = KnownCounts(plain)
    assert known.name == plain.name
    for text in ("灯塔", "a lamp", "灯塔", "", "x " * 10, "🔔"):
        assert known.count(text) == plain.count(text)
    for number in range(40):
        known.count(f"{number} " + " " * 900_000)
    assert len(known._known) < 20
