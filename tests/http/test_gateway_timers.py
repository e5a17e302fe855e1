"""A SillyTavern book behind the gateway: it fires as it does there, and its timers hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from chat_upstream import ChatUpstream, chat_upstream
from service import Api, Json, serving

WORLD = {
    "entries": {
        "0": {
            "uid": 0,
            "key": ["灯塔"],
            "content": "{{char}} 为 {{user}} 点亮了灯塔。",
            "position": 0,
            "sticky": 3,  # messages, not turns
            "selective": False,
        },
        "1": {"uid": 1, "key": ["gate"], "content": "A gate 🚪.", "position": 4, "depth": 1},
    }
}
SYSTEM = {"role": "system", "content": "沈七，守渡人。"}
ASKS = {"role": "user", "content": "谁点亮了灯塔？"}
NAMES = {"X-Lorewell-Char": "%E6%B2%88%E4%B8%83", "X-Lorewell-User": "Ann"}
LIT = "沈七 为 Ann 点亮了灯塔。"


class Harbour:
    """An imported book bound to the prompt `harbour`, asked as a chat client asks."""

    def __init__(self, api: Api, upstream: ChatUpstream) -> None:
        self.api, self.upstream = api, upstream
        file = [("files", ("灯塔.json", json.dumps(WORLD).encode()))]
        made = api("POST", "/v1/imports/files", files=file, tenant="default")
        assert made.status_code == 201, made.text
        (book,) = made.json()["books"]
        bindings = {"bindings": [{"book_id": book["book_id"]}]}  # the policy is `auto`
        params = {"prompt_id": "harbour"}
        put = api("PUT", "/v1/prompt-bindings", params=params, json=bindings, tenant="default")
        assert put.status_code == 200, put.text

    def __call__(self, *chat: Json, **headers: str) -> httpx.Response:
        answer = self.api(
            "POST",
            "/gateway/v1/chat/completions",
            tenant=None,
            json={"model": "harbour", "messages": [SYSTEM, *chat]},
            headers={**NAMES, **headers},
        )
        assert answer.status_code == 200, answer.text
        assert answer.headers["X-Lorewell-Policy"] == "sillytavern"
        return answer

    def is_lit(self, *chat: Json, **headers: str) -> bool:
        """Return whether the sticky entry went in."""
        answer = self(*chat, **headers)
        texts = [each["content"] for each in self.upstream.requests[-1].body["messages"]]
        assert (LIT in texts) == (answer.headers["X-Lorewell-Entries"] == "1")
        return LIT in texts

    def open(self, answer: httpx.Response) -> Json:
        opened = self.api("GET", answer.headers["X-Lorewell-Ledger"], tenant=None)
        assert opened.status_code == 200, opened.text
        return opened.json()


def said(*texts: str) -> list[Json]:
    """Return an answer and the next input, and so on."""
    roles = ("assistant", "user")
    return [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]


@contextmanager
def make_harbour(database: str, **given: Any) -> Iterator[Harbour]:
    with (
        chat_upstream() as upstream,
        serving(database_url=database, gateway_upstream_url=upstream.url, **given) as api,
    ):
        yield Harbour(api, upstream)


@pytest.fixture(name="harbour")
def harbour_fixture(database: str) -> Iterator[Harbour]:
    with make_harbour(database) as harbour:
        yield harbour


def test_a_sticky_entry_stays_for_its_turns_and_a_swipe_counts_once(harbour: Harbour) -> None:
    turn = [ASKS]
    harbour.upstream.reply("Nobody.", times=1)
    assert harbour.is_lit(*turn)
    assert harbour.upstream.requests[-1].body["messages"][0]["content"] == LIT  # before the card
    turn += said("Nobody.", "Really?")
    for _ in range(3):  # swipes of the second turn
        assert harbour.is_lit(*turn)
    harbour.upstream.behave()
    harbour.upstream.reply("Nobody else.", times=1)
    assert harbour.is_lit(*turn[:-2])
    swiped = [*turn[:-2], *said("Nobody else.", "Really?")]
    assert harbour.is_lit(*swiped)  # another answer was chosen before it
    turn += said("Yes.", "Hm.")
    assert not harbour.is_lit(*turn)  # the key is out of sight, and its turns are over


def test_a_branch_begins_with_what_was_true_before_it(harbour: Harbour) -> None:
    begin = [ASKS]
    harbour.upstream.reply("a")
    harbour(*begin)
    long = [*begin, *said("a", "b", "c", "d", "e", "f")]
    assert not harbour.is_lit(*long)
    assert harbour.is_lit(*begin, *said("a", "another way"))


def test_conversations_do_not_mix(harbour: Harbour) -> None:
    one, other = {"X-Lorewell-Conversation": "%E4%B8%80"}, {"X-Lorewell-Conversation": "two"}
    later = [ASKS, *said("a", "b", "c", "d")]
    assert harbour.is_lit(ASKS, **one)
    assert harbour(*later[:3], **one).headers["X-Lorewell-Conversation"] == "%E4%B8%80"
    listed = harbour.api("GET", "/v1/conversations", tenant="default").json()["conversations"]
    assert [(each["conversation_id"], each["state_count"]) for each in listed] == [("一", 2)]
    # The second one never saw the first turn, and the key is too far back to be found again.
    assert not harbour.is_lit(*later, **other)
    other_chat = [{"role": "user", "content": "Hello."}, *said("Hm.", "So?")]
    assert not harbour.is_lit(*other_chat)


def test_the_ledger_of_a_turn_is_that_turns(harbour: Harbour) -> None:
    harbour.upstream.reply("Nobody.")
    first = harbour(ASKS)
    second = harbour(ASKS, *said("Nobody.", "A gate?"))
    reasons = {each["id"]: each["reason"] for each in harbour.open(second)["verdicts"]}
    assert sorted(reasons.values()) == ["primary", "sticky"]
    active = {each["content"]: each["reason"] for each in harbour.open(second)["activated"]}
    assert active == {LIT: "sticky", "A gate 🚪.": "primary"}
    harbour.api.run(harbour.api.app.state.shared.services.keeper.flush())
    active = {each["content"]: each["reason"] for each in harbour.open(first)["activated"]}
    assert active == {LIT: "primary"}
    unknown = harbour.api("GET", "/v1/sillytavern/activations/none", tenant="default")
    assert unknown.status_code == 404
    native = harbour.api(
        "GET",
        first.headers["X-Lorewell-Ledger"].replace(
            "/v1/sillytavern/activations/", "/v1/selections/"
        ),
        tenant=None,
    )
    assert native.status_code == 404


def test_a_chat_that_ends_with_the_assistant_goes_on(harbour: Harbour) -> None:
    assert harbour.is_lit(ASKS, *said("It was"))
    assert [each["role"] for each in harbour.upstream.requests[-1].body["messages"]] == [
        "system",
        "system",
        "user",
        "assistant",
    ]


def test_names_are_those_of_the_messages_else_plain_words(harbour: Harbour) -> None:
    def lit(asks: Json, **headers: Any) -> str:
        harbour(asks, **headers)
        return str(harbour.upstream.requests[-1].body["messages"][0]["content"])

    nobody = {"X-Lorewell-Char": "", "X-Lorewell-User": ""}
    assert lit({**ASKS, "name": "Bo"}, **nobody) == "Assistant 为 Bo 点亮了灯塔。"
    assert lit(ASKS, **nobody) == "Assistant 为 User 点亮了灯塔。"


def test_without_kept_requests_there_is_no_ledger_to_open(database: str) -> None:
    with make_harbour(database, ledger_keep_s=0) as harbour:
        answer = harbour(ASKS)
        assert answer.headers["X-Lorewell-Entries"] == "1"
        assert "X-Lorewell-Ledger" not in answer.headers
