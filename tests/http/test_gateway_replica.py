"""A book of SillyTavern_replica behind the gateway, in a host's turns, and on the demo page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chat_upstream import ChatUpstream, chat_upstream
from lorewell.app.turns import TenantLore
from lorewell.host import DraftMessage
from lorewell.model.worldbook import WorldbookConfig
from lorewell.turn import PreparedTurn, TurnHost, TurnInput
from replica_books import conditional, constant, keyed
from replica_service import bind, keep
from service import Api, Json, serving

PROMPT = "渡口"
SYSTEM = {"role": "system", "content": "沈七，守渡人。见闻：{{outlet::rumour}}"}
ASKS = {"role": "user", "content": "去灯塔看看 🔔"}
BEFORE = [{"role": "user", "content": "หมอกลงแล้ว"}, {"role": "assistant", "content": "是的。"}]
ENTRIES = [
    constant("law", content="入夜不点灯。", position=5),
    keyed("tower", "灯塔", content="{{char}} 看守灯塔。", position=4),
    keyed("fog", "หมอก", content="Fog lies on the mole.", position=6, depth=1, role=2),
    constant("rumour", content="钟丢了。", position=7),
    conditional("strong", "tb.hero.力量 > 10", "tb.bag 包括 灯", content="力大无穷。", position=1),
    keyed("king", "king", content="A king.", position=0),
]


@pytest.fixture
def upstream() -> Iterator[ChatUpstream]:
    with chat_upstream() as upstream:
        yield upstream


@pytest.fixture
def api(database: str, upstream: ChatUpstream) -> Iterator[Api]:
    with serving(
        database_url=database,
        gateway_upstream_url=upstream.url,
        gateway_tenant="demo",
        demo_tenant="demo",
    ) as api:
        bind(api, PROMPT, keep(api, ENTRIES))
        yield api


def complete(api: Api, *messages: Json) -> tuple[Json, Json]:
    """Return the headers of an answer, and the ledger that they point at."""
    answer = api(
        "POST",
        "/gateway/v1/chat/completions",
        tenant=None,
        json={"model": PROMPT, "messages": messages},
        headers={"X-Lorewell-Char": "%E6%B2%88%E4%B8%83"},
    )
    assert answer.status_code == 200, answer.text
    ledger = api("GET", answer.headers["X-Lorewell-Ledger"], tenant=None)
    assert ledger.status_code == 200, ledger.text
    return answer.headers, ledger.json()


def test_entries_go_to_their_places_and_the_ledger_is_that_turns(
    api: Api, upstream: ChatUpstream
) -> None:
    headers, ledger = complete(api, SYSTEM, *BEFORE, ASKS)
    assert headers["X-Lorewell-Policy"] == "replica"
    assert headers["X-Lorewell-Ledger"].startswith("/v1/replica/activations/")
    assert headers["X-Lorewell-Entries"] == "4"
    sent = upstream.requests[-1].body["messages"]
    assert [(each["role"], each["content"]) for each in sent] == [
        ("system", "入夜不点灯。"),
        ("system", "沈七，守渡人。见闻：钟丢了。"),
        ("user", "หมอกลงแล้ว"),
        ("assistant", "Fog lies on the mole."),
        ("assistant", "是的。"),
        ("system", "沈七 看守灯塔。"),
        ("user", "去灯塔看看 🔔"),
    ]
    assert [each["uid"] for each in ledger["entries"]] == ["tower", "law", "fog", "rumour"]
    reasons = {each["uid"]: each["reason"] for each in ledger["decisions"]}
    assert (reasons["king"], reasons["strong"]) == ("not_triggered", "not_triggered")


def turn_of(said: str, state: str = "") -> TurnInput:
    draft = [
        DraftMessage(kind="character", message=SYSTEM),
        *(DraftMessage(kind="chat", message=each) for each in BEFORE),
        DraftMessage(kind="input", message={"role": "user", "content": said}),
    ]
    return TurnInput(
        request_id="r1",
        user_id="用户",
        conversation_id="c",
        prompt_id=PROMPT,
        draft=draft,
        saved_state=state,
        char="沈七",
    )


def prepare(api: Api, given: TurnInput) -> PreparedTurn:
    lore = TenantLore(api.app.state.shared.services, "demo")
    config = WorldbookConfig(tenant_id="demo", trace_content=True)
    prepared: PreparedTurn = api.run(TurnHost(config, lore).begin(given).prepare())
    return prepared


def test_a_turn_has_the_state_as_its_table(api: Api) -> None:
    state = '{"hero": {"力量": 15}, "bag": ["灯", "绳"]}'
    prepared = prepare(api, turn_of("去灯塔", state))
    texts = [each["content"] for each in prepared.messages]
    assert texts[0] == "入夜不点灯。\n\n力大无穷。\n\n沈七，守渡人。见闻：钟丢了。"
    assert texts[-2:] == ["沈七 看守灯塔。", "去灯塔"]
    trace = prepared.trace.members()
    assert (trace["policy"], trace["query_chars"], trace["history_count"]) == ("replica", 3, 2)
    assert trace["selection"]["policy_version"] == "replica/1"
    reasons = {each["uid"]: each["reason"] for each in trace["decisions"]}
    assert (reasons["strong"], reasons["king"]) == ("condition", "not_triggered")
    shown = {each["id"].partition(":")[2]: each["content"] for each in trace["placements"]}
    assert shown["strong"] == "力大无穷。"
    weak = prepare(api, turn_of("去灯塔", state.replace("15", "10")))
    assert "力大无穷" not in str(weak.messages)


def test_a_turn_keeps_to_the_revision_that_is_bound(api: Api) -> None:
    (ref,) = prepare(api, turn_of("灯塔")).trace.books
    pinned = {"bindings": [{"book_id": ref.book_id, "revision": 1}], "policy": "replica"}
    api("PUT", "/v1/prompt-bindings", params={"prompt_id": PROMPT}, json=pinned)
    api.publish(ref.book_id, 1, {"name": "空", "entries": []})
    assert "看守灯塔" in str(prepare(api, turn_of("灯塔")).messages)
    followed = {"bindings": [{"book_id": ref.book_id}], "policy": "replica"}
    api("PUT", "/v1/prompt-bindings", params={"prompt_id": PROMPT}, json=followed)
    assert "看守灯塔" not in str(prepare(api, turn_of("灯塔")).messages)


def test_the_demo_page_talks_about_it(api: Api) -> None:
    body = {"conversation_id": "c", "prompt_id": PROMPT, "input": "灯塔"}
    answer = api("POST", "/demo/api/chat", tenant=None, json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["trace"]["policy"] == "replica"
