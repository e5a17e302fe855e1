"""The client without a service: what it sends, how it reads answers, and when it sends again."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import httpx
import pytest

from lorewell.client import (
    AsyncLorewellClient,
    LorewellClient,
    Retry,
    calls,
)
from lorewell.client.problems import CLASSES
from lorewell.client.routes import books, service, turns
from lorewell.engine.replica import activate as activate_replica
from lorewell.engine.sillytavern.activate import activate
from lorewell.engine.sillytavern.sources import Attached, Library
from lorewell.engine.sillytavern.world import compile_world, world_entries
from lorewell.engine.tokens import counter
from lorewell.errors import (
    BookNotFoundError,
    ConflictError,
    Fault,
    InvalidInputError,
    LorewellError,
    NotFoundError,
    RevisionConflictError,
    StorageUnavailableError,
    UnauthenticatedError,
    UnavailableError,
    ValidationFailedError,
)
from lorewell.host import assemble_request
from lorewell.http.problems import problem_of, status_of
from lorewell.model import (
    ActivatePreview,
    ActivateRequest,
    AssembleRequest,
    BindingsPut,
    BookCreate,
    BookRef,
    ConditionTrial,
    Entry,
    InlineBook,
    KeyRequest,
    LintRequest,
    PreviewRequest,
    ReplayRequest,
    ReplicaPreview,
    ReplicaRequest,
    SearchRequest,
    SelectRequest,
)
from lorewell.model.activate import ChatLine, ForcedEntry
from lorewell.model.explained import ContextExplain, ReplicaExplain, SillyTavernExplain
from lorewell.model.replay_request import ChatReplayRequest, ReplayDiffRequest, ReplayPlanRequest
from replica_books import keyed
from support import BOOK_ID, ask, compiled, entry

PROMPTLY = Retry(attempts=3, first_pause_s=0.0, longest_pause_s=0.0)
HEAD = {
    "book_id": BOOK_ID,
    "tenant_id": "demo",
    "name": "Kiln",
    "latest_revision": 1,
    "created_at": "2026-03-01T12:00:00.000000Z",
    "updated_at": "2026-03-01T12:00:00.000000Z",
    "deleted_at": None,
}
PUBLISHED = {"book_id": BOOK_ID, "revision": 2, "entry_count": 0, "content_hash": "00"}
CREATED = {"books": [], "replayed": False}
BOOK = BookCreate(name="Kiln", entries=(Entry(content="A kiln.", keys=("kiln",)),))
BOOK_BODY = {
    "name": "Kiln",
    "entries": [{"id": "entry-0", "content": "A kiln.", "keys": ["kiln"]}],
}
SELECT = SelectRequest(books=(BookRef(book_id=BOOK_ID),), query="the kiln")
SELECT_BODY = {"books": [{"book_id": BOOK_ID}], "query": "the kiln"}
PROMPT_INFO = {"prompt_id": "雾 1", "policy": "auto", "book_count": 2}
FINDING = {
    "code": "LW601",
    "name": "content-empty",
    "severity": "warning",
    "entry_id": "lamp",
    "entries": ["lamp"],
    "pointer": "/entries/0/content",
    "span": None,
    "text": "The content is empty.",
    "figures": {},
    "fixes": [],
}
INDEX = {
    "book_id": BOOK_ID,
    "revision": 1,
    "status": "absent",
    "embedding_version": None,
    "chunk_count": 0,
    "done": 0,
    "usable": False,
    "error": None,
    "updated_at": None,
    "quiet": {},
}
REVISION = {
    "book_id": BOOK_ID,
    "revision": 1,
    "name": "Kiln",
    "entry_count": 0,
    "content_hash": "00",
    "created_at": HEAD["created_at"],
    "description": "",
    "metadata": {},
    "entries": [],
    "import_report": {"format": "native", "entry_count": 0},
}
STORED = {"book": HEAD, "revision": REVISION}
BINDINGS = {"tenant_id": "demo", "prompt_id": "p 1", "policy": "auto", "bindings": []}
KEY = {
    "id": "a1",
    "name": "",
    "tenants": ["*"],
    "scopes": ["read"],
    "created_at": HEAD["created_at"],
    "revoked_at": None,
}
MADE = ask(compiled([entry("kiln", "kiln"), entry("moat", "moat")]), "the kiln")
SELECTION = json.loads(MADE.to_json())
CHAT = (ChatLine(content="the kiln 🔥"),)
SCENE_BODY = {"context_tokens": 8, "chat": [{"content": "the kiln 🔥"}]}
TURN = ActivateRequest(context_tokens=8, chat=CHAT, conversation_id="灯 1")
BAKED = {"0": {"uid": 0, "key": ["kiln"], "content": "A kiln.", "sticky": 2, "position": 5}}
ACTIVATION = json.loads(
    activate(
        Library([Attached("global", compile_world("W", world_entries(BAKED)))]),
        TURN.model_copy(update={"context_tokens": 8000, "forced": (ForcedEntry(ref="W.9"),)}),
    ).to_json()
)
EXPLAINED = {
    "policy": "native",
    "id": "b:1:kiln",
    "book_id": "b",
    "entry_id": "kiln",
    "title": "窑",
    "selected": False,
    "reason": "not_triggered",
    "gate": "keys",
    "gates": [{"gate": "keys", "status": "failed", "facts": {"keys": 1}}],
}
REPLAY = {
    "turns": [],
    "rest_from": 2,
    "snapshot": [],
    "policy_version": ACTIVATION["policy_version"],
}
REPLAY_BODY: Any = {"chat": [{"role": "user", "content": "the kiln 🔥"}]}
WHOLE_CHAT = {
    "policy": "native",
    "steps": [
        {
            "messages": 1,
            "seed": "0:1",
            "used": [
                {"book": 0, "entry_id": "灯", "reason": "keyword", "tokens": 7, "found": True}
            ],
            "entered": [{"book": 0, "entry_id": "灯"}],
            "left": [],
            "refused": [],
            "tokens": 7,
            "limit": 9,
            "room": 2,
            "failed": None,
            "warnings": [],
        }
    ],
    "entries": [],
    "warnings": {},
    "rest_from": None,
    "snapshot": [],
}
CHAT_DIFF = {
    "turns": 1,
    "changed": [],
    "entries": [],
    "tokens": 0,
    "summary": "0 of 1 turns change",
}
CHAT_PLAN = {
    "policy": "native",
    "turns": 1,
    "budget": 9,
    "entries": [],
    "idle": [],
    "curve": [],
    "cut": 0,
}
WHOLE_CHATS = (WHOLE_CHAT, CHAT_DIFF, CHAT_PLAN)
REPLICA_BODY = {
    "worldBookData": {"globalBooks": [{"id": "b"}], "characterBookId": "none"},
    "mes": "去灯塔",
    "dynamicTableData": {"currentValues": {"力量": 15}},
    "books": {
        "b": {
            "entries": [
                keyed("tower", "灯塔", group="g,h", requires=["oil"], groupWeight=10**30),
                keyed("oil", "油", extra=10**30),
                keyed("rival", "灯", group="g"),
            ]
        }
    },
}
REPLICA = json.loads(activate_replica({}, ReplicaRequest.model_validate(REPLICA_BODY)).to_json())
PROMPT_BODY = {
    "draft": [{"kind": "input", "message": {"role": "user", "content": "灯？", "n": 1.0}}],
    "sillytavern": {"depth_groups": [{"depth": 0, "role": 1, "entries": ["灯 🔥"]}]},
    "budget": {"context_window": 100},
    "previous": [],
}
PROMPT = json.loads(
    assemble_request(AssembleRequest.model_validate(PROMPT_BODY), counter=counter()).to_json()
)
CONVERSATION = {
    "conversation_id": "灯 1",
    "tenant_id": "demo",
    "state_count": 0,
    "created_at": HEAD["created_at"],
    "updated_at": HEAD["updated_at"],
}
FILE = b'{"entries": {}}'
DEMO = {"tenant_id": "demo"}


class Service:
    """Answers from a script, and keeps what it was asked; exceptions stand for a broken line."""

    def __init__(self, *script: httpx.Response | Exception) -> None:
        self.script = list(script)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


def blocking(service: Service, name: str, *args: Any, **options: Any) -> Any:
    init = {"tenant_id": "demo", "retry": PROMPTLY, **options.pop("client", {})}
    with LorewellClient(transport=httpx.MockTransport(service), **init) as client:
        return getattr(client, name)(*args, **options)


def awaited(service: Service, name: str, *args: Any, **options: Any) -> Any:
    init = {"tenant_id": "demo", "retry": PROMPTLY, **options.pop("client", {})}

    async def run() -> Any:
        transport = httpx.MockTransport(service)
        async with AsyncLorewellClient(transport=transport, **init) as client:
            return await getattr(client, name)(*args, **options)

    return asyncio.run(run())


Call = Callable[..., Any]


@pytest.fixture(params=[blocking, awaited])
def call(request: pytest.FixtureRequest) -> Call:
    found: Call = request.param
    return found


def ok(body: object, status: int = 200) -> httpx.Response:
    return httpx.Response(status, json=body)


def problem(error: LorewellError, request_id: str = "r1") -> httpx.Response:
    return httpx.Response(status_of(error), json=problem_of(error, request_id))


def tree(kind: type[LorewellError] = LorewellError) -> Iterator[type[LorewellError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from tree(below)


ERRORS = [kind for kind in tree() if kind.__module__ == "lorewell.errors"]
LEAVES = [kind for kind in ERRORS if "code" in vars(kind)]


class Case(NamedTuple):
    """A call of a method, what it must send, and the body that it is answered."""

    name: str
    args: tuple[Any, ...]
    options: Mapping[str, Any]
    target: str
    query: Mapping[str, str]
    body: Any
    answer: Any


CASES = [
    Case("create_book", (BOOK,), {}, "POST /v1/books", DEMO, BOOK_BODY, CREATED),
    Case("list_books", (), {}, "GET /v1/books", DEMO, None, {"books": [HEAD], "next_cursor": None}),
    Case(
        "list_books",
        (),
        {"limit": 5, "cursor": "a=", "name_contains": "灯 &", "include_deleted": True},
        "GET /v1/books",
        {"limit": "5", "cursor": "a=", "q": "灯 &", "include_deleted": "true", **DEMO},
        None,
        {"books": [], "next_cursor": "b"},
    ),
    Case(
        "export_book",
        (BOOK_ID,),
        {"format": "st_world"},
        f"GET /v1/books/{BOOK_ID}/export",
        {"format": "st_world", **DEMO},
        None,
        {"entries": {}},
    ),
    Case("get_book", (BOOK_ID,), {}, f"GET /v1/books/{BOOK_ID}", DEMO, None, STORED),
    Case(
        "get_book",
        (BOOK_ID,),
        {"revision": 1, "tenant_id": "other"},
        f"GET /v1/books/{BOOK_ID}",
        {"revision": "1", "tenant_id": "other"},
        None,
        STORED,
    ),
    Case("delete_book", (BOOK_ID,), {}, f"DELETE /v1/books/{BOOK_ID}", DEMO, None, None),
    Case(
        "delete_book",
        (BOOK_ID,),
        {"expected_revision": 3, "force": True},
        f"DELETE /v1/books/{BOOK_ID}",
        {"expected_revision": "3", "force": "true", **DEMO},
        None,
        None,
    ),
    Case("restore_book", (BOOK_ID,), {}, f"POST /v1/books/{BOOK_ID}/restore", DEMO, None, HEAD),
    Case(
        "list_revisions",
        (BOOK_ID,),
        {"limit": 2},
        f"GET /v1/books/{BOOK_ID}/revisions",
        {"limit": "2", **DEMO},
        None,
        {"revisions": [], "next_cursor": None},
    ),
    Case(
        "publish_revision",
        (BOOK_ID, BOOK),
        {"expected_revision": 1},
        f"POST /v1/books/{BOOK_ID}/revisions",
        DEMO,
        {**BOOK_BODY, "expected_revision": 1},
        PUBLISHED,
    ),
    Case(
        "compare_revisions",
        (BOOK_ID, 1, 2),
        {},
        f"GET /v1/books/{BOOK_ID}/diff",
        {"from": "1", "to": "2", **DEMO},
        None,
        {"added": [], "removed": [], "changed": [], "book_fields": []},
    ),
    Case(
        "restore_revision",
        (BOOK_ID, 1),
        {"expected_revision": 2},
        f"POST /v1/books/{BOOK_ID}/revisions/1/restore",
        DEMO,
        {"expected_revision": 2},
        PUBLISHED,
    ),
    Case("import_books", ([BOOK],), {}, "POST /v1/imports", DEMO, {"books": [BOOK_BODY]}, CREATED),
    Case(
        "build_index",
        (BOOK_ID, 1),
        {"force": True},
        f"POST /v1/books/{BOOK_ID}/index",
        DEMO,
        {"revision": 1, "force": True},
        {**INDEX, "reused": True},
    ),
    Case("get_index", (BOOK_ID,), {}, f"GET /v1/books/{BOOK_ID}/index", DEMO, None, INDEX),
    Case(
        "list_indexes",
        (),
        {"stale": True},
        "GET /v1/indexes",
        {**DEMO, "stale": "true"},
        None,
        {"indexes": [INDEX], "next_cursor": None},
    ),
    Case("select_for_turn", (SELECT,), {}, "POST /v1/context/select", DEMO, SELECT_BODY, SELECTION),
    Case(
        "preview_for_turn",
        (PreviewRequest(books=(InlineBook(book=BOOK),), query="kiln"),),
        {"prompt_id": "p"},
        "POST /v1/context/preview",
        {"prompt_id": "p", **DEMO},
        {"books": [{"book": BOOK_BODY}], "query": "kiln"},
        SELECTION,
    ),
    Case(
        "explain_context",
        (
            ContextExplain(
                request=PreviewRequest(books=(InlineBook(book=BOOK),), query="kiln"), entry="kiln"
            ),
        ),
        {},
        "POST /v1/context/explain",
        DEMO,
        {"request": {"books": [{"book": BOOK_BODY}], "query": "kiln"}, "entry": "kiln"},
        EXPLAINED,
    ),
    Case("get_selection", ("ab12",), {}, "GET /v1/selections/ab12", DEMO, None, SELECTION),
    Case(
        "count_tokens",
        (["a", "b"],),
        {},
        "POST /v1/tokens/count",
        DEMO,
        {"texts": ["a", "b"], "tokenizer": None},
        {"tokenizer": "cl100k_base", "counts": [1, 1]},
    ),
    Case(
        "try_condition",
        (ConditionTrial(text="tb.力量 > 10"),),
        {},
        "POST /v1/conditions/try",
        DEMO,
        {"text": "tb.力量 > 10"},
        {"holds": False, "written": None, "tree": None, "flaw": None},
    ),
    Case(
        "lint",
        (LintRequest(book=InlineBook(book=BOOK), request={"token_budget": 900}),),
        {},
        "POST /v1/lint",
        DEMO,
        {"book": {"book": BOOK_BODY}, "with": {"token_budget": 900}},
        {"policy": "native", "findings": [FINDING]},
    ),
    Case(
        "activate_for_turn",
        (TURN,),
        {},
        "POST /v1/sillytavern/activate",
        DEMO,
        {**SCENE_BODY, "conversation_id": "灯 1"},
        ACTIVATION,
    ),
    Case(
        "get_activation",
        ("ab12",),
        {},
        "GET /v1/sillytavern/activations/ab12",
        DEMO,
        None,
        ACTIVATION,
    ),
    Case(
        "preview_activation",
        (ActivatePreview(context_tokens=8, chat=CHAT),),
        {},
        "POST /v1/sillytavern/preview",
        DEMO,
        SCENE_BODY,
        ACTIVATION,
    ),
    Case(
        "explain_activation",
        (
            SillyTavernExplain(
                request=ActivatePreview(context_tokens=8, chat=CHAT), entry="Harbour.0", budget=9
            ),
        ),
        {},
        "POST /v1/sillytavern/explain",
        DEMO,
        {"request": SCENE_BODY, "entry": "Harbour.0", "budget": 9},
        EXPLAINED,
    ),
    Case(
        "replay_chat",
        (ReplayRequest(context_tokens=8, chat=CHAT),),
        {},
        "POST /v1/sillytavern/replay",
        DEMO,
        SCENE_BODY,
        REPLAY,
    ),
    Case(
        "replay_context",
        (ChatReplayRequest.model_validate(REPLAY_BODY),),
        {},
        "POST /v1/context/replay",
        DEMO,
        REPLAY_BODY,
        WHOLE_CHAT,
    ),
    Case(
        "replay_replica",
        (ChatReplayRequest.model_validate(REPLAY_BODY),),
        {},
        "POST /v1/replica/replay",
        DEMO,
        REPLAY_BODY,
        WHOLE_CHAT,
    ),
    Case(
        "compare_replays",
        (ReplayDiffRequest.model_validate({**REPLAY_BODY, "first": {}, "second": {}}),),
        {},
        "POST /v1/replay/diff",
        DEMO,
        {**REPLAY_BODY, "first": {}, "second": {}},
        CHAT_DIFF,
    ),
    Case(
        "plan_replay",
        (ReplayPlanRequest.model_validate(REPLAY_BODY),),
        {},
        "POST /v1/replay/plan",
        DEMO,
        REPLAY_BODY,
        CHAT_PLAN,
    ),
    Case(
        "activate_replica",
        (ReplicaRequest.model_validate(REPLICA_BODY),),
        {},
        "POST /v1/replica/activate",
        DEMO,
        REPLICA_BODY,
        REPLICA,
    ),
    Case(
        "get_replica_activation",
        ("ab12",),
        {},
        "GET /v1/replica/activations/ab12",
        DEMO,
        None,
        REPLICA,
    ),
    Case(
        "preview_replica",
        (ReplicaPreview.model_validate({**REPLICA_BODY, "changed": [{"book_id": "b"}]}),),
        {},
        "POST /v1/replica/preview",
        DEMO,
        {**REPLICA_BODY, "changed": [{"book_id": "b"}]},
        REPLICA,
    ),
    Case(
        "explain_replica",
        (
            ReplicaExplain(
                request=ReplicaPreview.model_validate(REPLICA_BODY), entry="tower", budget=9
            ),
        ),
        {},
        "POST /v1/replica/explain",
        DEMO,
        {"request": REPLICA_BODY, "entry": "tower", "budget": 9},
        EXPLAINED,
    ),
    Case(
        "assemble_prompt",
        (AssembleRequest.model_validate(PROMPT_BODY),),
        {},
        "POST /v1/host/assemble",
        DEMO,
        PROMPT_BODY,
        PROMPT,
    ),
    Case(
        "list_conversations",
        (),
        {"limit": 2, "cursor": "c"},
        "GET /v1/conversations",
        DEMO | {"limit": "2", "cursor": "c"},
        None,
        {"conversations": [CONVERSATION], "next_cursor": None},
    ),
    Case(
        "get_conversation",
        ("灯 1",),
        {},
        "GET /v1/conversations/灯 1",
        DEMO,
        None,
        {**CONVERSATION, "states": []},
    ),
    Case("delete_conversation", ("c",), {}, "DELETE /v1/conversations/c", DEMO, None, None),
    Case(
        "search_books",
        (SearchRequest(books=(BookRef(book_id=BOOK_ID),), query="kiln"),),
        {},
        "POST /v1/search",
        DEMO,
        SELECT_BODY | {"query": "kiln"},
        {"results": [], "mode": "lexical", "degraded": [], "embedding_version": None},
    ),
    Case(
        "put_bindings",
        ("p 1", BindingsPut(bindings=())),
        {},
        "PUT /v1/prompt-bindings",
        {"prompt_id": "p 1", **DEMO},
        {"bindings": []},
        BINDINGS,
    ),
    Case(
        "list_prompts",
        (),
        {"limit": 2, "cursor": "雾"},
        "GET /v1/prompts",
        {"limit": "2", "cursor": "雾", **DEMO},
        None,
        {"prompts": [PROMPT_INFO], "next_cursor": None},
    ),
    Case(
        "list_book_prompts",
        (BOOK_ID,),
        {},
        f"GET /v1/books/{BOOK_ID}/prompts",
        DEMO,
        None,
        {"prompts": [PROMPT_INFO], "next_cursor": "雾"},
    ),
    Case(
        "get_bindings",
        ("p 1",),
        {},
        "GET /v1/prompt-bindings",
        {"prompt_id": "p 1", **DEMO},
        None,
        BINDINGS,
    ),
    Case(
        "resolve_bindings",
        ("p 1",),
        {},
        "GET /v1/prompt-bindings/resolve",
        {"prompt_id": "p 1", **DEMO},
        None,
        {"tenant_id": "demo", "prompt_id": "p 1", "policy": "native", "books": []},
    ),
    Case("list_tenants", (), {}, "GET /v1/admin/tenants", {}, None, {"tenants": ["demo"]}),
    Case(
        "list_all_books",
        (),
        {"limit": 1},
        "GET /v1/admin/books",
        {"limit": "1"},
        None,
        {"books": [HEAD], "next_cursor": None},
    ),
    Case("get_any_book", (BOOK_ID,), {}, f"GET /v1/admin/books/{BOOK_ID}", {}, None, STORED),
    Case("list_keys", (), {}, "GET /v1/admin/keys", {}, None, {"keys": [KEY]}),
    Case(
        "create_key",
        (KeyRequest(tenants=("*",), scopes=("read",)),),
        {},
        "POST /v1/admin/keys",
        {},
        {"tenants": ["*"], "scopes": ["read"]},
        {**KEY, "secret": "lw_a1_b"},
    ),
    Case("revoke_key", ("a1",), {}, "DELETE /v1/admin/keys/a1", {}, None, None),
    Case("check_health", (), {}, "GET /healthz", {}, None, {"status": "ok"}),
    Case("check_readiness", (), {}, "GET /readyz", {}, None, {"status": "ready"}),
]


def ids(cases: Sequence[Case]) -> list[str]:
    return [f"{number}-{case.name}" for number, case in enumerate(cases)]


def answer_to(case: Case) -> httpx.Response:
    return httpx.Response(204) if case.answer is None else ok(case.answer)


ROUTES = {
    name: value
    for module in (books, service, turns)
    for name, value in vars(module).items()
    if inspect.isfunction(value)
    and value.__module__ == module.__name__
    and not name.startswith("_")
}


def method_names(kind: type) -> set[str]:
    return {name for name in vars(kind) if name in ROUTES}


def test_both_clients_have_a_method_for_every_route() -> None:
    names = set(ROUTES)
    assert method_names(LorewellClient) == names
    assert method_names(AsyncLorewellClient) == names
    assert {case.name for case in CASES} == names - {
        "preview_import",
        "import_files",
        "get_metrics",
    }


@pytest.mark.parametrize("name", sorted(method_names(LorewellClient)))
def test_methods_show_what_they_take(name: str) -> None:
    with LorewellClient() as client:
        shown = inspect.signature(getattr(client, name))
    assert {"self", "session"}.isdisjoint(shown.parameters)
    assert getattr(AsyncLorewellClient, name).__doc__ == getattr(LorewellClient, name).__doc__
    assert inspect.iscoroutinefunction(getattr(AsyncLorewellClient, name))


@pytest.mark.parametrize("case", CASES, ids=ids(CASES))
def test_request_is_what_the_route_takes(call: Call, case: Case) -> None:
    service = Service(answer_to(case))
    found = call(service, case.name, *case.args, **case.options)
    (sent,) = service.requests
    assert f"{sent.method} {sent.url.path}" == case.target
    assert dict(sent.url.params) == dict(case.query)
    if case.body is None:
        assert sent.content == b""
    else:
        assert json.loads(sent.content) == case.body
        assert sent.headers["Content-Type"] == "application/json"
    if case.answer is None or case.name.startswith("check_"):
        assert found is None
    elif case.answer in (SELECTION, ACTIVATION, REPLICA, REPLAY, PROMPT, *WHOLE_CHATS):
        assert json.loads(found.to_json()) == case.answer
    elif isinstance(found, dict):  # a document of any format
        assert found == case.answer
    else:
        known = {name: value for name, value in case.answer.items() if name != "reused"}
        assert json.loads(found.model_dump_json()).items() >= known.items()


@pytest.mark.parametrize(("name", "field"), [("preview_import", "file"), ("import_files", "files")])
def test_files_are_sent_as_a_form(call: Call, name: str, field: str) -> None:
    report = {
        "format": "st_world",
        "entry_count": 0,
        "enabled_count": 0,
        "runtime_blocked_count": 0,
        "source_file": {"name": "灯.json", "sha256": "00", "size": 1},
    }
    single = name == "preview_import"
    answer = {"book": {"name": "Kiln"}, "import_report": report} if single else CREATED
    service = Service(ok(answer))
    call(service, name, *(("灯.json", FILE) if single else ([("灯.json", FILE)],)))
    (sent,) = service.requests
    assert sent.headers["Content-Type"].startswith("multipart/form-data; boundary=")
    assert f'name="{field}"; filename="灯.json"'.encode() in sent.content
    assert FILE in sent.content


def test_figures_come_as_text(call: Call) -> None:
    assert call(Service(httpx.Response(200, text="a 1\n")), "get_metrics") == "a 1\n"


def test_selection_is_read_into_the_same_values(call: Call) -> None:
    service = Service(httpx.Response(200, content=MADE.to_json()))
    found = call(service, "select_for_turn", SELECT)
    assert found == MADE
    assert found.decisions[0].facts.key == "kiln"


def test_members_of_a_newer_service_are_passed_over(call: Call) -> None:
    newer = {"books": [{**HEAD, "colour": "red"}], "next_cursor": None, "total": 1}
    assert call(Service(ok(newer)), "list_books").books[0].name == "Kiln"
    later = {**SELECTION, "weather": "fog"}
    found = call(Service(ok(later)), "select_for_turn", SELECT)
    assert json.loads(found.to_json()) == SELECTION


@pytest.mark.parametrize("book_id", ["..", ".", "b?c#d", "灯 %2e"])
def test_no_id_leads_to_another_route(call: Call, book_id: str) -> None:
    service = Service(ok(STORED))
    call(service, "get_book", book_id)
    path = service.requests[0].url.raw_path.partition(b"?")[0]
    assert path.count(b"/") == 3
    assert service.requests[0].url.path == f"/v1/books/{book_id}"


def test_address_may_have_a_path(call: Call) -> None:
    service = Service(ok(STORED))
    call(service, "get_book", BOOK_ID, client={"base_url": "https://lore.example/api/"})
    assert str(service.requests[0].url).startswith(f"https://lore.example/api/v1/books/{BOOK_ID}?")


def test_headers_are_passed_on(call: Call) -> None:
    service = Service(ok(CREATED))
    options = {"request_id": "turn-7", "idempotency_key": "k 1", "timeout_s": 1.5}
    call(service, "create_book", BOOK, client={"api_key": "lw_a_b"}, **options)
    sent = service.requests[0]
    assert sent.headers["Authorization"] == "Bearer lw_a_b"
    assert sent.headers["X-Request-ID"] == "turn-7"
    assert sent.headers["Idempotency-Key"] == "k 1"
    assert sent.extensions["timeout"]["read"] == 1.5


def test_no_key_is_sent_unless_given(call: Call) -> None:
    service = Service(ok(STORED))
    call(service, "get_book", BOOK_ID)
    assert {"authorization", "idempotency-key", "x-request-id"}.isdisjoint(
        service.requests[0].headers
    )


@pytest.mark.parametrize("value", ["", "a\r\nX: 1", "灯", "k" * 201])
@pytest.mark.parametrize("option", ["idempotency_key", "request_id"])
def test_header_that_can_not_be_sent_is_refused(call: Call, option: str, value: str) -> None:
    service = Service()
    with pytest.raises(ValidationFailedError) as caught:
        call(service, "create_book", BOOK, **{option: value})
    assert caught.value.faults[0].parameter in (calls.IDEMPOTENCY_KEY, calls.REQUEST_ID)
    assert service.requests == []


@pytest.mark.parametrize("url", ["", "127.0.0.1:8876", "ftp://host", "http://", "http://a:b", "/x"])
def test_address_must_be_one(url: str) -> None:
    for kind in (LorewellClient, AsyncLorewellClient):
        with pytest.raises(ValidationFailedError) as caught:
            kind(url)
        assert caught.value.faults == (
            Fault("", "must be a URL such as http://127.0.0.1:8876", parameter="base_url"),
        )


def test_secrets_are_not_told() -> None:
    with pytest.raises(ValidationFailedError) as caught:
        LorewellClient(api_key="geheim\n")
    assert "geheim" not in str(caught.value)
    service = Service(httpx.ConnectError("no"))
    url = "http://ann:geheim@127.0.0.1:1"
    with pytest.raises(UnavailableError) as failed:
        blocking(service, "list_keys", client={"base_url": url, "retry": Retry(attempts=1)})
    assert "geheim" not in str(failed.value)
    assert "127.0.0.1:1" in str(failed.value)


def test_a_password_in_the_address_is_sent_as_a_header_and_never_logged(
    call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    url = "http://ann:geheim@127.0.0.1:1"
    service = Service(ok(STORED), ok(STORED))
    call(service, "get_book", BOOK_ID, client={"base_url": url})
    call(service, "get_book", BOOK_ID, client={"base_url": url, "api_key": "lw_a_b"})
    first, second = (request.headers["Authorization"] for request in service.requests)
    assert first.startswith("Basic ")
    assert second == "Bearer lw_a_b"
    assert "geheim" not in caplog.text


def test_tenant_must_be_known(call: Call) -> None:
    with pytest.raises(ValidationFailedError) as caught:
        call(Service(), "list_books", client={"tenant_id": None})
    assert caught.value.faults[0].parameter == "tenant_id"
    service = Service(ok({"tenants": []}))
    call(service, "list_tenants", client={"tenant_id": None})
    assert service.requests[0].url.query == b""


def test_unknown_option_is_refused(call: Call) -> None:
    with pytest.raises(TypeError, match="idempotency_key"):
        call(Service(), "put_bindings", "p", BindingsPut(bindings=()), idempotency_key="k")
    with pytest.raises(TypeError, match="tenant_id"):
        call(Service(), "list_keys", tenant_id="demo")


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("get_book", ("",)),
        ("get_book", ("\ud800",)),
        ("get_book", ("a/b",)),
        ("list_books", ()),
        ("import_files", ([],)),
        ("preview_import", ("a\x00", b"")),
    ],
)
def test_what_can_not_be_sent_is_a_validation_error(
    call: Call, name: str, args: tuple[Any, ...]
) -> None:
    options = {"cursor": "\ud800"} if name == "list_books" else {}
    with pytest.raises(ValidationFailedError):
        call(Service(), name, *args, **options)


def test_codes_are_unique() -> None:
    codes = [kind.code for kind in LEAVES]
    assert len(codes) == len(set(codes))
    assert {kind.code: kind for kind in LEAVES} == dict(CLASSES)


@pytest.mark.parametrize("kind", LEAVES)
def test_every_error_is_rebuilt(call: Call, kind: type[LorewellError]) -> None:
    faults = (Fault("/entries/0", "is odd"), Fault("", "is odd too", parameter="limit"))
    error = kind("What went wrong.", faults=faults, expected=3)
    error.details.update({"message": "m", "self": "s"})
    with pytest.raises(LorewellError) as caught:
        call(Service(*[problem(error)] * 3), "get_book", BOOK_ID)
    found = caught.value
    assert type(found) is kind
    assert found.code == kind.code
    assert found.faults == faults
    assert found.request_id == "r1"
    if kind not in (LorewellError, StorageUnavailableError):  # the service hides their texts
        assert str(found) == "What went wrong."
        assert found.details == {"expected": 3, "message": "m", "self": "s"}


def test_of_many_faults_the_number_is_rebuilt(call: Call) -> None:
    many = (Fault(f"/entries/{number}", "is odd") for number in range(300))
    error = ValidationFailedError.at(*many)
    with pytest.raises(ValidationFailedError) as caught:
        call(Service(*[problem(error)] * 3), "get_book", BOOK_ID)
    assert str(caught.value).endswith("; and 297 more")
    assert caught.value.faults == error.faults
    assert caught.value.faults[-1] == Fault("", "and 200 more")
    assert caught.value.fault_count == 300


@pytest.mark.parametrize("kind", sorted(set(ERRORS) - set(LEAVES), key=lambda kind: kind.__name__))
def test_base_classes_are_rebuilt_by_status(call: Call, kind: type[LorewellError]) -> None:
    with pytest.raises(LorewellError) as caught:
        call(Service(*[problem(kind("Odd."))] * 3), "get_book", BOOK_ID)
    assert issubclass(kind, type(caught.value))
    assert type(caught.value) is not LorewellError
    assert caught.value.code == "internal_error"


def test_unknown_code_is_kept_on_the_class_of_its_status(call: Call) -> None:
    body = {"code": "moon_busy", "detail": "It rises.", "details": {"since": 1}}
    with pytest.raises(ConflictError) as caught:
        call(Service(ok(body, 409)), "get_book", BOOK_ID)
    assert type(caught.value) is ConflictError
    assert caught.value.code == "moon_busy"
    assert caught.value.details == {"since": 1}
    assert ConflictError.code == "internal_error"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, LorewellError),
        (400, InvalidInputError),
        (401, UnauthenticatedError),
        (404, NotFoundError),
        (418, LorewellError),
        (429, UnavailableError),
        (500, LorewellError),
        (502, UnavailableError),
        (504, UnavailableError),
    ],
)
@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'{"errors": [3], "details": 4}'])
def test_answer_of_something_in_between_is_told_by_its_status(
    call: Call, status: int, kind: type[LorewellError], body: bytes
) -> None:
    answer = httpx.Response(status, content=body, headers={"X-Request-ID": "r9"})
    with pytest.raises(LorewellError) as caught:
        call(Service(answer, answer, answer), "get_book", BOOK_ID)
    assert type(caught.value) is kind
    assert str(status) in str(caught.value)
    assert caught.value.request_id == "r9"


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"books": 3}'])
def test_success_that_makes_no_sense_is_an_error(call: Call, body: bytes) -> None:
    answer = httpx.Response(200, content=body, headers={"X-Request-ID": "r9"})
    with pytest.raises(LorewellError, match="returned an invalid answer") as caught:
        call(Service(answer), "list_books")
    assert caught.value.request_id == "r9"


def test_error_of_the_library_has_no_request() -> None:
    assert BookNotFoundError("gone").request_id is None


UNAVAILABLE = httpx.Response(503, json={"code": "storage_unavailable", "detail": "Busy."})
BROKEN = (httpx.ReadError("cut"), httpx.RemoteProtocolError("gone"), httpx.WriteError("cut"))
UNSENT = (httpx.ConnectError("refused"), httpx.ConnectTimeout("late"), httpx.PoolTimeout("full"))
LOOKING = (
    *("select", "preview", "count", "sea", "activate", "replay", "assemble", "try", "explain"),
    *("compare_replays", "plan", "lint"),
)
PURE = [
    case for case in CASES if case.target.startswith("GET /v1") or case.name.startswith(LOOKING)
]
KEYED = [case for case in CASES if case.answer in (CREATED, PUBLISHED)]
WRITES = [case for case in CASES if case not in PURE + KEYED and not case.name.startswith("check")]


def test_every_route_has_a_rule() -> None:
    assert {case.name for case in WRITES} == {
        "delete_book",
        "restore_book",
        "delete_conversation",
        "build_index",
        "put_bindings",
        "create_key",
        "revoke_key",
    }
    assert len(KEYED) == 4


@pytest.mark.parametrize("failure", [*BROKEN, *UNSENT, UNAVAILABLE], ids=repr)
@pytest.mark.parametrize("case", PURE + KEYED, ids=ids(PURE + KEYED))
def test_what_is_safe_is_sent_again(
    call: Call, case: Case, failure: httpx.Response | Exception
) -> None:
    service = Service(failure, failure, answer_to(case))
    call(service, case.name, *case.args, **case.options)
    assert len(service.requests) == 3
    first, second, third = ((r.method, r.url, r.content) for r in service.requests)
    assert first == second == third
    keys = {request.headers.get("Idempotency-Key") for request in service.requests}
    assert len(keys) == 1
    assert (keys != {None}) == (case in KEYED)


@pytest.mark.parametrize("failure", [*BROKEN, UNAVAILABLE], ids=repr)
@pytest.mark.parametrize("case", WRITES, ids=ids(WRITES))
def test_a_write_that_may_have_arrived_is_not_sent_again(
    call: Call, case: Case, failure: httpx.Response | Exception
) -> None:
    service = Service(failure)
    with pytest.raises(UnavailableError) as caught:
        call(service, case.name, *case.args, **case.options)
    assert len(service.requests) == 1
    if isinstance(failure, Exception):
        assert caught.value.code == "service_unreachable"
        assert "The request may have been carried out." in str(caught.value)


@pytest.mark.parametrize("failure", UNSENT, ids=repr)
@pytest.mark.parametrize("case", WRITES, ids=ids(WRITES))
def test_a_write_that_was_not_sent_is_sent_again(
    call: Call, case: Case, failure: Exception
) -> None:
    service = Service(failure, answer_to(case))
    call(service, case.name, *case.args, **case.options)
    assert len(service.requests) == 2


@pytest.mark.parametrize("failure", BROKEN, ids=repr)
def test_a_file_upload_is_sent_again_under_its_key(call: Call, failure: Exception) -> None:
    service = Service(failure, ok(CREATED))
    call(service, "import_files", [("a.json", FILE)])
    assert all(FILE in request.content for request in service.requests)
    assert len({request.headers["Idempotency-Key"] for request in service.requests}) == 1


def test_attempts_are_bounded(call: Call) -> None:
    service = Service(*[UNAVAILABLE] * 9)
    with pytest.raises(StorageUnavailableError, match="Busy"):
        call(service, "get_book", BOOK_ID)
    assert len(service.requests) == 3


def test_no_retries_no_key(call: Call) -> None:
    service = Service(httpx.ReadError("cut"))
    with pytest.raises(UnavailableError):
        call(service, "create_book", BOOK, client={"retry": Retry(attempts=1)})
    assert "Idempotency-Key" not in service.requests[0].headers


def test_each_store_has_a_key_of_its_own(call: Call) -> None:
    services = Service(ok(CREATED)), Service(ok(CREATED))
    for each in services:
        call(each, "create_book", BOOK)
    first, second = (each.requests[0].headers["Idempotency-Key"] for each in services)
    assert first != second


def test_time_out_is_not_repeated_but_names_the_key(call: Call) -> None:
    service = Service(httpx.ReadTimeout("late"))
    with pytest.raises(UnavailableError, match="did not answer in time") as caught:
        call(service, "create_book", BOOK)
    sent = service.requests[0].headers["Idempotency-Key"]
    assert caught.value.details == {"reason": "ReadTimeout", "idempotency_key": sent}


@pytest.mark.parametrize("name", ["check_health", "check_readiness"])
def test_a_probe_tells_the_first_answer(call: Call, name: str) -> None:
    service = Service(UNAVAILABLE)
    with pytest.raises(StorageUnavailableError):
        call(service, name)
    assert len(service.requests) == 1


def test_other_refusals_are_not_repeated(call: Call) -> None:
    error = RevisionConflictError("Moved.", expected=1, actual=2)
    service = Service(problem(error))
    with pytest.raises(RevisionConflictError) as caught:
        call(service, "publish_revision", BOOK_ID, BOOK, expected_revision=1)
    assert caught.value.details == {"expected": 1, "actual": 2}
    assert len(service.requests) == 1


def pauses(monkeypatch: pytest.MonkeyPatch, retry: Retry, *script: Any) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr("lorewell.client.blocking.time.sleep", slept.append)
    blocking(Service(*script, ok(STORED)), "get_book", BOOK_ID, client={"retry": retry})
    return slept


def test_pauses_grow_up_to_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    retry = Retry(attempts=6, first_pause_s=1.0, longest_pause_s=3.0)
    slept = pauses(monkeypatch, retry, *[httpx.ConnectError("no")] * 5)
    bounds = [(0.5, 1), (1, 2), (2, 3), (3, 3), (3, 3)]
    assert all(low <= pause <= high for (low, high), pause in zip(bounds, slept, strict=True))


@pytest.mark.parametrize(("asked", "waited"), [("1", 1.0), ("600", 2.0), ("soon", 0), ("", 0)])
def test_the_pause_that_is_asked_for_counts_up_to_the_bound(
    monkeypatch: pytest.MonkeyPatch, asked: str, waited: float
) -> None:
    busy = httpx.Response(503, headers={"Retry-After": asked})
    retry = Retry(first_pause_s=0.0, longest_pause_s=2.0)
    assert pauses(monkeypatch, retry, busy) == [waited]
