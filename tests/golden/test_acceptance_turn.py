"""The acceptance cases of docs/rules/host.md §16 that are about a turn and its calls."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import pytest

from lorewell import CompiledBook, SelectRequest, select
from lorewell.client import connect
from lorewell.errors import (
    BindingInvalidError,
    LorewellError,
    ServiceUnreachableError,
    StorageUnavailableError,
    UpstreamInvalidError,
    UpstreamUnavailableError,
    ValidationFailedError,
)
from lorewell.host import DraftMessage
from lorewell.model import BookRef, ResolvedBindings
from lorewell.model.worldbook import WorldbookConfig
from lorewell.turn import (
    PreparedTurn,
    Turn,
    TurnError,
    TurnHost,
    TurnInput,
    TurnTrace,
    read_config,
)
from support import BOOK_ID, compiled, entry

Result = TypeVar("Result")

CONFIG = WorldbookConfig(tenant_id="demo")
BELL = compiled(
    [
        entry("bell", "bell", content="LORE: the bell belongs to Marrow."),
        entry("law", content="LORE: no lamp after dusk.", constant=True),
        entry("tide", "ebb"),
    ]
)


def item(kind: Any, role: str, content: Any) -> DraftMessage:
    return DraftMessage(kind=kind, message={"role": role, "content": content})


HOUSE = item("template", "system", "House style.")
CHARACTER = item("character", "system", "Marrow, toll keeper.")
SAID = item("input", "user", "I ring the bell. 我敲钟。")
DRAFT = (HOUSE, CHARACTER, item("chat", "assistant", "Night."), SAID)


def turn_input(request_id: str = "turn 1", **members: Any) -> TurnInput:
    return TurnInput(
        **{
            "request_id": request_id,
            "user_id": "用户",
            "conversation_id": "c1",
            "prompt_id": "ferry",
            "draft": DRAFT,
            **members,
        }
    )


class Shelf:
    """Books that are asked in this process; notes every call, and fails as it is told."""

    def __init__(self, *books: CompiledBook) -> None:
        self.revisions = {book.book_id: [book] for book in books}
        self.pinned: dict[str, int] = {}
        self.requests: list[SelectRequest] = []
        self.calls: list[str] = []
        self.failures: list[tuple[str, Exception]] = []
        self.pause = asyncio.Event()
        self.pause.set()

    async def _begin(self, name: str) -> None:
        self.calls.append(name)
        await self.pause.wait()
        if self.failures and self.failures[0][0] == name:
            raise self.failures.pop(0)[1]

    async def resolve_bindings(self, prompt_id: str, /) -> ResolvedBindings:
        await self._begin("resolve")
        refs = [
            BookRef(book_id=name, revision=self.pinned.get(name, books[-1].revision))
            for name, books in self.revisions.items()
        ]
        return ResolvedBindings(
            tenant_id="demo", prompt_id=prompt_id, policy="native", books=tuple(refs)
        )

    async def select_for_turn(
        self, request: SelectRequest, /, *, prompt_id: str | None = None
    ) -> Any:
        del prompt_id
        await self._begin("select")
        self.requests.append(request)
        books = [book for books in self.revisions.values() for book in books]
        return select(books, request)

    async def activate_for_turn(self, request: Any, /, *, prompt_id: str | None = None) -> Any:
        raise NotImplementedError


def published(book_id: str = BOOK_ID) -> CompiledBook:
    return compiled([entry("bell", "bell", content="LORE: new.")], book_id=book_id, revision=2)


def run(work: Awaitable[Result]) -> Result:
    async def wait() -> Result:
        return await work

    return asyncio.run(wait())


def text(prepared: PreparedTurn) -> str:
    return json.dumps(prepared.messages, ensure_ascii=False)


class Model:
    """Says what it is told to; notes what it is asked."""

    def __init__(self, *replies: str | Exception) -> None:
        self.replies = list(replies)
        self.asked: list[PreparedTurn] = []

    async def __call__(self, prepared: PreparedTurn) -> str:
        self.asked.append(prepared)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def failed(work: Callable[[], Awaitable[object]]) -> TurnError:
    with pytest.raises(TurnError) as caught:
        run(work())
    return caught.value


def test_01_without_the_block_the_draft_goes_out_as_it_is() -> None:
    traces: list[TurnTrace] = []
    assert read_config({"model": "m"}) is None
    for lore in (None, shelf := Shelf(BELL)):
        host = TurnHost(None, lore, on_trace=traces.append)
        prepared = run(host.begin(turn_input(user_id="")).prepare())
        assert prepared.messages == tuple(each.message for each in DRAFT)
    assert shelf.calls == []
    assert traces[0].members()["skipped"] == "disabled"


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({"worldbook": {}}, "/worldbook/tenantId"),
        ({"worldbook": {"tenantId": ""}}, "/worldbook/tenantId"),
        ({"worldbook": {"tenantId": "demo", "scan_depth": 4}}, "/worldbook/scan_depth"),
        ({"worldbook": {"tenantId": "demo", "strategy": "vector"}}, "/worldbook/strategy"),
        ({"worldbook": {"tenantId": "demo", "tokenBudget": 32_001}}, "/worldbook/tokenBudget"),
        ({"worldbook": {"tenantId": "demo", "tokenBudget": "1"}}, "/worldbook/tokenBudget"),
        ({"worldbook": []}, "/worldbook"),
        ({"worldbook": {"tenantId": "demo"}, "storyV1": {}}, "/storyV1"),
        ({"worldbook": {"tenantId": "demo"}, "sumiV1": True}, "/sumiV1"),
        ({"worldbook": {"tenantId": "demo"}, "preActorDirector": {"on": 1}}, "/preActorDirector"),
    ],
)
def test_02_a_faulty_configuration_is_refused_by_name(
    document: Mapping[str, Any], place: str
) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        read_config(document)
    assert [fault.pointer for fault in refused.value.faults] == [place]


def test_02_modes_that_are_off_are_no_conflict_and_a_key_is_never_shown() -> None:
    block = {"tenantId": "demo", "apiKey": "lw_secret_key", "timeoutMs": 5, "mergeAdjacent": False}
    config = read_config({"worldbook": block, "storyV1": None, "sumiV1": False})
    assert config is not None
    assert (config.timeout_ms, config.merge_adjacent, config.api_key) == (5, False, "lw_secret_key")
    assert "lw_secret_key" not in repr(config)
    with pytest.raises(ValidationFailedError) as refused:
        connect(config.model_copy(update={"api_key": "lw_secret_钥"}))
    assert "lw_secret" not in str(refused.value)


def test_03_and_04_the_defaults_are_sent_and_nothing_else() -> None:
    shelf = Shelf(BELL)
    run(
        TurnHost(read_config({"worldbook": {"tenantId": "demo"}}), shelf)
        .begin(turn_input())
        .prepare()
    )
    (request,) = shelf.requests
    assert (request.strategy, request.token_budget) == ("hybrid", 2_400)
    assert request.recall_floor == "auto"
    assert request.model_fields_set == {
        "books",
        "strategy",
        "token_budget",
        "recall_floor",
        "query",
        "history",
        "state",
        "seed",
        "template_vars",
        "placement_capabilities",
    }


def test_11_no_bindings_skip_the_selection_and_the_chat_goes_on() -> None:
    shelf, traces, model = Shelf(), list[TurnTrace](), Model("Hello.")
    host = TurnHost(CONFIG, shelf, on_trace=traces.append)
    assert run(host.begin(turn_input()).run(model)) == "Hello."
    assert shelf.calls == ["resolve"]
    assert traces[0].members()["skipped"] == "no_bindings"
    assert "LORE" not in text(model.asked[0])


def test_12_retries_of_the_model_use_the_same_lore() -> None:
    shelf, traces = Shelf(BELL), list[TurnTrace]()
    model = Model(UpstreamUnavailableError("Down."), "", "The bell rings.")
    host = TurnHost(CONFIG, shelf, on_trace=traces.append)
    assert run(host.begin(turn_input()).run(model, reply_id="r1")) == "The bell rings."
    assert shelf.calls == ["resolve", "select"]
    assert [each.messages for each in model.asked] == [model.asked[0].messages] * 3
    assert "LORE: the bell" in text(model.asked[0])
    assert [each.reused for each in traces] == [False, True, True]
    assert {each.reply_id for each in traces} == {"r1"}


def test_12_the_model_is_asked_no_more_often_than_allowed() -> None:
    host = TurnHost(CONFIG, Shelf(BELL))
    with pytest.raises(UpstreamInvalidError):
        run(host.begin(turn_input()).run(model := Model("", "", "late"), attempts=2))
    assert len(model.asked) == 2
    with pytest.raises(UpstreamUnavailableError):
        run(host.begin(turn_input()).run(Model(UpstreamUnavailableError("Down.")), attempts=1))
    with pytest.raises(KeyError):
        run(host.begin(turn_input()).run(once := Model(KeyError("bug"), "late")))
    assert len(once.asked) == 1


def test_13_a_revision_published_between_retries_counts_from_the_next_turn() -> None:
    shelf = Shelf(BELL)
    host = TurnHost(CONFIG, shelf)

    async def turns() -> list[PreparedTurn]:
        turn = host.begin(turn_input())
        first = await turn.prepare()
        shelf.revisions[BOOK_ID].append(published())
        return [first, await turn.prepare(), await host.begin(turn_input("turn 2")).prepare()]

    first, retry, following = run(turns())
    assert first.messages == retry.messages
    assert "LORE: the bell" in text(retry)
    assert "LORE: new." in text(following)
    assert [each.trace.books[0].revision for each in (first, retry, following)] == [1, 1, 2]


def test_14_a_pinned_binding_stays() -> None:
    shelf = Shelf(BELL)
    shelf.pinned[BOOK_ID] = 1
    shelf.revisions[BOOK_ID].append(published())
    prepared = run(TurnHost(CONFIG, shelf).begin(turn_input()).prepare())
    assert "LORE: the bell" in text(prepared)


def test_15_parallel_calls_share_one_selection() -> None:
    shelf = Shelf(BELL)

    async def both() -> Sequence[PreparedTurn]:
        turn = TurnHost(CONFIG, shelf).begin(turn_input())
        shelf.pause.clear()
        tasks = [asyncio.create_task(turn.prepare()) for _ in range(3)]
        await asyncio.sleep(0.01)
        tasks.pop().cancel()  # one that goes away takes nothing from the others
        shelf.pause.set()
        return await asyncio.gather(*tasks)

    first, second = run(both())
    assert shelf.calls == ["resolve", "select"]
    assert first.messages == second.messages
    assert [first.trace.reused, second.trace.reused] == [False, True]


def test_16_two_turns_select_twice() -> None:
    shelf = Shelf(BELL)
    host = TurnHost(CONFIG, shelf)

    async def turns() -> None:
        await host.begin(turn_input("turn 1")).prepare()
        await host.begin(turn_input("turn 2")).prepare()

    run(turns())
    assert shelf.calls == ["resolve", "select"] * 2
    assert [each.seed for each in shelf.requests] == ["turn 1", "turn 2"]


def test_17_a_failed_selection_goes_up_and_may_be_tried_again_on_the_same_revisions() -> None:
    shelf, model, traces = Shelf(BELL), Model("Rings."), list[TurnTrace]()

    shelf.failures = [("select", StorageUnavailableError("Out of order."))]

    async def turns() -> tuple[list[Any], str]:
        turn = TurnHost(CONFIG, shelf, on_trace=traces.append).begin(turn_input())
        both = (turn.run(model), turn.run(model))
        results = await asyncio.gather(*both, return_exceptions=True)
        shelf.revisions[BOOK_ID].append(published())
        return results, await turn.run(model)

    errors, reply = run(turns())
    assert [(each.code, each.stage) for each in errors] == [("storage_unavailable", "select")] * 2
    assert {each.turn_id for each in errors} == {"turn 1"}
    assert reply == "Rings."
    assert len(model.asked) == 1
    assert "LORE: the bell" in text(model.asked[0])
    assert shelf.calls == ["resolve", "select", "select"]
    assert [each.members()["error"] is None for each in traces] == [False, False, True]


def test_18_a_conversation_keeps_its_prompt_and_its_user() -> None:
    shelf = Shelf(BELL)
    host = TurnHost(CONFIG, shelf)

    async def turns() -> TurnError:
        await host.begin(turn_input(scene_id="pier")).prepare()
        await host.begin(turn_input(scene_id="ship")).prepare()
        await host.begin(turn_input(user_id="b", prompt_id="other")).prepare()
        shelf.calls.clear()
        with pytest.raises(TurnError) as caught:
            await host.begin(turn_input(prompt_id="other")).prepare()
        return caught.value

    error = run(turns())
    assert (error.code, error.stage) == ("worldbook.conversation_mismatch", "check")
    assert error.details["began_with"] == "ferry"
    assert shelf.calls == []


@pytest.mark.parametrize("name", ["user_id", "conversation_id", "prompt_id"])
def test_18_a_blank_identity_is_refused_before_anything_is_asked(name: str) -> None:
    shelf = Shelf(BELL)
    error = failed(TurnHost(CONFIG, shelf).begin(turn_input(**{name: " \u3000"})).prepare)
    assert (error.code, error.stage) == ("worldbook.identity_missing", "check")
    assert error.details == {"missing": [name]}
    assert shelf.calls == []


def test_30_a_prompt_over_the_window_fails_and_the_model_is_not_asked() -> None:
    shelf, model, traces = Shelf(BELL), Model("x"), list[TurnTrace]()
    needed = run(TurnHost(CONFIG, shelf).begin(turn_input()).prepare()).prompt.figures.needed_tokens  # type: ignore[union-attr]
    full = CONFIG.model_copy(update={"context_window": needed})
    assert run(TurnHost(full, shelf).begin(turn_input()).run(Model("Fits."))) == "Fits."
    tight = CONFIG.model_copy(update={"context_window": needed - 1})
    host = TurnHost(tight, shelf, on_trace=traces.append)
    error = failed(lambda: host.begin(turn_input()).run(model))
    assert (error.code, error.stage, model.asked) == ("agent.context_overflow", "budget", [])
    told = traces[0].members()
    assert (told["needed_tokens"], told["window"]) == (needed, needed - 1)
    assert told["selection"]["token_count"] > 0


def test_31_and_32_planner_and_history_never_see_lore() -> None:
    shelf = Shelf(BELL)
    host = TurnHost(CONFIG, shelf)
    history: list[DraftMessage] = []

    async def turn(number: int, said: str, reply: str) -> PreparedTurn:
        given = turn_input(
            f"turn {number}", draft=(CHARACTER, *history, item("input", "user", said))
        )
        async with host.begin(given) as turn:
            model = Model(reply)
            answered = await turn.run(model)
            assert "LORE" not in json.dumps(given.history)
            assert [each["content"] for each in given.history][-1] == said
        history.extend([item("chat", "user", said), item("chat", "assistant", answered)])
        return model.asked[0]

    async def turns() -> None:
        assert "LORE" in text(await turn(1, "I ring the bell.", "It rings."))
        assert "LORE" in text(await turn(2, "And the bell?", "Again."))

    run(turns())
    assert "LORE" not in str(history)
    assert [each.content for each in shelf.requests[1].history] == ["I ring the bell.", "It rings."]


def test_33_the_trace_lists_every_decision_and_no_text(caplog: pytest.LogCaptureFixture) -> None:
    def throw(trace: TurnTrace) -> None:
        raise RuntimeError(trace.given.request_id)

    host = TurnHost(CONFIG, Shelf(BELL), on_trace=throw)
    with caplog.at_level(logging.ERROR, logger="lorewell.turn"):
        prepared = run(host.begin(turn_input()).prepare())
    assert "on_trace failed for the turn turn 1" in caplog.text
    told = json.loads(prepared.trace.to_json())
    assert {each["entry_id"]: each["reason"] for each in told["decisions"]} == {
        "bell": "keyword",
        "law": "constant",
        "tide": "not_triggered",
    }
    assert "LORE" not in prepared.trace.to_json().decode()
    assert [each["message_index"] for each in told["placements"]] == [0, 0]
    assert set(told) == {
        "requestId", "replyId", "tenantId", "promptId", "conversationId", "policy", "books",
        "strategy", "tokenBudget", "query_chars", "history_count", "state_source", "scene_source",
        "capabilities", "skipped", "selection", "decisions", "placements", "needed_tokens",
        "window", "error", "reused", "warnings",
    }  # fmt: skip
    assert set(told["selection"]) == {
        "policy_version", "selection_fingerprint", "prompt_hash", "token_count", "tokenizer",
        "degraded", "duration_ms",
    }  # fmt: skip
    telling = CONFIG.model_copy(update={"trace_content": True})
    prepared = run(TurnHost(telling, Shelf(BELL)).begin(turn_input()).prepare())
    contents = {each["content"] for each in prepared.trace.members()["placements"]}
    assert contents == {"LORE: the bell belongs to Marrow.", "LORE: no lamp after dusk."}


def test_35_a_required_entry_that_can_not_go_in_fails_the_turn() -> None:
    book = compiled([entry("must", required=True, content="very long " * 200)])
    tight = CONFIG.model_copy(update={"token_budget": 50})
    model = Model("x")
    error = failed(lambda: TurnHost(tight, Shelf(book)).begin(turn_input()).run(model))
    assert (error.code, error.stage, model.asked) == ("budget_exceeded", "select", [])
    assert error.details["entry_id"] == "must"
    shelf = Shelf(BELL)
    shelf.failures = [("resolve", BindingInvalidError("Gone.", bindings=[]))]
    error = failed(TurnHost(CONFIG, shelf).begin(turn_input()).prepare)
    assert (error.code, error.stage) == ("binding_invalid", "resolve")


def test_36_without_vectors_a_reply_comes_and_the_trace_says_so() -> None:
    prepared = run(TurnHost(CONFIG, Shelf(BELL)).begin(turn_input()).prepare())
    assert prepared.trace.members()["selection"]["degraded"] == ["vector_disabled"]
    assert "LORE" in text(prepared)


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (ServiceUnreachableError("Refused.", reason="ConnectError"), ["resolve", "resolve"]),
        (ServiceUnreachableError("Late.", reason="ReadTimeout"), ["resolve"]),
        (LorewellError("Odd.", reason="no_problem_body", status=502), ["resolve"]),
    ],
)
def test_37_a_service_that_is_down_is_an_error(error: LorewellError, calls: Sequence[str]) -> None:
    shelf, model = Shelf(BELL), Model("x")
    shelf.failures = [("resolve", error)] * 2
    caught = failed(lambda: TurnHost(CONFIG, shelf).begin(turn_input()).run(model))
    assert (caught.code, caught.stage) == ("worldbook.service_unavailable", "resolve")
    assert caught.members() == {
        "code": "worldbook.service_unavailable",
        "stage": "resolve",
        "cause": str(error),
        "requestId": "turn 1",
    }
    assert (shelf.calls, model.asked) == (calls, [])


def test_37_a_service_that_hangs_is_given_up() -> None:
    shelf = Shelf(BELL)

    async def turns() -> TurnError:
        shelf.pause.clear()
        hasty = CONFIG.model_copy(update={"timeout_ms": 20})
        with pytest.raises(TurnError) as caught:
            await TurnHost(hasty, shelf).begin(turn_input()).prepare()
        return caught.value

    error = run(turns())
    assert (error.code, error.stage) == ("worldbook.service_unavailable", "resolve")
    assert "0.02 s" in str(error)


def test_39_chance_is_that_of_the_request_id() -> None:
    lucky = compiled([entry(f"e{number}", "bell", probability=50) for number in range(40)])

    def placed(request_id: str) -> Iterable[str]:
        prepared = run(TurnHost(CONFIG, Shelf(lucky)).begin(turn_input(request_id)).prepare())
        assert prepared.prompt is not None
        return [each.id for each in prepared.prompt.placements]

    assert placed("turn 1") == placed("turn 1") != placed("turn 2")


def test_40_an_unknown_name_is_left_out() -> None:
    shelf = Shelf(compiled([entry("to-user", "bell", content="{{user}}, beware.")]))
    prepared = run(TurnHost(CONFIG, shelf).begin(turn_input(char="Marrow")).prepare())
    assert shelf.requests[0].template_vars == {"char": "Marrow"}
    (decision,) = prepared.trace.members()["decisions"]
    assert decision["reason"] == "template_missing"
    prepared = run(TurnHost(CONFIG, shelf).begin(turn_input(user="小明")).prepare())
    assert "小明, beware." in text(prepared)


def test_41_a_blank_input_is_still_asked_for() -> None:
    shelf = Shelf(BELL)
    given = turn_input(draft=(CHARACTER, item("input", "user", " ")))
    prepared = run(TurnHost(CONFIG, shelf).begin(given).prepare())
    assert prepared.trace.members()["strategy"] == "rules"
    assert "LORE: no lamp" in text(prepared)


def test_42_a_state_above_the_bound_goes_up_and_the_model_is_not_asked() -> None:
    model = Model("x")
    huge = json.dumps({"weather": "雾" * 90_000})
    host = TurnHost(CONFIG, Shelf(BELL))
    error = failed(lambda: host.begin(turn_input(saved_state=huge)).run(model))
    assert (error.code, error.stage, model.asked) == ("validation_error", "select", [])
    assert [fault.pointer for fault in error.faults] == ["/state"]


def test_a_turn_that_ends_ends_its_calls() -> None:
    shelf = Shelf(BELL)

    async def turns() -> bool:
        shelf.pause.clear()
        async with TurnHost(CONFIG, shelf).begin(turn_input()) as turn:
            waiting = asyncio.create_task(turn.prepare())
            await asyncio.sleep(0.01)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return isinstance(turn, Turn)

    assert run(turns())
    assert shelf.calls == ["resolve"]


def test_tools_count_and_a_faulty_one_is_said() -> None:
    shelf = Shelf(BELL)
    tool = {"type": "function", "function": {"name": "roll"}}
    prepared = run(TurnHost(CONFIG, shelf).begin(turn_input(tools=[tool])).prepare())
    assert prepared.tools == (tool,)
    assert prepared.prompt is not None
    assert prepared.prompt.figures.tool_tokens > 0
    odd = turn_input(tools=[{"a": "\x00"}])
    error = failed(TurnHost(CONFIG, shelf).begin(odd).prepare)
    assert (error.code, error.stage) == ("validation_error", "place")


def test_books_without_a_place_to_ask_them_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="`lore` is not given"):
        TurnHost(CONFIG)
