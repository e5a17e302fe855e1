"""The field `scene` of the routes: a turn, its preview, its ledger, the client and faults."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lorewell.client.answers import activation, replica, selection
from lorewell.client.calls import Session
from lorewell.client.routes.turns import select_for_turn
from lorewell.model import Scene, SelectRequest
from lorewell.model.parse import parse_model
from replica_books import conditional, constant
from replica_service import keep
from service import Api, Json, places

SCENE: Json = {
    "tables": {"力量": 15},
    "names": {"char": "沈七"},
    "character": {"file": "沈七.png", "tags": ["sea"]},
    "trigger": "swipe",
    "seed": "7",
    "audience": "actor",
}
NATIVE = [
    {"id": "named", "content": "{{char}} 与 {{user}}", "constant": True},
    {"id": "strong", "content": "力气大。", "constant": True, "conditions_text": ["tb.力量 > 9"]},
]
WORLD = {
    "0": {"uid": 0, "content": "{{char}}", "constant": True, "triggers": ["swipe"]},
    "1": {"uid": 1, "content": "F", "constant": True, "characterFilter": {"names": ["沈七"]}},
}
REPLICA = [constant("named", content="{{char}}"), conditional("strong", "tb.力量 > 9")]


def ask(api: Api, path: str, body: Json) -> Json:
    answer = api("POST", path, json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def ledger(api: Api, path: str) -> Json:
    """Return the ledger of a turn that was written to the store."""
    api.run(api.app.state.shared.services.keeper.flush())
    answer = api("GET", path)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_native_selection_takes_a_scene(api: Api) -> None:
    ref = {"book_id": api.create({"name": "渡口", "entries": NATIVE})}
    body = {"books": [ref], "query": "?", "scene": SCENE}
    found = ask(api, "/v1/context/select", body)
    assert [each["entry_id"] for each in found["blocks"]] == ["strong"]
    unused, missing = found["warnings"][:-1], found["warnings"][-1]
    assert [each["member"] for each in unused] == ["character.file", "character.tags", "trigger"]
    assert missing["entry"] == f"{ref['book_id']}:1:named"
    assert (missing["code"], missing.get("member")) == ("value_missing", None)
    own = {"state": {"力量": 15}, "template_vars": {"char": "沈七"}, "seed": "7"}
    direct = ask(api, "/v1/context/select", {"books": [ref], "query": "?", **own})
    assert direct["selection_fingerprint"] == found["selection_fingerprint"]
    preview = ask(api, "/v1/context/preview", body)
    assert {**preview, "duration_ms": 0} == {**found, "duration_ms": 0}
    opened = ledger(api, f"/v1/selections/{found['selection_fingerprint']}")
    # The same selection by its own fields was kept under the same name, and uses all it is given.
    assert {**opened, "duration_ms": 0} == {**direct, "duration_ms": 0}
    ask(api, "/v1/context/select", body)
    opened = ledger(api, f"/v1/selections/{found['selection_fingerprint']}")
    assert opened["warnings"] == found["warnings"]
    assert selection(json.dumps(found).encode()).warnings[-1].entry == missing["entry"]


def test_an_activation_takes_a_scene(api: Api) -> None:
    body = {
        "books": [{"name": "雾", "entries": WORLD}],
        "chat": [{"content": "x"}],
        "context_tokens": 4096,
        "scene": SCENE,
    }
    found = ask(api, "/v1/sillytavern/activate", body)
    assert [each["content"] for each in found["activated"]] == ["沈七", "F"]
    assert [each["member"] for each in found["warnings"]] == ["tables", "audience"]
    assert ask(api, "/v1/sillytavern/preview", body) == found
    assert activation(json.dumps(found).encode()).warnings[0].member == "tables"
    off = ask(api, "/v1/sillytavern/activate", {**body, "scene": {"enabled": False}})
    assert off["activated"] == []


def test_a_replica_turn_takes_a_scene(api: Api) -> None:
    body = {"worldBookData": {"globalBooks": [{"id": keep(api, REPLICA)}]}, "scene": SCENE}
    found = ask(api, "/v1/replica/activate", body)
    assert [each["uid"] for each in found["entries"]] == ["named", "strong"]
    codes = {each["code"] for each in found["warnings"]}
    assert codes == {"scene_unused"}
    opened = ledger(api, f"/v1/replica/activations/{found['activation_id']}")
    assert opened == found
    own = {"dynamicTableData": {"currentValues": {"力量": 15}}, "char": "沈七", "seed": "7"}
    direct = ask(api, "/v1/replica/activate", {"worldBookData": body["worldBookData"], **own})
    assert direct["activation_id"] == found["activation_id"]
    assert direct["entries"] == found["entries"]
    preview = ask(api, "/v1/replica/preview", body)
    assert preview["entries"] == found["entries"]
    assert replica(json.dumps(found).encode()).warnings[0].code == "scene_unused"


@pytest.mark.parametrize(
    ("path", "body", "at"),
    [
        ("/v1/context/select", {"books": [{"book_id": "x"}], "query": "?"}, "/scene/seed"),
        ("/v1/context/preview", {"books": [{"book_id": "x"}], "query": "?"}, "/scene/seed"),
        ("/v1/sillytavern/activate", {"context_tokens": 9}, "/scene/seed"),
        ("/v1/sillytavern/preview", {"context_tokens": 9}, "/scene/seed"),
        ("/v1/replica/activate", {}, "/scene/seed"),
        ("/v1/replica/preview", {}, "/scene/seed"),
    ],
)
def test_faults_name_their_place(api: Api, path: str, body: Json, at: str) -> None:
    twice: Any = api("POST", path, json={**body, "seed": "1", "scene": {"seed": "1"}})
    assert (twice.status_code, places(twice)) == (422, [at])
    unknown = api("POST", path, json={**body, "scene": {"mood": 1}})
    assert (unknown.status_code, places(unknown)) == (422, ["/scene/mood"])


def test_the_client_sends_only_what_a_scene_gives() -> None:
    request = parse_model(
        SelectRequest,
        {"books": [{"book_id": "x"}], "query": "?", "scene": parse_model(Scene, SCENE)},
    )
    call = select_for_turn(Session(tenant_id="demo"), request)
    assert json.loads(call.content or b"")["scene"] == SCENE
