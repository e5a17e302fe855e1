"""Model servers: what is sent, what comes back, and what a server may do wrong."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

import pytest

from chat_upstream import (
    ChatUpstream,
    Turn,
    chat_upstream,
    chat_upstream_fixture,  # noqa: F401  a fixture
)
from lorewell.errors import (
    UpstreamError,
    UpstreamInvalidError,
    UpstreamRefusedError,
    UpstreamUnavailableError,
    ValidationFailedError,
)
from lorewell.upstreams import (
    Attempt,
    ChatDelta,
    ChatReply,
    OpenAiChat,
    ScriptedModel,
    UpstreamOptions,
    joined,
)
from lorewell.upstreams.events import EventReader
from process import free_port

Result = TypeVar("Result")

KEY = "sk-hunter2"
STORY = "沈七的秘密"
SAID: Sequence[Mapping[str, Any]] = (
    {"role": "system", "content": STORY},
    {
        "role": "user",
        "name": "小明",
        "content": [
            {"type": "text", "text": "这是什么？🔔"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ],
    },
)
TOOLS = ({"type": "function", "function": {"name": "roll", "parameters": {}}},)


def ask(
    server: ChatUpstream, work: Callable[[OpenAiChat], Awaitable[Result]], **given: Any
) -> Result:
    """Return what some work with a model gives, in an event loop of its own."""
    wanted = {"url": server.url, "model": "模型/m", "api_key": KEY, "first_pause_s": 0.01}

    async def in_loop() -> Result:
        model = OpenAiChat(UpstreamOptions(**wanted | given))
        try:
            return await work(model)
        finally:
            await model.close()

    return asyncio.run(in_loop())


async def complete(model: OpenAiChat) -> ChatReply:
    return await model.complete(SAID, tools=TOOLS)


async def stream(model: OpenAiChat) -> ChatReply:
    return joined([delta async for delta in model.stream(SAID, tools=TOOLS)])


both = pytest.mark.parametrize("work", [complete, stream])


@both
def test_messages_go_out_as_they_are(
    chat_upstream: ChatUpstream, work: Callable[[OpenAiChat], Awaitable[ChatReply]]
) -> None:
    chat_upstream.reply("钟归沈七管。 Yes.")
    reply = ask(chat_upstream, work, parameters={"temperature": 0.5, "model": "other"})
    assert (reply.content, reply.finish_reason, bool(reply)) == ("钟归沈七管。 Yes.", "stop", True)
    (request,) = chat_upstream.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "temperature": 0.5,
        "model": "模型/m",
        "messages": list(SAID),
        "tools": list(TOOLS),
        "stream": work is stream,
    }
    assert reply.message == {"role": "assistant", "content": "钟归沈七管。 Yes."}


@both
def test_calls_of_tools_come_whole(
    chat_upstream: ChatUpstream, work: Callable[[OpenAiChat], Awaitable[ChatReply]]
) -> None:
    calls = [
        {"name": "roll", "arguments": '{"面": 6}'},
        {"name": "look", "arguments": ""},
    ]
    chat_upstream.do(Turn(content="", tool_calls=calls))
    reply = ask(chat_upstream, work)
    assert (bool(reply), reply.finish_reason) == (True, "tool_calls")
    assert reply.tool_calls == tuple(
        {"id": f"call_{index}", "type": "function", "function": call}
        for index, call in enumerate(calls)
    )
    assert reply.message["tool_calls"][0]["function"]["name"] == "roll"


def test_figures_come_with_a_reply(chat_upstream: ChatUpstream) -> None:
    assert ask(chat_upstream, complete).usage["total_tokens"] == 15
    options = {"parameters": {"stream_options": {"include_usage": True}}}
    assert ask(chat_upstream, stream, **options).usage["total_tokens"] == 15


def test_pieces_come_before_the_reply_ends(chat_upstream: ChatUpstream) -> None:
    chat_upstream.do(Turn(content="one two three", events=2, then_hang_s=60))

    async def first(model: OpenAiChat) -> str:
        async with aclosing(model.stream(SAID)) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                if piece.content:
                    return piece.content
        return ""

    assert ask(chat_upstream, first) == "one"


def test_a_caller_that_goes_away_frees_the_server(chat_upstream: ChatUpstream) -> None:
    chat_upstream.do(Turn(content="word " * 1_000, pause_s=0.01))

    async def leave(model: OpenAiChat) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream(model), 0.5)

    ask(chat_upstream, leave)
    assert chat_upstream.wait_gone()


@both
@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_what_may_pass_is_tried_again(
    chat_upstream: ChatUpstream, work: Callable[[OpenAiChat], Awaitable[ChatReply]], status: int
) -> None:
    attempts: list[Attempt] = []
    chat_upstream.fail(status, times=1, retry_after="0")
    chat_upstream.drop(times=1)
    chat_upstream.reply("At last.")
    assert ask(chat_upstream, work, on_attempt=attempts.append).content == "At last."
    assert [(each.number, each.status, each.failure) for each in attempts] == [
        (1, status, f"answered {status}"),
        (2, None, "closed the connection early"),
        (3, 200, None),
    ]


@both
def test_patience_ends(
    chat_upstream: ChatUpstream, work: Callable[[OpenAiChat], Awaitable[ChatReply]]
) -> None:
    chat_upstream.fail(503)
    with pytest.raises(UpstreamUnavailableError) as failed:
        ask(chat_upstream, work, retries=1)
    assert chat_upstream.calls == 2
    assert (failed.value.code, failed.value.details) == ("upstream_unavailable", {"status": 503})


@both
@pytest.mark.parametrize("status", [302, 400, 401, 404])
def test_a_refusal_is_not_tried_again_and_quotes_nothing(
    chat_upstream: ChatUpstream, work: Callable[[OpenAiChat], Awaitable[ChatReply]], status: int
) -> None:
    chat_upstream.fail(status)
    with pytest.raises(UpstreamRefusedError) as failed:
        ask(chat_upstream, work)
    assert chat_upstream.calls == 1
    assert failed.value.details == {"status": status, "reason": "server_error"}
    assert str(failed.value) == f"The model server answered {status}."


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"error": {"code": "model_not_found", "type": "x"}}', "model_not_found"),
        (b'{"error": {"code": "sk-hunter2"}}', None),
        (b'{"error": {"code": "Bearer_sk-hunter2_is_bad"}}', None),
        (b'{"error": {"code": "a sentence"}}', None),
        (b'{"error": "text"}', None),
        (b"[]", None),
        (b"<html>", None),
        (b" " * 100_000, None),
    ],
)
def test_the_servers_word_is_told_if_it_is_one(
    chat_upstream: ChatUpstream, body: bytes, reason: str | None
) -> None:
    chat_upstream.do(Turn(status=404, body=body))
    with pytest.raises(UpstreamRefusedError) as failed:
        ask(chat_upstream, complete)
    assert failed.value.details.get("reason") == reason


def test_a_server_that_is_down_is_said() -> None:
    with chat_upstream() as server:
        pass
    with pytest.raises(UpstreamUnavailableError, match="is unreachable"):
        ask(server, complete, retries=0)
    with pytest.raises(UpstreamUnavailableError, match="is unreachable"):
        ask(server, stream, url=f"http://127.0.0.1:{free_port()}/v1", retries=0)


@both
def test_a_slow_server_is_given_up_and_not_asked_again(
    chat_upstream: ChatUpstream, work: Callable[[OpenAiChat], Awaitable[ChatReply]]
) -> None:
    chat_upstream.hang(60)
    with pytest.raises(UpstreamUnavailableError, match=r"did not answer within 0\.2 s"):
        ask(chat_upstream, work, timeout_s=0.2)
    assert chat_upstream.calls == 1


@pytest.mark.parametrize(
    ("hang_s", "why"), [(60, "did not answer"), (0, "closed the connection early")]
)
def test_a_stream_that_ends_too_early_is_an_error(
    chat_upstream: ChatUpstream, hang_s: float, why: str
) -> None:
    chat_upstream.do(Turn(content="one two three", events=3, then_hang_s=hang_s))
    seen: list[str] = []

    async def read(model: OpenAiChat) -> None:
        async for delta in model.stream(SAID):
            seen.append(delta.content)  # noqa: PERF401  what came before the end is what counts

    with pytest.raises(UpstreamUnavailableError, match=why):
        ask(chat_upstream, read, timeout_s=0.5)
    assert "".join(seen) == "one two"
    assert chat_upstream.calls == 1


@both
@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b"<html>", b'{"choices": []}', b'{"choices": [7]}', b'{"choices": [{}]}'],
)
def test_what_is_no_reply_is_said(
    chat_upstream: ChatUpstream,
    work: Callable[[OpenAiChat], Awaitable[ChatReply]],
    body: bytes,
) -> None:
    events = b"data: " + body + b"\n\n" if work is stream and body else body
    chat_upstream.answer(events)
    if work is stream and body in (b"", b'{"choices": []}'):
        with pytest.raises(UpstreamUnavailableError, match="closed the connection early"):
            ask(chat_upstream, work)
        return
    with pytest.raises(UpstreamInvalidError, match="returned an invalid reply"):
        ask(chat_upstream, work)
    assert chat_upstream.calls == 1


@pytest.mark.parametrize(
    "message",
    [{"content": 7}, {"content": ["x"]}, {"tool_calls": {"a": 1}}, {"tool_calls": [1]}, 7],
)
def test_members_of_a_wrong_kind_are_said(chat_upstream: ChatUpstream, message: object) -> None:
    chat_upstream.answer(json.dumps({"choices": [{"message": message}]}).encode())
    with pytest.raises(UpstreamInvalidError):
        ask(chat_upstream, complete)


def test_a_reply_of_parts_is_read(chat_upstream: ChatUpstream) -> None:
    parts = [{"type": "text", "text": "钟"}, {"type": "x"}, {"type": "text", "text": "响"}]
    chat_upstream.answer(json.dumps({"choices": [{"message": {"content": parts}}]}).encode())
    assert ask(chat_upstream, complete).content == "钟响"
    chat_upstream.behave()
    chat_upstream.reply(" \n")
    assert not ask(chat_upstream, complete)


def test_an_error_within_a_stream_is_said(chat_upstream: ChatUpstream) -> None:
    chat_upstream.answer(b'data: {"error": {"message": "out of memory"}}\n\n')
    with pytest.raises(UpstreamUnavailableError, match="with an error"):
        ask(chat_upstream, stream)


def test_a_stream_may_end_without_the_mark(chat_upstream: ChatUpstream) -> None:
    event = {"choices": [{"delta": {"content": "Done."}, "finish_reason": "stop"}]}
    chat_upstream.answer(b"data: " + json.dumps(event).encode() + b"\n\n")
    assert ask(chat_upstream, stream).content == "Done."


@both
def test_a_reply_without_end_is_cut_off(
    chat_upstream: ChatUpstream, work: Callable[[OpenAiChat], Awaitable[ChatReply]]
) -> None:
    chat_upstream.reply("word " * 10_000)
    with pytest.raises(UpstreamInvalidError, match="larger than 2000 bytes"):
        ask(chat_upstream, work, max_reply_bytes=2_000)
    assert chat_upstream.calls == 1


def test_secrets_are_told_to_nobody(
    chat_upstream: ChatUpstream, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    at = chat_upstream.url.replace("http://", "http://ann:hunter3@")
    traces = []
    for fails in (400, 500):
        chat_upstream.behave()
        chat_upstream.fail(fails)
        for options in ({}, {"url": at, "api_key": ""}):
            with pytest.raises(UpstreamError) as failed:
                ask(chat_upstream, complete, retries=0, **options)
            traces.append("".join(traceback.format_exception(failed.value)))
            traces.append(repr(failed.value.details))
            traces.append(repr(UpstreamOptions(url=at, model="m", api_key=KEY)))
    assert chat_upstream.requests[1].headers["authorization"].startswith("Basic ")
    for secret in (KEY, "hunter3", STORY):
        assert not [text for text in traces if secret in text]
        assert secret not in caplog.text


@pytest.mark.parametrize(
    "options",
    [{"url": "ftp://x"}, {"url": "http://x:hunter3"}, {"url": ""}, {"api_key": "hunter3 钥"}],
)
def test_what_can_not_be_used_is_refused_at_once(options: Mapping[str, str]) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        OpenAiChat(UpstreamOptions(**{"url": "http://localhost", "model": "m", **options}))
    assert "hunter3" not in str(refused.value)


def test_a_throwing_observer_changes_nothing(
    chat_upstream: ChatUpstream, caplog: pytest.LogCaptureFixture
) -> None:
    def throw(attempt: Attempt) -> None:
        raise RuntimeError(str(attempt.number))

    assert ask(chat_upstream, complete, on_attempt=throw)
    assert "on_attempt failed" in caplog.text


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
def test_events_come_whole_however_they_are_cut(size: int) -> None:
    text = 'data: {"灯": 1}\r\n\r\n: note\nevent: x\ndata\ndata: b\n\n\n\rdata:  c\r\rdata: left'
    data = text.encode()
    reader = EventReader()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    events = [event for piece in pieces for event in reader.feed(piece)]
    assert events == ['{"灯": 1}'.encode(), b"\nb", b" c"]


def test_the_scripted_model_says_what_it_saw() -> None:
    lore = '<worldbook-entry id="b:1:e" title="灯塔 &amp; Pier">text</worldbook-entry>'
    messages = [
        {"role": "system", "content": f"x {lore}"},
        {"role": "user", "content": f"{lore}\n\n谁点亮了灯塔？"},
    ]

    async def replies() -> list[ChatReply]:
        model = ScriptedModel(["First."])
        streamed = [delta async for delta in model.stream(messages)]
        english = [{"role": "user", "content": "Who?"}]
        whole = [await model.complete(each) for each in (messages, messages, english)]
        await model.close()
        assert len([each for each in streamed if isinstance(each, ChatDelta)]) == 2
        return [joined(streamed), *whole]

    first, second, third, plain = asyncio.run(replies())
    assert (first.content, first.finish_reason) == ("First.", "stop")
    assert second == third
    assert second.content == "你说：“谁点亮了灯塔？”我想到：灯塔 & Pier。"
    assert plain.content == "You say: “Who?”"
