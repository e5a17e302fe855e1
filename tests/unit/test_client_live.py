"""Clients and the program `lorewell live`: frames, streams that break off, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest

from lorewell.client import AsyncLorewellClient, LorewellClient, Retry
from lorewell.errors import LiveOffError, LorewellError, ServiceUnreachableError
from lorewell.http.events import STILL_HERE, event
from lorewell.http.problems import problem_of
from lorewell.model.live import LiveMissed, LiveReady, LiveSelection
from program import Lorewell

PROMPT = "雾渡 🏮"
LINE_ENDS = "灯\u2028\u0085\r 灯"


def ready(last_id: int) -> bytes:
    frame = LiveReady(tenant_id="demo", prompt_id=PROMPT, last_id=last_id)
    return event("ready", frame.to_json().decode())


def selection(number: int, title: str = LINE_ENDS) -> bytes:
    entry = {
        "book_id": None,
        "book": "随身",
        "entry_id": "e",
        "title": title,
        "reason": "keyword",
        "key": "灯",
        "tokens": 7,
        "preview": "\x1b[2J 灯",
    }
    positions: list[tuple[str | int, dict[str, Any]]] = [
        ("at_depth", {"depth": 4, "role": "system"}),
        ("outlet", {"outlet_name": "码头"}),
        (5, {}),
    ]
    groups = [
        {"position": position, "label": f"L{position}", "entries": [entry], **more}
        for position, more in positions
    ]
    stats = {
        "total": 3,
        "by_position": [],
        "by_reason": {"keyword": 3},
        "tokens": 1_234,
        "token_budget": None,
        "unlisted": 0,
        "later": 1,
    }
    frame = {
        "id": number,
        "type": "selection",
        "tenant_id": "demo",
        "prompt_id": PROMPT,
        "policy": "native",
        "source": "select",
        "conversation_id": None,
        "at": "2026-03-01T12:00:00.000000Z",
        "ledger": None,
        "groups": groups,
        "stats": stats,
        "of a newer service": [],
    }
    return event("selection", json.dumps(frame, ensure_ascii=False), number)


MISSED = event("missed", '{"id":9,"type":"missed","reason":"overflow","count":3}', 9)
NEWER = event("newer", '{"type":"newer"}')
END = event("end", '{"type":"end","reason":"slow_consumer"}')


class Script:
    """Answers from a script; every piece of an answer is a byte or two."""

    def __init__(self, *script: bytes | httpx.Response | Exception) -> None:
        self.script = list(script)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.script.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, httpx.Response):
            return answer
        return httpx.Response(200, content=answer)

    @property
    def asked(self) -> list[str | None]:
        return [request.url.params.get("last_event_id") for request in self.requests]


Watch = Callable[..., list[Any]]


def blocking(script: Script, count: int, retry: Retry | None = None, **given: Any) -> list[Any]:
    transport = httpx.MockTransport(script)
    with LorewellClient(tenant_id="demo", retry=retry, transport=transport) as client:
        return list(islice(client.live(PROMPT, **given), count))


def awaited(script: Script, count: int, retry: Retry | None = None, **given: Any) -> list[Any]:
    async def run() -> list[Any]:
        found: list[Any] = []
        transport = httpx.MockTransport(script)
        async with AsyncLorewellClient(
            tenant_id="demo", retry=retry, transport=transport
        ) as client:
            async for frame in client.live(PROMPT, **given):
                found.append(frame)
                if len(found) == count:
                    break
        return found

    return asyncio.run(run())


@pytest.fixture(params=[blocking, awaited])
def watch(request: pytest.FixtureRequest) -> Watch:
    found: Watch = request.param
    return found


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lorewell.outbound.Backoff.pause_s", lambda *_: 0.0)


def refused(error: LorewellError) -> httpx.Response:
    problem = problem_of(error, "r1")
    return httpx.Response(problem["status"], json=problem)


def test_frames_are_typed_and_what_is_newer_is_passed_over(watch: Watch) -> None:
    script = Script(STILL_HERE + ready(3) + NEWER + selection(5) + MISSED)
    found = watch(script, 3)
    assert [type(frame) for frame in found] == [LiveReady, LiveSelection, LiveMissed]
    assert found[0].last_id == 3
    assert found[1].groups[0].entries[0].title == LINE_ENDS
    assert (found[2].reason, found[2].count) == ("overflow", 3)
    (request,) = script.requests
    assert request.headers["Accept"] == "text/event-stream"
    assert dict(request.url.params) == {"prompt_id": PROMPT, "tenant_id": "demo"}
    assert request.extensions["timeout"]["read"] == 45


def test_a_stream_that_breaks_off_goes_on_where_it_was(watch: Watch) -> None:
    script = Script(
        ready(3),
        ready(7) + selection(8) + b"event: selection\nid: 99\ndata: {half",
        httpx.ConnectError("down"),
        refused(ServiceUnreachableError("busy")),
        ready(9) + MISSED + END,
        httpx.ReadTimeout("silence"),
        ready(12) + selection(12),
    )
    found = watch(script, 7)
    ids = [getattr(each, "id", None) for each in found if each.type != "ready"]
    assert ids == [8, 9, 12]
    assert script.asked == [None, "3", "8", "8", "8", "9", "9"]


def test_it_begins_after_the_event_that_is_named(watch: Watch) -> None:
    script = Script(ready(70) + selection(71), ready(71) + selection(72))
    watch(script, 4, last_event_id=60)
    assert script.asked == ["60", "71"]


def test_what_is_refused_is_raised(watch: Watch) -> None:
    with pytest.raises(LiveOffError):
        watch(Script(refused(LiveOffError("Off."))), 1)
    with pytest.raises(LiveOffError):  # meanwhile it was switched off
        watch(Script(ready(1), refused(LiveOffError("Off."))), 9)
    with pytest.raises(LorewellError, match="invalid live event"):
        watch(Script(event("ready", "{}")), 1)


def test_patience_has_an_end(watch: Watch) -> None:
    errors = [httpx.ConnectError("down") for _ in range(40)]
    script = Script(*errors)
    with pytest.raises(ServiceUnreachableError):
        watch(script, 1)
    assert len(script.requests) == 3
    script = Script(ready(1), *errors)
    with pytest.raises(ServiceUnreachableError):
        watch(script, 9)
    assert len(script.requests) == 30
    script = Script(ready(1), *errors)
    with pytest.raises(ServiceUnreachableError):
        watch(script, 9, retry=Retry(attempts=1))
    assert len(script.requests) == 1


@pytest.fixture
def lorewell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Lorewell:
    def connected(script: Script) -> None:
        def live(_self: object, prompt: str, **given: Any) -> Any:
            assert prompt == PROMPT
            client = LorewellClient(tenant_id="demo", transport=httpx.MockTransport(script))
            yield from original(client, prompt, **given)

        original = LorewellClient.live
        monkeypatch.setattr(LorewellClient, "live", live)

    broken = KeyboardInterrupt()
    frames = ready(3) + selection(5) + MISSED
    connected(Script(frames, broken))  # type: ignore[arg-type]  # as Ctrl+C is raised
    return Lorewell(tmp_path, monkeypatch, capfd)


def test_the_program_shows_what_is_active_by_place(lorewell: Lorewell) -> None:
    done = lorewell("live", "--prompt", PROMPT, "--tenant", "demo")
    assert done.code == 0, done.err
    assert f"Watching {PROMPT} of demo." in done.out
    assert "native, select: 3 entries, 1,234 tokens" in done.words
    for shown in ("depth 4", "码头", "(5)", "keyword: 灯"):
        assert shown in done.words
    assert "\x1b[2J" not in done.out
    assert "Selections may be missing: they were made faster than they could be stored." in done.out


def test_the_program_prints_json_lines(lorewell: Lorewell) -> None:
    done = lorewell("live", "--prompt", PROMPT, "--json", "--since", "2")
    lines = [json.loads(line) for line in done.out.split("\n") if line]
    assert [line["type"] for line in lines] == ["ready", "selection", "missed"]
    assert lines[1]["id"] == 5
    assert lines[1]["groups"][0]["entries"][0]["title"] == LINE_ENDS
