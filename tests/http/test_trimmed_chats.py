"""Chats whose client drops old messages: timed effects go on, or the answer says otherwise."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from chat_upstream import ChatUpstream, chat_upstream
from lorewell.app.access import Caller
from lorewell.app.rows import StateMark
from lorewell.app.services import Services
from lorewell.model.text import canonical_json
from service import Api, Json, bearer, serving
from trimming import bind_world, play, play_at_gateway

CHATS = 300  # on each database, a third of them at each door
TURNS = (3, 7)  # by turns, since many chats are short
ACTIVATE = "/v1/sillytavern/activate"
LIT = "A lamp 灯."
LAMP = {"uid": 0, "key": ["灯塔"], "content": LIT, "position": 0, "sticky": 9}
LATE = {"uid": 1, "constant": True, "content": "Late.", "position": 0, "delay": 12}
BOOK = {"name": "w", "entries": {"0": LAMP, "1": LATE}}
CHAT = [
    *("Mira: Hello.", "Ann: 灯塔?", "Mira: Yes.", "Ann: One.", "Mira: Two.", "Ann: Three."),
    *("Mira: Four.", "Ann: Five.", "Mira: Six.", "Ann: Seven.", "Mira: Eight.", "Ann: Nine."),
]


@pytest.fixture(name="url", params=["sqlite", "postgres"])
def url_fixture(request: pytest.FixtureRequest) -> str:
    name = "database" if request.param == "sqlite" else "postgres_url"
    return str(request.getfixturevalue(name))


def services_of(api: Api) -> Services:
    services: Services = api.app.state.shared.services
    return services


def bind(api: Api, book: Json = BOOK) -> None:
    """Store a book of SillyTavern's and bind it to the prompt `p` of the usual tenant."""
    file = [("files", ("w.json", json.dumps(book).encode()))]
    made = api("POST", "/v1/imports/files", files=file, tenant="default")
    assert made.status_code == 201, made.text
    body = {"bindings": [{"book_id": made.json()["books"][0]["book_id"]}]}
    params = {"prompt_id": "p"}
    put = api("PUT", "/v1/prompt-bindings", params=params, json=body, tenant="default")
    assert put.status_code == 200, put.text


@pytest.mark.long
@pytest.mark.parametrize("door", ["activate", "named", "unnamed"])
def test_a_trimming_client_gets_what_one_gets_that_sends_everything(url: str, door: str) -> None:
    reports: Counter[str] = Counter()
    with serving(database_url=url) as api:
        services, caller = services_of(api), Caller("default", frozenset({"read", "write"}))
        api.run(bind_world(services))

        async def go(begin: int) -> None:
            nonlocal reports
            for seed in range(begin, begin + CHATS // 3):
                turns = TURNS[seed % 2]
                if door == "activate":
                    reports += await play(services, seed, turns)
                else:
                    reports += await play_at_gateway(
                        services, caller, seed, turns, is_named=door == "named"
                    )

        api.run(go({"activate": 0, "named": 10_000, "unnamed": 20_000}[door]))
    assert reports["kept"] > reports.total() // 2


def lines(*texts: str) -> list[Json]:
    """Return lines of the form `name: text`."""
    split = (each.partition(": ") for each in texts)
    return [{"name": name, "content": text} for name, _, text in split]


def activate(api: Api, *texts: str, name: str = "c", **given: Any) -> Json:
    body = {
        "conversation_id": name,
        "books": [BOOK],
        "chat": lines(*texts),
        "macros": {"user": "Ann", "char": "Mira"},
        "context_tokens": 4_000,
        **given,
    }
    answer = api("POST", ACTIVATE, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def active(answer: Json) -> list[str]:
    return [each["id"] for each in answer["activated"]]


def test_effects_go_on_though_only_the_last_messages_are_sent(api: Api) -> None:
    for count in range(2, 11, 2):
        answer = activate(api, *CHAT[max(0, count - 5) : count])
    assert answer["conversation"] == {"conversation_id": "c", "state": "kept", "kept_after": 8}
    assert active(answer) == ["w.0"]  # sticky from message 2 to 11
    answer = activate(api, *CHAT[7:12])
    assert active(answer) == ["w.1"]  # the lamp is out, and the chat is long enough for the other
    again = activate(api, *CHAT[7:12])
    assert again["timed_state"] == answer["timed_state"]


def test_what_can_be_placed_nowhere_is_lost_and_says_so(api: Api) -> None:
    activate(api, *CHAT[:2])
    answer = activate(api, "Ann: Something.", "Mira: Else.", "Ann: Altogether.")
    assert answer["conversation"] == {"conversation_id": "c", "state": "lost", "kept_after": None}
    assert active(answer) == []
    first = activate(api, *CHAT[:2], name="new")
    assert first["conversation"]["state"] == "none"


def test_an_overlap_needs_two_lines_one_of_them_a_reply_and_one_place(api: Api) -> None:
    activate(api, *CHAT[:6])
    one = activate(api, CHAT[4], "Ann: Else.", "Mira: New.", "Ann: Newer.")
    assert one["conversation"]["state"] == "lost"
    names = ("Mira: a", "Ann: b", "Mira: c", "Ann: d", "Mira: a", "Ann: b", "Mira: e", "Ann: f")
    activate(api, "Mira: Hello.", *names, name="twice")
    both = activate(api, "Mira: a", "Ann: b", "Mira: g", "Ann: h", name="twice")
    assert both["conversation"]["state"] == "lost"
    more = activate(api, "Ann: d", "Mira: a", "Ann: b", "Mira: g", "Ann: h", name="twice")
    assert more["conversation"]["state"] == "none"  # known, but nothing was kept before it
    users = ("Mira: x", "Ann: y", "Ann: z", "Mira: w")
    activate(api, *users, name="users")
    answer = activate(api, "Ann: y", "Ann: z", "Mira: v", "Ann: u", name="users")
    assert answer["conversation"]["state"] == "lost"


def test_a_given_length_wins(api: Api) -> None:
    answer = activate(api, *CHAT[8:10], chat_length=12)
    assert active(answer) == ["w.1"]
    assert activate(api, *CHAT[8:10], name="other")["activated"] == []
    activate(api, *CHAT[:2], name="far")
    far = activate(api, *CHAT[:4], name="far", chat_length=40)
    assert active(far) == ["w.1"]  # the lamp went out long ago
    assert far["conversation"]["state"] == "kept"


def test_a_summary_in_place_of_the_head_changes_nothing(api: Api) -> None:
    activate(api, *CHAT[:8])
    told = {"chat": [{"content": "Before: much."}, *lines(*CHAT[5:10])]}
    answer = activate(api, **told)
    assert answer["conversation"] == {"conversation_id": "c", "state": "kept", "kept_after": 8}
    longer = {"chat": [{"content": "Before: more."}, *lines(*CHAT[8:12])]}
    assert active(activate(api, **longer)) == ["w.1"]


def test_an_edited_line_goes_back_to_the_state_before_it(api: Api) -> None:
    activate(api, *CHAT[:2])
    activate(api, *CHAT[:8])
    edited = [*CHAT[4:6], "Mira: Fore.", *CHAT[7:8]]
    assert activate(api, *edited)["conversation"]["kept_after"] == 2
    first = ["Mira: Too.", *CHAT[5:8]]
    assert activate(api, *first)["conversation"]["kept_after"] == 2


def test_a_preview_finds_the_place_and_keeps_nothing(api: Api) -> None:
    activate(api, *CHAT[:8])
    body = {
        "conversation_id": "c",
        "books": [BOOK],
        "chat": lines(*CHAT[5:10]),
        "macros": {"user": "Ann", "char": "Mira"},
        "context_tokens": 4_000,
    }
    seen = [api("POST", "/v1/sillytavern/preview", json=body).content for _ in range(2)]
    assert seen[0] == seen[1]
    assert json.loads(seen[0])["conversation"]["kept_after"] == 8
    assert api("POST", ACTIVATE, json=body).content == seen[0]
    unknown = api("POST", "/v1/sillytavern/preview", json=body, tenant="nobody").json()
    assert unknown["conversation"]["state"] == "none"


def test_turns_at_the_same_time_are_all_known(url: str) -> None:
    with serving(database_url=url) as api:
        activate(api, *CHAT[:4])
        bodies = [
            {
                "conversation_id": "c",
                "books": [BOOK],
                "chat": lines(*CHAT[:4], f"Mira: {at}.", f"Ann: {at}!"),
                "macros": {"user": "Ann", "char": "Mira"},
                "context_tokens": 4_000,
            }
            for at in range(6)
        ]

        async def all_at_once() -> None:
            await asyncio.gather(*(api.ask("POST", ACTIVATE, json=each) for each in bodies))

        api.run(all_at_once())
        for at in range(6):
            answer = activate(api, f"Mira: {at}.", f"Ann: {at}!", "Mira: So.", "Ann: And?")
            assert answer["conversation"]["kept_after"] == 6


def test_an_id_that_the_service_makes_is_refused(api: Api) -> None:
    body = {"conversation_id": "~" + 40 * "0", "context_tokens": 100}
    answer = api("POST", ACTIVATE, json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/conversation_id"


def old_mark(*messages: tuple[str | None, str]) -> StateMark:
    """Return the mark under which earlier versions kept the state after these messages."""
    written = (canonical_json([name, content]) for name, content in messages)
    digest = hashlib.sha256(b"".join(written)).hexdigest()
    return StateMark(
        messages_hash=digest, message_count=len(messages), kept_at=datetime(2026, 1, 1, tzinfo=UTC)
    )


def test_a_state_of_an_earlier_version_goes_on(api: Api) -> None:
    first = activate(api, *CHAT[:2], name="sample")
    state = json.dumps(first["timed_state"]).encode()
    mark = old_mark(("Mira", "Hello."), ("Ann", "灯塔?"))
    store = services_of(api).store
    api.run(store.write(lambda tx: tx.keep_state("demo", "c", mark, state, most=9)))
    answer = activate(api, *CHAT[:6])
    assert answer["conversation"] == {"conversation_id": "c", "state": "kept", "kept_after": 2}
    assert active(answer) == ["w.0"]
    assert activate(api, *CHAT[:8])["conversation"]["kept_after"] == 6
    assert activate(api, *CHAT[5:10])["conversation"]["kept_after"] == 8
    api.run(store.write(lambda tx: tx.keep_state("demo", "old", mark, state, most=9)))
    assert activate(api, *CHAT[6:10], name="old")["conversation"]["state"] == "lost"
    assert activate(api, *CHAT[:1], name="old")["conversation"]["state"] == "lost"


def test_an_unnamed_chat_of_an_earlier_version_goes_on(chat: Chat) -> None:
    assert chat.is_lit("Hi", "Yes.", "灯塔?")
    listed = chat.api("GET", "/v1/conversations", tenant="default").json()["conversations"]
    path = f"/v1/conversations/{listed[0]['conversation_id']}"
    (kept,) = chat.api("GET", path, tenant="default").json()["states"]
    assert chat.api("DELETE", path, tenant="default").status_code == 204
    digest = hashlib.sha256(canonical_json(["default", "p", "Hi"])).hexdigest()[:40]
    mark = old_mark((None, "Hi"), (None, "Yes."), (None, "灯塔?"))
    state = json.dumps(kept["timed_state"]).encode()
    store = services_of(chat.api).store
    old = ("default", f"gateway-{digest}")
    chat.api.run(store.write(lambda tx: tx.keep_state(*old, mark, state, most=9)))
    texts = ["Hi", "Yes.", "灯塔?", "b", "c", "d", "e"]
    assert state_of(chat("Hi", "No.", "x", "y", "z")) == "lost"
    answer = chat(*texts, reply="f")
    assert state_of(answer) == "kept"
    assert answer.headers["X-Lorewell-Conversation"].startswith("~")
    assert chat.is_lit(*texts[1:], "f", "g", roles=("assistant", "user"))


class Chat:
    """A client of the gateway that names no conversation, and the model server behind it."""

    def __init__(self, api: Api, upstream: ChatUpstream) -> None:
        self.api, self.upstream = api, upstream
        bind(api)

    def __call__(self, *texts: str, reply: str = "Hm.", **given: Any) -> httpx.Response:
        """Send messages, beginning with the user's, and get this reply."""
        headers = given.pop("headers", {})
        self.upstream.behave()
        self.upstream.reply(reply)
        roles = given.pop("roles", ("user", "assistant"))
        said = [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]
        body = {"model": "p", "messages": [{"role": "system", "content": "Mira."}, *said], **given}
        answer = self.api(
            "POST", "/gateway/v1/chat/completions", tenant=None, json=body, headers=headers
        )
        assert answer.status_code == 200, answer.text
        return answer

    def is_lit(self, *texts: str, **given: Any) -> bool:
        """Return whether the sticky entry goes in."""
        self(*texts, **given)
        return LIT in json.dumps(self.upstream.requests[-1].body, ensure_ascii=False)


@pytest.fixture(name="chat")
def chat_fixture(url: str) -> Iterator[Chat]:
    with (
        chat_upstream() as upstream,
        serving(database_url=url, gateway_upstream_url=upstream.url) as api,
    ):
        yield Chat(api, upstream)


def state_of(answer: httpx.Response) -> str:
    return answer.headers["X-Lorewell-Continued"]


@pytest.mark.parametrize("given", [{}, {"stream": True}])
def test_a_chat_without_an_id_is_recognised_by_its_replies(chat: Chat, given: Json) -> None:
    first = chat("灯塔?", reply="Yes, it is.", **given)
    assert state_of(first) == "none"
    texts = ["灯塔?", "Yes, it is.", "a"]
    second = chat(*texts, reply="b", **given)
    assert state_of(second) == "kept"
    assert second.headers["X-Lorewell-Conversation"] == first.headers["X-Lorewell-Conversation"]
    assert chat.is_lit(*texts[1:], "b", "c", roles=("assistant", "user"))  # trimmed
    listed = chat.api("GET", "/v1/conversations", tenant="default").json()["conversations"]
    assert len(listed) == 1


def test_a_lost_chat_is_reported_everywhere(chat: Chat) -> None:
    named = {"X-Lorewell-Conversation": "c"}
    chat("灯塔?", "Yes.", "a", headers=named)
    answer = chat("x", "y", "z", headers=named)
    assert state_of(answer) == "lost"
    ledger = chat.api("GET", answer.headers["X-Lorewell-Ledger"], tenant=None).json()
    assert ledger["conversation"] == {"conversation_id": "c", "state": "lost", "kept_after": None}
    chat.api.run(services_of(chat.api).keeper.flush())
    stored = chat.api("GET", answer.headers["X-Lorewell-Ledger"], tenant=None).json()
    assert stored == ledger
    unnamed = chat("one", "two", "three")
    assert state_of(unnamed) == "lost"


def test_users_with_equal_first_messages_share_nothing(chat: Chat) -> None:
    assert chat.is_lit("灯塔?", reply="For Ann.")
    assert chat.is_lit("灯塔?", "For Ann.", "a", reply="b")
    # Another user, behind the same key, whose chat began with the same words elsewhere.
    assert not chat.is_lit("灯塔?", "For Bo.", "x")
    # Two who really begin alike, and get the same reply, part where their messages do.
    first = chat("Hi", reply="Hello")
    chat("Hi", "Hello", "灯塔!", reply="c")
    other = chat("Hi", "Hello", "fog", reply="d")
    assert not chat.is_lit("Hi", "Hello", "fog", "d", "e")
    assert chat.is_lit("Hi", "Hello", "灯塔!", "c", "f")
    names = {each.headers["X-Lorewell-Conversation"] for each in (first, other)}
    assert len(names) == 2


def test_a_branch_finds_states_from_before_another_branch(chat: Chat) -> None:
    texts = ["Hi", "Hello", "灯塔!", "b", "c", "d", "e", "f", "g"]
    for count in (1, 3, 5, 7, 9):
        first = chat(*texts[:count], reply=(*texts, "h")[count])
    branch = chat(*texts[:7], "else")
    assert state_of(branch) == "kept"
    assert branch.headers["X-Lorewell-Conversation"] != first.headers["X-Lorewell-Conversation"]
    assert chat.is_lit(*texts[:3], "B", "C")  # back to before the first branch
    assert state_of(chat(*texts, "h", "i")) == "kept"
    ledger = chat(*texts[:5], "D").headers["X-Lorewell-Ledger"]
    opened = chat.api("GET", ledger, tenant=None).json()
    assert opened["conversation"]["kept_after"] == 5


def test_chats_that_differ_in_any_sent_line_or_in_the_user_share_nothing(chat: Chat) -> None:
    texts = ["灯塔?", "Yes.", "a", "b", "c"]
    assert chat.is_lit(*texts[:1], reply="Yes.", user="ann")
    assert chat.is_lit(*texts[:3], reply="b", user="ann")
    rolls = random.Random(5)
    for at in range(2):  # before the state that could be shared
        changed = [*texts]
        changed[at] = f"{changed[at]}{rolls.random()}"
        assert state_of(chat(*changed, user="ann")) != "kept", at
    assert chat.is_lit(*texts, user="ann")
    for given in ({"user": "bo"}, {}):
        answer = chat(*texts, **given)
        assert state_of(answer) == "lost", given
    assert state_of(chat(*texts, user="ann", headers={"X-Lorewell-Conversation": "c"})) == "none"


def test_chats_of_two_keys_do_not_mix(url: str) -> None:
    with (
        chat_upstream() as upstream,
        serving(database_url=url, gateway_upstream_url=upstream.url) as open_api,
    ):
        Chat(open_api, upstream)
    with (
        chat_upstream() as upstream,
        serving(database_url=url, gateway_upstream_url=upstream.url, auth=True) as api,
    ):
        ann, bo = [bearer(api, "read", "write", tenants=("default",)) for _ in range(2)]
        chat = Chat.__new__(Chat)
        chat.api, chat.upstream = api, upstream
        chat("灯塔?", reply="Yes.", headers=ann)
        assert state_of(chat("灯塔?", "Yes.", "a", headers=bo)) == "lost"
        assert state_of(chat("灯塔?", "Yes.", "a", headers=ann)) == "kept"
