"""The gateway at length: what it costs, many streams at once, and OpenAI's package for Node."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any

import httpx
import pytest

from chat_upstream import ChatUpstream, Turn, chat_upstream
from deep.plain_route import PATH as PLAIN
from gateway_pair import ASKED, Pair, pair_fixture  # noqa: F401  a fixture
from process import Server, running
from service import Json

TESTS = Path(__file__).resolve().parents[1]
ROUTE = "/gateway/v1/chat/completions"
ENTRIES = 5_000
ROUNDS = 300
MOST_ADDED_MS = 15
STREAMS = 200
Report = Callable[[str], None]

NODE = """
import OpenAI from "openai";
const [base, text] = process.argv.slice(2);
const client = new OpenAI({ baseURL: base, apiKey: "none", maxRetries: 0 });
const asked = JSON.parse(text);
const { data, response } = await client.chat.completions.create(asked).withResponse();
const stream = await client.chat.completions.create({ ...asked, stream: true });
const chunks = [];
for await (const chunk of stream) chunks.push(chunk);
const entries = response.headers.get("X-Lorewell-Entries");
console.log(JSON.stringify({ data, chunks, entries }));
"""


def test_node_gets_the_same(pair: Pair, tmp_path: Path) -> None:
    node, npm = shutil.which("node"), shutil.which("npm")
    assert node, "this takes Node on the PATH"
    assert npm, "this takes npm on the PATH"
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "openai@6"],
        cwd=tmp_path,
        capture_output=True,
        timeout=300,
        check=True,
    )
    program = tmp_path / "ask.js"
    program.write_text(NODE, encoding="utf-8")
    pair.upstream.do(Turn(content="钟 rings 🔔."))
    found = []
    for url in (pair.direct, pair.through):
        done = subprocess.run(
            [node, str(program), url, json.dumps(ASKED)],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    direct, through = found
    assert (direct.pop("entries"), through.pop("entries")) == (None, "1")
    assert direct == through
    assert len(through["chunks"]) > 3
    del pair.upstream.requests[-2]  # so that the last two are those of the streams
    pair.check_lore()


@pytest.fixture
def upstream() -> Iterator[ChatUpstream]:
    with chat_upstream() as server:
        yield server


@pytest.fixture
def server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, upstream: ChatUpstream
) -> Iterator[Server]:
    monkeypatch.setattr("process.SERVICE", ("-m", "deep.plain_route"))
    monkeypatch.setenv("PYTHONPATH", str(TESTS), prepend=":")
    url = f"sqlite:///{tmp_path / 'lorewell.db'}"
    with running(
        tmp_path / "log",
        database_url=url,
        gateway_upstream_url=upstream.url,
        log_level="warning",
    ) as server:
        yield server


def bind(server: Server, monkeypatch: pytest.MonkeyPatch) -> list[Json]:
    """Bind a book of 5,000 entries for each policy, and return a chat that activates some."""
    monkeypatch.syspath_prepend(str(TESTS.parent))
    inputs: Any = import_module("bench.inputs")
    case, _ = inputs.load_case(ENTRIES)
    params = {"tenant_id": "default"}
    book = inputs.book_of(case.entries).model_dump(mode="json")
    made = server.client.post("/v1/books", params=params, json=book)
    book_id = made.json()["books"][0]["book_id"]
    for policy in ("native", "sillytavern"):
        server.client.put(
            "/v1/prompt-bindings",
            params={**params, "prompt_id": policy},
            json={"bindings": [{"book_id": book_id}], "policy": policy},
        ).raise_for_status()
    roles = ("user", "assistant")
    return [
        {"role": roles[number % 2], "content": text}
        for number, text in enumerate(case.chat[::-1], start=len(case.chat) % 2 + 1)
    ]


@pytest.mark.parametrize("policy", ["native", "sillytavern"])
def test_it_adds_little_to_a_plain_proxy(
    server: Server,
    upstream: ChatUpstream,
    monkeypatch: pytest.MonkeyPatch,
    policy: str,
    report: Report,
) -> None:
    messages = bind(server, monkeypatch)
    upstream.reply("Yes.")
    took: dict[str, list[float]] = {PLAIN: [], ROUTE: []}
    with httpx.Client(base_url=server.url, timeout=60) as client:
        for number in range(ROUNDS + 20):
            said = [*messages, {"role": "assistant", "content": f"{number}"}, messages[-1]]
            for path, times in took.items():
                body = json.dumps({"model": policy, "messages": said}).encode()
                begin = perf_counter()
                answer = client.post(
                    path, content=body, headers={"Content-Type": "application/json"}
                )
                times.append((perf_counter() - begin) * 1000)
                assert answer.status_code == 200, answer.text
    entries = int(answer.headers["X-Lorewell-Entries"])
    assert entries
    plain, through = (median(times[20:]) for times in took.values())
    worst = [quantiles(times[20:], n=100)[94] for times in took.values()]
    report(
        f"plain {plain:.1f} ms, gateway {through:.1f} ms, added {through - plain:.1f} ms at the "
        f"median; p95 {worst[0]:.1f} and {worst[1]:.1f} ms; {ENTRIES:,} entries, {entries} put in"
    )
    assert through - plain < MOST_ADDED_MS


def test_many_streams_at_once_lose_nothing(
    server: Server, upstream: ChatUpstream, monkeypatch: pytest.MonkeyPatch, report: Report
) -> None:
    messages = bind(server, monkeypatch)
    upstream.do(Turn(content=" ".join(f"字{n}" for n in range(100)), pause_s=0.02))
    body = {"model": "native", "stream": True, "messages": messages}
    expected = httpx.post(f"{upstream.url}/chat/completions", json=body).content
    limits = httpx.Limits(max_connections=None)

    async def ask(client: httpx.AsyncClient) -> float:
        async with client.stream("POST", ROUTE, json=body) as answer:
            pieces = [(perf_counter(), piece) async for piece in answer.aiter_raw()]
        assert answer.status_code == 200
        assert b"".join(piece for _, piece in pieces) == expected
        return pieces[-1][0] - pieces[0][0]

    async def ask_all() -> list[float]:
        async with httpx.AsyncClient(base_url=server.url, timeout=120, limits=limits) as client:
            return await asyncio.gather(*(ask(client) for _ in range(STREAMS)))

    begin = perf_counter()
    lasted = asyncio.run(ask_all())
    report(
        f"{STREAMS} streams of 103 events whole; each {median(lasted):.1f} s at the median, all "
        f"{perf_counter() - begin:.1f} s"
    )
