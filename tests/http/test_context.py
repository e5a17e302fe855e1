"""Selecting, previews, ledgers, tokens, search, bindings and indexes over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from service import UNKNOWN_BOOK, Api, Json, code, places, serving

SECOND = {"name": "Harbour", "entries": [{"id": "mole", "content": "A mole.", "keys": ["lamp"]}]}


def select(api: Api, book_id: str, query: str = "the lamp", **fields: object) -> Json:
    body = {"books": [{"book_id": book_id}], "query": query, **fields}
    return api("POST", "/v1/context/select", json=body)


def test_what_belongs_into_a_turn_is_selected(api: Api) -> None:
    answer = select(api, api.create())
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/json"
    found = answer.json()
    assert [block["entry_id"] for block in found["blocks"]] == ["lamp"]
    assert found["decisions"][0]["facts"]["key"] == "lamp"
    assert found["token_count"] > 0
    assert found["degraded"] == []


def test_a_prompt_id_changes_nothing(api: Api) -> None:
    body = {"books": [{"book_id": api.create()}], "query": "lamp"}
    plain = api("POST", "/v1/context/select", json=body).json()
    named = api("POST", "/v1/context/select", json=body, params={"prompt_id": "p"}).json()
    assert named["selection_fingerprint"] == plain["selection_fingerprint"]
    assert places(
        api("POST", "/v1/context/select", json=body, params={"prompt_id": "p" * 201})
    ) == ["prompt_id"]


def test_an_old_revision_stays_selectable(api: Api) -> None:
    book_id = api.create()
    api.publish(book_id, 1, SECOND)
    for revision, entry in ((1, "lamp"), (2, "mole"), (None, "mole")):
        named = {"book_id": book_id, "revision": revision}
        body = {"books": [named], "query": "lamp"}
        found = api("POST", "/v1/context/select", json=body).json()
        assert [block["entry_id"] for block in found["blocks"]] == [entry]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"books": [{"book_id": UNKNOWN_BOOK}]}, "book_not_found"),
        ({"books": [{"book_id": "nothing"}]}, "book_not_found"),
        ({"books": []}, "/books"),
        ({"query": ""}, "/query"),
        ({"query": "q" * 8_001}, "/query"),
        ({"history": [{"role": "user", "content": "c"}] * 101}, "/history"),
        ({"history": [{"role": "user", "content": "c" * 16_001}]}, "/history/0/content"),
        ({"colour": 1}, "/colour"),
        ({"query": "\x00"}, "/query"),
    ],
)
def test_a_bad_request_is_refused(api: Api, fields: Json, expected: str) -> None:
    answer = select(api, api.create(), **fields)
    assert expected in ([code(answer)] if answer.status_code == 404 else places(answer))


def test_a_revision_that_is_not_there_is_not_found(api: Api) -> None:
    body = {"books": [{"book_id": api.create(), "revision": 9**30}], "query": "lamp"}
    answer = api("POST", "/v1/context/select", json=body)
    assert code(answer) == "revision_not_found"
    assert answer.json()["details"]["revision"] == 9**30


def required(*entries: Json) -> Json:
    return {"name": "Required", "entries": list(entries)}


@pytest.mark.parametrize(
    ("book", "fields", "expected"),
    [
        (
            required(
                {"id": "a", "content": "x", "required": True, "position": "author_note_top"},
            ),
            {},
            "required_placement_unsupported",
        ),
        (
            required(
                {"id": "a", "content": "x", "required": True, "requires": ["b"]},
                {"id": "b", "content": "x", "enabled": False},
            ),
            {},
            "required_dependency_unavailable",
        ),
        (
            required(
                {"id": "a", "content": "x", "required": True, "conflict_key": "k"},
                {"id": "b", "content": "x", "required": True, "conflict_key": "k"},
            ),
            {},
            "required_conflict",
        ),
        (
            required({"id": "a", "content": "x", "required": True}),
            {"token_budget": 0},
            "budget_exceeded",
        ),
    ],
)
def test_a_required_entry_that_cannot_go_in_is_said(
    api: Api, book: Json, fields: Json, expected: str
) -> None:
    book_id = api.create(book)
    answer = select(api, book_id, **fields)
    assert (answer.status_code, code(answer)) == (422, expected)
    assert answer.json()["details"]["entry_id"]
    body = {"books": [{"book": book}], "query": "x", **fields}
    assert code(api("POST", "/v1/context/preview", json=body)) == expected


def test_too_large_a_snapshot_is_refused(database: str) -> None:
    with serving(database_url=database, max_snapshot_entries=1) as api:
        two = {"name": "B", "entries": [{"content": "a"}, {"content": "b"}]}
        assert code(select(api, api.create(two))) == "snapshot_too_large"
        body = {"books": [{"book": two}], "query": "x"}
        assert code(api("POST", "/v1/context/preview", json=body)) == "snapshot_too_large"


def test_a_preview_takes_books_whole_stored_and_changed(api: Api) -> None:
    book_id = api.create()
    changed = [{"id": "lamp", "content": "Another lamp.", "keys": ["lamp"]}]
    books = [
        {"book": SECOND},
        {"book_id": book_id, "changes": changed},
    ]
    answer = api("POST", "/v1/context/preview", json={"books": books, "query": "lamp"})
    assert answer.status_code == 200
    contents = {block["content"] for block in answer.json()["blocks"]}
    assert contents == {"A mole.", "Another lamp."}
    stored = {"books": [{"book_id": book_id}], "query": "lamp"}
    previewed = api("POST", "/v1/context/preview", json=stored).json()
    selected = api("POST", "/v1/context/select", json=stored).json()
    assert {**previewed, "duration_ms": 0} == {**selected, "duration_ms": 0}
    assert len(api("GET", "/v1/books").json()["books"]) == 1


def test_a_preview_of_what_is_wrong_is_refused(api: Api) -> None:
    book_id = api.create()

    def refused(item: Json) -> Json:
        return api("POST", "/v1/context/preview", json={"books": [item], "query": "x"})

    assert code(refused({"book_id": UNKNOWN_BOOK})) == "book_not_found"
    assert code(refused({"book_id": book_id, "revision": 2})) == "revision_not_found"
    removed = refused({"book_id": book_id, "removed": ["nobody"]})
    assert places(removed) == ["/books/0/removed/0"]
    added = [{"id": f"e{number}", "content": "x"} for number in range(5_000)]
    too_many = refused({"book_id": book_id, "changes": added})
    assert (code(too_many), places(too_many)) == ("validation_error", ["/books/0/changes"])
    circle = {"name": "B", "entries": [{"id": "a", "content": "x", "requires": ["a"]}]}
    assert code(refused({"book": circle})) == "invalid_dependency"


def test_a_selection_can_be_opened_later_with_its_whole_ledger(api: Api) -> None:
    found = select(api, api.create(), explain="none").json()
    assert found["decisions"] == []
    path = f"/v1/selections/{found['selection_fingerprint']}"
    opened = api("GET", path)
    assert opened.status_code == 200
    assert opened.json()["selection_fingerprint"] == found["selection_fingerprint"]
    assert [each["entry_id"] for each in opened.json()["decisions"]] == ["lamp"]
    assert code(api("GET", path, tenant="other")) == "not_found"
    for unknown in ("0" * 64, "nothing", "%00", "a" * 5000):
        assert code(api("GET", f"/v1/selections/{unknown}")) == "not_found"


def test_a_kept_selection_survives_a_restart(database: str) -> None:
    with serving(database_url=database) as api:
        path = f"/v1/selections/{select(api, api.create()).json()['selection_fingerprint']}"
    with serving(database_url=database) as api:
        assert api("GET", path).status_code == 200


def test_nothing_is_kept_when_keeping_is_off(database: str) -> None:
    with serving(database_url=database, ledger_keep_s=0) as api:
        found = select(api, api.create()).json()
        answer = api("GET", f"/v1/selections/{found['selection_fingerprint']}")
        assert code(answer) == "not_found"


def test_a_ledger_of_a_deleted_book_is_gone(api: Api) -> None:
    book_id = api.create()
    found = select(api, book_id).json()
    api("DELETE", f"/v1/books/{book_id}")
    path = f"/v1/selections/{found['selection_fingerprint']}"
    assert code(api("GET", path)) == "book_not_found"


def test_a_large_ledger_comes_whole(api: Api) -> None:
    entries = [{"content": f"word{n}", "keys": [f"word{n}"]} for n in range(1500)]
    answer = select(api, api.create({"name": "Large", "entries": entries}), "word7 word8")
    assert len(answer.json()["decisions"]) == 1500


def test_tokens_are_counted(api: Api) -> None:
    body = {"texts": ["the lamp is lit", ""]}
    assert api("POST", "/v1/tokens/count", json=body).json() == {
        "tokenizer": "cl100k_base",
        "counts": [4, 0],
    }
    other = api("POST", "/v1/tokens/count", json={**body, "tokenizer": "o200k_base"})
    assert other.json()["tokenizer"] == "o200k_base"
    model = api("POST", "/v1/tokens/count", json={**body, "tokenizer": "openai/gpt-4o-mini"})
    assert model.json() == other.json()
    for name in ("/etc/passwd", "gpt2", "claude", "claude=/etc/passwd"):
        answer = api("POST", "/v1/tokens/count", json={**body, "tokenizer": name})
        assert places(answer) == ["/tokenizer"]


def test_conditions_are_tried(api: Api) -> None:
    body = {"text": "tb.英雄.力量 > 10 且 tb.met = 1", "table": {"英雄": {"力量": 15}}}
    tried = api("POST", "/v1/conditions/try", json=body).json()
    assert (tried["holds"], tried["flaw"]) == (False, None)
    assert [part["found"] for part in tried["tree"]["parts"]] == [15, None]
    broken = api("POST", "/v1/conditions/try", json={"text": "力量 > 10"}).json()
    assert broken == {
        "holds": False,
        "written": None,
        "tree": None,
        "flaw": {"at": 0, "detail": "expected tb. and the name of a field"},
    }
    assert places(api("POST", "/v1/conditions/try", json={"text": "x", "rules": "y"})) == ["/rules"]


def test_entries_are_found_by_words(api: Api) -> None:
    book_id = api.create()
    body = {"books": [{"book_id": book_id}], "query": "lamp"}
    found = api("POST", "/v1/search", json=body).json()
    assert [each["entry_id"] for each in found["results"]] == ["lamp"]
    hybrid = api("POST", "/v1/search", json={**body, "mode": "hybrid"}).json()
    assert hybrid["degraded"] == ["vector_disabled"]
    assert code(api("POST", "/v1/search", json={**body, "mode": "vector"})) == "vector_disabled"
    unknown = {**body, "books": [{"book_id": UNKNOWN_BOOK}]}
    assert code(api("POST", "/v1/search", json=unknown)) == "book_not_found"
    missing = {**body, "books": [{"book_id": book_id, "revision": 2}]}
    assert code(api("POST", "/v1/search", json=missing)) == "revision_not_found"


def test_bindings_are_put_read_and_resolved(api: Api) -> None:
    first, second = api.create(), api.create()
    prompt = {"prompt_id": "p"}

    def put(*bindings: Json, **fields: object) -> Json:
        body = {"bindings": list(bindings), **fields}
        return api("PUT", "/v1/prompt-bindings", params=prompt, json=body)

    stored = put(
        {"book_id": first, "revision": 1, "position": 2},
        {"book_id": second, "position": 1},
    )
    assert stored.status_code == 200
    assert stored.json() == api("GET", "/v1/prompt-bindings", params=prompt).json()
    api.publish(first, 1)
    api.publish(second, 1)
    resolved = api("GET", "/v1/prompt-bindings/resolve", params=prompt).json()
    assert resolved == {
        "tenant_id": "demo",
        "prompt_id": "p",
        "policy": "native",
        "books": [
            {"book_id": second, "revision": 2, "source": "global"},
            {"book_id": first, "revision": 1, "source": "global"},
        ],
        "settings": {},
    }
    put({"book_id": first, "enabled": False})
    assert api("GET", "/v1/prompt-bindings/resolve", params=prompt).json()["books"] == []
    put()
    assert api("GET", "/v1/prompt-bindings", params=prompt).json()["bindings"] == []
    assert code(put({"book_id": UNKNOWN_BOOK, "enabled": False})) == "book_not_found"
    assert code(put({"book_id": first, "revision": 9**30})) == "revision_not_found"
    assert places(put({"book_id": first}, {"book_id": first})) == ["/bindings/1/book_id"]
    assert places(put(*[{"book_id": first}] * 21)) == ["/bindings"]


def test_bindings_carry_how_their_books_are_used(api: Api) -> None:
    book_id = api.create()
    prompt = {"prompt_id": "雾 p"}
    settings = {
        "native": {"strategy": "rules", "scan_depth": 4},
        "sillytavern": {"world_info_depth": 3, "vectors": {"messages": 3}},
        "auto_index": True,
    }
    body: dict[str, Any] = {
        "bindings": [{"book_id": book_id, "source": "character"}],
        "settings": settings,
    }
    stored = api("PUT", "/v1/prompt-bindings", params=prompt, json=body)
    assert stored.status_code == 200
    vectors = {"messages": 3, "max_entries": 5, "threshold": 0.25, "all_entries": False}
    written = settings | {"sillytavern": {"world_info_depth": 3, "vectors": vectors}}
    assert stored.json()["settings"] == written
    assert stored.json() == api("GET", "/v1/prompt-bindings", params=prompt).json()
    resolved = api("GET", "/v1/prompt-bindings/resolve", params=prompt).json()
    assert resolved["settings"] == written
    assert [each["source"] for each in resolved["books"]] == ["character"]

    def refused(settings: object) -> Json:
        answer = api(
            "PUT", "/v1/prompt-bindings", params=prompt, json={**body, "settings": settings}
        )
        assert answer.status_code == 422
        return answer

    unknown = refused({"native": {"world_info_depth": 1}})
    assert places(unknown) == ["/settings/native/world_info_depth"]
    assert "choose from strategy, scan_depth, token_budget" in unknown.text
    assert places(refused({"replica": {"seed": "1"}})) == ["/settings/replica/seed"]
    assert places(refused({"other": {}})) == ["/settings/other"]
    assert places(refused({"native": {"scan_depth": -1}})) == ["/settings/native/scan_depth"]
    bad_source = {"bindings": [{"book_id": book_id, "source": "world"}]}
    answer = api("PUT", "/v1/prompt-bindings", params=prompt, json=bad_source)
    assert places(answer) == ["/bindings/0/source"]
    assert api("GET", "/v1/prompt-bindings", params=prompt).json() == stored.json()


def test_prompts_are_listed_and_those_that_use_a_book(api: Api) -> None:
    first, second = api.create(), api.create()
    for prompt_id, ids in (("b", [first]), ("雾 1", [first, second]), ("a", [second]), ("c", [])):
        body = {"bindings": [{"book_id": book_id} for book_id in ids]}
        api("PUT", "/v1/prompt-bindings", params={"prompt_id": prompt_id}, json=body)
    page = api("GET", "/v1/prompts", params={"limit": 2}).json()
    assert page == {
        "prompts": [
            {"prompt_id": "a", "policy": "auto", "book_count": 1},
            {"prompt_id": "b", "policy": "auto", "book_count": 1},
        ],
        "next_cursor": "b",
    }
    rest = api("GET", "/v1/prompts", params={"cursor": page["next_cursor"]}).json()
    assert rest == {
        "prompts": [{"prompt_id": "雾 1", "policy": "auto", "book_count": 2}],
        "next_cursor": None,
    }

    def users(book_id: str) -> list[str]:
        found = api("GET", f"/v1/books/{book_id}/prompts").json()["prompts"]
        return [each["prompt_id"] for each in found]

    assert users(first) == ["b", "雾 1"]
    assert code(api("GET", f"/v1/books/{UNKNOWN_BOOK}/prompts")) == "book_not_found"
    bound = api("DELETE", f"/v1/books/{first}")
    assert code(bound) == "book_bound"
    assert bound.json()["details"] == {"book_id": first, "prompts": ["b", "雾 1"]}
    api("PUT", "/v1/prompt-bindings", params={"prompt_id": "b"}, json={"bindings": []})
    assert users(first) == ["雾 1"]


@pytest.mark.parametrize("prompt_id", [None, "", "p" * 201])
def test_the_prompt_must_be_named(api: Api, prompt_id: str | None) -> None:
    params = {} if prompt_id is None else {"prompt_id": prompt_id}
    for path in ("/v1/prompt-bindings", "/v1/prompt-bindings/resolve"):
        assert places(api("GET", path, params=params)) == ["prompt_id"]


def test_a_prompt_may_have_any_name(api: Api) -> None:
    name = {"prompt_id": "提示 🏮 ' \" %"}
    assert api("GET", "/v1/prompt-bindings", params=name).json()["prompt_id"] == "提示 🏮 ' \" %"


def test_without_an_embedder_there_are_no_indexes(api: Api) -> None:
    book_id = api.create()
    path = f"/v1/books/{book_id}/index"
    assert api("GET", path, params={"revision": "1"}).json() == {
        "book_id": book_id,
        "revision": 1,
        "status": "absent",
        "embedding_version": None,
        "chunk_count": 0,
        "done": 0,
        "usable": False,
        "error": None,
        "quiet": {},
        "updated_at": None,
    }
    assert code(api("GET", path, params={"revision": "2"})) == "revision_not_found"
    assert code(api("GET", path.replace(book_id, UNKNOWN_BOOK))) == "book_not_found"
    assert code(api("POST", path, json={"revision": 1})) == "vector_disabled"
    assert code(api("POST", path, json={"revision": 2})) == "revision_not_found"
    assert places(api("POST", path, json={})) == ["/revision"]
    unknown = path.replace(book_id, UNKNOWN_BOOK)
    assert code(api("POST", unknown, json={"revision": 1})) == "book_not_found"


def test_the_examples_of_the_document_are_accepted(api: Api) -> None:
    for path, operations in api.document["paths"].items():
        for method, operation in operations.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if body is None or operation["tags"] == ["gateway"]:  # that one's go on to a model
                continue
            filled = path.replace("{book_id}", api.create()).replace("{n}", "1")
            given = {"json": body["example"], "params": {"prompt_id": "p"}}
            answer = api(method.upper(), filled, **given)
            expected = {200, 201, 404} | ({409} if "{" in path else set())
            assert answer.status_code in expected, (path, answer.text)
