"""The client against the service: blocking against a process, async against the application."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from docs.manual import code_blocks
from lorewell.client import (
    DEFAULT_URL,
    AsyncLorewellClient,
    LorewellClient,
    Retry,
)
from lorewell.errors import (
    BookBoundError,
    BookNotFoundError,
    ContextOverflowError,
    ForbiddenError,
    IdempotencyConflictError,
    ImportInvalidError,
    NotFoundError,
    PolicyMismatchError,
    RevisionConflictError,
    RevisionNotFoundError,
    UnauthenticatedError,
    UnavailableError,
    ValidationFailedError,
    VectorDisabledError,
)
from lorewell.host import DraftMessage, PromptBudget
from lorewell.model import (
    ActivatePreview,
    ActivateRequest,
    AssembleRequest,
    Binding,
    BindingsPut,
    BookCreate,
    BookRef,
    ChangedBook,
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
    SillyTavernResponse,
    content_hash,
)
from lorewell.model.activate import AttachedBook, ChatLine
from lorewell.model.activated import Hit
from lorewell.model.binding import BoundBook
from lorewell.model.conversation import AttachedNative
from lorewell.model.explained import ContextExplain, ReplicaExplain, SillyTavernExplain
from lorewell.model.prompt_settings import NativeDefaults, PromptSettings
from lorewell.model.replay_request import ChatReplayRequest, ReplayDiffRequest, ReplayPlanRequest
from process import free_port, running
from service import UNKNOWN_BOOK, WORLD_INFO, Api, bearer, serving

LAMP = BookCreate(name="灯 Harbour", entries=(Entry(id="lamp", content="A lamp.", keys=("lamp",)),))
MOLE = BookCreate(name="Mole", entries=(Entry(id="mole", content="A mole.", keys=("mole",)),))


class Client:
    """Calls methods of a client by name and keeps which ones, whether it blocks or not."""

    def __init__(self, call: Callable[[str, tuple[Any, ...], dict[str, Any]], Any]) -> None:
        self._call = call
        self.called: set[str] = set()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def method(*args: Any, **options: Any) -> Any:
            self.called.add(name)
            return self._call(name, args, options)

        return method


def awaiting(api: Api, **given: Any) -> Client:
    client = AsyncLorewellClient(
        "http://localhost", tenant_id="demo", transport=httpx.ASGITransport(api.app), **given
    )
    return Client(lambda name, args, options: api.run(getattr(client, name)(*args, **options)))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("served")
    with running(folder / "log", database_url=f"sqlite:///{folder / 'books.db'}") as server:
        yield server.url


@pytest.fixture(params=["blocking", "async"])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    if request.param == "async":
        yield awaiting(request.getfixturevalue("api"))
        return
    with LorewellClient(request.getfixturevalue("url"), tenant_id="demo") as blocking:
        yield Client(lambda name, args, options: getattr(blocking, name)(*args, **options))


def test_every_operation_has_a_method_of_its_name(api: Api) -> None:
    operations = {
        operation["operationId"]
        for methods in api.document["paths"].values()
        for operation in methods.values()
        if operation["tags"] != ["gateway"]  # that has clients of its own
    }
    for kind in (LorewellClient, AsyncLorewellClient):
        assert operations <= set(vars(kind))


def test_every_route_works(client: Client) -> None:
    book_id = write_books(client)
    import_books(client)
    select(client, book_id)
    activate(client, book_id)
    bind(client, book_id)
    administer(client, book_id)
    client.check_health()
    client.check_readiness()
    assert "lorewell_http_requests_total" in client.get_metrics()
    methods = {name for name in vars(LorewellClient) if not name.startswith("_")}
    assert client.called >= methods - {"close", "session", "send", "live"}


def write_books(client: Client) -> str:
    (made,) = client.create_book(LAMP).books
    book_id: str = made.book_id
    assert client.publish_revision(book_id, MOLE, expected_revision=1).revision == 2
    again = client.restore_revision(book_id, 1, expected_revision=2)
    assert (again.revision, again.content_hash) == (3, content_hash(LAMP))
    stored = client.get_book(book_id, revision=2)
    assert (stored.book.name, stored.revision.name) == ("灯 Harbour", "Mole")
    assert stored.revision.entries == MOLE.entries
    exported = client.export_book(book_id, format="native", revision=2)
    assert BookCreate.model_validate_json(json.dumps(exported)) == MOLE
    newest = client.list_revisions(book_id, limit=2)
    assert [each.revision for each in newest.revisions] == [3, 2]
    oldest = client.list_revisions(book_id, cursor=newest.next_cursor)
    assert [each.revision for each in oldest.revisions] == [1]
    diff = client.compare_revisions(book_id, 1, 2)
    assert (diff.added, diff.removed, diff.book_fields) == (("mole",), ("lamp",), ("name",))
    client.delete_book(book_id, expected_revision=3)
    assert book_id not in {head.book_id for head in client.list_books(name_contains="灯").books}
    listed = client.list_books(name_contains="灯", include_deleted=True, limit=200)
    assert book_id in {head.book_id for head in listed.books}
    assert client.restore_book(book_id).deleted_at is None
    return book_id


def import_books(client: Client) -> None:
    assert len(client.import_books([LAMP, MOLE]).books) == 2
    preview = client.preview_import("港口.json", WORLD_INFO)
    assert preview.import_report.source_file.name == "港口.json"
    first = client.import_files([("a.json", WORLD_INFO)], idempotency_key="files")
    assert client.import_files([("a.json", WORLD_INFO)], idempotency_key="files").replayed
    again = client.import_files([("b.json", WORLD_INFO)])
    assert again.books[0].deduplicated
    assert again.books[0].book_id == first.books[0].book_id


def select(client: Client, book_id: str) -> None:
    refs = (BookRef(book_id=book_id),)
    answer = client.select_for_turn(SelectRequest(books=refs, query="the lamp"), prompt_id="p")
    assert [block.content for block in answer.blocks] == ["A lamp."]
    assert answer.decisions[0].facts.key == "lamp"
    opened = client.get_selection(answer.selection_fingerprint)
    assert opened.blocks == answer.blocks
    changed = ChangedBook(book_id=book_id, changes=MOLE.entries, removed=("lamp",))
    preview = PreviewRequest(books=(changed, InlineBook(book=LAMP)), query="a mole, a lamp")
    told = client.preview_for_turn(preview)
    assert [decision.entry_id for decision in told.decisions] == ["mole", "lamp"]
    explained = client.explain_context(ContextExplain(request=preview, entry="mole"))
    assert (explained.selected, explained.reason) == (True, "keyword")
    tried = client.try_condition(ConditionTrial(text="tb.力量 > 10", table={"力量": 15}))
    linted = client.lint(LintRequest(book=ChangedBook(book_id=book_id, changes=MOLE.entries)))
    assert linted.policy == "native"
    assert (tried.holds, tried.written) == (True, "tb.力量 > 10")
    assert client.count_tokens(["a lamp", ""], tokenizer="cl100k_base").counts == (2, 0)
    assert client.search_books(SearchRequest(books=refs, query="lamp")).results[0].score > 0
    assert client.get_index(book_id, revision=1).status == "absent"
    assert book_id in {each.book_id for each in client.list_indexes(limit=200).indexes}
    with pytest.raises(VectorDisabledError):
        client.build_index(book_id, 1)


def whole_chats(client: Client, book_id: str) -> None:
    said = [{"role": "user", "content": "the lamp"}]
    side = {"books": [{"book_id": book_id}], "settings": {"native": {"strategy": "rules"}}}
    body = {**side, "chat": said}
    (step,) = client.replay_context(ChatReplayRequest.model_validate(body)).steps
    assert [(use.reason, use.found) for use in step.used] == [("keyword", True)]
    (step,) = client.replay_replica(ChatReplayRequest.model_validate(body)).steps
    assert [use.reason for use in step.used] == ["keyword"]
    (spent,) = client.plan_replay(ReplayPlanRequest.model_validate(body)).entries
    assert spent.turns == 1
    sides = {"chat": said, "first": side, "second": side}
    assert not client.compare_replays(ReplayDiffRequest.model_validate(sides)).changed


def by_replica(client: Client, book_id: str) -> None:
    books = {"globalBooks": [{"id": book_id, "revision": 1}]}
    turn = {"worldBookData": books, "mes": "lamp", "explain": "none"}
    answer = client.activate_replica(ReplicaRequest.model_validate(turn))
    (entry,) = answer.entries
    assert (entry.content, entry.trigger_type, entry.group_weight) == ("A lamp.", "keyword", 100)
    opened = client.get_replica_activation(answer.activation_id)
    assert (opened.entries, opened.decisions[0].facts.keys) == (answer.entries, ("lamp",))
    changed = [{"book_id": book_id, "removed": ["lamp"]}]
    preview = ReplicaPreview.model_validate({**turn, "changed": changed})
    assert client.preview_replica(preview).entries == ()
    asked = ReplicaExplain(request=ReplicaPreview.model_validate(turn), entry="lamp")
    assert client.explain_replica(asked).selected


def assemble(client: Client, answer: SillyTavernResponse) -> None:
    said = {"role": "user", "content": [{"type": "text", "text": "灯?"}], "n": 10**30}
    draft = (DraftMessage(kind="input", message=said),)
    prompt = client.assemble_prompt(AssembleRequest(draft=draft, sillytavern=answer))
    assert [message["content"] for message in prompt.messages] == ["A lamp.", said["content"]]
    assert prompt.messages[1] == said
    assert [each.message_index for each in prompt.placements] == [0]
    tight = AssembleRequest(draft=draft, budget=PromptBudget(context_window=1))
    with pytest.raises(ContextOverflowError) as caught:
        client.assemble_prompt(tight)
    assert caught.value.details["window_tokens"] == 1


def activate(client: Client, book_id: str) -> None:
    put = BindingsPut(bindings=(Binding(book_id=book_id, revision=1),), policy="sillytavern")
    client.put_bindings("场景 2", put)
    chat = (ChatLine(name="Ann", content="灯?"), ChatLine(content="A lamp!"))
    turn = ActivateRequest(
        prompt_id="场景 2", conversation_id="对话 1?", chat=chat, context_tokens=8000
    )
    answer = client.activate_for_turn(turn)
    (entry,) = answer.activated
    assert (entry.content, entry.reason, entry.key) == ("A lamp.", "primary", "lamp")
    assert entry.hit == Hit("message", 1, (2, 6))
    assert [(event.kind, event.key) for event in answer.events][1:2] == [("primary", "lamp")]
    assert answer.snapshot[0].book_id == book_id
    assemble(client, answer)
    given = AttachedNative(book=MOLE, source="chat")
    preview = ActivatePreview(books=(given,), chat=chat, context_tokens=8000)
    assert [verdict.reason for verdict in client.preview_activation(preview).verdicts] == [
        "not_triggered"
    ]
    asked = SillyTavernExplain(request=preview, entry="mole")
    assert client.explain_activation(asked).reason == "not_triggered"
    chosen = AttachedBook(book_id=book_id, revision=1)
    replay = ReplayRequest(books=(chosen,), chat=chat, context_tokens=8000)
    turns = client.replay_chat(replay).turns
    whole_chats(client, book_id)
    by_replica(client, book_id)
    assert [[each.key for each in turn.activated] for turn in turns] == [[], ["lamp"]]
    assert "对话 1?" in {each.conversation_id for each in client.list_conversations().conversations}
    assert client.get_conversation("对话 1?").states[0].message_count == 2
    client.delete_conversation("对话 1?")
    with pytest.raises(NotFoundError):
        client.get_activation("none")  # the gateway makes them
    with pytest.raises(NotFoundError):
        client.get_conversation("对话 1?")
    client.put_bindings("场景 2", BindingsPut(bindings=put.bindings))
    with pytest.raises(PolicyMismatchError) as other:
        client.activate_for_turn(turn)
    assert other.value.details["policy"] == "native"
    client.put_bindings("场景 2", BindingsPut(bindings=()))


def bind(client: Client, book_id: str) -> None:
    put = BindingsPut(bindings=(Binding(book_id=book_id, revision=1),), policy="native")
    assert client.put_bindings("场景 1", put).bindings == put.bindings
    own = PromptSettings(native=NativeDefaults(scan_depth=4), auto_index=True)
    set_up = client.put_bindings("场景 1", put.model_copy(update={"settings": own}))
    assert set_up.settings.model_dump() == {"native": {"scan_depth": 4}, "auto_index": True}
    assert client.resolve_bindings("场景 1").settings.native.given() == {"scan_depth": 4}
    assert client.get_bindings("场景 1").policy == "native"
    resolved = client.resolve_bindings("场景 1")
    assert resolved.books == (BoundBook(book_id=book_id, revision=1),)
    assert [each.prompt_id for each in client.list_book_prompts(book_id).prompts] == ["场景 1"]
    assert "场景 1" in {each.prompt_id for each in client.list_prompts(limit=200).prompts}
    with pytest.raises(BookBoundError):
        client.delete_book(book_id)
    client.delete_book(book_id, force=True)


def administer(client: Client, book_id: str) -> None:
    assert "demo" in client.list_tenants().tenants
    assert client.list_all_books(limit=1).next_cursor
    assert client.get_any_book(book_id).book.deleted_at
    key = client.create_key(KeyRequest(tenants=("*",), scopes=("read",), name="灯"))
    assert key.secret.startswith(f"lw_{key.id}_")
    client.revoke_key(key.id)
    (listed,) = (each for each in client.list_keys().keys if each.id == key.id)
    assert listed.revoked_at


def test_errors_are_those_of_the_use_cases(client: Client) -> None:
    (made,) = client.create_book(LAMP, idempotency_key="errors").books
    with pytest.raises(IdempotencyConflictError):
        client.create_book(MOLE, idempotency_key="errors")
    with pytest.raises(RevisionConflictError) as moved:
        client.publish_revision(made.book_id, MOLE, expected_revision=7, request_id="turn 7")
    assert moved.value.details == {"expected": 7, "actual": 1}
    assert moved.value.request_id == "turn 7"
    with pytest.raises(BookNotFoundError):
        client.get_book(UNKNOWN_BOOK)
    with pytest.raises(RevisionNotFoundError):
        client.get_book(made.book_id, revision=2)
    with pytest.raises(NotFoundError):
        client.get_selection("none")
    with pytest.raises(ImportInvalidError) as invalid:
        client.import_files([("a.json", b'{"entries":')])
    assert invalid.value.details["file"] == "a.json"
    with pytest.raises(ValidationFailedError) as bad:
        client.list_books(limit=1000, cursor="x")
    assert {fault.parameter for fault in bad.value.faults} == {"limit"}
    for name in ("..", ".", "a?b#c", "灯 %2e"):
        with pytest.raises(BookNotFoundError):
            client.get_book(name)


def test_other_tenants_see_nothing(client: Client) -> None:
    (made,) = client.create_book(LAMP).books
    with pytest.raises(BookNotFoundError):
        client.get_book(made.book_id, tenant_id="other")
    assert client.get_book(made.book_id, tenant_id="demo").book.tenant_id == "demo"


def test_keys_open_what_they_are_for(database: str) -> None:
    with serving(database_url=database, auth=True) as api:
        key = bearer(api, "read")["Authorization"].removeprefix("Bearer ")
        with pytest.raises(UnauthenticatedError):
            awaiting(api).list_books()
        reader = awaiting(api, api_key=key)
        assert reader.list_books().books == ()
        with pytest.raises(ForbiddenError):
            reader.create_book(LAMP)
        with pytest.raises(ForbiddenError):
            reader.list_books(tenant_id="other")
        awaiting(api).check_readiness()


def test_the_manual_is_right(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = itertools.pairwise(code_blocks("docs/api.md"))
    ((program, output),) = ((one.text, two.text) for one, two in blocks if one.language == "py")
    exec(program.replace(DEFAULT_URL, url), {})  # noqa: S102  an example of our own
    assert capsys.readouterr().out == output


class Cut(httpx.AsyncBaseTransport):
    """Loses the first answer on its way: the service has done its work by then."""

    def __init__(self, api: Api) -> None:
        self._inner = httpx.ASGITransport(api.app)
        self._lost = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        if not self._lost:
            self._lost = True
            raise httpx.ReadError("cut")
        return response


def test_a_store_whose_answer_was_lost_is_done_once(api: Api) -> None:
    retry = Retry(first_pause_s=0)
    client = AsyncLorewellClient(
        "http://localhost", tenant_id="demo", transport=Cut(api), retry=retry
    )
    result = api.run(client.create_book(LAMP))
    assert result.replayed
    assert len(api.run(client.list_books()).books) == 1


def test_nobody_there_is_an_error_of_its_own() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    retry = Retry(attempts=2, first_pause_s=0)
    with (
        LorewellClient(url, tenant_id="demo", retry=retry) as client,
        pytest.raises(UnavailableError) as caught,
    ):
        client.list_books()
    assert caught.value.code == "service_unreachable"
    assert url in str(caught.value)
