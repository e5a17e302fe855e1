"""The rules of SillyTavern_replica over HTTP: docs/rules/replica.md §6.2, and §10 where it touches.

Cases of one turn, without a service, are in tests/golden/test_acceptance_replica.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from embedding import TinyEmbedder, embed
from lorewell.app.replica.near import MAX_QUERIES
from lorewell.http.limits import MAX_REPLICA_BYTES as MAX_BYTES
from replica_books import conditional, constant, entry, keyed, trigger
from replica_service import bind, keep
from service import BOOK, UNKNOWN_BOOK, Api, Json, bearer, code, places, serving

ACTIVATE = "/v1/replica/activate"
PREVIEW = "/v1/replica/preview"
KEPT = "/v1/replica/activations/"
PROMPT = "场景 1"

GLOBAL = [
    constant("g1", position=0, order=100, content="Lamps burn oil."),
    keyed("g2", "灯塔", position=4, order=50),
    keyed("g3", "king", settings={"matchWholeWords": True}, position=0, order=10),
]
CHARACTER = [
    conditional("c1", "tb.力量 > 10", 'tb.态度 包括 "友好"', position=4, order=20),
    constant("c2", disable=True),
    constant("c3", position="1"),
]
TABLE = {"力量": 15, "态度": "很友好"}


@pytest.fixture
def embedder() -> TinyEmbedder:
    return TinyEmbedder()


@pytest.fixture(params=["sqlite", "postgres"])
def api(request: pytest.FixtureRequest, database: str, embedder: TinyEmbedder) -> Iterator[Api]:
    url = database
    if request.param == "postgres":
        url = str(request.getfixturevalue("postgres_url"))
    with serving(database_url=url, with_embedder=embedder) as api:
        yield api


def turn(*global_books: str, character: str | None = None, **members: Any) -> Json:
    books = {"globalBooks": [{"id": each} for each in global_books], "characterBookId": character}
    return {"worldBookData": books, **members}


def run_turn(api: Api, *global_books: str, **members: Any) -> Json:
    """Return the answer to a turn."""
    answer = api("POST", ACTIVATE, json=turn(*global_books, **members))
    assert answer.status_code == 200, answer.text
    return answer.json()


def active(answer: Json) -> list[str]:
    return [entry["uid"] for entry in answer["entries"]]


def warned(answer: Json) -> list[tuple[str, str | None]]:
    return [(each["code"], each.get("book_id")) for each in answer["warnings"]]


def test_41_example_of_stored_books(api: Api) -> None:
    g, c = keep(api, GLOBAL, "G"), keep(api, CHARACTER, "C")
    scene = {
        "mes": "去灯塔看看",
        "chatHistory": ["The kingdom sleeps."],
        "dynamicTableData": {"currentValues": TABLE},
    }
    answer = run_turn(api, g, character=c, **scene)
    assert active(answer) == ["g1", "c3", "c1", "g2"]
    assert answer["stats"] == {
        "total": 4,
        "by_position": [
            {"position": 0, "label": "角色定义之后", "count": 1},
            {"position": 1, "label": "角色定义之前", "count": 1},
            {"position": 4, "label": "系统提示/作者注释", "count": 2},
        ],
        "by_trigger": {"constant": 2, "keyword": 1, "condition": 1},
    }
    assert [(each["book_id"], each["source"]) for each in answer["entries"]] == [
        *((g, "global"), (c, "character"), (c, "character"), (g, "global")),
    ]
    assert [(each["book_id"], each["revision"]) for each in answer["snapshot"]] == [(g, 1), (c, 1)]
    weak = {**scene, "dynamicTableData": {"currentValues": {**TABLE, "力量": 10}}}
    assert active(run_turn(api, g, character=c, **weak)) == ["g1", "c3", "g2"]


def test_20_book_that_is_global_and_the_characters_is_loaded_once(api: Api) -> None:
    book_id = keep(api, GLOBAL)
    for name in (book_id, book_id.upper(), "雾隐渡"):
        answer = run_turn(api, book_id, character=name)
        assert [(each["id"], each["source"]) for each in answer["books"]] == [(book_id, "global")]
        assert warned(answer) == []


def test_21_missing_book_is_a_warning(api: Api) -> None:
    book_id = keep(api, GLOBAL)
    answer = run_turn(api, UNKNOWN_BOOK, book_id, character="灯 7", mes="灯塔")
    assert active(answer) == ["g1", "g2"]
    assert warned(answer) == [("book_not_found", UNKNOWN_BOOK), ("book_not_found", "灯 7")]
    assert api("DELETE", f"/v1/books/{book_id}").status_code == 204
    assert warned(run_turn(api, book_id, "雾隐渡"))[0] == ("book_not_found", book_id)


def test_22_characters_book_is_for_that_character_alone(api: Api) -> None:
    g, c = keep(api, GLOBAL, "G"), keep(api, CHARACTER, "C")
    assert active(run_turn(api, g, character=c)) == ["g1", "c3"]
    assert active(run_turn(api, g)) == ["g1"]


def test_23_sums_are_the_total(api: Api) -> None:
    stats = run_turn(api, keep(api, [*GLOBAL, *CHARACTER]), mes="灯塔 king")["stats"]
    assert stats["total"] == sum(each["count"] for each in stats["by_position"]) == 4
    assert stats["total"] == sum(stats["by_trigger"].values())


def test_3_history_is_read_in_both_forms(api: Api) -> None:
    book_id = keep(api, [keyed("a", "灯塔"), keyed("b", "หมอก"), keyed("c", "mole")])
    history = ["去灯塔", {"mes": "หมอกลง 🌫️"}, {"content": "the mole", "role": "user"}]
    answer = run_turn(api, book_id, mes="x", chatHistory=history)
    facts = {each["uid"]: each["facts"] for each in answer["decisions"]}
    assert {uid: each["message"] for uid, each in facts.items()} == {"a": 0, "b": 1, "c": 2}


def test_name_stands_for_the_book_of_that_name_changed_last(api: Api) -> None:
    first = keep(api, [constant("old")], "同名")
    second = keep(api, [constant("new")], "同名")
    answer = run_turn(api, character="同名")
    assert active(answer) == ["new"]
    assert answer["books"][0]["id"] == "同名"
    assert answer["snapshot"][0]["book_id"] == second
    by_name = {"worldBookData": {"globalBooks": [{"name": "同名"}]}}
    assert active(api("POST", ACTIVATE, json=by_name).json()) == ["new"]
    assert active(run_turn(api, first)) == ["old"]
    assert active(run_turn(api, "同")) == []  # the whole name, letter by letter


def test_revision_may_be_named(api: Api) -> None:
    book_id = keep(api, [constant("old")])
    api.publish(book_id, 1, {"name": "雾隐渡", "entries": [{"content": "B", "constant": True}]})
    for revision, expected in ((None, ["B"]), (1, ["C-old"]), (2, ["B"]), (3, [])):
        for named in ({"id": book_id}, {"name": "雾隐渡"}):
            books = {"globalBooks": [{**named, "revision": revision}]}
            answer = api("POST", ACTIVATE, json={"worldBookData": books}).json()
            assert [each["content"] for each in answer["entries"]] == expected
    assert warned(answer) == [("book_not_found", "雾隐渡")]


def test_given_book_wins_over_the_stored_one(api: Api) -> None:
    book_id = keep(api, GLOBAL)
    given = {book_id: {"entries": {"7": {"key": ["灯"], "content": "x", "position": 4}}}}
    answer = run_turn(api, book_id, books=given, mes="灯塔")
    assert active(answer) == ["7"]
    assert (answer["snapshot"], answer["activation_id"]) == ([], None)


def test_nulls_count_as_missing(api: Api) -> None:
    members = ("worldBookData", "mes", "chatHistory", "dynamicTableData", "seed", "books")
    answer = api("POST", ACTIVATE, json={**dict.fromkeys(members), "future": {"x": 1}})
    assert (answer.status_code, answer.json()["entries"]) == (200, [])
    half = {"worldBookData": {"globalBooks": None}, "dynamicTableData": {"currentValues": None}}
    assert api("POST", ACTIVATE, json=half).status_code == 200


WRONG: list[tuple[Json, str]] = [
    ({"mes": 7}, "/mes"),
    ({"chatHistory": "x"}, "/chatHistory"),
    ({"chatHistory": ["x", 7]}, "/chatHistory/1"),
    ({"chatHistory": [{"mes": ["x"]}]}, "/chatHistory/0"),
    ({"worldBookData": []}, "/worldBookData"),
    ({"worldBookData": {"globalBooks": [7]}}, "/worldBookData/globalBooks/0"),
    ({"worldBookData": {"globalBooks": [{}]}}, "/worldBookData/globalBooks/0/id"),
    ({"worldBookData": {"characterBookId": 7}}, "/worldBookData/characterBookId"),
    ({"dynamicTableData": {"currentValues": [1]}}, "/dynamicTableData/currentValues"),
    ({"books": []}, "/books"),
    ({"explain": "much"}, "/explain"),
    ({"prompt_id": ""}, "/prompt_id"),
    ({"char": "a\x00"}, "/char"),
]


def test_wrong_types_are_named(database: str) -> None:
    with serving(database_url=database) as api:
        for route in (ACTIVATE, PREVIEW):
            for body, place in WRONG:
                answer = api("POST", route, json=body)
                assert (code(answer), places(answer)) == ("validation_error", [place])
                assert answer.status_code == 422


def test_body_over_the_limit_is_refused(database: str) -> None:
    with serving(database_url=database) as api:
        headers = {"Content-Type": "application/json"}
        for size, status in ((MAX_BYTES, 200), (MAX_BYTES + 1, 413)):
            body = b"{" + b" " * (size - 2) + b"}"
            answer = api("POST", ACTIVATE, content=body, headers=headers)
            assert answer.status_code == status
        assert (code(answer), answer.json()["details"]) == (
            *("body_too_large", {"limit_bytes": MAX_BYTES}),
        )


def test_books_that_hold_too_much_are_refused(database: str) -> None:
    with serving(database_url=database, max_snapshot_entries=4) as api:
        book_id = keep(api, GLOBAL)
        assert len(run_turn(api, book_id, mes="灯塔")["entries"]) == 2
        given = {"b": {"entries": CHARACTER}}
        answer = api("POST", ACTIVATE, json=turn(book_id, "b", books=given))
        assert (answer.status_code, code(answer)) == (422, "snapshot_too_large")
        assert answer.json()["details"]["entries"] == 6


def test_keys_read_their_tenants_alone(database: str) -> None:
    with serving(database_url=database, auth=True) as api:
        reader, writer = bearer(api, "read"), bearer(api, "write")
        for route in (ACTIVATE, PREVIEW):
            asked = [
                api("POST", route, json={}, headers=reader),
                api("POST", route, json={}, headers=writer),
                api("POST", route, json={}),
                api("POST", route, json={}, headers=reader, tenant="other"),
            ]
            assert [answer.status_code for answer in asked] == [200, 403, 401, 403]
        assert api("GET", f"{KEPT}x", headers=reader).status_code == 404
        assert api("GET", f"{KEPT}x", headers=writer).status_code == 403


def test_other_tenants_books_are_not_there(api: Api) -> None:
    book_id = keep(api, GLOBAL)
    kept_as = run_turn(api, book_id)["activation_id"]
    body = turn(book_id, "雾隐渡")
    answer = api("POST", ACTIVATE, json=body, tenant="other").json()
    assert [each for each, _ in warned(answer)] == ["book_not_found"] * 2
    assert code(api("GET", KEPT + kept_as, tenant="other")) == "not_found"


# --- prompts ------------------------------------------------------------------------------------


def test_bound_books_come_first_and_once(api: Api) -> None:
    one, two, three = (keep(api, [constant(each)], each) for each in ("one", "two", "three"))
    bind(api, PROMPT, two, one)
    answer = run_turn(api, "three", "one", character=two, prompt_id=PROMPT)
    assert [(each["id"], each["source"]) for each in answer["books"]] == [
        *((two, "global"), ("one", "global"), ("three", "global")),
    ]
    assert active(answer) == ["two", "one", "three"]
    assert [each["book_id"] for each in answer["snapshot"]] == [two, one, three]


def test_prompt_without_books_has_nothing_against_it(api: Api) -> None:
    assert run_turn(api, prompt_id=PROMPT)["entries"] == []


def test_prompt_under_another_policy_is_refused(api: Api) -> None:
    bind(api, PROMPT, keep(api, GLOBAL), policy="auto")
    answer = api("POST", ACTIVATE, json=turn(prompt_id=PROMPT))
    assert (answer.status_code, code(answer)) == (409, "policy_mismatch")
    assert answer.json()["details"] == {"prompt_id": PROMPT, "policy": "native"}


def test_bound_book_that_is_gone_is_an_error(api: Api) -> None:
    book_id = keep(api, GLOBAL)
    bind(api, PROMPT, book_id)
    assert api("DELETE", f"/v1/books/{book_id}", params={"force": "true"}).status_code == 204
    answer = api("POST", ACTIVATE, json=turn(prompt_id=PROMPT))
    assert (answer.status_code, code(answer)) == (409, "binding_invalid")


def test_book_of_our_own_format_runs_too(api: Api) -> None:
    book_id = api.create({"name": "Harbour", "entries": [{"content": "A lamp.", "keys": ["灯"]}]})
    (found,) = run_turn(api, book_id, mes="一盏灯")["entries"]
    assert (found["content"], found["trigger_type"]) == ("A lamp.", "keyword")


# --- previews -----------------------------------------------------------------------------------


def test_preview_is_the_same_byte_for_byte(api: Api) -> None:
    bind(api, PROMPT, keep(api, GLOBAL))
    body = turn(mes="灯塔", prompt_id=PROMPT)
    preview = api("POST", PREVIEW, json=body)
    kept_as = preview.json()["activation_id"]
    assert code(api("GET", KEPT + kept_as)) == "not_found"  # nothing was kept
    assert api("POST", ACTIVATE, json=body).content == preview.content


def test_preview_of_a_change_is_what_the_change_gives(api: Api) -> None:
    book_id = api.create({"name": "雾", "entries": [{"id": "a", "content": "A", "constant": True}]})
    added = {"id": "b", "content": "ประภาคาร", "keys": ["灯"]}
    changed = [{"book_id": book_id, "changes": [added], "removed": ["a"]}]
    body = turn(character="雾", mes="灯")
    preview = api("POST", PREVIEW, json={**body, "changed": changed})
    assert active(preview.json()) == ["b"]
    api.publish(book_id, 1, {"name": "雾", "entries": [added]})
    after = run_turn(api, character="雾", mes="灯")
    apart = ("snapshot", "activation_id")
    shown = [{k: v for k, v in each.items() if k not in apart} for each in (preview.json(), after)]
    assert shown[0] == shown[1]
    assert preview.json()["activation_id"] is None
    older = [{"book_id": book_id, "revision": 1, "changes": [added]}]
    both = api("POST", PREVIEW, json={**body, "changed": older})
    assert active(both.json()) == ["a", "b"]


def test_changes_that_do_not_fit_are_named(api: Api) -> None:
    book_id, other = api.create(BOOK), api.create(BOOK)
    one = {"book_id": book_id}
    for changed, place in (
        ([one, one], "/changed/1/book_id"),
        ([{"book_id": other}], "/changed/0/book_id"),
        ([{**one, "removed": ["none"]}], "/changed/0/removed/0"),
        ([{**one, "changes": [{"content": "x"}]}], "/changed/0/changes/0/id"),
        ([{**one, "more": 1}], "/changed/0/more"),
    ):
        answer = api("POST", PREVIEW, json={**turn(book_id), "changed": changed})
        assert (code(answer), places(answer)) == ("validation_error", [place])
    gone = api("POST", PREVIEW, json={**turn(), "changed": [{"book_id": UNKNOWN_BOOK}]})
    assert (gone.status_code, code(gone)) == (404, "book_not_found")


# --- ledgers ------------------------------------------------------------------------------------


def test_ledger_of_a_turn_is_opened_later(api: Api) -> None:
    one = keep(api, GLOBAL)
    bind(api, PROMPT, one)
    asked = {"mes": "灯塔", "explain": "none", "seed": "七", "prompt_id": PROMPT}
    answer = run_turn(api, "雾", character="none", **asked)
    kept_as = answer["activation_id"]
    whole = run_turn(api, "雾", character="none", **{**asked, "explain": "full"})
    assert whole["activation_id"] == kept_as
    services = api.app.state.shared.services
    keep(api, [constant("new")], "雾")  # the turn did not have it
    for _ in range(2):
        opened = api("GET", KEPT + kept_as)
        assert opened.json() == whole
        api.run(services.keeper.flush())
    assert code(api("GET", f"/v1/sillytavern/activations/{kept_as}")) == "not_found"
    assert code(api("GET", f"/v1/selections/{kept_as}")) == "not_found"
    assert api("DELETE", f"/v1/books/{one}", params={"force": "true"}).status_code == 204
    assert code(api("GET", KEPT + kept_as)) == "book_not_found"


def test_a_turn_that_takes_much_room_is_not_kept(api: Api) -> None:
    book_id = keep(api, GLOBAL)
    history = ["灯" * 600_000, "塔" * 400_000]
    assert run_turn(api, book_id, chatHistory=history)["activation_id"] is not None
    assert run_turn(api, book_id, mes="!", chatHistory=history)["activation_id"] is None


def test_where_nothing_is_kept_a_turn_has_no_name(database: str) -> None:
    with serving(database_url=database, ledger_keep_s=0) as api:
        assert run_turn(api, keep(api, GLOBAL))["activation_id"] is None


# --- likeness -----------------------------------------------------------------------------------

NEAR = "the lighthouse burns whale oil"
LIKE = [
    entry("near", trigger(rag={"threshold": 0.5}), content="The lighthouse burns whale oil."),
    entry("far", trigger(rag={"threshold": 0.5}), content="ราตรีสวัสดิ์"),
    entry("off", trigger(rag={"threshold": 0.5}), content=NEAR, disable=True),
    constant("always", position=1),
]


def build(api: Api, book_id: str) -> None:
    answer = api("POST", f"/v1/books/{book_id}/index", json={"revision": 1})
    assert answer.json()["status"] == "ready", answer.text


def facts(answer: Json, uid: str) -> Json:
    (found,) = [each["facts"] for each in answer["decisions"] if each["uid"] == uid]
    return found


def reasons(answer: Json) -> list[str]:
    """Return the messages of the warnings about vectors."""
    return [w["message"] for w in answer["warnings"] if w["code"] == "rag_unavailable"]


def test_32_what_is_near_is_active(api: Api, embedder: TinyEmbedder) -> None:
    book_id = keep(api, LIKE)
    build(api, book_id)
    answer = run_turn(api, book_id, mes=NEAR)
    assert active(answer) == ["near", "always"]
    assert answer["entries"][0]["trigger_type"] == "rag"
    found = facts(answer, "near")
    expected = float(embed(NEAR) @ embed(str(LIKE[0]["content"])))
    assert found["similarity"] == pytest.approx(expected, abs=2e-6)
    assert (found["rank"], found["top_k"], found["threshold"]) == (1, 5, 0.5)
    assert (reasons(answer), embedder.queries) == ([], [NEAR])


def test_32_number_and_templates_of_entries(api: Api, embedder: TinyEmbedder) -> None:
    def like(uid: str, **settings: object) -> Json:
        return entry(uid, trigger(rag={"threshold": -1, "top_k": 1, **settings}), content=uid)

    book_id = keep(api, [like("灯塔"), like("灯"), like("หมอก", query_template="หมอก {{message}}")])
    build(api, book_id)
    answer = run_turn(api, book_id, mes="灯塔")
    assert embedder.queries == ["灯塔", "หมอก 灯塔"]
    assert active(answer) == ["灯塔"]
    assert facts(answer, "หมอก")["rank"] == 2


def test_32_without_vectors_there_is_one_warning(api: Api, embedder: TinyEmbedder) -> None:
    book_id = keep(api, LIKE)
    first = run_turn(api, book_id, mes=NEAR)
    assert active(first) == ["always"]
    assert reasons(first) == [
        f"Entries were not brought in by similarity: index_not_ready:{book_id}:1."
    ]
    assert embedder.queries == []  # nobody could be compared with it
    build(api, book_id)
    embedder.fails = "The server is down."
    failed = run_turn(api, book_id, mes=NEAR)
    assert active(failed) == ["always"]
    assert reasons(failed) == ["Entries were not brought in by similarity: embedding_unavailable."]
    blank = run_turn(api, book_id, mes=" ")
    assert reasons(blank) == ["Entries were not brought in by similarity: query_blank."]
    assert reasons(run_turn(api, mes=NEAR)) == []


def test_32_without_an_embedder_other_triggers_work(database: str) -> None:
    with serving(database_url=database) as api:
        answer = run_turn(api, keep(api, LIKE), mes=NEAR)
        assert active(answer) == ["always"]
        assert reasons(answer) == ["Entries were not brought in by similarity: vector_disabled."]


def test_32_book_without_an_index_keeps_no_other_from_being_searched(api: Api) -> None:
    with_index, without = keep(api, LIKE, "A"), keep(api, LIKE, "B")
    build(api, with_index)
    given = {"灯": {"entries": LIKE}}
    answer = run_turn(api, without, with_index, "灯", mes=NEAR, books=given)
    found = [(each["book_id"], each["uid"]) for each in answer["entries"]]
    assert [book_id for book_id, uid in found if uid == "near"] == [with_index]
    causes = f"index_not_ready:{without}:1, index_not_ready:灯"
    assert reasons(answer) == [f"Entries were not brought in by similarity: {causes}."]


def test_32_of_many_templates_only_so_many_are_embedded(api: Api, embedder: TinyEmbedder) -> None:
    entries = [
        entry(f"e{n}", trigger(rag={"threshold": -1, "query_template": f"{n} {{{{message}}}}"}))
        for n in range(MAX_QUERIES + 3)
    ]
    book_id = keep(api, entries)
    build(api, book_id)
    answer = run_turn(api, book_id, mes="灯")
    assert len(embedder.queries) == MAX_QUERIES
    assert reasons(answer) == ["Entries were not brought in by similarity: query_limit."]
    assert len(answer["entries"]) == 5


def test_32_ledger_is_opened_with_the_vectors_of_its_turn(api: Api, embedder: TinyEmbedder) -> None:
    book_id = keep(api, LIKE)
    early = run_turn(api, book_id, mes=NEAR)["activation_id"]
    build(api, book_id)
    whole = run_turn(api, book_id, mes=NEAR)
    embedder.fails = "The server is down."
    api.app.state.shared.services.queries.forget()
    for _ in range(2):
        assert active(api("GET", KEPT + early).json()) == ["always"]
        assert api("GET", KEPT + whole["activation_id"]).json() == whole
        api.run(api.app.state.shared.services.keeper.flush())
    embedder.version = "tiny/2"
    embedder.fails = None
    answer = api("POST", f"/v1/books/{book_id}/index", json={"revision": 1, "force": True})
    assert answer.json()["status"] == "ready"
    assert code(api("GET", KEPT + whole["activation_id"])) == "not_found"


# --- in this process ----------------------------------------------------------------------------


def test_book_is_compiled_once(api: Api) -> None:
    book_id = keep(api, GLOBAL)
    given = {"b": {"entries": CHARACTER}}
    first = run_turn(api, book_id, "b", books=given)
    counts = api.app.state.shared.services.cache.counts
    misses = counts.misses
    assert run_turn(api, book_id, "b", books=given) == first
    assert counts.misses == misses
    assert active(run_turn(api, "b", books={"b": {"entries": CHARACTER[:2]}})) == []
    assert counts.misses == misses + 1


def test_figures_count_what_was_active(api: Api) -> None:
    run_turn(api, keep(api, GLOBAL), mes="灯塔 king")
    text = api("GET", "/metrics", tenant=None).text
    assert 'lorewell_replica_triggers_total{trigger="keyword"} 2.0' in text
    assert 'lorewell_replica_positions_total{position="0"} 2.0' in text
