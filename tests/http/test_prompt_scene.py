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
