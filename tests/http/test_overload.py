"""What one caller asks for stops no other: deadlines, callers who leave, the end of a server."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from chat_upstream import chat_upstream
from process import Server, running
from service import BOOK, Api, bearer, code, serving

NESTED = {
    "name": "Nested",
    "entries": [{"id": str(n), "content": "x", "keys": ["a" * (n + 1)]} for n in range(200)],
}
ACTIVATE = "/v1/sillytavern/activate"
MUCH = {"max_steps": 10**12, "max_made_chars": 10**12}
TENFOLD_S = 2.5  # of what an answer may take meanwhile


def turn(book_id: str, *, chars: int = 200_000) -> dict[str, Any]:
    """Return a turn that takes seconds, and with few characters one that takes none."""
    lines = [{"name": "Ann", "content": "a" * chars}] * 5
    return {
        "books": [{"book_id": book_id}],
        "chat": lines,
        "macros": {"char": "Bo", "user": "Ann"},
        "context_tokens": 4_000,
    }


def test_a_request_with_too_many_steps_is_refused_with_figures() -> None:
    with serving(max_steps=20_000) as api:
        answer = api("POST", ACTIVATE, json=turn(api.create(NESTED)))
        assert (answer.status_code, code(answer)) == (422, "too_expensive")
        details = answer.json()["details"]
        assert (details["steps"], details["max_steps"]) == (20_001, 20_000)
        assert details["setting"] == "LOREWELL_MAX_STEPS"
        assert "LOREWELL_MAX_STEPS" in answer.json()["detail"]
        assert sum(details["by"].values()) == 20_001


def test_a_selection_that_is_not_short_any_more_runs_in_the_pool(api: Api) -> None:
    """It gives the same answer there as it would have given on the event loop."""
    book_id = api.create({"name": "Many", "entries": [{**NESTED["entries"][0], "id": "a"}]})
    asked = {"books": [{"book_id": book_id}], "query": "a", "explain": "selected"}
    for _ in range(3):
        short = api("POST", "/v1/context/select", json=asked).json()
    long = {**asked, "query": "a b " * 2_000, "history": [{"role": "user", "content": "a " * 400}]}
    first = api("POST", "/v1/context/select", json=long).json()
    assert first["blocks"] == short["blocks"]
    for _ in range(3):
        again = api("POST", "/v1/context/select", json=long).json()
        assert {**again, "duration_ms": 0} == {**first, "duration_ms": 0}


@contextmanager
def serving_process(folder: Path, **given: object) -> Iterator[Server]:
    url = f"sqlite:///{folder / 'books.db'}"
    with running(folder / "log", database_url=url, log_level="warning", **given) as server:
        yield server


def make_book(server: Server, tenant_id: str, book: object = NESTED) -> str:
    answer = server.client.post("/v1/books", json=book, params={"tenant_id": tenant_id})
    return str(answer.json()["books"][0]["book_id"])


@contextmanager
def busy(
    server: Server, callers: int = 3, *, running: int = 1
) -> Iterator[list[Future[httpx.Response]]]:
    """Keep the server busy for several tenants, of which so many compute to begin with."""

    def ask(tenant_id: str, book_id: str) -> httpx.Response:
        params = {"tenant_id": tenant_id}
        return httpx.post(server.url + ACTIVATE, params=params, json=turn(book_id), timeout=60)

    tenants = [f"busy-{number}" for number in range(callers)]
    made = [make_book(server, name) for name in tenants]
    with ThreadPoolExecutor(callers) as pool:
        asked = [pool.submit(ask, name, made[at]) for at, name in enumerate(tenants)]
        wait_until(lambda: figure(server, "running") >= running)
        yield asked


def figure(server: Server, name: str) -> float:
    lines = server.client.get("/metrics").text.splitlines()
    found = (line for line in lines if line.startswith(f"lorewell_compute_{name} "))
    return float(next(found).split()[1])


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_busy_tenant_keeps_no_other_waiting(tmp_path: Path) -> None:
    with serving_process(tmp_path, **MUCH, turn_seconds=1) as server:
        book_id = make_book(server, "demo", BOOK)
        select = {"books": [{"book_id": book_id}], "query": "lamp"}
        server.client.post("/v1/context/select", json=select)
        with busy(server) as asked:
            for method, path, body in (
                ("GET", "/v1/books", None),
                ("GET", "/readyz", None),
                ("POST", "/v1/context/select", select),
            ):
                begun = time.monotonic()
                assert server.client.request(method, path, json=body).status_code == 200
                assert time.monotonic() - begun < TENFOLD_S
            assert not all(each.done() for each in asked)
        answers = [each.result() for each in asked]
        for answer in answers:
            assert (answer.status_code, answer.json()["code"]) == (503, "overloaded")
            assert answer.headers["Retry-After"]
            assert answer.json()["details"]["setting"] == "LOREWELL_TURN_SECONDS"
        assert server.client.post("/v1/context/select", json=select).status_code == 200


def test_work_of_a_client_that_left_is_given_up(tmp_path: Path) -> None:
    with serving_process(tmp_path, **MUCH, turn_seconds=600) as server:
        body = json.dumps(turn(make_book(server, "demo"))).encode()
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            head = f"POST {ACTIVATE}?tenant_id=demo HTTP/1.1\r\nHost: localhost\r\n"
            kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            raw.sendall((head + kind).encode() + body)
            wait_until(lambda: figure(server, "running") == 1)
        wait_until(lambda: figure(server, "running") == 0)
        assert figure(server, "left_total") == 1


ENDLESS = {**MUCH, "turn_seconds": 600, "queue_seconds": 600, "shutdown_seconds": 2}


def test_a_signal_ends_a_busy_server_in_time(tmp_path: Path) -> None:
    with serving_process(tmp_path, **ENDLESS) as server:
        with busy(server, callers=2, running=2) as asked:
            begun = time.monotonic()
            assert server.stop() == -signal.SIGTERM
            assert time.monotonic() - begun < 20
        for each in asked:
            answer = each.result()
            assert (answer.status_code, answer.json()["code"]) == (503, "overloaded")
            assert "stopping" in answer.json()["detail"]


def test_a_signal_ends_busy_workers_in_time(tmp_path: Path) -> None:
    with serving_process(tmp_path, **ENDLESS, workers=2) as server:
        with busy(server, callers=4, running=0) as asked:
            time.sleep(1)  # a worker reports nothing while it computes
            begun = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - begun < 20
        assert all(each.exception() or each.result().status_code == 503 for each in asked)


def test_a_second_signal_ends_a_server_at_once(tmp_path: Path) -> None:
    given = {**MUCH, "turn_seconds": 600, "shutdown_seconds": 600}
    with serving_process(tmp_path, **given) as server:
        with busy(server, callers=1) as asked:
            server.signal(signal.SIGTERM)
            time.sleep(0.5)
            assert server.is_running
            begun = time.monotonic()
            assert server.stop() == 128 + signal.SIGTERM
            assert time.monotonic() - begun < 10
        with pytest.raises(httpx.TransportError):
            asked[0].result()


def test_keys_are_checked_where_nothing_can_be_computed(database: str) -> None:
    """A wrong key is refused, and nothing that waits to compute is before it."""
    with serving(database_url=database, auth=True) as api:
        headers = bearer(api, "read")
        api.app.state.shared.services.computing.end()
        assert api("GET", "/v1/books", headers=headers).status_code == 200
        assert api("GET", "/readyz", tenant=None).status_code == 200
        assert api("GET", "/v1/books", headers={"Authorization": "Bearer x"}).status_code == 401
        answer = api("POST", "/v1/tokens/count", json={"texts": ["a"]}, headers=headers)
        assert (answer.status_code, code(answer)) == (503, "overloaded")


def test_a_signal_answers_the_clients_of_a_model_server_that_hangs(tmp_path: Path) -> None:
    with chat_upstream() as model:
        model.hang(60)
        given = {"gateway_upstream_url": model.url, "shutdown_seconds": 2}
        with serving_process(tmp_path, **given) as server, ThreadPoolExecutor() as threads:
            chat = {"model": "m", "messages": [{"role": "user", "content": "灯"}]}
            asked = threads.submit(
                httpx.post, f"{server.url}/gateway/v1/chat/completions", json=chat, timeout=60
            )
            wait_until(lambda: len(model.requests) == 1)
            server.stop()
        answer = asked.result()
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "overloaded")
