"""SillyTavern's rules over HTTP: prompts, conversations, previews and replays, at a real server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import pytest

from served import (  # noqa: F401  fixtures are used by name
    Tenant,
    server_fixture,
    tenant_fixture,
)
from service import UNKNOWN_BOOK, Api, Json, bearer, code, places, serving

ACTIVATE = "/v1/sillytavern/activate"
PREVIEW = "/v1/sillytavern/preview"
REPLAY = "/v1/sillytavern/replay"
PROMPT = {"prompt_id": "场景 1"}
LAMP = {
    "uid": 0,
    "key": ["lamp", "灯"],
    "content": "{{char}} 守着灯, {{user}}.",
    "sticky": 3,
    "cooldown": 2,
    "position": 0,
}
FOG = {"uid": 1, "key": ["หมอก"], "content": "หมอก 🌫️ lies on the mole.", "position": 1}
WORLD = json.dumps({"entries": {"0": LAMP, "1": FOG}}).encode()
CARD = {"name": "Mira", "character_book": {"entries": [{"keys": ["灯"], "content": "A lamp."}]}}
NATIVE = {
    "name": "Harbour",
    "entries": [
        {"id": "lamp", "content": "A lamp.", "keys": ["lamp"], "requires": ["oil"]},
        {"id": "oil", "content": "Oil.", "conditions": [{"path": "a", "op": "exists"}]},
    ],
}


def keep(tenant: Tenant | Api, data: bytes = WORLD, name: str = "harbour.json") -> str:
    """Store the book of a file and return its id."""
    answer = tenant("POST", "/v1/imports/files", files=[("files", (name, data))])
    assert answer.status_code == 201, answer.text
    return str(answer.json()["books"][0]["book_id"])


def bind(tenant: Tenant | Api, *book_ids: str, policy: str = "auto") -> None:
    bindings = [{"book_id": book_id} for book_id in book_ids]
    body = {"bindings": bindings, "policy": policy}
    answer = tenant("PUT", "/v1/prompt-bindings", params=PROMPT, json=body)
    assert answer.status_code == 200, answer.text


def policy_of(tenant: Tenant) -> str:
    answer = tenant("GET", "/v1/prompt-bindings/resolve", params=PROMPT)
    return str(answer.json()["policy"])


def lines(chat: Sequence[str]) -> list[Json]:
    """Return messages that Ann and Mira write in turn, Ann first."""
    return [{"name": ("Ann", "Mira")[at % 2], "content": text} for at, text in enumerate(chat)]


def scene(chat: Sequence[str], **members: Any) -> Json:
    macros = {"user": "Ann", "char": "Mira"}
    return {"chat": lines(chat), "macros": macros, "context_tokens": 8000, **members}


def run_turn(tenant: Tenant | Api, chat: Sequence[str], **members: Any) -> Json:
    """Return the answer to a turn."""
    answer = tenant("POST", ACTIVATE, json=scene(chat, **members))
    assert answer.status_code == 200, answer.text
    return answer.json()


def active(answer: Json) -> list[tuple[str, str]]:
    return [(entry["id"], entry["reason"]) for entry in answer["activated"]]


def in_conversation(tenant: Tenant | Api, *chat: str, **members: Any) -> Json:
    """Return the answer to a turn of the one conversation, on the books of the prompt."""
    return run_turn(tenant, chat, conversation_id="c 1", **PROMPT, **members)


FIRST = ("hello", "good evening", "a lamp?")
LAMP_KEY = ("harbour.0", "primary")
LAMP_STICKY = ("harbour.0", "sticky")
LAMP_CONTENT = "Mira 守着灯, Ann."


def test_imported_book_fires_and_sticks_without_any_setting(tenant: Tenant) -> None:
    bind(tenant, keep(tenant))
    assert policy_of(tenant) == "sillytavern"

    first = in_conversation(tenant, *FIRST)
    assert active(first) == [LAMP_KEY]
    assert first["world_info_before"] == LAMP_CONTENT
    assert first["conversation"] == {
        "conversation_id": "c 1",
        "state": "none",
        "kept_after": None,
    }
    second = in_conversation(tenant, *FIRST, "it is green", "why?")
    assert active(second) == [LAMP_STICKY]
    assert second["world_info_before"] == LAMP_CONTENT
    assert (second["conversation"]["state"], second["conversation"]["kept_after"]) == ("kept", 3)
    third = in_conversation(tenant, *FIRST, "it is green", "why?", "no one knows", "a lamp!")
    assert active(third) == []  # it is over, and cools down
    cooling = third["timed_state"]["cooldown"]["harbour.0"]
    assert (cooling["start"], cooling["end"]) == (7, 9)
    fourth = in_conversation(
        tenant, *FIRST, "it is green", "why?", "no one knows", "a lamp!", "yes", "a lamp"
    )
    assert active(fourth) == [LAMP_KEY]


def test_swipe_begins_as_the_first_time(tenant: Tenant) -> None:
    bind(tenant, keep(tenant))
    in_conversation(tenant, *FIRST)
    chat = (*FIRST, "it is green", "why?")
    first, again = (in_conversation(tenant, *chat, trigger=t) for t in ("normal", "swipe"))
    assert first == again
    assert active(again) == [LAMP_STICKY]


def test_branch_and_edit_begin_with_what_was_true_before_them(tenant: Tenant) -> None:
    bind(tenant, keep(tenant))
    in_conversation(tenant, "hello")
    in_conversation(tenant, *FIRST)
    in_conversation(tenant, *FIRST, "it is green", "why?")
    branch = in_conversation(tenant, *FIRST, "it is red", "why?")
    assert (branch["conversation"]["kept_after"], active(branch)) == (3, [LAMP_STICKY])
    edited = in_conversation(tenant, "hello", "good evening", "a boat?", "it is green", "why?")
    assert (edited["conversation"]["kept_after"], active(edited)) == (1, [])
    body = scene((*FIRST, "so"), conversation_id="c 1", **PROMPT)
    body["chat"][0]["name"] = "Tom"  # who said it counts too
    other = tenant("POST", ACTIVATE, json=body).json()
    assert (other["conversation"]["state"], active(other)) == ("none", [LAMP_KEY])
    shorter = in_conversation(tenant, "hello", "good night")
    assert (shorter["conversation"]["kept_after"], active(shorter)) == (1, [])


def test_state_that_is_given_counts_before_one_that_is_kept(tenant: Tenant) -> None:
    bind(tenant, keep(tenant))
    state = in_conversation(tenant, *FIRST)["timed_state"]
    chat = (*FIRST, "it is green", "why?")
    fresh = in_conversation(tenant, *chat, timed_state={})
    assert (fresh["conversation"]["state"], active(fresh)) == ("given", [])
    given = run_turn(tenant, chat, timed_state=state, **PROMPT)
    assert given["conversation"] is None
    assert active(given) == [LAMP_STICKY]
    # The answer to the turn with the given state was kept as any other.
    after = in_conversation(tenant, *chat, "well", "so")
    assert (after["conversation"]["kept_after"], active(after)) == (5, [])


def test_dry_runs_and_previews_keep_nothing(tenant: Tenant) -> None:
    bind(tenant, keep(tenant))
    in_conversation(tenant, *FIRST, dry_run=True)
    assert tenant("GET", "/v1/conversations").json()["conversations"] == []
    in_conversation(tenant, *FIRST)
    body = scene((*FIRST, "it is green", "why?"), conversation_id="c 1", **PROMPT)
    preview = tenant("POST", PREVIEW, json=body)
    (listed,) = tenant("GET", "/v1/conversations").json()["conversations"]
    assert (listed["conversation_id"], listed["state_count"]) == ("c 1", 1)
    assert active(preview.json()) == [LAMP_STICKY]
    assert tenant("POST", ACTIVATE, json=body).content == preview.content


def test_deleted_conversation_is_forgotten(tenant: Tenant) -> None:
    bind(tenant, keep(tenant))
    in_conversation(tenant, *FIRST)
    path = "/v1/conversations/c%201"
    found = tenant("GET", path).json()
    (state,) = found["states"]
    assert (found["state_count"], state["message_count"]) == (1, 3)
    assert state["timed_state"]["sticky"]["harbour.0"]["end"] == 6
    assert tenant("DELETE", path).status_code == 204
    assert [code(tenant(method, path)) for method in ("GET", "DELETE")] == ["not_found"] * 2
    after = in_conversation(tenant, *FIRST, "it is green", "why?")
    assert (after["conversation"]["state"], active(after)) == ("none", [])


def test_conversations_are_paged_last_used_first(tenant: Tenant) -> None:
    book = {"name": "W", "entries": {}}
    for name in ("一", "b", "c", "b"):
        run_turn(tenant, ["x"], books=[book], conversation_id=name)
    seen, cursor = [], None
    while True:
        page = {"limit": "1"} | ({"cursor": cursor} if cursor else {})
        answer = tenant("GET", "/v1/conversations", params=page).json()
        seen += [each["conversation_id"] for each in answer["conversations"]]
        cursor = answer["next_cursor"]
        if cursor is None:
            break
    assert seen == ["b", "c", "一"]
    refused = tenant("GET", "/v1/conversations", params={"cursor": "x"})
    assert (code(refused), places(refused)) == ("validation_error", ["cursor"])


@pytest.mark.parametrize("name", ["", "a/b", "x" * 201, "a\tb"])
def test_name_of_a_conversation_is_a_segment_of_a_path(tenant: Tenant, name: str) -> None:
    answer = tenant("POST", ACTIVATE, json=scene(["x"], conversation_id=name))
    assert (answer.status_code, places(answer)) == (422, ["/conversation_id"])


# --- policies -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "card",
    [
        {"spec": "chara_card_v2", "spec_version": "2.0", "data": CARD},
        {"spec": "chara_card_v3", "spec_version": "3.0", "data": CARD},
        {"entries": {"0": LAMP}},
        CARD["character_book"],
        {"spec": "lorebook_v3", "data": CARD["character_book"]},
    ],
)
def test_one_book_of_sillytavern_decides_for_all(tenant: Tenant, card: Json) -> None:
    native = tenant.create(NATIVE)
    bind(tenant, native)
    assert policy_of(tenant) == "native"
    bind(tenant, native, keep(tenant, json.dumps(card).encode()))
    assert policy_of(tenant) == "sillytavern"
    answer = run_turn(tenant, ["灯 and lamp"], **PROMPT)
    assert len(active(answer)) == 2


def test_prompt_under_another_policy_is_refused(tenant: Tenant) -> None:
    bind(tenant, tenant.create(NATIVE))
    answer = tenant("POST", ACTIVATE, json=scene(["lamp"], **PROMPT))
    assert (answer.status_code, code(answer)) == (409, "policy_mismatch")
    assert answer.json()["details"] == {**PROMPT, "policy": "native"}
    bind(tenant, keep(tenant), policy="native")
    answer = tenant("POST", REPLAY, json=scene(["lamp"], **PROMPT))
    assert code(answer) == "policy_mismatch"


def test_prompt_without_books_has_nothing_against_it(tenant: Tenant) -> None:
    assert run_turn(tenant, ["lamp"], **PROMPT)["activated"] == []


def test_native_entries_take_the_defaults_and_say_what_does_not_count(tenant: Tenant) -> None:
    bind(tenant, tenant.create(NATIVE), policy="sillytavern")
    answer = run_turn(tenant, ["the lamp"], **PROMPT)
    (entry,) = answer["activated"]
    assert (entry["content"], entry["order"], entry["position"]) == ("A lamp.", 0, 0)
    assert answer["world_info_before"] == "A lamp."
    rules = {verdict["id"]: verdict["ignored_rules"] for verdict in answer["verdicts"]}
    assert sorted(rules.values()) == [["conditions"], ["requires"]]


# --- books --------------------------------------------------------------------------------------


def test_books_are_bound_named_and_given(tenant: Tenant) -> None:
    bound, named = (
        keep(tenant),
        keep(tenant, json.dumps({"entries": {"7": FOG}}).encode(), "b.json"),
    )
    bind(tenant, bound)
    given = {"source": "chat", "name": "给的", "entries": {"0": {**FOG, "key": ["lamp"]}}}
    books = [{"book_id": named.upper(), "name": "fog"}, given]
    answer = run_turn(tenant, ["lamp หมอก"], books=books, **PROMPT)
    assert {name for name, _ in active(answer)} == {"harbour.0", "harbour.1", "fog.1", "给的.1"}
    used = [(each["book_id"], each["revision"]) for each in answer["snapshot"]]
    assert used == [(bound, 1), (named, 1)]


def test_bound_book_that_is_named_counts_as_it_is_named(tenant: Tenant) -> None:
    book_id = keep(tenant)
    bind(tenant, book_id)
    books = [{"book_id": book_id, "source": "chat", "name": "mine"}]
    answer = run_turn(tenant, ["lamp"], books=books, **PROMPT)
    assert active(answer) == [("mine.0", "primary")]


def test_revision_may_be_named(tenant: Tenant) -> None:
    book_id = tenant.create(NATIVE)
    changed = {"name": "Inn", "entries": [{"id": "a", "content": "New.", "keys": ["lamp"]}]}
    assert tenant.publish(book_id, 1, changed).status_code == 201
    contents = {
        revision: run_turn(tenant, ["lamp"], books=[{"book_id": book_id, "revision": revision}])
        for revision in (None, 1, 2)
    }
    shown = {revision: each["world_info_before"] for revision, each in contents.items()}
    assert shown == {None: "New.", 1: "A lamp.", 2: "New."}


def test_what_is_not_there_is_named(tenant: Tenant) -> None:
    book_id = tenant.create(NATIVE)
    for route in (ACTIVATE, PREVIEW, REPLAY):
        for book, expected in (
            ({"book_id": UNKNOWN_BOOK}, "book_not_found"),
            ({"book_id": "灯"}, "book_not_found"),
            ({"book_id": book_id, "revision": 2}, "revision_not_found"),
        ):
            answer = tenant("POST", route, json=scene(["x"], books=[book]))
            assert (answer.status_code, code(answer)) == (404, expected)
    bind(tenant, book_id)
    assert tenant("DELETE", f"/v1/books/{book_id}", params={"force": "true"}).status_code == 204
    answer = tenant("POST", ACTIVATE, json=scene(["x"], **PROMPT))
    assert (answer.status_code, code(answer)) == (409, "binding_invalid")


def test_draws_that_are_used_up_are_told(tenant: Tenant) -> None:
    book = {"name": "W", "entries": {"0": {**LAMP, "probability": 50, "useProbability": True}}}
    answer = tenant("POST", ACTIVATE, json=scene(["lamp"], books=[book], draws=[]))
    assert (answer.status_code, places(answer)) == (422, ["/draws"])
    answer = run_turn(tenant, ["lamp"], books=[book], draws=[0.25])
    assert (answer["draws_used"], len(answer["activated"])) == (1, 1)


def test_numbers_of_any_size_come_back(tenant: Tenant) -> None:
    huge = 10**30
    forced = [{"entry": {"world": "W", "uid": huge, "content": "x"}}]
    waiting = run_turn(tenant, [], forced=forced)["forced"]
    assert [each["entry"] for each in waiting] == [each["entry"] for each in forced]
    entry = {**LAMP, "uid": huge, "order": huge, "depth": huge, "position": 4, "sticky": huge}
    answer = run_turn(tenant, ["灯"], books=[{"name": "W", "entries": {"0": entry}}])
    assert active(answer) == [("W.1e+30", "primary")]
    assert answer["timed_state"]["sticky"]["W.1e+30"]["end"] == 1e30  # as JavaScript counts


# --- previews -----------------------------------------------------------------------------------


def without_snapshot(answer: httpx.Response) -> Json:
    assert answer.status_code == 200, answer.text
    body = answer.json()
    del body["snapshot"]
    return body


def test_preview_of_a_change_is_what_the_change_gives(tenant: Tenant) -> None:
    book_id = tenant.create(NATIVE)
    added = {"id": "fog", "content": "หมอก {{char}}.", "keys": ["หมอก"]}
    changes = {"book_id": book_id, "changes": [added], "removed": ["lamp"]}
    body = scene(["a lamp in the หมอก"])
    preview = tenant("POST", PREVIEW, json={**body, "books": [changes]})
    assert preview.json()["world_info_before"] == "หมอก Mira."
    entries = [NATIVE["entries"][1], added]
    whole = {**NATIVE, "entries": entries}
    given = tenant("POST", PREVIEW, json={**body, "books": [{"book": whole}]})
    assert tenant.publish(book_id, 1, whole).status_code == 201
    stored = tenant("POST", ACTIVATE, json={**body, "books": [{"book_id": book_id}]})
    assert without_snapshot(preview) == without_snapshot(given) == without_snapshot(stored)
    assert (
        stored.content == tenant("POST", PREVIEW, json=json.loads(stored.request.content)).content
    )
    assert given.json()["snapshot"] == []


def test_faults_of_a_preview_name_their_places(tenant: Tenant) -> None:
    book_id = tenant.create(NATIVE)
    faults: list[tuple[Mapping[str, Any], list[str]]] = [
        ({"book_id": book_id, "removed": ["none"]}, ["/books/0/removed/0"]),
        ({"book_id": book_id, "changes": [{"content": "x"}]}, ["/books/0/changes/0/id"]),
        ({"book": {"name": "x", "entries": [{"content": 7}]}}, ["/books/0/book/entries/0/content"]),
        ({"name": "x"}, ["/books/0"]),
        ({"book_id": book_id, "entries": {}}, ["/books/0"]),
    ]
    for book, expected in faults:
        answer = tenant("POST", PREVIEW, json=scene(["x"], books=[book]))
        assert (answer.status_code, places(answer)) == (422, expected)


# --- replays ------------------------------------------------------------------------------------

CHAT = (*FIRST, "it is green", "why?", "no one knows", "a lamp!", "yes", "a lamp 灯")


def test_replay_is_turn_after_turn(tenant: Tenant) -> None:
    bind(tenant, keep(tenant))
    answer = tenant("POST", REPLAY, json=scene(CHAT, seed="七", **PROMPT)).json()
    assert answer["rest_from"] is None
    state: Json = {}
    for turn in answer["turns"]:
        one = run_turn(
            tenant, CHAT[: turn["messages"]], seed=turn["seed"], timed_state=state, **PROMPT
        )
        state = one["timed_state"]
        assert (turn["timed_state"], turn["budget"]) == (state, one["budget"])
        assert [(each["id"], each["reason"]) for each in turn["activated"]] == active(one)
    assert [turn["messages"] for turn in answer["turns"]] == list(range(1, 10))
    shown = [[reason for _, reason in active(turn)] for turn in answer["turns"]]
    assert shown == [[], [], ["primary"], ["sticky"], ["sticky"], [], [], ["primary"], ["sticky"]]


def test_replay_may_take_the_users_messages_alone(tenant: Tenant) -> None:
    body = scene(CHAT, turns_after="user_messages", books=[{"book_id": keep(tenant)}])
    turns = tenant("POST", REPLAY, json=body).json()["turns"]
    assert [turn["messages"] for turn in turns] == [1, 3, 5, 7, 9]
    assert turns[1]["activated"][0]["hit"] == {"text": "message", "number": 2, "span": [7, 11]}
    rest = {**body, "from_messages": 4, "timed_state": turns[1]["timed_state"]}
    assert tenant("POST", REPLAY, json=rest).json()["turns"] == turns[2:]
    assert tenant("POST", REPLAY, json={**body, "macros": {}}).json()["turns"] == []


def test_long_replay_says_where_it_goes_on(tenant: Tenant) -> None:
    chat = [str(number) if number % 5 else "灯" for number in range(1205)]
    body = scene(chat, books=[{"book_id": keep(tenant)}])
    first = tenant("POST", REPLAY, json=body).json()
    assert (len(first["turns"]), first["rest_from"]) == (1000, 1001)
    state = first["turns"][-1]["timed_state"]
    rest = {**body, "from_messages": first["rest_from"], "timed_state": state}
    second = tenant("POST", REPLAY, json=rest).json()
    assert (second["turns"][0]["messages"], second["rest_from"]) == (1001, None)
    assert second["turns"][-1]["messages"] == 1205


# --- in this process ----------------------------------------------------------------------------


def test_of_too_many_states_the_oldest_go(database: str) -> None:
    with serving(database_url=database, max_conversation_states=2) as api:
        bind(api, keep(api))
        for count in range(3, 8):
            in_conversation(api, *CHAT[:count])
        states = api("GET", "/v1/conversations/c 1").json()["states"]
        assert [state["message_count"] for state in states] == [7, 6]


def test_books_that_hold_too_much_are_refused(database: str) -> None:
    with serving(database_url=database, max_snapshot_entries=3) as api:
        book = {"book_id": keep(api)}
        assert len(run_turn(api, ["灯"], books=[book])["activated"]) == 1
        answer = api("POST", ACTIVATE, json=scene(["灯"], books=[book, {**book, "name": "b"}]))
        assert (answer.status_code, code(answer)) == (422, "snapshot_too_large")
        assert answer.json()["details"]["entries"] == 4


def test_keeping_state_takes_the_right_to_write(database: str) -> None:
    with serving(database_url=database, auth=True) as api:
        reader, writer = bearer(api, "read"), bearer(api, "read", "write")
        turn = scene(["x"])
        kept = {**turn, "conversation_id": "c"}
        path = "/v1/conversations/c"
        asked = [
            api("POST", ACTIVATE, json=turn, headers=reader),
            api("POST", ACTIVATE, json=kept, headers=reader),
            api("POST", PREVIEW, json=kept, headers=reader),
            api("POST", ACTIVATE, json=kept, headers=writer),
            api("GET", path, headers=reader),
            api("DELETE", path, headers=reader),
            api("GET", path, headers=writer, tenant="other"),
            api("POST", ACTIVATE, json=kept),
            api("DELETE", path, headers=writer),
        ]
        assert [answer.status_code for answer in asked] == [
            *(200, 403, 200, 200, 200),
            *(403, 403, 401, 204),
        ]


def test_other_tenants_conversations_are_not_there(api: Api) -> None:
    api("POST", ACTIVATE, json=scene(["x"], conversation_id="c"))
    assert code(api("GET", "/v1/conversations/c", tenant="other")) == "not_found"
    assert code(api("DELETE", "/v1/conversations/c", tenant="other")) == "not_found"
    assert api("GET", "/v1/conversations", tenant="other").json()["conversations"] == []
    assert code(api("GET", "/v1/conversations/c")) == "200"


def test_book_is_compiled_once(api: Api) -> None:
    bind(api, keep(api))
    counts = api.app.state.shared.services.cache.counts
    first = run_turn(api, FIRST, **PROMPT)
    misses = counts.misses
    assert misses == 2  # the book, and the order of its entries
    assert run_turn(api, FIRST, **PROMPT) == first
    assert run_turn(api, FIRST, books=[{"book_id": first["snapshot"][0]["book_id"]}]) == first
    assert counts.misses == misses


def test_book_that_is_given_again_is_compiled_once(api: Api) -> None:
    counts = api.app.state.shared.services.cache.counts
    book = {"name": "W", "entries": {"0": LAMP}}
    first = run_turn(api, FIRST, books=[book])
    misses = counts.misses
    assert run_turn(api, FIRST, books=[book]) == first
    assert counts.misses == misses
    other = {"name": "W", "entries": {"0": {**LAMP, "content": "Another."}}}
    assert run_turn(api, FIRST, books=[other])["world_info_before"] == "Another."
    renamed = run_turn(api, FIRST, books=[{**book, "name": "V"}])
    assert active(renamed) == [("V.0", "primary")]


# --- macros -------------------------------------------------------------------------------------

VISITS = {
    "uid": 0,
    "key": ["lamp"],
    "content": "第{{incvar::visits}}次, {{pick::a::b}} {{date}} {{model}}",
    "position": 0,
}
VISITED = [{"name": "Harbour", "entries": {"0": VISITS}}]


def test_variables_go_in_and_come_out(tenant: Tenant) -> None:
    first = run_turn(tenant, ["lamp"], books=VISITED)
    assert first["variables"] == {"local": {"visits": 1}, "global": {}}
    macros = {"user": "Ann", "char": "Mira", "chat_id": "chat", "time": "2026-03-09T23:30:00Z"}
    macros |= {"timezone": "Asia/Tokyo", "host": {"model": "m"}}
    again = run_turn(tenant, ["lamp"], books=VISITED, macros=macros, variables=first["variables"])
    assert again["world_info_before"].startswith("第2次, ")
    assert again["world_info_before"].endswith(" March 10, 2026 m")
    assert (again["warnings"], again["chat_hash"] > 0) == ([], True)
    assert first["chat_hash"] == 0


def test_values_that_are_missing_are_warnings(tenant: Tenant) -> None:
    answer = run_turn(tenant, ["lamp"], books=VISITED, explain="none")
    assert [(each["code"], each["macro"], each["entry"]) for each in answer["warnings"]] == [
        ("time_missing", "date", "Harbour.0"),
        ("value_missing", "model", "Harbour.0"),
    ]
    assert answer["warnings"][0]["span"] == [37, 45]


def test_preview_stores_no_variables(tenant: Tenant) -> None:
    body = scene(["lamp"], books=VISITED)
    answers = [tenant("POST", PREVIEW, json=body).json() for _ in range(2)]
    assert [each["variables"]["local"] for each in answers] == [{"visits": 1}] * 2


def test_replayed_turns_hand_variables_on(tenant: Tenant) -> None:
    answer = tenant("POST", REPLAY, json=scene(["lamp", "lamp", "lamp"], books=VISITED)).json()
    assert [each["variables"]["local"]["visits"] for each in answer["turns"]] == [1, 2, 3]


@pytest.mark.parametrize(
    ("members", "at"),
    [
        ({"variables": {"elsewhere": {}}}, "/variables"),
        ({"variables": {"local": {"": "x"}}}, "/variables"),
        ({"variables": {"local": {"a": None}}}, "/variables/local/a"),
        (
            {"variables": {"local": {f"v{number}": 1 for number in range(1_001)}}},
            "/variables/local",
        ),
        ({"macros": {"timezone": "Mars"}}, "/macros/timezone"),
        ({"macros": {"time": "noon"}}, "/macros/time"),
        ({"macros": {"host": {"engine": 1}}}, "/macros/host/engine"),
        ({"settings": {"macro_engine": "newest"}}, "/settings/macro_engine"),
    ],
)
def test_what_macros_can_not_read_is_refused(tenant: Tenant, members: Json, at: str) -> None:
    answer = tenant("POST", ACTIVATE, json=scene(["lamp"], **members))
    assert (answer.status_code, code(answer)) == (422, "validation_error")
    assert answer.json()["errors"][0]["pointer"].startswith(at)
