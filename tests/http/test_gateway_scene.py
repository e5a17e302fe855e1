"""What OpenAI's own client says about a turn, in a member and in a control line, by each policy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import openai
import pytest

from chat_upstream import ChatUpstream, chat_upstream
from process import Server, running
from replica_books import conditional, constant as always, keyed
from service import Json

NATIVE = [
    {"id": "named", "content": "{{char}} waits for {{user}}.", "constant": True},
    {"id": "storm", "content": "Storm!", "keys": ["sea"], "conditions_text": ["tb.storm = true"]},
    {"id": "strong", "content": "力气大。", "constant": True, "conditions_text": ["tb.力量 > 9"]},
    {"id": "cast", "content": "For the cast.", "constant": True, "audience": ["cast"]},
    {"id": "top", "content": "Above.", "constant": True, "position": "author_note_top"},
]
WORLD = {
    "named": {"content": "{{char}}/{{user}}/{{persona}}", "constant": True},
    "file": {"content": "F", "constant": True, "characterFilter": {"names": ["mara"]}},
    "tag": {"content": "T", "constant": True, "characterFilter": {"tags": ["sea"]}},
    "swipe": {"content": "S", "constant": True, "triggers": ["swipe"]},
    "persona": {"content": "P", "key": ["ferryman"], "matchPersonaDescription": True},
    "described": {"content": "D", "key": ["toll"], "matchCharacterDescription": True},
    "late": {"content": "L", "constant": True, "delay": 9},
    "top": {"content": "Above.", "constant": True, "position": 2},
    "speaker": {"content": "K", "key": ["Ann:"]},
}
REPLICA = [
    always("named", content="{{char}}、{{user}}", position=1),
    conditional("storm", "tb.weather.storm = true", content="Storm!", position=1),
    conditional("strong", "tb.力量 > 9", content="力气大。", position=1),
    keyed("sea", "sea", content="The sea.", position=1),
]
CHAT: list[Any] = [
    {"role": "system", "content": "You tell a story."},
    {"role": "user", "content": "To the sea 🌊"},
]
SCENE: Json = {
    "state": {"storm": True, "weather": {"storm": True}},
    "tables": {"力量": 15},
    "names": {"char": "Mara", "user": "Ann"},
    "character": {"file": "mara.png", "tags": ["sea"], "description": "Keeps the toll."},
    "persona": "A ferryman.",
    "note": {"text": "Be brief.", "depth": 1},
    "trigger": "swipe",
    "chat_length": 9,
}
LINE = '[lorewell char="Mara" user="Ann" type="swipe" last="8"]'


@dataclass(frozen=True)
class Answered:
    """An answer of the gateway: its headers, the prompt that the model got, and the ledger."""

    headers: Mapping[str, str]
    sent: Json
    ledger: Json

    @property
    def texts(self) -> list[str]:
        return [message["content"] for message in self.sent["messages"]]


class Gateway:
    """A service with a book for each policy, and OpenAI's client in front of it."""

    def __init__(self, server: Server, upstream: ChatUpstream) -> None:
        self.server, self.upstream = server, upstream
        self.client = openai.OpenAI(
            base_url=f"{server.url}/gateway/v1", api_key="none", max_retries=0
        )
        book = {"name": "N", "entries": NATIVE}
        self._bind("native", self.ask("POST", "/v1/books", json=book))
        entries = {
            str(number): {
                "uid": number,
                "comment": name,
                "position": 0,
                "selective": False,
                **entry,
            }
            for number, (name, entry) in enumerate(WORLD.items())
        }
        self._bind("sillytavern", self._import({"entries": entries}))
        self._bind("replica", self._import({"name": "R", "entries": REPLICA}))

    def ask(self, method: str, path: str, **given: Any) -> Json:
        params = {"tenant_id": "default", **given.pop("params", {})}
        answer = self.server.client.request(method, path, params=params, **given)
        assert answer.is_success, answer.text
        return dict(answer.json())

    def _import(self, document: Json) -> Json:
        file = ("book.json", json.dumps(document).encode())
        return self.ask("POST", "/v1/imports/files", files=[("files", file)])

    def _bind(self, prompt_id: str, made: Json) -> None:
        self.book_ids = {**getattr(self, "book_ids", {}), prompt_id: made["books"][0]["book_id"]}
        body = {"bindings": [{"book_id": self.book_ids[prompt_id]}], "policy": prompt_id}
        self.ask("PUT", "/v1/prompt-bindings", params={"prompt_id": prompt_id}, json=body)

    def __call__(
        self, prompt: str, messages: list[Any] = CHAT, *, stream: bool = False, **given: Any
    ) -> Answered:
        made = self.client.chat.completions.with_raw_response.create(
            model=prompt, messages=messages, stream=stream, **given
        )
        assert list(made.parse()) if stream else made.parse()
        headers = made.headers
        ledger = httpx.get(self.server.url + headers["X-Lorewell-Ledger"])
        assert ledger.status_code == 200, ledger.text
        return Answered(headers, self.upstream.requests[-1].body, ledger.json())

    def direct(self, policy: str, request: Json) -> Json:
        path = {"native": "/v1/context/select"}.get(policy, f"/v1/{policy}/activate")
        return self.ask("POST", path, json=request)


@pytest.fixture(name="gateway", scope="module")
def gateway_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("scene")
    url = f"sqlite:///{folder / 'lorewell.db'}"
    with (
        chat_upstream() as upstream,
        running(folder / "log", database_url=url, gateway_upstream_url=upstream.url) as server,
    ):
        gateway = Gateway(server, upstream)
        yield gateway
        gateway.client.close()


def comments(answered: Answered) -> set[str]:
    """Return the names of the active entries of the world."""
    return {list(WORLD)[int(each["uid"])] for each in answered.ledger["activated"]}


def forwarded(answered: Answered) -> str:
    text = json.dumps(answered.sent, ensure_ascii=False)
    assert "lorewell" not in text.replace("worldbook", "")
    return text


@pytest.mark.parametrize("stream", [False, True])
def test_native_lore_follows_the_member(gateway: Gateway, *, stream: bool) -> None:
    answered = gateway("native", stream=stream, extra_body={"lorewell": SCENE})
    blocks = {each["entry_id"]: each["content"] for each in answered.ledger["blocks"]}
    assert blocks == {
        "named": "Mara waits for Ann.",
        "storm": "Storm!",
        "strong": "力气大。",
        "top": "Above.",
    }
    note = next(text for text in answered.texts if "Be brief." in text)
    assert "Above." in note
    assert answered.texts.index(note) == len(answered.texts) - 2  # one message follows it
    assert answered.texts[0] == CHAT[0]["content"] or "worldbook" in answered.texts[0]
    unused = [each["member"] for each in answered.ledger["warnings"]]
    assert unused == [
        *("character.file", "character.tags", "character.description", "persona"),
        *("trigger", "chat_length"),
    ]
    assert answered.headers["X-Lorewell-Warnings"] == "6"
    forwarded(answered)


def test_the_audience_of_a_scene_chooses_native_entries(gateway: Gateway) -> None:
    answered = gateway("native", extra_body={"lorewell": {"audience": "cast"}})
    assert [each["entry_id"] for each in answered.ledger["blocks"]] == ["cast"]


@pytest.mark.parametrize("stream", [False, True])
def test_sillytavern_lore_follows_the_member(gateway: Gateway, *, stream: bool) -> None:
    answered = gateway("sillytavern", stream=stream, extra_body={"lorewell": SCENE})
    assert comments(answered) == WORLD.keys()
    assert "Mara/Ann/A ferryman." in "\n".join(answered.texts)
    assert "Above.\nBe brief." in answered.texts
    assert [each["member"] for each in answered.ledger["warnings"]] == ["state", "tables"]
    bare = gateway("sillytavern")
    assert comments(bare) == {"named", "tag", "top"}  # a filter of tags needs a character
    assert "Be brief." not in forwarded(bare)
    other = {**SCENE, "character": {"file": "ode.png", "tags": ["sky"]}, "trigger": "normal"}
    assert comments(gateway("sillytavern", extra_body={"lorewell": other})) == {
        *("named", "persona", "late", "top", "speaker")
    }


@pytest.mark.parametrize("stream", [False, True])
def test_replica_lore_follows_the_member(gateway: Gateway, *, stream: bool) -> None:
    answered = gateway("replica", stream=stream, extra_body={"lorewell": SCENE})
    assert {each["uid"] for each in answered.ledger["entries"]} == {
        *("named", "storm", "strong", "sea")
    }
    assert "Mara、Ann" in forwarded(answered)
    weak = gateway("replica", extra_body={"lorewell": {"tables": {"力量": 2}}})
    assert {each["uid"] for each in weak.ledger["entries"]} == {"named", "sea"}
    codes = {each["code"] for each in weak.ledger["warnings"]}
    assert "value_missing" in codes


@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_control_line_says_names_kind_and_length(
    gateway: Gateway, *, stream: bool, role: str
) -> None:
    messages = [{"role": role, "content": f"{LINE}\nYou tell a story."}, *CHAT[1:]]
    answered = gateway("sillytavern", messages, stream=stream)
    assert comments(answered) == {"named", "tag", "swipe", "late", "top", "speaker"}
    assert "Mara/Ann/" in forwarded(answered)
    assert "You tell a story." in answered.texts
    native = gateway("native", messages, stream=stream)
    assert "Mara waits for Ann." in forwarded(native)
    assert "Mara、Ann" in forwarded(gateway("replica", messages, stream=stream))


def test_a_message_of_a_control_line_alone_is_not_forwarded(gateway: Gateway) -> None:
    answered = gateway("native", [{"role": "system", "content": LINE}, *CHAT])
    plain = gateway("native", CHAT, extra_headers={"X-Lorewell-Char": "Mara"})
    assert [text for text in answered.texts if "worldbook" not in text] == [
        each["content"] for each in CHAT
    ]
    assert plain.headers["X-Lorewell-Conversation"] == answered.headers["X-Lorewell-Conversation"]


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_line_in_the_chat_says_nothing_and_stays(gateway: Gateway, role: str) -> None:
    messages = [*CHAT, {"role": role, "content": LINE}, {"role": "user", "content": "sea"}]
    answered = gateway("sillytavern", messages)
    assert comments(answered) == {"named", "tag", "top"}
    assert LINE in answered.texts


def test_the_member_wins_over_the_line_and_the_line_over_the_headers(gateway: Gateway) -> None:
    headers = {"X-Lorewell-Char": "H1", "X-Lorewell-User": "H2"}
    messages = [{"role": "system", "content": "[lorewell user=L2]"}, *CHAT]

    def names(chat: list[Any], **given: Any) -> str:
        answered = gateway("replica", chat, extra_headers=headers, **given)
        return next(text for text in answered.texts if "、" in text)

    assert names(CHAT) == "H1、H2"
    assert names(messages) == "H1、L2"
    assert names(messages, extra_body={"lorewell": {"names": {"user": "M2"}}}) == "H1、M2"
    named = [*CHAT[:1], {**CHAT[1], "name": "N2"}]
    answered = gateway("replica", named, extra_headers={"X-Lorewell-Char": "H1"})
    assert "H1、N2" in forwarded(answered)  # the name of a message, below all of them
    settings = {"scene": {"names": {"char": "B1", "user": "B2"}}}
    bound = {"bindings": [{"book_id": gateway.book_ids["replica"]}], "settings": settings}
    gateway.ask("PUT", "/v1/prompt-bindings", params={"prompt_id": "bound"}, json=bound)
    answered = gateway("bound", named, extra_headers={"X-Lorewell-Char": "H1"})
    assert "H1、B2" in forwarded(answered)  # the settings of the prompt, above those names


def test_only_names_of_the_member_and_the_line_name_the_lines(gateway: Gateway) -> None:
    by_header = gateway("sillytavern", extra_headers={"X-Lorewell-User": "Ann"})
    assert "speaker" not in comments(by_header)
    by_member = gateway("sillytavern", extra_body={"lorewell": {"names": {"user": "Ann"}}})
    assert "speaker" in comments(by_member)
    named = [*CHAT[:1], {**CHAT[1], "name": "Bo"}]
    own = gateway("sillytavern", named, extra_body={"lorewell": {"names": {"user": "Ann"}}})
    assert "speaker" not in comments(own)


DIRECT: dict[str, Json] = {
    "native": {"query": "To the sea 🌊", "strategy": "hybrid", "token_budget": 2400},
    "sillytavern": {
        "chat": [{"name": "Ann", "content": "To the sea 🌊"}],
        "settings": {"world_info_budget": 100},
        "context_tokens": 2400,
    },
    "replica": {"mes": "To the sea 🌊"},
}


LINE_SCENE: Json = {name: SCENE[name] for name in ("names", "trigger", "chat_length")}


@pytest.mark.parametrize("policy", DIRECT)
@pytest.mark.parametrize("by_line", [False, True], ids=["member", "line"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_gateway_gives_what_the_direct_route_gives(
    gateway: Gateway, policy: str, *, by_line: bool, stream: bool
) -> None:
    scene = LINE_SCENE if by_line else {**SCENE, "seed": "7"}
    if by_line:
        messages = [{"role": "system", "content": LINE}, *CHAT]
        answered = gateway(policy, messages, stream=stream)
    else:
        answered = gateway(policy, stream=stream, extra_body={"lorewell": scene})
    ref = {"book_id": gateway.book_ids[policy]}
    request = {**DIRECT[policy], "scene": scene}
    if policy == "replica":
        request["worldBookData"] = {"globalBooks": [{"id": ref["book_id"]}]}
    else:
        request["books"] = [ref]
    if policy == "native":
        supported = ["before_character", "after_character", "at_depth"]
        if not by_line:
            positions = [each["position"] for each in answered.ledger["blocks"]]
            assert "author_note_top" in positions
            supported += ["author_note_top", "author_note_bottom"]
        request["placement_capabilities"] = {"positions": supported}
    direct = gateway.direct(policy, request)
    member = {"native": "blocks", "sillytavern": "activated", "replica": "entries"}[policy]
    assert direct[member] == answered.ledger[member]
    assert direct[member]


@pytest.mark.parametrize(
    ("member", "param"),
    [
        ({"mood": 1}, "/lorewell/mood"),
        ({"names": {"char": 7}}, "/lorewell/names/char"),
        ({"trigger": "again"}, "/lorewell/trigger"),
        ({"state": {"a": 1}, "tables": {"a": 2}}, "/lorewell/tables/a"),
        ({"tokenizer": "words"}, "/lorewell/tokenizer"),
        ("Mara", "/lorewell"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_broken_member_is_refused_by_name(
    gateway: Gateway, member: Any, param: str, *, stream: bool
) -> None:
    before = len(gateway.upstream.requests)
    with pytest.raises(openai.BadRequestError) as error:
        gateway("native", stream=stream, extra_body={"lorewell": member})
    assert (error.value.code, error.value.param) == ("validation_error", param)
    assert len(gateway.upstream.requests) == before


def test_a_broken_line_is_refused_by_its_column(gateway: Gateway) -> None:
    messages = [*CHAT[:1], {"role": "system", "content": "X\n[lorewell state=1]"}, *CHAT[1:]]
    before = len(gateway.upstream.requests)
    for prompt in ("native", "nobody"):
        with pytest.raises(openai.BadRequestError) as error:
            gateway(prompt, messages)
        assert error.value.param == "/messages/1/content"
        assert "control line at column 11" in error.value.message
    assert len(gateway.upstream.requests) == before


def test_a_note_given_twice_is_refused(gateway: Gateway) -> None:
    messages = [*CHAT, {"role": "system", "name": "author_note", "content": "Mine."}]
    with pytest.raises(openai.BadRequestError) as error:
        gateway("native", messages, extra_body={"lorewell": {"note": {"text": "Yours."}}})
    assert error.value.param == "/lorewell/note"


def test_a_prompt_has_a_tokenizer_and_the_member_wins_over_it(gateway: Gateway) -> None:
    entry = {"id": "han", "content": "灯塔的守夜人在雾中摇铃。" * 20, "constant": True}
    made = gateway.ask("POST", "/v1/books", json={"name": "Han", "entries": [entry]})
    body: Json = {"bindings": [{"book_id": made["books"][0]["book_id"]}]}
    body["settings"] = {"scene": {"tokenizer": "gpt-4o"}}
    gateway.ask("PUT", "/v1/prompt-bindings", params={"prompt_id": "counted"}, json=body)
    texts = [entry["content"]]

    def tokens(**scene: str) -> int:
        answered = gateway("counted", extra_body={"lorewell": scene})
        assert answered.ledger["warnings"] == []
        return int(answered.headers["X-Lorewell-Tokens"])

    few, many = tokens(), tokens(tokenizer="cl100k_base")
    assert few == tokens(tokenizer="o200k_base") < many
    asked = {"texts": texts, "tokenizer": "o200k_base"}
    assert few > gateway.ask("POST", "/v1/tokens/count", json=asked)["counts"][0]


def test_without_books_nothing_of_ours_is_forwarded_and_the_note_is(gateway: Gateway) -> None:
    messages = [{"role": "system", "content": f"Main.\n{LINE}"}, *CHAT[1:]]
    note = {"text": "Be brief.", "position": "after_prompt", "role": "user"}
    for prompt, scene in (("nobody", {}), ("native", {"enabled": False})):
        made = gateway.client.chat.completions.with_raw_response.create(
            model=prompt, messages=messages, extra_body={"lorewell": {"note": note, **scene}}
        )
        assert made.headers["X-Lorewell-Entries"] == "0"
        sent = gateway.upstream.requests[-1].body
        assert sent == {
            "model": prompt,
            "messages": [
                {"role": "system", "content": "Main."},
                {"role": "user", "content": "Be brief."},
                CHAT[1],
            ],
        }


def test_an_empty_note_holds_entries_and_is_not_sent_alone(gateway: Gateway) -> None:
    answered = gateway("native", extra_body={"lorewell": {"note": {"position": "before_prompt"}}})
    assert "Above." in answered.texts[0]
    silent = gateway("replica", extra_body={"lorewell": {"note": {"position": "before_prompt"}}})
    assert "" not in silent.texts


def test_the_bytes_of_everything_else_stay(gateway: Gateway) -> None:
    body = (
        b'{"lorewell":{"seed":"1"}, "top_p":0.10,"messages":[{"role":"user","content":"\\u6211",'
        b'"n":1.50}],"x":{"a":1e0,"a":2} , "model":"nobody"}'
    )
    url = f"{gateway.server.url}/gateway/v1/chat/completions"
    answer = httpx.post(url, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200, answer.text
    expected = body.replace(b'"lorewell":{"seed":"1"}, ', b"")
    assert gateway.upstream.requests[-1].raw == expected
