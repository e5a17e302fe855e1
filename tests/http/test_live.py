"""The live channel on real servers: order, replay, several processes, slow clients, stops."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import suppress

import httpx
import pytest
from starlette.testclient import TestClient
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import InvalidStatus

from contract.harness import execute
from listening import Service, end_of, listening, refusal
from lorewell.app.access import list_keys, revoke_key
from lorewell.app.live import hub, subscription
from lorewell.bootstrap import build_services
from lorewell.client import AsyncLorewellClient, LorewellClient
from lorewell.http import sockets, streams
from lorewell.http.app import create_app
from lorewell.http.routes import live
from lorewell.model.live import LiveReady, LiveSelection, Occasion
from lorewell.settings import load_settings
from process import Server, running
from served import KINDS, make_url
from service import Json
from watching import PROMPT, titles, watching

LAMPS = [f"灯{number}" for number in range(40)]
BOOK = {
    "name": "港",
    "entries": [
        {"id": f"e{number}", "title": lamp, "content": f"{lamp}: 青 🏮", "keys": [f"{lamp}。"]}
        for number, lamp in enumerate(LAMPS)
    ],
}
PATH = f"/v1/live?tenant_id=demo&prompt_id={PROMPT}"


class Pair:
    """Two servers on one database, and a book."""

    def __init__(self, kind: str, url: str, servers: tuple[Server, Server]) -> None:
        self.kind, self.url, self.servers = kind, url, servers
        answer = servers[0].client.post("/v1/books", json=BOOK)
        self.book_id = str(answer.json()["books"][0]["book_id"])
        self.prompts = 0

    def prompt(self) -> str:
        """Return a prompt that nobody else uses."""
        self.prompts += 1
        return f"{PROMPT} {self.prompts}"

    def select(self, lamp: str, prompt: str | None, *, at: int = 0, path: str = "select") -> None:
        params = {} if prompt is None else {"prompt_id": prompt}
        body = request_for(lamp, self.book_id)
        answer = self.servers[at].client.post(f"/v1/context/{path}", params=params, json=body)
        assert answer.status_code == 200, answer.text


def request_for(lamp: str, book_id: str) -> Json:
    return {"books": [{"book_id": book_id, "revision": 1}], "query": f"{lamp}。"}


@pytest.fixture(scope="module", params=KINDS)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    url = make_url(request.param, request, tmp_path_factory)
    folder = tmp_path_factory.mktemp("live")
    given = {"database_url": url, "live": "true", "log_level": "warning"}
    with running(folder / "1", **given) as one, running(folder / "2", **given) as two:
        yield Pair(request.param, url, (one, two))
    assert "error" not in one.log() + two.log()


def test_all_processes_tell_all_selections_in_one_order(pair: Pair) -> None:
    async def work() -> None:
        prompt = pair.prompt()
        async with (
            watching(pair.servers[0], prompt=prompt) as one,
            watching(pair.servers[1], prompt=prompt) as two,
            watching(pair.servers[1], prompt=pair.prompt()) as other,
            watching(pair.servers[0], prompt=prompt, tenant="other") as stranger,
        ):
            for number, lamp in enumerate(LAMPS):
                await asyncio.to_thread(pair.select, lamp, prompt, at=number % 2)
            frames = await one.frames(len(LAMPS))
            assert await two.frames(len(LAMPS)) == frames
            assert sorted(titles(frame)[0] for frame in frames) == sorted(LAMPS)
            ids = [frame["id"] for frame in frames]
            assert ids == sorted(set(ids))
            # Those of one process keep their order.
            for own in (LAMPS[::2], LAMPS[1::2]):
                received = [titles(frame)[0] for frame in frames]
                assert [each for each in received if each in own] == own
            for watcher in (other, stranger):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(watcher.socket.recv(), 0.05)

    asyncio.run(work())


def test_what_names_no_prompt_or_is_a_preview_is_told_nowhere(pair: Pair) -> None:
    async def work() -> None:
        prompt = pair.prompt()
        async with watching(pair.servers[0], prompt=prompt) as watcher:
            await asyncio.to_thread(pair.select, LAMPS[0], None)
            await asyncio.to_thread(pair.select, LAMPS[1], prompt, path="preview")
            await asyncio.to_thread(pair.select, LAMPS[2], prompt)
            frame = await watcher.frame()
            assert titles(frame) == [LAMPS[2]]
            ledger = await asyncio.to_thread(pair.servers[1].client.get, frame["ledger"])
            shared = ledger.status_code == 200  # it is written a moment later
            ledger = await asyncio.to_thread(pair.servers[0].client.get, frame["ledger"])
            assert shared or ledger.json()["blocks"][0]["title"] == LAMPS[2]
            await asyncio.to_thread(pair.select, LAMPS[3], prompt)
            assert await watcher.queries(1) == [LAMPS[3]]

    asyncio.run(work())


def test_who_connects_again_gets_what_was_missed_once(pair: Pair) -> None:
    async def work() -> None:
        prompt = pair.prompt()
        async with watching(pair.servers[0], prompt=prompt) as watcher:
            for lamp in LAMPS[:4]:
                await asyncio.to_thread(pair.select, lamp, prompt)
            seen = await watcher.frames(4)
        for lamp in LAMPS[4:8]:
            await asyncio.to_thread(pair.select, lamp, prompt)
        asking = asyncio.create_task(
            asyncio.to_thread(lambda: [pair.select(lamp, prompt) for lamp in LAMPS[8:]])
        )
        last = seen[1]["id"]
        for at, given in (
            (0, {"last_event_id": last}),
            (1, {"headers": {"Last-Event-ID": str(last)}}),
            # The header counts.
            (1, {"headers": {"Last-Event-ID": str(last)}, "last_event_id": "0"}),
        ):
            async with watching(pair.servers[at], prompt=prompt, **given) as again:
                frames = await again.frames(len(LAMPS) - 2)
                assert frames[:2] == seen[2:]
                assert [titles(frame)[0] for frame in frames] == LAMPS[2:]
        await asking

    asyncio.run(work())


def test_the_same_is_told_over_http(pair: Pair) -> None:
    prompt = pair.prompt()
    pair.select(LAMPS[0], prompt)
    params = {"prompt_id": prompt, "last_event_id": "0"}
    with pair.servers[0].client.stream("GET", "/v1/live", params=params) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert answer.headers["Cache-Control"] == "no-store"
        events = read_events(answer)
        assert next(events)[0] == "ready"
        kinds = [next(events)]
        if kinds[0][0] == "missed":  # events of others' prompts may be gone already
            kinds.append(next(events))
        kind, number, data = kinds[-1]
        assert (kind, str(data["id"])) == ("selection", number)
        assert titles(data) == [LAMPS[0]]
        pair.select(LAMPS[1], prompt, at=1)
        assert titles(next(events)[2]) == [LAMPS[1]]
    headers = {"Last-Event-ID": number}
    with pair.servers[1].client.stream("GET", "/v1/live", params=params, headers=headers) as answer:
        events = read_events(answer)
        assert next(events)[0] == "ready"
        assert titles(next(events)[2]) == [LAMPS[1]]


def read_events(answer: httpx.Response) -> Iterator[tuple[str, str, Json]]:
    kind = number = ""
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if name == "event":
            kind, number = value, ""
        elif name == "id":
            number = value
        elif name == "data":
            yield kind, number, json.loads(value)


def test_a_cut_connection_to_the_database_is_made_again(pair: Pair) -> None:
    if pair.kind == "sqlite":
        pytest.skip("there is none")

    async def work() -> None:
        prompt = pair.prompt()
        async with watching(pair.servers[1], prompt=prompt) as watcher:
            await asyncio.to_thread(
                execute,
                pair.url,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND datname = current_database()",
            )
            for lamp in LAMPS[:3]:
                await asyncio.to_thread(pair.select, lamp, prompt)
            assert await watcher.queries(3) == LAMPS[:3]

    asyncio.run(work())


def test_a_stop_ends_sockets_and_streams_soon(
    tmp_path_factory: pytest.TempPathFactory, database: str
) -> None:
    log = tmp_path_factory.mktemp("stop") / "log"

    async def work(server: Server) -> None:
        async with watching(server) as watcher, httpx.AsyncClient(timeout=30) as client:
            params = {"tenant_id": "demo", "prompt_id": PROMPT}
            async with client.stream("GET", f"{server.url}/v1/live", params=params) as answer:
                begin = time.monotonic()
                stopping = asyncio.create_task(asyncio.to_thread(server.stop))
                assert (await end_of(watcher.socket))[0] == 1012
                with suppress(httpx.RemoteProtocolError):
                    async for _ in answer.aiter_raw():
                        pass
                assert await stopping in (0, -15)
                assert time.monotonic() - begin < 5

    with running(log, database_url=database, live="true") as server:
        asyncio.run(work(server))


def test_any_other_server_may_run_it(database: str) -> None:
    """One that knows nothing of frames that are packed already."""
    settings = load_settings(database_url=database, live=True)
    app = create_app(build_services(settings), settings)
    with TestClient(app, base_url="http://localhost") as client:
        made = client.post("/v1/books", params={"tenant_id": "demo"}, json=BOOK).json()
        with (
            suppress(CancelledError),  # this client cancels what still runs when it leaves
            client.websocket_connect(PATH, headers={"Host": "localhost"}) as socket,
        ):
            assert socket.receive_json()["type"] == "ready"
            params = {"tenant_id": "demo", "prompt_id": PROMPT}
            body = request_for(LAMPS[0], made["books"][0]["book_id"])
            assert client.post("/v1/context/select", params=params, json=body).status_code == 200
            received = titles(socket.receive_json())
    assert received == [LAMPS[0]]


async def frame_of(client: ClientConnection) -> Json:
    return json.loads(await client.recv())


async def select(service: Service, book_id: str, *lamps: str) -> None:
    async with service.asking() as client:
        for lamp in lamps:
            params = {"prompt_id": PROMPT}
            body = request_for(lamp, book_id)
            answer = await client.post("/v1/context/select", params=params, json=body)
            assert answer.status_code == 200, answer.text


async def create(service: Service) -> str:
    async with service.asking() as client:
        answer = await client.post("/v1/books", json=BOOK)
        return str(answer.json()["books"][0]["book_id"])


def test_it_is_off_unless_it_is_switched_on(database: str) -> None:
    async def work() -> None:
        async with listening(database) as service:
            async with service.socket(PATH) as client:
                problem, code, reason = await refusal(client)
                assert (code, reason, problem["status"]) == (4404, "live_off", 404)
                assert "LOREWELL_LIVE" in problem["detail"]
            async with service.asking() as client:
                answer = await client.get("/v1/live", params={"prompt_id": PROMPT})
                assert (answer.status_code, answer.json()["code"]) == (404, "live_off")
            await select(service, await create(service), LAMPS[0])
            found = await service.services.store.read(lambda tx: tx.live_ids())
            assert found == (0, 0)

    asyncio.run(work())


def test_parameters_are_checked_as_over_http(database: str) -> None:
    async def work() -> None:
        async with listening(database, live=True) as service:
            for query, names in (
                ("", ["tenant_id", "prompt_id"]),
                ("tenant_id=demo", ["prompt_id"]),
                ("tenant_id=a%20b&prompt_id=p", ["tenant_id"]),
                (f"tenant_id=demo&prompt_id={'p' * 201}", ["prompt_id"]),
                ("tenant_id=demo&prompt_id=p&last_event_id=-1", ["last_event_id"]),
                ("tenant_id=demo&prompt_id=p&last_event_id=1.0", ["last_event_id"]),
                (f"tenant_id=demo&prompt_id=p&last_event_id={2**63}", ["last_event_id"]),
            ):
                async with service.socket(f"/v1/live?{query}") as client:
                    problem, code, _ = await refusal(client)
                    assert code == 4422
                    assert [each["parameter"] for each in problem["errors"]] == names
                async with service.asking() as asking:
                    asking.params = httpx.QueryParams()
                    answer = await asking.get(f"/v1/live?{query}")
                    assert answer.status_code == 422
                    assert [each["parameter"] for each in answer.json()["errors"]] == names
            for query in ("tenant_id=a&tenant_id=b&prompt_id=p", "tenant_id=a&prompt_id=%00"):
                with pytest.raises(InvalidStatus) as refused:
                    await service.socket(f"/v1/live?{query}")
                assert refused.value.response.status_code == 422

    asyncio.run(work())


def test_keys_tenants_and_origins_hold(database: str) -> None:
    async def work() -> None:
        async with listening(database, live=True, auth=True) as service:
            own = await service.key("read")
            other = await service.key("read", tenants=("other",))
            writing = await service.key("write")
            for key, code in ((None, 4401), (other, 4403), (writing, 4403)):
                offered = None if key is None else ["lorewell", f"lorewell.key.{key}"]
                async with service.socket(PATH, subprotocols=offered) as client:
                    assert (await refusal(client))[1] == code
                headers = {} if key is None else {"Authorization": f"Bearer {key}"}
                async with service.asking(headers=headers) as asking:
                    answer = await asking.get("/v1/live", params={"prompt_id": PROMPT})
                    assert answer.status_code == code - 4000
            offered = ["lorewell", f"lorewell.key.{own}"]
            async with service.socket(PATH, subprotocols=offered) as client:
                assert (await frame_of(client))["type"] == "ready"
                await client.send("nobody listens")
                await client.send(b"\x00")
            with pytest.raises(InvalidStatus) as refused:
                await service.socket(PATH, subprotocols=offered, origin="https://evil.example")
            assert refused.value.response.status_code == 403

    asyncio.run(work())


def test_a_slow_client_is_dropped_and_nobody_else(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "MAX_WAITING", 20)
    monkeypatch.setattr(hub, "_SECONDS_BETWEEN_WRITES", 0.001)
    monkeypatch.setattr(live, "SEND_S", 0.4)

    async def work() -> None:
        async with listening(database, live=True) as service:
            slow = service.socket(PATH, max_queue=1, max_size=None, close_timeout=0.1)
            reading = service.socket(PATH, max_queue=None, max_size=None)
            async with slow as stuck, reading as client:
                assert (await frame_of(client))["type"] == "ready"
                # Nobody reads `stuck`, so its server can't send on.
                stuck.transport.pause_reading()
                big = "x" * 2_000_000
                for number in range(60):
                    publish(service, f"{number} {big if number < 12 else ''}")
                    # The client that reads gets each one before the next.
                    assert (await frame_of(client))["at"].split()[0] == str(number)
                await asyncio.sleep(0.5)
                assert service.services.live.counts.slow <= 1
                stuck.transport.resume_reading()
                assert await end_of(stuck) in ((4408, "slow_consumer"), (1006, ""))
                await asyncio.sleep(0.1)
                assert len(service.services.live._subscribers["demo", PROMPT]) == 1
                publish(service, "last")
                assert (await frame_of(client))["at"] == "last"

    asyncio.run(work())


class Event:
    """Stands for an event; what it says stands as its time."""

    def __init__(self, text: str) -> None:
        self._text = text

    def to_json(self) -> bytes:
        return json.dumps({"type": "selection", "at": self._text}).encode()


def publish(service: Service, text: str) -> None:
    occasion = Occasion(prompt_id=PROMPT, source="select")
    service.services.live.publish("demo", occasion, lambda _context: Event(text))


def test_a_slow_stream_ends_with_a_reason(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "MAX_WAITING", 3)
    monkeypatch.setattr(streams, "QUIET_SECONDS", 0.1)

    async def work() -> None:
        async with listening(database, live=True) as service, service.asking() as client:
            params = {"prompt_id": PROMPT}
            async with client.stream("GET", "/v1/live", params=params) as answer:
                lines = answer.aiter_lines()
                while await anext(lines) != ": still here":
                    pass
                for number in range(9):  # one transaction, and more than may wait
                    publish(service, str(number))
                received = []
                with suppress(httpx.RemoteProtocolError):
                    async for line in lines:
                        received.append(line)  # noqa: PERF401  what came before it broke off counts
            assert received[-3:-1] == [
                "event: end",
                'data: {"type":"end","reason":"slow_consumer"}',
            ]

    asyncio.run(work())


def test_a_key_that_is_revoked_ends_its_streams(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "RECHECK_S", 0.05)

    async def work() -> None:
        async with listening(database, live=True, auth=True) as service:
            headers = {"Authorization": f"Bearer {await service.key('read')}"}
            received = []
            async with (
                service.asking(headers=headers) as client,
                client.stream("GET", "/v1/live", params={"prompt_id": PROMPT}) as answer,
            ):
                lines = answer.aiter_lines()
                while "ready" not in await anext(lines):
                    pass
                await asyncio.sleep(0.2)  # it goes on while its key is open
                (row,) = (await list_keys(service.services)).keys
                await revoke_key(service.services, row.id)
                with suppress(httpx.RemoteProtocolError):
                    async for line in lines:
                        received.append(line)  # noqa: PERF401  what came before it broke off counts
            assert received[-3:-1] == [
                "event: end",
                'data: {"type":"end","reason":"unauthenticated"}',
            ]

    asyncio.run(work())


def test_a_tenant_takes_no_more_than_its_share(database: str) -> None:
    async def work() -> None:
        async with listening(database, live=True, max_sockets=3, max_tenant_sockets=2) as service:
            other = PATH.replace("tenant_id=demo", "tenant_id=other")
            assert other != PATH
            async with service.socket(PATH) as one, service.socket(PATH) as two:
                for each in (one, two):
                    assert (await frame_of(each))["type"] == "ready"
                async with service.socket(PATH) as third:
                    problem, closed, reason = await refusal(third)
                    assert (closed, reason) == (4503, "too_many_sockets")
                    assert problem["details"] == {"limit": 2}
                    assert "LOREWELL_MAX_TENANT_SOCKETS" in problem["detail"]
                async with service.asking() as client:
                    answer = await client.get("/v1/live", params={"prompt_id": PROMPT})
                    assert (answer.status_code, answer.json()["details"]) == (503, {"limit": 2})
                async with service.socket(other) as third:
                    assert (await frame_of(third))["type"] == "ready"
                    async with service.socket(other) as fourth:
                        problem = (await refusal(fourth))[0]
                        assert "LOREWELL_MAX_SOCKETS" in problem["detail"]
            await asyncio.sleep(0.1)
            async with service.socket(PATH) as again:
                assert (await frame_of(again))["type"] == "ready"

    asyncio.run(work())


def test_who_may_not_open_a_socket_takes_no_place(database: str) -> None:
    async def work() -> None:
        async with listening(database, live=True, auth=True, max_sockets=1) as service:
            offered = ["lorewell", f"lorewell.key.{await service.key('read')}"]
            async with service.socket(PATH) as refused:
                async with service.socket(PATH, subprotocols=offered) as client:
                    assert (await frame_of(client))["type"] == "ready"
                assert (await refusal(refused))[1] == 4401

    asyncio.run(work())


def test_places_are_shared_by_sockets_and_streams(database: str) -> None:
    async def work() -> None:
        async with (
            listening(database, live=True, max_sockets=1) as service,
            service.asking() as client,
        ):
            params = {"prompt_id": PROMPT}
            async with service.socket(PATH) as socket:
                assert (await frame_of(socket))["type"] == "ready"
                answer = await client.get("/v1/live", params=params)
                assert (answer.status_code, answer.json()["code"]) == (503, "too_many_sockets")
            await asyncio.sleep(0.1)
            async with client.stream("GET", "/v1/live", params=params) as answer:
                assert answer.status_code == 200
                async with service.socket(PATH) as socket:
                    assert (await refusal(socket))[1] == 4503

    asyncio.run(work())


def test_figures_tell_of_the_channel(database: str) -> None:
    async def work() -> None:
        async with listening(database, live=True) as service, service.asking() as client:
            async with service.socket(PATH) as socket:
                assert (await frame_of(socket))["type"] == "ready"
                publish(service, "灯")
                await frame_of(socket)
                await client.get("/healthz")
                figures = (await client.get("/metrics")).text
                assert "lorewell_sockets 1.0" in figures
            for line in ("published_total 1.0", "told_total 1.0", "lost_total 0.0"):
                assert f"lorewell_live_{line}" in figures

    asyncio.run(work())


def test_clients_watch_a_real_service(pair: Pair) -> None:
    prompt = pair.prompt()
    with LorewellClient(pair.servers[0].url, tenant_id="demo") as client:
        frames = client.live(prompt)
        assert isinstance(next(frames), LiveReady)
        pair.select(LAMPS[0], prompt, at=1)
        frame = next(frames)
        assert isinstance(frame, LiveSelection)
        assert frame.groups[0].entries[0].title == LAMPS[0]

    async def work() -> None:
        async with AsyncLorewellClient(pair.servers[1].url, tenant_id="demo") as client:
            received = client.live(prompt, last_event_id=0)
            titles = []
            async for frame in received:
                if isinstance(frame, LiveSelection):
                    titles.append(frame.groups[0].entries[0].title)
                    if len(titles) == 1:
                        await asyncio.to_thread(pair.select, LAMPS[1], prompt)
                    else:
                        break
            assert titles == LAMPS[:2]

    asyncio.run(work())
