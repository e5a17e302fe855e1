"""Vector indexes and real server processes: kills, stops, several at once, logs and deadlines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from deep.building import QUERY, ask, book, check_rows, kill_builds, settings
from embedding import embed
from embedding_server import EmbeddingServer, Misdeed, embedding_server as started
from process import Server, running

QUERY_TIMEOUT_S = 0.5
SLACK_S = 5  # for a busy machine; the server hangs for 30


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'lorewell.db'}"
    make: Callable[[], str] = request.getfixturevalue("make_database")
    return make()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def embedder() -> Iterator[EmbeddingServer]:
    with started() as server:
        yield server


def create(server: Server, document: Any) -> str:
    answer = server.client.post("/v1/books", json=document)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["books"][0]["book_id"])


def build(server: Server, book_id: str, *, background: bool = False, **fields: Any) -> Any:
    path, body = f"/v1/books/{book_id}/index", {"revision": 1, **fields}
    return server.client.post(path, json=body, params={"background": background})


def state(server: Server, book_id: str) -> Any:
    return server.client.get(f"/v1/books/{book_id}/index").json()


def test_a_build_that_is_killed_is_taken_up_again(url: str, log: Path) -> None:
    reported = kill_builds(url, log, kills=1, seed=11)
    assert reported.midst
    assert reported.looks
    assert "Traceback" not in log.read_text(encoding="utf-8")


def test_a_build_that_is_stopped_says_so_at_once(
    url: str, log: Path, embedder: EmbeddingServer
) -> None:
    given = settings(url, embedder, index_lease_s=600, embedding_timeout_s=60)
    with running(log, **given) as server:
        book_id = create(server, book())
        embedder.misbehave(Misdeed(), times=3)
        embedder.hang(60)
        assert build(server, book_id, background=True).status_code == 202
        while state(server, book_id)["done"] < 12:
            time.sleep(0.02)
        began = time.monotonic()
        assert server.stop() in {0, -15}
        assert time.monotonic() - began < 10
    embedder.behave()
    with running(log, **given) as server:
        found = state(server, book_id)
        assert found["status"] == "failed"
        assert found["error"] == "The service was stopped during the build."
        sent = len(embedder.texts)
        assert build(server, book_id).json()["status"] == "ready"
        assert len(embedder.texts) - sent == 108
    check_rows(url)
    assert log.read_text(encoding="utf-8") == ""


def test_two_processes_share_one_index(url: str, tmp_path: Path, embedder: EmbeddingServer) -> None:
    given = settings(url, embedder, index_lease_s=600)
    with running(tmp_path / "one", **given) as one, running(tmp_path / "two", **given) as two:
        book_id = create(one, book())
        embedder.hang(0.1)
        assert build(one, book_id, background=True).status_code == 202
        reported = state(two, book_id)
        assert (reported["status"], reported["usable"]) == ("building", False)
        for force in (False, True):
            busy = build(two, book_id, force=force)
            assert (busy.status_code, busy.json()["code"]) == (409, "index_busy")
        assert ask(two, book_id)["degraded"] == [f"index_not_ready:{book_id}:1"]
        embedder.behave()
        while state(two, book_id)["status"] == "building":
            time.sleep(0.05)
        assert build(two, book_id).json()["reused"] is True
        before = [_similarities(server, book_id, QUERY) for server in (one, two)]
        assert before[0] == before[1]
        text = "灯塔 7\nยาม 0 🏮"
        assert before[0]["e7"] == pytest.approx(float(embed(QUERY) @ embed(text)), abs=2e-6)

        def turn(items: Any) -> Any:
            return [{**each, "embedding": [-n for n in each["embedding"]]} for each in items]

        embedder.change(turn)
        assert build(one, book_id, force=True).json()["reused"] is False
        embedder.behave()
        for server in (two, one):  # neither serves what it held of the build before
            after = _similarities(server, book_id, QUERY)
            both = after.keys() & before[0].keys()  # a list has a hundred, the nearest ones
            assert len(both) >= 80
            for name in both:
                assert after[name] == pytest.approx(-before[0][name], abs=2e-6)
    check_rows(url)


def _similarities(server: Server, book_id: str, query: str) -> dict[str, float]:
    body = {"books": [{"book_id": book_id}], "query": query, "mode": "vector", "limit": 100}
    answer = server.client.post("/v1/search", json=body)
    assert answer.status_code == 200, answer.text
    return {each["entry_id"]: each["vector_score"] for each in answer.json()["results"]}


SECRETS = (
    "geheimnis-inhalt",
    "灯塔的秘密",
    "ความลับ",
    "wer-fragt-das",
    "schluessel-4711",
    "pass-0815",
)


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_logs_hold_no_text_no_query_and_no_key(
    log_format: str, tmp_path: Path, log: Path, embedder: EmbeddingServer
) -> None:
    content, title, thai, query, key, password = SECRETS
    echo = f'{{"data": "{content} {title} {query} {key}"}}'.encode()
    misdeeds = (
        Misdeed(),
        Misdeed(status=401, headers={"WWW-Authenticate": f"{content} {query} {key}"}),
        Misdeed(status=429, headers={"Retry-After": "0", "X-Echo": f"{content} {query} {key}"}),
        Misdeed(hang_s=5),
        Misdeed(drop=True),
        Misdeed(body=echo),
        Misdeed(body=b'{"error": "' + content.encode()),
        Misdeed(change=lambda items: [{**each, "embedding": [1.0]} for each in items]),
    )
    given = settings(
        f"sqlite:///{tmp_path / 'lorewell.db'}",
        embedder,
        embedding_timeout_s=0.3,
        embedding_query_timeout_s=0.3,
        log_level="debug",
        log_format=log_format,
    )
    if log_format == "json":
        given["embedding_api_key"] = key
    else:
        given["embedding_url"] = embedder.url.replace("http://", f"http://user:{password}@")
    with running(log, **given) as server:
        entries = [{"title": title, "content": f"{content} {thai}"}]
        book_id = create(server, {"name": title, "entries": entries})
        for number, misdeed in enumerate(misdeeds):
            embedder.behave()
            assert build(server, book_id, force=True).status_code == 200
            embedder.misbehave(misdeed)
            _ask_everything(server, book_id, f"{query} {number}")
        embedder.behave()
        assert build(server, book_id, force=True).status_code == 200
        embedder.close()
        _ask_everything(server, book_id, f"{query} refused")
    reported = log.read_text(encoding="utf-8")
    assert "/v1/context/select" in reported
    for secret in SECRETS:
        assert secret not in reported
        assert secret.encode("unicode_escape").decode() not in reported


def _ask_everything(server: Server, book_id: str, query: str) -> None:
    books = [{"book_id": book_id}]
    select = {"books": books, "query": query, "strategy": "hybrid"}
    assert server.client.post("/v1/context/select", json=select).status_code == 200
    for mode in ("vector", "hybrid"):
        found = server.client.post(
            "/v1/search", json={"books": books, "query": f"{query} {mode}", "mode": mode}
        )
        assert found.status_code in {200, 503}
        if found.status_code == 503:
            assert not any(secret in found.text for secret in SECRETS)
    built = build(server, book_id, force=True)
    assert built.status_code in {200, 503}
    reported = server.client.get(f"/v1/books/{book_id}/index").text
    assert not any(secret in reported for secret in SECRETS)


def test_a_hanging_embedding_server_holds_up_no_turn(log: Path, embedder: EmbeddingServer) -> None:
    database = f"sqlite:///{log.with_suffix('.db')}"
    given = settings(database, embedder, embedding_query_timeout_s=QUERY_TIMEOUT_S)
    with running(log, **given) as server:
        book_id = create(server, book())
        assert build(server, book_id).status_code == 200
        idle = median(_seconds(server, book_id, "rules", n)[0] for n in range(30))
        embedder.hang(30)
        with ThreadPoolExecutor(20) as threads:
            for round_ in range(2):
                calls = [
                    threads.submit(_seconds, server, book_id, "hybrid", 100 * round_ + n)
                    for n in range(20)
                ]
                rules = [_seconds(server, book_id, "rules", n)[0] for n in range(30)]
                for took, degraded in (call.result() for call in calls):
                    assert degraded == ["embedding_unavailable"]
                    assert took < QUERY_TIMEOUT_S + SLACK_S
                print(f"rules: {idle * 1e3:.1f} ms, beside them {median(rules) * 1e3:.1f} ms")
                assert median(rules) < max(10 * idle, 0.1)
                for n in range(3):  # one after the other, while nobody asks
                    took, _ = _seconds(server, book_id, "hybrid", 1_000 + n)
                    assert took < QUERY_TIMEOUT_S + SLACK_S
                if not round_:
                    time.sleep(5.1)  # then it is asked again


def _seconds(server: Server, book_id: str, strategy: str, number: int) -> tuple[float, list[str]]:
    """Return how long a selection took, and what was degraded."""
    query = f"{QUERY} {number}"
    body = {"books": [{"book_id": book_id}], "query": query, "strategy": strategy}
    began = time.perf_counter()
    answer = server.client.post("/v1/context/select", json={**body, "explain": "none"})
    return time.perf_counter() - began, answer.json()["degraded"]
