"""A client that nobody here wrote, through the gateway: what it gets is what a direct call gets.

OpenAI's package for Node, which comes from the network, is asked in tests/deep/test_gateway.py.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from gateway_pair import ASKED, Pair, pair_fixture  # noqa: F401  a fixture

ROOT = Path(__file__).parents[2]
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {"name": "ring", "parameters": {"type": "object", "properties": {}}},
    }
]


@pytest.fixture(autouse=True)
def _behave(pair: Pair) -> Iterator[None]:
    yield
    pair.upstream.behave()


def python(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=url, api_key="none", max_retries=0)


def test_python_gets_the_same_answer(pair: Pair) -> None:
    answers = []
    for url in (pair.direct, pair.through):
        with python(url) as client:
            raw = client.chat.completions.with_raw_response.create(**ASKED)
            answers.append(raw.parse())
    assert answers[0] == answers[1]
    assert answers[1].choices[0].message.content == "我敲钟 🔔。"
    assert raw.headers["X-Lorewell-Entries"] == "1"
    pair.check_lore()


def test_python_gets_the_same_stream(pair: Pair) -> None:
    pair.upstream.reply("The bell กระดิ่ง 钟 🔔 rings.")
    streams = []
    for url in (pair.direct, pair.through):
        with python(url) as client:
            options = {"include_usage": True}
            stream = client.chat.completions.create(**ASKED, stream=True, stream_options=options)
            streams.append(list(stream))
    assert streams[0] == streams[1]
    assert len(streams[1]) > 5
    assert streams[1][-1].usage
    pair.check_lore()


def test_python_gets_the_same_calls_of_tools(pair: Pair) -> None:
    pair.upstream.call_tool("ring", '{"how": "敲"}')
    for stream in (False, True):
        found = []
        for url in (pair.direct, pair.through):
            with python(url) as client:
                answer = client.chat.completions.create(**ASKED, tools=TOOLS, stream=stream)
                found.append(list(answer) if stream else answer)
        assert found[0] == found[1]
        assert "敲" in str(found[1])
        pair.check_lore()


def test_python_gets_the_same_when_it_does_not_block(pair: Pair) -> None:
    async def ask(url: str) -> list[object]:
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            stream = await client.chat.completions.create(**ASKED, stream=True)
            models = await client.models.list()
            return [*[chunk async for chunk in stream], *models.data]

    assert asyncio.run(ask(pair.direct)) == asyncio.run(ask(pair.through))


def test_python_understands_what_goes_wrong(pair: Pair) -> None:
    pair.upstream.fail(429, retry_after="1", times=1)
    with python(pair.through) as client:
        with pytest.raises(openai.RateLimitError) as limited:
            client.chat.completions.create(**ASKED)
        assert "我敲钟" in str(limited.value.body)
        odd = {"X-Lorewell-Conversation": "a/b"}
        with pytest.raises(openai.BadRequestError) as bad:
            client.chat.completions.create(**ASKED, extra_headers=odd)
        assert (bad.value.code, bad.value.param) == ("validation_error", "X-Lorewell-Conversation")
        pair.upstream.drop(times=1)
        with pytest.raises(openai.InternalServerError) as down:
            client.chat.completions.create(**ASKED)
        assert down.value.code == "upstream_unavailable"


def test_the_example_runs(pair: Pair) -> None:
    pair.upstream.reply("It rings 🔔.")
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "openai_client.py", "bells", "敲钟"],
        env={**os.environ, "OPENAI_BASE_URL": pair.through, "PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer, entries, why = done.stdout.splitlines()
    assert (answer, entries) == ("It rings 🔔.", "Entries: 1")
    assert why.startswith("Why: /v1/selections/")


def test_the_upstream_is_asked_for_its_models(pair: Pair) -> None:
    assert httpx.get(f"{pair.through}/models").content == httpx.get(f"{pair.direct}/models").content
