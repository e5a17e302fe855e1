"""The page /demo: bindings, a chat with its traces, and no way to change anything."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from lorewell.model.scene import Scene, SceneCharacter, SceneNames, SceneNote
from service import Api, bearer, code, places, serving

BELL = {"id": "bell", "title": "钟", "keys": ["钟"], "content": "LORE 钟归沈七管。"}
BOOK = {"name": "渡口", "entries": [BELL, {"id": "tide", "keys": ["潮"], "content": "LORE 潮。"}]}
CHAT = "/demo/api/chat"


@pytest.fixture(name="demo")
def demo_fixture(database: str) -> Iterator[Api]:
    with serving(database_url=database, demo_tenant="demo") as api:
        yield api


def bound(api: Api, prompt_id: str = "ferry") -> str:
    book_id = api.create(BOOK)
    body = {"bindings": [{"book_id": book_id}]}
    api("PUT", "/v1/prompt-bindings", params={"prompt_id": prompt_id}, json=body)
    return book_id


def say(api: Api, said: str, *, conversation: str = "c1", prompt: str = "ferry") -> object:
    body = {"conversation_id": conversation, "prompt_id": prompt, "input": said}
    answer = api("POST", CHAT, tenant=None, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_it_is_off_unless_a_tenant_is_named(api: Api) -> None:
    for method, path in (("GET", "/demo"), ("GET", "/demo/api/bindings"), ("POST", CHAT)):
        assert code(api(method, path, tenant=None)) == "not_found"


def test_the_page_runs_its_own_script_alone(demo: Api) -> None:
    answer = demo("GET", "/demo", tenant=None)
    assert answer.headers["Content-Type"].startswith("text/html")
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert policy.count("sha256-") == 2
    assert not re.search(r"(?:https?:)?//\w", answer.text)
    assert not re.search(r"innerHTML|\son\w+=|style=", answer.text)
    assert "由脚本模型回复" in answer.text
    assert "A scripted model replies" in answer.text


def test_bindings_are_shown(demo: Api) -> None:
    book_id = bound(demo)
    params = {"prompt_id": "ferry"}
    answer = demo("GET", "/demo/api/bindings", tenant=None, params=params).json()
    assert [each["book_id"] for each in answer["bindings"]] == [book_id]
    assert places(demo("GET", "/demo/api/bindings", tenant=None)) == ["prompt_id"]


def test_a_reply_comes_with_what_was_injected_and_why(demo: Api) -> None:
    bound(demo)
    reply = say(demo, "我敲钟。")
    assert reply["reply"] == "你说：“我敲钟。”我想到：钟。"
    trace = reply["trace"]
    assert trace["replyId"] == reply["reply_id"] == trace["requestId"]
    assert {each["entry_id"]: each["reason"] for each in trace["decisions"]} == {
        "bell": "keyword",
        "tide": "not_triggered",
    }
    assert [each["id"].rpartition(":")[2] for each in trace["placements"]] == ["bell"]
    assert "LORE" not in str(reply)
    following = say(demo, "然后呢？")
    assert following["trace"]["history_count"] == 2
    assert following["reply_id"] != reply["reply_id"]
    assert say(demo, "钟？", prompt="empty", conversation="c2")["trace"]["skipped"] == "no_bindings"


def test_a_conversation_keeps_its_prompt(demo: Api) -> None:
    say(demo, "hello")
    body = {"conversation_id": "c1", "prompt_id": "other", "input": "hello"}
    answer = demo("POST", CHAT, tenant=None, json=body)
    assert (answer.status_code, code(answer)) == (409, "worldbook.conversation_mismatch")


def test_chats_in_memory_are_bounded(demo: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lorewell.http.routes.demo._MAX_CONVERSATIONS", 2)
    monkeypatch.setattr("lorewell.http.routes.demo._MAX_MESSAGES", 4)
    for number in range(4):
        say(demo, f"one {number}", conversation=f"c{number}")
    for number in range(4):
        say(demo, f"two {number}", conversation="c3")
    assert len(demo.app.state.demo.past("c3")) == 4
    assert demo.app.state.demo.past("c0") == []


def test_34_nothing_can_be_imported_or_bound(demo: Api) -> None:
    paths = ("", "/", "/imports", "/books", "/prompt-bindings", "/bindings/x", "/chat/x")
    for path in paths:
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            answer = demo(method, f"/demo/api{path}", tenant=None, json={})
            assert answer.status_code == 404, (method, path)
    allowed = {"/bindings": "GET", "/chat": "POST"}
    for path, its_own in allowed.items():
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - {its_own}:
            answer = demo(method, f"/demo/api{path}", tenant=None)
            assert (answer.status_code, answer.headers["Allow"]) == (405, its_own)
    assert demo("POST", "/demo", tenant=None).status_code == 405


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, "/conversation_id"),
        ({"conversation_id": "c", "prompt_id": "p", "input": ""}, "/input"),
        ({"conversation_id": "c", "prompt_id": "p", "input": "x", "user_id": "me"}, "/user_id"),
        ({"conversation_id": "\n", "prompt_id": "p", "input": "x"}, "/conversation_id"),
    ],
)
def test_faults_are_named(demo: Api, body: object, place: str) -> None:
    assert place in places(demo("POST", CHAT, tenant=None, json=body))


def test_with_keys_the_demo_needs_one_too(database: str) -> None:
    with serving(database_url=database, demo_tenant="demo", auth=True) as api:
        body = {"conversation_id": "c", "prompt_id": "p", "input": "x"}
        assert code(api("POST", CHAT, tenant=None, json=body)) == "unauthenticated"
        reader, writer = bearer(api, "read"), bearer(api, "read", "write")
        assert code(api("POST", CHAT, tenant=None, json=body, headers=reader)) == "forbidden"
        assert code(api("POST", CHAT, tenant=None, json=body, headers=writer)) == "200"
        elsewhere = bearer(api, "read", "write", tenants=("other",))
        assert code(api("POST", CHAT, tenant=None, json=body, headers=elsewhere)) == "forbidden"


def test_a_foreign_page_can_not_chat(demo: Api) -> None:
    body = {"conversation_id": "c", "prompt_id": "p", "input": "x"}
    headers = {"Origin": "http://evil.example"}
    assert code(demo("POST", CHAT, tenant=None, json=body, headers=headers)) == "forbidden"


def test_a_message_may_come_with_a_scene(demo: Api) -> None:
    entry = {"id": "n", "constant": True, "content": "{{user}}", "conditions_text": ["tb.a = 1"]}
    book_id = demo.create({"name": "N", "entries": [entry]})
    body = {"bindings": [{"book_id": book_id}]}
    demo("PUT", "/v1/prompt-bindings", params={"prompt_id": "s"}, json=body)
    said = {"conversation_id": "s", "prompt_id": "s", "input": "x"}

    def trace(**scene: object) -> object:
        answer = demo("POST", CHAT, tenant=None, json={**said, "scene": scene})
        assert answer.status_code == 200, answer.text
        return answer.json()["trace"]

    full = trace(names={"user": "Ann"}, tables={"a": 1}, persona="x")
    assert [each["reason"] for each in full["placements"]] == ["constant"]
    assert [each["member"] for each in full["warnings"]] == ["persona"]
    (missing,) = trace(tables={"a": 1})["warnings"]
    assert missing["code"] == "value_missing"
    assert trace(enabled=False)["skipped"] == "disabled"
    refused = demo("POST", CHAT, tenant=None, json={**said, "scene": {"mood": 1}})
    assert places(refused) == ["/scene/mood"]


def test_the_form_has_a_field_for_each_member_of_a_scene(demo: Api) -> None:
    page = demo("GET", "/demo", tenant=None).text
    nested: dict[str, type[BaseModel]] = {
        "names": SceneNames,
        "character": SceneCharacter,
        "note": SceneNote,
    }
    members = {
        f"{name}.{each}" if each else name
        for name in Scene.model_fields
        for each in (nested[name].model_fields if name in nested else [""])
    }
    forms = re.findall(r"fields: \{(.*?)\}", page, re.DOTALL)
    assert len(forms) == 2
    for form in forms:
        names = re.findall(r'(?:^|[,\s])"?([a-z_.]+)"?: "', form)
        assert set(names) == members - {"character.name"}  # names.char says it
