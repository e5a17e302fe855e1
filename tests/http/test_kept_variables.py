"""Variables of macros that stay with a conversation, and global ones that stay with a user."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest

from chat_upstream import ChatUpstream, chat_upstream
from lorewell.app.services import Services
from lorewell.app.sillytavern import conversations
from lorewell.app.sillytavern.activation import activate_turn
from lorewell.model import ActivateRequest, SillyTavernResponse
from service import Api, Json, bearer, serving
from trimming import CHAR, USER, Chats, Line, Sent

CHATS = 25  # on each database
TURNS = 9
ACTIVATE, PREVIEW = "/v1/sillytavern/activate", "/v1/sillytavern/preview"
COUNTING = "{{incvar::n}}/{{incglobalvar::g}}/{{pick::a::b::c::d}}/{{getvar::last}}"
WORLD = {
    "0": {"constant": True, "content": COUNTING},
    "1": {"key": ["lamp", "灯塔"], "content": "{{setvar::last::{{roll::d100}}}}{{addvar::l::灯}}"},
    "2": {"key": ["gate"], "content": "{{addglobalvar::sum::{{getvar::n}}}}", "sticky": 3},
    "3": {"key": ["fog", "да"], "content": "{{deletevar::last}}{{setglobalvar::имя::{{user}}}}"},
    "4": {"key": ["rope"], "content": "{{decvar::n}} {{getglobalvar::sum}}", "cooldown": 3},
    "5": {"key": ["clock"], "content": "It is {{time}} for {{group}}: {{lastMessage}}"},
}
ENTRIES = {uid: {"uid": int(uid), "order": 1, "position": 0, **each} for uid, each in WORLD.items()}
BOOK = {"name": "w", "entries": ENTRIES}


@pytest.fixture(name="url", params=["sqlite", "postgres"])
def url_fixture(request: pytest.FixtureRequest) -> str:
    name = "database" if request.param == "sqlite" else "postgres_url"
    return str(request.getfixturevalue(name))


def services_of(api: Api) -> Services:
    services: Services = api.app.state.shared.services
    return services


# A conversation


def turn(sent: Sequence[Line], seed: str, **given: Any) -> ActivateRequest:
    document = {
        "books": [BOOK],
        "chat": [{"name": each.speaker or None, "content": each.text} for each in sent],
        "macros": {"user": USER, "char": CHAR, "chat_id": "pier", **given.pop("macros", {})},
        "context_tokens": 8_000,
        "seed": seed,
        **given,
    }
    return ActivateRequest.model_validate(document)


class ByHand:
    """A client that keeps the state after each turn itself, by the lines of the chat."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Line, ...], SillyTavernResponse] = {}

    async def take(self, services: Services, sent: Sent, seed: str) -> SillyTavernResponse:
        chat = tuple(sent.whole)
        beginnings = (chat[:length] for length in range(len(chat) - 1, -1, -1))
        last = next((self._kept[each] for each in beginnings if each in self._kept), None)
        given: dict[str, Any] = {}
        if last is not None:
            given = {"timed_state": last.timed_state, "variables": last.variables}
            given["macros"] = {"chat_hash": last.chat_hash}
        answer = (await activate_turn(services, "t", turn(chat, seed, **given))).response
        self._kept[chat] = answer
        return answer


def told(answer: SillyTavernResponse) -> Any:
    entries = [(each.id, each.reason, each.content) for each in answer.activated]
    return entries, answer.timed_state, answer.variables, answer.chat_hash, answer.draws_used


@pytest.mark.long
def test_a_stored_conversation_goes_as_one_whose_client_keeps_the_variables(url: str) -> None:
    steps: set[str] = set()
    with serving(database_url=url) as api:
        services = services_of(api)

        async def go(seed: int) -> None:
            hand = ByHand()
            for sent in Chats(seed).turns(TURNS):
                steps.add(sent.step)
                rolls = f"{seed}:{len(sent.whole)}"
                expected = told(await hand.take(services, sent, rolls))
                for name, lines in (("whole", sent.whole), ("trimmed", sent.trimmed)):
                    request = turn(lines, rolls, conversation_id=f"{name}-{seed}")
                    answer = (await activate_turn(services, "t", request)).response
                    assert told(answer) == expected, (seed, name, sent)

        for seed in range(CHATS):
            api.run(go(seed))
    assert steps >= {"_swipe", "_edit", "_delete", "_branch", "_return", "_trim", "_repeat"}


def activate(api: Api, *texts: str, path: str = ACTIVATE, **given: Any) -> Json:
    body = {
        "conversation_id": "c",
        "books": [BOOK],
        "chat": [{"name": (USER, CHAR)[at % 2], "content": text} for at, text in enumerate(texts)],
        "macros": {"user": USER, "char": CHAR},
        "context_tokens": 4_000,
        **given,
    }
    answer = api("POST", path, json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def counted(answer: Json) -> tuple[int, int]:
    """Return the local and the global counter."""
    return answer["variables"]["local"]["n"], answer["variables"]["global"]["g"]


def test_previews_and_dry_runs_change_nothing(api: Api) -> None:
    assert counted(activate(api, "a")) == (1, 1)
    chat = ("a", "b", "c")
    for _ in range(2):
        assert counted(activate(api, *chat, path=PREVIEW)) == (2, 2)
        assert counted(activate(api, *chat, dry_run=True)) == (2, 2)
    assert counted(activate(api, *chat)) == (2, 2)
    off = activate(api, *chat, "d", "e", scene={"enabled": False})
    assert counted(off) == (2, 2)
    assert counted(activate(api, *chat, "d", "e", "f", "g")) == (3, 3)


@pytest.mark.parametrize("in_scene", [False, True])
def test_given_variables_win_over_kept_ones_by_scope(api: Api, *, in_scene: bool) -> None:
    def given(variables: Json) -> Json:
        return {"scene": {"variables": variables}} if in_scene else {"variables": variables}

    activate(api, "a")
    answer = activate(api, "a", "b", "c", **given({"local": {"n": 7}}))
    assert counted(answer) == (8, 2)
    answer = activate(api, "a", "b", "c", "d", "e", **given({"local": {}, "global": {"g": 40}}))
    assert counted(answer) == (1, 41)
    last = activate(api, *"abcdefg", **given({}), timed_state={})
    assert counted(last) == (2, 42)
    assert last["conversation"]["state"] == "given"
    ledger = api("POST", ACTIVATE, json={"context_tokens": 9, "chat": [], **given({"local": {}})})
    assert ledger.status_code == 200


def test_the_pick_of_a_chat_stays_though_its_id_is_not_sent_again(api: Api) -> None:
    macros = {"user": USER, "char": CHAR}
    for chat_id in map(str, range(20)):
        with_id = {"macros": {**macros, "chat_id": chat_id}, "conversation_id": chat_id}
        first = activate(api, "a", **with_id)
        later = activate(api, "a", "b", "c", conversation_id=chat_id)
        assert later["chat_hash"] == first["chat_hash"] != 0
        picks = [each["activated"][0]["content"].split("/")[2] for each in (first, later)]
        assert picks[0] == picks[1]


def test_a_conversation_shows_its_variables_and_is_deleted_with_them(api: Api) -> None:
    last = activate(api, "fog", macros={"user": USER, "char": CHAR, "chat_id": "x"})
    (state,) = api("GET", "/v1/conversations/c").json()["states"]
    assert state["variables"] == last["variables"]
    assert state["variables"]["global"]["имя"] == USER
    assert state["chat_hash"] == last["chat_hash"]
    assert api("DELETE", "/v1/conversations/c").status_code == 204
    assert counted(activate(api, "fog")) == (1, 1)


def test_a_kept_turn_opens_with_the_variables_it_had(api: Api) -> None:
    file = [("files", ("w.json", json.dumps(BOOK).encode()))]
    made = api("POST", "/v1/imports/files", files=file).json()
    books = [{"book_id": made["books"][0]["book_id"]}]
    scene = {"variables": {"local": {"n": 4}}}
    activate(api, "a", books=books)
    body = {"books": books, "conversation_id": "c", "context_tokens": 4_000, "scene": scene}
    body["chat"] = [{"content": each} for each in "abc"]
    answer = api("POST", ACTIVATE, json=body)
    activate(api, *"abcde", books=books)
    api.run(services_of(api).keeper.flush())
    opened = api("GET", answer.headers["X-Lorewell-Ledger"], tenant=None)
    assert opened.json()["variables"] == answer.json()["variables"]
    assert opened.json()["activated"] == answer.json()["activated"]


def test_of_large_states_fewer_are_kept(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "MAX_STATES_BYTES", 25_000)
    large = {"variables": {"local": {"t": "x" * 10_000}}}
    for length in range(1, 10, 2):
        activate(api, *"abcdefghi"[:length], **(large if length == 1 else {}))
    states = api("GET", "/v1/conversations/c").json()["states"]
    assert [each["message_count"] for each in states] == [9, 7]
    assert states[0]["variables"]["local"]["n"] == 5


# A user


class Gateway:
    """A client of the gateway, and the model server behind it."""

    def __init__(self, api: Api, upstream: ChatUpstream) -> None:
        self.api, self.upstream = api, upstream

    def bind(self, *prompts: str) -> None:
        file = [("files", ("w.json", json.dumps(BOOK).encode()))]
        made = self.api("POST", "/v1/imports/files", files=file, tenant="default").json()
        body = {"bindings": [{"book_id": made["books"][0]["book_id"]}]}
        for prompt in prompts:
            params = {"prompt_id": prompt}
            put = self.api("PUT", "/v1/prompt-bindings", params=params, json=body, tenant="default")
            assert put.status_code == 200, put.text

    def __call__(self, *texts: str, reply: str = "b", **given: Any) -> Json:
        """Send messages; return the ledger of the turn."""
        headers = given.pop("headers", {})
        self.upstream.behave()
        self.upstream.reply(reply)
        roles = ("user", "assistant")
        said = [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]
        body = {"model": "p", "messages": said, **given}
        answer = self.api(
            "POST", "/gateway/v1/chat/completions", tenant=None, json=body, headers=headers
        )
        assert answer.status_code == 200, answer.text
        path = answer.headers["X-Lorewell-Ledger"]
        return dict(self.api("GET", path, tenant=None, headers=headers).json())

    def count(self, *texts: str, **given: Any) -> tuple[int, int]:
        """Send messages; return the counters as the model server got them."""
        self(*texts, **given)
        sent = json.dumps(self.upstream.requests[-1].body)
        found = re.search(r"(\d+)/(\d+)/[abcd]/", sent)
        assert found, sent
        return int(found[1]), int(found[2])


@pytest.fixture(name="gateway")
def gateway_fixture(url: str) -> Iterator[Gateway]:
    with (
        chat_upstream() as upstream,
        serving(database_url=url, gateway_upstream_url=upstream.url) as api,
    ):
        gateway = Gateway(api, upstream)
        gateway.bind("p", "q")
        yield gateway


def test_a_user_has_the_same_global_variables_in_all_conversations(gateway: Gateway) -> None:
    named = {"headers": {"X-Lorewell-Conversation": "c"}}
    assert gateway.count("a", user="ann") == (1, 1)
    assert gateway.count("a", "b", "c", user="ann") == (2, 2)
    assert gateway.count("x", user="ann") == (1, 3)
    assert gateway.count("a", user="ann", **named) == (1, 4)
    assert gateway.count("a", "b", "c", user="ann", **named) == (2, 5)


def test_a_repeated_or_swiped_turn_counts_once(gateway: Gateway) -> None:
    gateway.count("a", user="ann")
    for reply in ("b", "b", "other"):
        assert gateway.count("a", "b", "c", user="ann", reply=reply) == (2, 2)
    assert gateway.count("a", "b", "c", "other", "d", user="ann") == (3, 3)
    # An edit goes back for the chat, not for its user.
    assert gateway.count("a", "b", "changed", user="ann") == (2, 4)


def test_two_users_never_share_variables(gateway: Gateway) -> None:
    for _ in range(3):
        gateway("a", user="ann")
        gateway("fog", user="ann")
    others: list[Json] = [{"user": "bo"}, {"user": "ann "}, {"user": "ANN"}, {}]
    others += [{"user": "ann", "model": "q"}]
    for number, given in enumerate(others):
        assert gateway.count("a", **given) == (1, 1), given
        answer = gateway(f"new {number}", **given)
        assert "имя" not in answer["variables"]["global"]


def test_the_gateway_expands_a_second_time_only_if_the_prompt_says_so(gateway: Gateway) -> None:
    content = r"\{\{reverse::灯塔\}\}"
    entry = {"uid": 1, "constant": True, "key": [], "position": 0, "content": content}
    file = [("files", ("x.json", json.dumps({"entries": {"1": entry}}).encode()))]
    made = gateway.api("POST", "/v1/imports/files", files=file, tenant="default").json()
    bound = {"bindings": [{"book_id": made["books"][0]["book_id"]}]}
    for twice, text in ((False, "{{reverse::灯塔}}"), (True, "塔灯")):
        body = {**bound, "settings": {"sillytavern": {"expand_when_placed": twice}}}
        params = {"prompt_id": "p"}
        put = gateway.api("PUT", "/v1/prompt-bindings", params=params, json=body, tenant="default")
        assert put.status_code == 200, put.text
        gateway("a")
        assert text in str(gateway.upstream.requests[-1].body)


def test_the_number_of_users_with_variables_is_bounded(url: str) -> None:
    with (
        chat_upstream() as upstream,
        serving(database_url=url, gateway_upstream_url=upstream.url, max_variable_users=2) as api,
    ):
        gateway = Gateway(api, upstream)
        gateway.bind("p")
        for user, shared in (
            ("ann", 1),
            ("ボー", 1),
            ("ann", 2),
            ("cy", 1),
            ("ann", 3),
            ("ボー", 1),
        ):
            assert gateway.count(f"{user} {shared}", user=user)[1] == shared


def test_chats_without_a_user_share_nothing(gateway: Gateway) -> None:
    """Behind one key may be many users, also ones whose chats begin alike."""
    assert gateway.count("Hi", reply="Hello") == (1, 1)
    assert gateway.count("Hi", "Hello", "one", reply="x") == (2, 2)
    assert gateway.count("Hi", "Hello", "one", "x", "two") == (3, 3)
    assert gateway.count("Hi", reply="Hello") == (1, 1)
    assert gateway.count("Hi", "Hello", "other") == (2, 2)
    assert gateway.count("new") == (1, 1)
    named = [{"X-Lorewell-Conversation": name} for name in ("c", "d")]
    assert [gateway.count("a", headers=each) for each in named] == [(1, 1), (1, 1)]


def test_users_of_two_keys_share_nothing(url: str) -> None:
    with (
        chat_upstream() as upstream,
        serving(database_url=url, gateway_upstream_url=upstream.url) as open_api,
    ):
        Gateway(open_api, upstream).bind("p")
    with (
        chat_upstream() as upstream,
        serving(database_url=url, gateway_upstream_url=upstream.url, auth=True) as api,
    ):
        ann, other = [bearer(api, "read", "write", tenants=("default",)) for _ in range(2)]
        gateway = Gateway(api, upstream)
        assert gateway.count("a", user="ann", headers=ann) == (1, 1)
        assert gateway.count("x", user="ann", headers=ann) == (1, 2)
        assert gateway.count("x", user="ann", headers=other) == (1, 1)


def test_the_member_of_the_gateway_gives_variables_and_the_clock(gateway: Gateway) -> None:
    member: Json = {"variables": {"global": {"g": 8}}, "time": "2026-03-09T14:07:09Z"}
    member |= {"timezone": "Asia/Tokyo", "group_members": [{"name": "Mira"}, {"name": "灯"}]}
    member |= {"messages": [{"content": "Hm 🌊", "role": "character"}], "chat_id": "pier"}
    member |= {"host": {"model": "m"}}
    answer = gateway("clock", user="ann", lorewell=member)
    assert answer["variables"]["global"] == {"g": 9}
    assert answer["warnings"] == []
    sent = json.dumps(gateway.upstream.requests[-1].body, ensure_ascii=False)
    assert "It is 11:07 PM for Mira, 灯: Hm 🌊" in sent
    assert "lorewell" not in gateway.upstream.requests[-1].body
    assert gateway.count("x", user="ann") == (1, 10)
    wrong = {"model": "p", "messages": [{"role": "user", "content": "a"}]}
    wrong["lorewell"] = {"timezone": "Mars"}
    refused: httpx.Response = gateway.api(
        "POST", "/gateway/v1/chat/completions", tenant=None, json=wrong
    )
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "/lorewell/timezone"
