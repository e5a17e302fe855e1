"""Acceptance cases of docs/rules/native.md §16 on hybrid recall, indexes and search, over HTTP.

Each runs on both databases, against a real embedding server that speaks OpenAI's protocol.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest

from embedding import DIMENSIONS, embed
from embedding_server import EmbeddingServer, embedding_server as started
from service import UNKNOWN_BOOK, Api, Json, code, serving

LORE = [
    {"id": "tower", "title": "灯塔", "content": "雾中的灯塔由哑女看守，鲸油点灯。"},
    {"id": "toll", "title": "Toll keeper", "content": "Marrow keeps the toll pier and its bell."},
    {"id": "market", "title": "Night market", "content": "Stalls open when the tide is low."},
    {"id": "hidden", "title": "Sealed door", "content": "ประตูถูกปิดผนึก 🔒", "enabled": False},
]
BOOK = {"name": "雾隐渡", "entries": LORE}


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with started() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, database: str) -> str:
    if request.param == "sqlite":
        return database
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def api(url: str, server: EmbeddingServer) -> Iterator[Api]:
    with serving(**settings(url, server)) as api:
        yield api


def settings(url: str, server: EmbeddingServer, **others: Any) -> dict[str, Any]:
    return {
        "database_url": url,
        "embedder": "openai",
        "embedding_url": server.url,
        "embedding_model": "tiny",
        "embedding_dimensions": DIMENSIONS,
        "embedding_retries": 0,
        "embedding_query_timeout_s": 0.5,
        **others,
    }


def build(api: Api, book_id: str, revision: int = 1, **fields: Any) -> httpx.Response:
    path, body = f"/v1/books/{book_id}/index", {"revision": revision, **fields}
    return api("POST", path, json=body)


def start(api: Api, book_id: str) -> httpx.Response:
    path, params = f"/v1/books/{book_id}/index", {"background": "true"}
    return api("POST", path, json={"revision": 1}, params=params)


def state(api: Api, book_id: str, revision: int | None = None) -> Json:
    params = {} if revision is None else {"revision": revision}
    return api("GET", f"/v1/books/{book_id}/index", params=params).json()


def select(api: Api, book_id: str, query: str, **fields: Any) -> Json:
    body = {"books": [{"book_id": book_id}], "query": query, "strategy": "hybrid", **fields}
    answer = api("POST", "/v1/context/select", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def search(api: Api, query: str, mode: str, **fields: Any) -> httpx.Response:
    return api("POST", "/v1/search", json={"query": query, "mode": mode, **fields})


def rest(api: Api) -> None:
    """Let the pause after a failed query pass."""
    api.app.state.shared.services.queries._paused_until = 0.0


def test_78_without_an_embedder_hybrid_works_and_says_so(url: str) -> None:
    with serving(database_url=url) as api:
        book_id = api.create(BOOK)
        found = select(api, book_id, "谁看守灯塔？")
        assert [block["entry_id"] for block in found["blocks"]] == ["tower"]
        assert found["degraded"] == ["vector_disabled"]
        assert code(build(api, book_id)) == "vector_disabled"
        assert state(api, book_id)["status"] == "absent"
        assert code(search(api, "lamp", "vector")) == "vector_disabled"
        assert code(api("GET", "/v1/indexes", params={"stale": "true"})) == "vector_disabled"


def test_79_an_embedding_server_that_is_down_degrades(api: Api, server: EmbeddingServer) -> None:
    book_id = api.create(BOOK)
    assert build(api, book_id).json()["status"] == "ready"
    server.fail(500)
    found = select(api, book_id, "灯塔")
    assert found["degraded"] == ["embedding_unavailable"]
    assert [block["entry_id"] for block in found["blocks"]] == ["tower"]
    calls = server.calls
    assert select(api, book_id, "another 灯塔")["degraded"] == ["embedding_unavailable"]
    assert server.calls == calls  # it is not asked again at once
    server.behave()
    rest(api)
    assert select(api, book_id, "灯塔")["degraded"] == []


@pytest.mark.parametrize("misdeed", ["hang", "drop", "garbage", "wrong size", "429", "two vectors"])
def test_79_whatever_the_server_does_a_turn_is_answered(
    api: Api, server: EmbeddingServer, misdeed: str
) -> None:
    book_id = api.create(BOOK)
    build(api, book_id)
    match misdeed:
        case "hang":
            server.hang(5)
        case "drop":
            server.drop()
        case "garbage":
            server.answer(b"<html>")
        case "wrong size":
            server.change(lambda items: [{**each, "embedding": [1.0, 2.0]} for each in items])
        case "429":
            server.fail(429, retry_after="60")
        case "two vectors":
            server.change(lambda items: items * 2)
    found = select(api, book_id, "灯塔")
    assert found["degraded"] == ["embedding_unavailable"]
    assert [block["entry_id"] for block in found["blocks"]] == ["tower"]
    assert found["duration_ms"] < 500
    rest(api)
    refused = search(api, "灯塔", "vector", books=[{"book_id": book_id}])
    assert (refused.status_code, code(refused)) == (503, "embedding_unavailable")
    assert "灯塔" not in refused.json()["detail"]


def test_79_vectors_bring_in_what_shares_no_word(api: Api) -> None:
    """The tiny embedder knows pieces of words, words alone know whole ones."""
    book_id = api.create(BOOK)
    assert select(api, book_id, "tollkeepers")["blocks"] == []
    build(api, book_id)
    found = select(api, book_id, "tollkeepers", recall_limit=1)
    assert [block["entry_id"] for block in found["blocks"]] == ["toll"]
    decision = next(each for each in found["decisions"] if each["entry_id"] == "toll")
    facts = decision["facts"]
    assert (decision["reason"], facts["vector_rank"], facts["recall"]) == ("hybrid", 1, "kept")
    expected = float(embed("tollkeepers") @ embed(f"{LORE[1]['title']}\n{LORE[1]['content']}"))
    assert facts["similarity"] == pytest.approx(expected, abs=2e-6)
    assert "lexical_rank" not in facts


def test_83_rules_never_call_embeddings(api: Api, server: EmbeddingServer) -> None:
    book_id = api.create(BOOK)
    build(api, book_id)
    calls = server.calls
    found = select(api, book_id, "灯塔", strategy="rules")
    assert found["degraded"] == []
    assert search(api, "灯塔", "lexical", books=[{"book_id": book_id}]).status_code == 200
    assert server.calls == calls
    select(api, book_id, "灯塔")
    assert server.calls == calls + 1
    select(api, book_id, "灯塔")  # the same query is not asked twice
    assert server.calls == calls + 1


@pytest.mark.parametrize(
    ("length", "starts"),
    [(0, []), (1, [0]), (1000, [0]), (1001, [0, 1000]), (2100, [0, 1000, 2000])],
)
def test_84_chunks(api: Api, server: EmbeddingServer, length: int, starts: list[int]) -> None:
    content = "".join(chr(0x4E00 + number % 5000) for number in range(length))
    entries = [{"title": "雾", "content": content}, {"content": " \n"}]
    book_id = api.create({"name": "长", "entries": entries})
    built = build(api, book_id).json()
    assert (built["status"], built["chunk_count"], built["done"]) == ("ready", *[len(starts)] * 2)
    assert server.texts == [f"雾\n{content[start : start + 1200]}" for start in starts]


def test_85_a_second_build_is_reused_and_force_builds_again(
    api: Api, server: EmbeddingServer
) -> None:
    book_id = api.create(BOOK)
    first = build(api, book_id).json()
    assert (first["reused"], first["usable"], first["chunk_count"]) == (False, True, 4)
    calls, texts = server.calls, len(server.texts)
    again = build(api, book_id).json()
    assert again == {**first, "reused": True}
    assert server.calls == calls
    forced = build(api, book_id, force=True).json()
    assert (forced["reused"], forced["status"]) == (False, "ready")
    assert len(server.texts) == 2 * texts
    assert state(api, book_id) == {k: v for k, v in forced.items() if k != "reused"}


def test_86_one_of_two_builds_is_told_that_the_other_runs(
    api: Api, server: EmbeddingServer
) -> None:
    book_id = api.create(BOOK)
    server.hang(0.4, times=1)
    begun = api(
        "POST", f"/v1/books/{book_id}/index", json={"revision": 1}, params={"background": "true"}
    )
    assert (begun.status_code, begun.json()["status"]) == (202, "building")
    busy = build(api, book_id)
    assert (busy.status_code, code(busy)) == (409, "index_busy")
    assert code(build(api, book_id, force=True)) == "index_busy"
    assert select(api, book_id, "灯塔")["degraded"] == [f"index_not_ready:{book_id}:1"]
    api.run(_ended(api))
    assert state(api, book_id)["status"] == "ready"
    done = api(
        "POST", f"/v1/books/{book_id}/index", json={"revision": 1}, params={"background": "true"}
    )
    assert (done.status_code, done.json()["reused"]) == (200, True)


async def _ended(api: Api) -> None:
    for job in tuple(api.app.state.shared.services.jobs._tasks):
        await job


def test_87_a_build_that_fails_says_why_and_goes_on_later(
    api: Api, server: EmbeddingServer
) -> None:
    entries = [{"id": f"e{n}", "content": f"内容 {n}"} for n in range(130)]
    book_id = api.create({"name": "Many", "entries": entries})
    server.fail(503, times=1)
    failed = build(api, book_id)
    assert (failed.status_code, code(failed)) == (503, "embedding_unavailable")
    described = state(api, book_id)
    assert described["status"] == "failed"
    assert described["error"] == failed.json()["detail"]
    assert "503" in described["error"]
    assert select(api, book_id, "内容")["degraded"] == [f"index_not_ready:{book_id}:1"]
    before = len(set(server.texts))
    built = build(api, book_id).json()
    assert (built["status"], built["error"], built["chunk_count"]) == ("ready", None, 130)
    assert before <= 130
    assert select(api, book_id, "内容")["degraded"] == []


def test_87_what_was_embedded_before_a_failure_is_not_embedded_again(
    url: str, server: EmbeddingServer
) -> None:
    entries = [{"id": f"e{n}", "content": f"内容 {n}"} for n in range(100)]
    given = settings(url, server, embedding_concurrency=1, embedding_batch_size=10)
    with serving(**given) as api:
        book_id = api.create({"name": "Many", "entries": entries})
        count = 0

        def fail_fifth(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
            nonlocal count
            count += 1
            return items[: len(items) // 2] if count == 5 else items

        server.change(fail_fifth)
        assert code(build(api, book_id)) == "embedding_unavailable"
        described = state(api, book_id)
        assert (described["status"], described["done"], described["chunk_count"]) == (
            "failed",
            40,
            100,
        )
        assert "5 vectors for 10" in described["error"]
        sent = len(server.texts)
        assert build(api, book_id).json()["status"] == "ready"
        assert len(server.texts) - sent == 60


def test_88_a_new_revision_is_not_ready(api: Api, server: EmbeddingServer) -> None:
    book_id = api.create(BOOK)
    build(api, book_id)
    changed = [*LORE[:3], {**LORE[3], "content": "A door of salt."}]
    api.publish(book_id, 1, {**BOOK, "entries": changed})
    assert select(api, book_id, "灯塔")["degraded"] == [f"index_not_ready:{book_id}:2"]
    assert state(api, book_id)["status"] == "absent"
    assert state(api, book_id, 1)["usable"] is True
    pinned = [{"book_id": book_id, "revision": 1}]
    assert select(api, book_id, "灯塔", books=pinned)["degraded"] == []
    texts = len(server.texts)
    assert build(api, book_id, 2).json()["chunk_count"] == 4
    assert server.texts[texts:] == ["Sealed door\nA door of salt."]
    assert select(api, book_id, "灯塔")["degraded"] == []


def test_another_model_makes_an_index_stale(url: str, server: EmbeddingServer) -> None:
    with serving(**settings(url, server)) as api:
        book_id = api.create(BOOK)
        build(api, book_id)
    with serving(**settings(url, server, embedding_model="other")) as api:
        described = state(api, book_id)
        assert (described["status"], described["usable"]) == ("ready", False)
        assert select(api, book_id, "灯塔")["degraded"] == [f"index_not_ready:{book_id}:1"]
        built = build(api, book_id).json()
        assert (built["reused"], built["usable"]) == (False, True)
        assert built["embedding_version"] != described["embedding_version"]


def test_89_excerpts_are_at_most_600_characters_of_the_author(api: Api) -> None:
    filler = "潮" * 1_500
    content = f"{filler}哑女守着灯塔{filler}"
    book_id = api.create({"name": "长", "entries": [{"title": "夜", "content": content}]})
    build(api, book_id)
    books = [{"book_id": book_id}]
    by_words = search(api, "灯塔", "lexical", books=books).json()["results"][0]
    assert len(by_words["excerpt"]) == 600
    assert by_words["excerpt"] in content
    assert by_words["excerpt"].index("灯塔") == 100
    assert by_words["vector_score"] is None
    by_vector = search(api, "哑女守着灯塔", "vector", books=books).json()["results"][0]
    assert by_vector["excerpt"] == content[1000:1600]
    assert by_vector["lexical_score"] is None


def test_90_search_by_vectors_needs_an_index_and_hybrid_degrades(api: Api) -> None:
    book_id = api.create(BOOK)
    books = [{"book_id": book_id}]
    refused = search(api, "灯塔", "vector", books=books)
    assert (refused.status_code, code(refused)) == (409, "index_not_ready")
    assert refused.json()["details"] == {"books": [{"book_id": book_id, "revision": 1}]}
    hybrid = search(api, "灯塔", "hybrid", books=books).json()
    assert hybrid["degraded"] == [f"index_not_ready:{book_id}:1"]
    assert [each["entry_id"] for each in hybrid["results"]] == ["tower"]
    assert hybrid["embedding_version"] is None
    build(api, book_id)
    hybrid = search(api, "灯塔", "hybrid", books=books).json()
    assert hybrid["degraded"] == []
    assert hybrid["embedding_version"]
    assert hybrid["results"][0]["entry_id"] == "tower"
    assert len(hybrid["results"]) == 4
    assert all(each["vector_score"] is not None for each in hybrid["results"])
    unknown = search(api, "灯塔", "vector", books=[{"book_id": UNKNOWN_BOOK}])
    assert code(unknown) == "book_not_found"


def test_91_a_disabled_entry_is_found_unless_it_shall_not(api: Api) -> None:
    book_id = api.create(BOOK)
    build(api, book_id)
    for mode in ("lexical", "vector", "hybrid"):
        asked = {"books": [{"book_id": book_id}]}
        found = search(api, "ประตูถูกปิดผนึก", mode, **asked).json()["results"]
        assert (found[0]["entry_id"], found[0]["enabled"]) == ("hidden", False)
        without = search(api, "ประตูถูกปิดผนึก", mode, **asked, include_disabled=False).json()
        assert "hidden" not in [each["entry_id"] for each in without["results"]]
    assert select(api, book_id, "ประตูถูกปิดผนึก")["decisions"][3]["reason"] == "disabled"


def test_a_tenant_is_searched_without_naming_books(api: Api) -> None:
    first, second = api.create(BOOK), api.create({**BOOK, "name": "二"})
    other = api.create(BOOK, tenant="other")
    build(api, first)
    found = search(api, "灯塔由哑女看守", "vector").json()
    assert {each["book_id"] for each in found["results"]} == {first}
    assert found["results"][0]["entry_id"] == "tower"
    assert found["degraded"] == [f"index_not_ready:{second}:1"]
    build(api, second)
    assert other not in str(search(api, "灯塔由哑女看守", "vector").json())
    both = search(api, "灯塔由哑女看守", "vector", limit=2).json()
    assert both["degraded"] == []
    assert sorted(each["book_id"] for each in both["results"]) == sorted([first, second])
    lexical = search(api, "灯塔", "lexical").json()["results"]
    assert {each["book_id"] for each in lexical} == {first, second}
    hybrid = search(api, "灯塔", "hybrid").json()
    assert {each["entry_id"] for each in hybrid["results"][:2]} == {"tower"}
    for mode in ("lexical", "vector", "hybrid"):
        empty = api("POST", "/v1/search", json={"query": "x", "mode": mode}, tenant="nobody").json()
        assert empty["results"] == []


def test_indexes_in_use_are_listed_and_paged(api: Api) -> None:
    books = sorted(api.create(BOOK) for _ in range(3))
    api.publish(books[0], 1, BOOK)
    pinned = {"bindings": [{"book_id": books[0], "revision": 1}]}
    api("PUT", "/v1/prompt-bindings", params={"prompt_id": "p"}, json=pinned)
    build(api, books[1])
    used = [(books[0], 1), (books[0], 2), (books[1], 1), (books[2], 1)]

    def listed(**params: Any) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        while True:
            page = api("GET", "/v1/indexes", params=params).json()
            found += [(each["book_id"], each["revision"]) for each in page["indexes"]]
            if page["next_cursor"] is None:
                return found
            params = {**params, "cursor": page["next_cursor"]}

    assert listed() == used
    assert listed(limit=1) == used
    assert listed(stale="true") == [each for each in used if each[0] != books[1]]
    assert listed(stale="true", limit=2) == [each for each in used if each[0] != books[1]]
    bad = api("GET", "/v1/indexes", params={"cursor": "雾"})
    assert (bad.status_code, code(bad)) == (422, "validation_error")


def test_progress_comes_as_events(url: str, server: EmbeddingServer) -> None:
    entries = [{"id": f"e{n}", "content": f"内容 {n}"} for n in range(25)]
    given = settings(url, server, embedding_concurrency=1, embedding_batch_size=10)
    with serving(**given) as api:
        book_id = api.create({"name": "Many", "entries": entries})
        events = _events(api, book_id)
        assert [name for name, _ in events] == [*["progress"] * 4, "index"]
        assert [data["done"] for _, data in events[:4]] == [0, 10, 20, 25]
        assert {data["total"] for _, data in events[:4]} == {25}
        assert (events[4][1]["status"], events[4][1]["reused"]) == ("ready", False)
        assert [name for name, _ in _events(api, book_id)] == ["index"]
        server.fail(401)
        name, problem = _events(api, book_id, force=True)[-1]
        assert (name, problem["code"]) == ("problem", "embedding_unavailable")


def _events(api: Api, book_id: str, **fields: Any) -> list[tuple[str, Json]]:
    path, body = f"/v1/books/{book_id}/index", {"revision": 1, **fields}
    answer = api("POST", path, json=body, headers={"Accept": "text/event-stream"})
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    events = []
    for block in answer.text.split("\n\n")[:-1]:
        name, data = block.split("\n")
        events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return events


def test_an_abandoned_build_is_dead_when_its_lease_ends(api: Api) -> None:
    book_id = api.create(BOOK)
    services = api.app.state.shared.services
    build(api, book_id)
    row = api.run(services.store.read(lambda tx: tx.find_index("demo", book_id, 1)))
    for left, expected in ((60, "building"), (-1, "failed")):
        lease = services.clock.now() + timedelta(seconds=left)
        running = replace(row, status="building", build_id="dead", lease_until=lease)
        api.run(services.store.write(lambda tx, running=running: tx.put_index(running)))
        assert state(api, book_id)["status"] == expected
    assert state(api, book_id)["error"]
    assert build(api, book_id).json()["status"] == "ready"


def test_an_index_is_measured_and_turns_go_by_it(api: Api) -> None:
    book_id = api.create(BOOK)
    by_words = select(api, book_id, "tollkeepers", recall_floor="auto")
    assert by_words["recall_bounds"]["books"][0]["vectors"] is None
    built = build(api, book_id).json()
    assert list(built["quiet"]) == ["en", "zh", "ja", "ru", "es"]
    assert all(0 < scale["mean"] < 1 for scale in built["quiet"].values())
    assert state(api, book_id)["quiet"] == built["quiet"]
    assert api("GET", "/v1/indexes").json()["indexes"][0]["quiet"] == built["quiet"]
    found = select(api, book_id, "tollkeepers", recall_floor="auto")
    assert found["policy_version"] == "lorewell-select/2"
    shown = found["recall_bounds"]["books"]
    assert [each["book_id"] for each in shown] == [book_id]
    assert shown[0]["vectors"] in [built["quiet"]["en"], built["quiet"]["es"]]
    # Measured anew, the turn of before stays as it was.
    services = api.app.state.shared.services
    row = api.run(services.store.read(lambda tx: tx.find_index("demo", book_id, 1)))
    other = replace(row, quiet=None)
    api.run(services.store.write(lambda tx: tx.put_index(other)))
    opened = api("GET", f"/v1/selections/{found['selection_fingerprint']}").json()
    assert opened["recall_bounds"] == found["recall_bounds"]
    assert opened["blocks"] == found["blocks"]


def test_an_index_of_an_earlier_release_is_measured_when_it_is_built_again(
    api: Api, server: EmbeddingServer
) -> None:
    book_id = api.create(BOOK)
    measured = build(api, book_id).json()["quiet"]
    services = api.app.state.shared.services
    row = api.run(services.store.read(lambda tx: tx.find_index("demo", book_id, 1)))
    older = replace(row, quiet=None)
    api.run(services.store.write(lambda tx: tx.put_index(older)))
    assert state(api, book_id)["quiet"] == {}
    found = select(api, book_id, "tollkeepers", recall_floor="auto")
    assert found["degraded"] == [f"index_not_measured:{book_id}:1"]
    assert select(api, book_id, "tollkeepers")["degraded"] == []
    stale = api("GET", "/v1/indexes", params={"stale": "true"}).json()["indexes"]
    assert [each["book_id"] for each in stale] == [book_id]
    calls = server.calls
    again = build(api, book_id).json()
    assert (again["reused"], again["quiet"]) == (False, measured)
    assert server.calls == calls
    assert build(api, book_id).json()["reused"]


def test_a_ledger_is_opened_with_the_vectors_of_its_turn(api: Api, server: EmbeddingServer) -> None:
    book_id = api.create(BOOK)
    early = select(api, book_id, "tollkeepers", explain="none")["selection_fingerprint"]
    build(api, book_id)
    late = select(api, book_id, "tollkeepers", explain="none")["selection_fingerprint"]
    assert early != late
    calls = server.calls
    services = api.app.state.shared.services
    for flushed in (False, True):
        if flushed:
            api.run(services.keeper.flush())
        for name, degraded in ((early, [f"index_not_ready:{book_id}:1"]), (late, [])):
            opened = api("GET", f"/v1/selections/{name}").json()
            assert opened["selection_fingerprint"] == name
            assert opened["degraded"] == degraded
            assert len(opened["decisions"]) == 4
    assert server.calls == calls
    gone_row = api.run(services.store.read(lambda tx: tx.find_index("demo", book_id, 1)))
    other = replace(gone_row, ready_version="other")
    api.run(services.store.write(lambda tx: tx.put_index(other)))
    gone = api("GET", f"/v1/selections/{late}")
    assert (gone.status_code, code(gone)) == (404, "not_found")


def test_a_preview_ranks_by_vectors_what_is_stored_as_it_is(api: Api) -> None:
    book_id = api.create(BOOK)
    build(api, book_id)
    asked = {"query": "tollkeepers", "strategy": "hybrid", "recall_floor": 0.3}

    def preview(*books: Json) -> Json:
        answer = api("POST", "/v1/context/preview", json={**asked, "books": list(books)})
        assert answer.status_code == 200, answer.text
        return answer.json()

    stored = preview({"book_id": book_id})
    assert stored["degraded"] == []
    assert (
        stored["selection_fingerprint"]
        == select(api, book_id, "tollkeepers", recall_floor=0.3)["selection_fingerprint"]
    )
    inline = preview({"book": BOOK})
    assert inline["degraded"][0].startswith("index_not_ready:")
    changed = preview({"book_id": book_id, "revision": 1, "removed": ["market"]})
    assert changed["degraded"] == [f"index_not_ready:{book_id}:1"]


def test_an_entry_that_stays_out_of_recall_is_not_embedded(
    api: Api, server: EmbeddingServer
) -> None:
    entries = [{**LORE[0], "recall": False}, LORE[1]]
    book_id = api.create({"name": "b", "entries": entries})
    assert build(api, book_id).json()["chunk_count"] == 1
    assert not any("灯塔" in text for text in server.texts)
    found = select(api, book_id, "灯塔")
    assert found["degraded"] == []
    facts = found["decisions"][0]["facts"]
    assert "similarity" not in facts
    assert facts["lexical_rank"] == 1


def test_what_can_be_searched_stays_so_while_it_is_built_by_force(
    api: Api, server: EmbeddingServer
) -> None:
    book_id = api.create(BOOK)
    build(api, book_id)
    before = select(api, book_id, "灯塔")["decisions"]
    server.hang(0.4, times=1)
    path, params = f"/v1/books/{book_id}/index", {"background": "true"}
    api("POST", path, json={"revision": 1, "force": True}, params=params)
    described = state(api, book_id)
    assert (described["status"], described["usable"]) == ("building", True)
    assert select(api, book_id, "灯塔")["decisions"] == before
    api.run(_ended(api))
    server.fail(500)
    assert code(build(api, book_id, force=True)) == "embedding_unavailable"
    described = state(api, book_id)
    assert (described["status"], described["usable"]) == ("failed", True)
    assert select(api, book_id, "灯塔")["degraded"] == ["embedding_unavailable"]  # a new query
    server.behave()
    rest(api)
    assert select(api, book_id, "灯塔")["decisions"] == before
    again = build(api, book_id).json()
    assert (again["status"], again["reused"]) == ("ready", False)


def test_a_build_by_force_changes_no_vector_before_it_is_whole(
    url: str, server: EmbeddingServer
) -> None:
    entries = [{"id": f"e{n}", "content": f"内容 {n}"} for n in range(30)]
    given = settings(url, server, embedding_concurrency=1, embedding_batch_size=10)
    with serving(**given) as api:
        book_id = api.create({"name": "Many", "entries": entries})
        build(api, book_id)
        books = [{"book_id": book_id}]

        def scores() -> list[tuple[str, float]]:
            found = search(api, "内容", "vector", books=books, limit=30).json()["results"]
            return [(each["entry_id"], each["vector_score"]) for each in found]

        before, count = scores(), 0

        def turn_and_fail_third(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
            nonlocal count
            count += 1
            turned = [{**each, "embedding": each["embedding"][::-1]} for each in items]
            return turned[:1] if count == 3 else turned

        server.change(turn_and_fail_third)
        assert code(build(api, book_id, force=True)) == "embedding_unavailable"
        server.behave()
        assert scores() == before
        with serving(**given) as other:  # another process, which holds nothing yet
            found = search(other, "内容", "vector", books=books, limit=30).json()["results"]
            assert [(each["entry_id"], each["vector_score"]) for each in found] == before
