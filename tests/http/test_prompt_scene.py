"""Default values of the scene, which the settings of a prompt hold."""

from __future__ import annotations

from typing import Any

import pytest

from served import Tenant, server_fixture, tenant_fixture  # noqa: F401  fixtures are used by name
from service import Json

NATIVE = {
    "name": "N",
    "entries": [
        {"id": "a", "content": "{{char}} waits, 灯亮着。", "constant": True},
        {"id": "b", "content": "Storm.", "constant": True, "conditions_text": ["tb.storm = true"]},
    ],
}
SCENE = {"names": {"char": "Mara"}, "persona": "A ferryman.", "state": {"storm": True}}


def bind(tenant: Tenant, book: Json, policy: str, scene: Json = SCENE) -> Any:
    body = {
        "bindings": [{"book_id": tenant.create(book)}],
        "policy": policy,
        "settings": {"scene": scene},
    }
    return tenant("PUT", "/v1/prompt-bindings", params={"prompt_id": "p"}, json=body)


def activate(tenant: Tenant, **members: Any) -> Json:
    body = {"chat": [{"content": "hi"}], "context_tokens": 4_000, "prompt_id": "p", **members}
    answer = tenant("POST", "/v1/sillytavern/activate", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_prompt_gives_what_its_turns_leave_open(tenant: Tenant) -> None:
    book = {**NATIVE, "entries": [{**NATIVE["entries"][0], "content": "{{char}}/{{persona}}"}]}
    assert bind(tenant, book, "sillytavern").status_code == 200
    found = activate(tenant)
    assert [each["content"] for each in found["activated"]] == ["Mara/A ferryman."]
    assert found["warnings"] == []
    named = activate(tenant, macros={"char": "Ode"})
    assert named["activated"][0]["content"] == "Ode/A ferryman."
    said = activate(tenant, scene={"names": {"char": "雾"}})
    assert said["activated"][0]["content"] == "雾/A ferryman."


def test_a_preview_of_a_native_prompt_uses_it(tenant: Tenant) -> None:
    bound = bind(tenant, NATIVE, "native").json()
    assert bound["settings"] == {"scene": SCENE}
    book_id = bound["bindings"][0]["book_id"]
    body = {"books": [{"book_id": book_id}], "query": "hi", "prompt_id": "p"}
    found = tenant("POST", "/v1/context/preview", json=body).json()
    assert "Mara waits, 灯亮着。" in found["context"]
    assert "Storm." in found["context"]
    calm = tenant("POST", "/v1/context/preview", json={**body, "state": {"storm": False}}).json()
    assert "Storm." not in calm["context"]


@pytest.mark.parametrize("member", ["seed", "note", "trigger", "chat_length"])
def test_values_of_one_turn_are_refused(tenant: Tenant, member: str) -> None:
    value = {"seed": "7", "note": {"text": "x"}, "trigger": "swipe", "chat_length": 3}[member]
    answer = bind(tenant, NATIVE, "native", {member: value})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == f"/settings/scene/{member}"


def test_a_replay_uses_it(tenant: Tenant) -> None:
    book = {"name": "R", "entries": [{"id": "a", "content": "{{char}}.", "keys": ["灯"]}]}
    scene = {"names": {"char": "Mara", "user": "Ann"}}
    assert bind(tenant, book, "sillytavern", scene).status_code == 200
    chat = [{"name": "Ann", "content": "灯"}, {"name": "Mara", "content": "…"}]
    body: Json = {"chat": chat, "context_tokens": 4_000, "prompt_id": "p"}

    def turns(**members: Any) -> list[int]:
        asked = {**body, "turns_after": "user_messages", **members}
        answer = tenant("POST", "/v1/sillytavern/replay", json=asked)
        assert answer.status_code == 200, answer.text
        return [each["messages"] for each in answer.json()["turns"]]

    assert turns() == [1]
    assert turns(macros={"user": "Mara"}) == [2]


def test_a_prompt_names_the_tokenizer_of_its_lore(tenant: Tenant) -> None:
    name = "gpt-3.5-turbo-0301"  # whose vocabulary is that of the service's own
    settings = {"sillytavern": {"tokenizer": name}, "scene": {"tokenizer": name}}
    body = {"bindings": [{"book_id": tenant.create(NATIVE)}], "policy": "sillytavern"}
    params = {"prompt_id": "p"}

    def put(settings: Json) -> Any:
        bound = {**body, "settings": settings}
        return tenant("PUT", "/v1/prompt-bindings", params=params, json=bound)

    assert put(settings).json()["settings"] == settings
    found = activate(tenant)
    assert found["budget"]["tokenizer"] == name
    assert {each["code"] for each in found["warnings"]} == {"value_missing"}  # of {{char}}
    own = activate(tenant, tokenizer="cl100k_base")
    assert own["budget"]["tokenizer"] == "cl100k_base"
    for member in ("sillytavern", "scene"):
        refused = put({member: {"tokenizer": "/etc/passwd"}})
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["pointer"] == f"/settings/{member}/tokenizer"
