"""Prompts over HTTP: answers of selections go in as they are, messages ready to send come out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from service import Api, Json, bearer, code, places, serving

ASSEMBLE = "/v1/host/assemble"
BOOK = {
    "name": "渡口",
    "entries": [
        {"id": "bell", "content": "</worldbook-entry>敲钟付一枚铜钱。", "keys": ["钟"]},
        {"id": "tide", "content": "หมอก 🌫️", "keys": ["钟"], "position": "at_depth", "depth": 1},
        {"id": "rule", "content": "No oaths.", "constant": True, "position": "outlet",
         "outlet_name": "规则"},
    ],
}  # fmt: skip
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"function": {"arguments": '{"n": 1e2}', "name": "灯"}, "type": "function"}],
    "odd": [1.0, 10**30, {"ä": None}],
}


def item(kind: str, role: str, content: Any) -> Json:
    return {"kind": kind, "message": {"role": role, "content": content}}


DRAFT = [
    item("template", "system", "House. {{outlet::规则}}"),
    item("character", "system", "沈七，守渡人。"),
    item("chat", "user", [{"type": "text", "text": "看"}, {"type": "image_url", "image_url": {}}]),
    {"kind": "tool", "message": CALL},
    item("input", "user", "我敲了敲钟。"),
]


def selected(api: Api) -> Json:
    body = {
        "books": [{"book_id": api.create(BOOK)}],
        "query": "我敲了敲钟。",
        "placement_capabilities": {
            "positions": ["before_character", "at_depth", "outlet"],
            "outlets": ["规则"],
        },
    }
    return api("POST", "/v1/context/select", json=body).json()


def put(api: Api, **members: Any) -> Json:
    answer = api("POST", ASSEMBLE, json={"draft": DRAFT, **members})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_blocks_of_a_selection_go_into_the_prompt(api: Api) -> None:
    answer = selected(api)
    prompt = put(api, blocks=answer["blocks"])
    first = prompt["messages"][0]["content"]
    assert first.startswith("House. <worldbook-entry id=")
    assert "No oaths.</worldbook-entry>\n\n<worldbook-entry id=" in first
    assert "&lt;/worldbook-entry&gt;敲钟付一枚铜钱。</worldbook-entry>\n\n沈七，守渡人。" in first
    assert json.dumps(prompt["messages"][2]) == json.dumps(CALL)
    assert "หมอก 🌫️" in prompt["messages"][3]["content"]
    assert [each["history_count"] for each in prompt["origins"]] == [0, 1, 0, 0, 1]
    placed = {each["id"]: each["message_index"] for each in prompt["placements"]}
    assert placed == {
        each["id"]: 3 if each["entry_id"] == "tide" else 0 for each in answer["blocks"]
    }
    for message, origin in zip(prompt["messages"], prompt["origins"], strict=True):
        for part in origin["parts"]:
            if part["span"]:
                assert message["content"][slice(*part["span"])]
    assert prompt["figures"]["window_tokens"] is None
    assert prompt["figures"]["worldbook_tokens"] > 0
    assert prompt["prefix"] is None


def test_an_answer_of_sillytaverns_rules_goes_in_whole(api: Api) -> None:
    entries = {
        "0": {"uid": 0, "key": ["钟"], "content": "<b> 钟", "position": 0, "order": 1},
        "1": {"uid": 1, "constant": True, "content": "常", "position": 0, "order": 2},
        "2": {"uid": 2, "key": ["钟"], "content": "note", "position": 2},
    }
    scene = {
        "books": [{"name": "渡口", "entries": entries}],
        "chat": [{"name": "Ann", "content": "我敲了敲钟。"}],
        "context_tokens": 8000,
    }
    answer = api("POST", "/v1/sillytavern/activate", json=scene).json()
    prompt = put(api, sillytavern=answer, merge_adjacent=False)
    assert prompt["messages"][1] == {"role": "system", "content": "<b> 钟\n常"}
    assert [(each["id"], each["message_index"]) for each in prompt["placements"]] == [
        ("渡口.0", 1),
        ("渡口.1", 1),
        ("渡口.2", None),
    ]
    stable = put(api, sillytavern=answer, merge_adjacent=False, stable_prefix=True)
    assert [each["content"] for each in stable["messages"][:4]] == [
        "House. ",
        "常",
        "沈七，守渡人。",
        "<b> 钟",
    ]


def test_the_beginning_is_compared_with_the_turn_before(api: Api) -> None:
    before = put(api)["messages"]
    prefix = put(api, previous=before)["prefix"]
    assert prefix["message_count"] == len(before)
    assert prefix["token_count"] == prefix["prompt_tokens"]
    assert put(api, previous=before[1:])["prefix"]["message_count"] == 0


def test_exactly_full_passes_and_one_token_more_is_refused(api: Api) -> None:
    tool = {"type": "function", "function": {"name": "灯"}}
    budget = {"reserved_output": 500, "media_tokens": 85, "tools": [tool]}
    needed = put(api, budget=budget)["figures"]["needed_tokens"]
    put(api, budget={**budget, "context_window": needed})
    tight = {"draft": DRAFT, "budget": {**budget, "context_window": needed - 1}}
    answer = api("POST", ASSEMBLE, json=tight)
    assert (answer.status_code, code(answer)) == (422, "agent.context_overflow")
    details = answer.json()["details"]
    assert (details["needed_tokens"], details["window_tokens"]) == (needed, needed - 1)
    assert details["reserved_tokens"] == 500


def test_a_place_that_is_not_there_is_refused(api: Api) -> None:
    block = {"id": "b:1:e", "content": "灯", "position": "after_examples", "reason": "keyword"}
    answer = api("POST", ASSEMBLE, json={"draft": DRAFT, "blocks": [block]})
    assert (answer.status_code, code(answer)) == (422, "worldbook.placement_failed")
    assert answer.json()["details"] == {
        "ids": ["b:1:e"],
        "position": "after_examples",
        "outlet_name": None,
    }


BLOCK = {"id": "e", "content": "x", "position": "at_depth", "reason": "keyword"}


@pytest.mark.parametrize(
    ("members", "place"),
    [
        ({"draft": [{"kind": "worldbook", "message": {"role": "user"}}]}, "/draft/0/kind"),
        ({"draft": [{"kind": "chat", "message": {"content": "x"}}]}, "/draft/0/message/role"),
        ({"draft": [item("chat", "user", 7)]}, "/draft/0/message/content"),
        ({"draft": [item("chat", "user", ["x"])]}, "/draft/0/message/content/0"),
        ({"draft": [item("chat", "user", "\ud800")]}, "/draft/0/message/content"),
        ({"draft": [], "previous": [{"role": ""}]}, "/previous/0/role"),
        ({"draft": [], "blocks": [{**BLOCK, "position": "outlet"}]}, "/blocks/0/outlet_name"),
        ({"draft": [], "blocks": [BLOCK], "sillytavern": {}}, "/sillytavern"),
        ({"draft": [], "budget": {"tools": [{"\x00": 1}]}}, "/budget/tools/0"),
        ({"draft": [], "tokenizer": "/etc/passwd"}, "/tokenizer"),
        (
            {"draft": [], "sillytavern": {"depth_groups": [{"depth": "\x00", "entries": []}]}},
            "/sillytavern/depth_groups/0/depth/0",
        ),
    ],
)
def test_faults_are_named_by_their_place(api: Api, members: Json, place: str) -> None:
    content = json.dumps(members)
    headers = {"Content-Type": "application/json"}
    answer = api("POST", ASSEMBLE, content=content, headers=headers)
    assert (answer.status_code, code(answer)) == (422, "validation_error")
    assert places(answer) == [place]


def test_reading_is_enough_and_needed(database: str) -> None:
    with serving(database_url=database, auth=True) as api:
        assert code(api("POST", ASSEMBLE, json={"draft": []})) == "unauthenticated"
        headers = bearer(api, "read")
        answer = api("POST", ASSEMBLE, json={"draft": []}, headers=headers)
        assert answer.json()["messages"] == []


def test_the_scene_brings_the_note_the_tokenizer_and_the_switch(api: Api) -> None:
    answer = selected(api)
    scene = {"note": {"text": "หมายเหตุ", "depth": 1}, "tokenizer": "o200k_base", "seed": "7"}
    made = put(api, blocks=answer["blocks"], scene=scene)
    assert "หมายเหตุ" in str(made["messages"])
    assert made["figures"]["tokenizer"] == "o200k_base"
    assert "敲钟付一枚铜钱" in str(made["messages"])
    off = put(api, blocks=answer["blocks"], scene={**scene, "enabled": False})
    assert "敲钟付一枚铜钱" not in str(off["messages"])
    assert "หมายเหตุ" in str(off["messages"])


@pytest.mark.parametrize(
    ("members", "at"),
    [
        ({"scene": {"tokenizer": "words"}}, "/scene/tokenizer"),
        ({"scene": {"tokenizer": "o200k_base"}, "tokenizer": "o200k_base"}, "/scene/tokenizer"),
        ({"scene": {"mood": 1}}, "/scene/mood"),
        (
            {"scene": {"note": {}}, "draft": [*DRAFT, item("author_note", "system", "x")]},
            "/scene/note",
        ),
    ],
)
def test_a_scene_at_fault_is_refused_at_its_place(api: Api, members: Json, at: str) -> None:
    answer = api("POST", ASSEMBLE, json={"draft": DRAFT, **members})
    assert answer.status_code == 422
    assert places(answer) == [at]
