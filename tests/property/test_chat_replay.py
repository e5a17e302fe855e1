"""A replay gives what single turns give, and the curve of a plan what its budgets give."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

from lorewell import Library, SelectRequest, SelectResponse, SillyTavernRequest, activate, select
from lorewell.engine.native.compiled import CompiledBook
from lorewell.engine.replica import activate as activate_replica, compile_world
from lorewell.engine.sillytavern.turns import attach, seed_of
from lorewell.errors import SelectionError
from lorewell.insight.chats import (
    ChatSide,
    NativeSide,
    ReplicaSide,
    SillyTavernSide,
    turns_after,
)
from lorewell.insight.compare import compare_sides
from lorewell.insight.plan import MAX_BUDGET, plan_side
from lorewell.insight.stories import replay_side
from lorewell.model import Message, ReplicaRequest
from lorewell.model.chat_replay import SpokenLine
from property.strategies import SENTENCES, request_fields, snapshots
from property.test_replica import ENTRIES
from support import Document, compiled

few = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])

ROLES = st.sampled_from(["user", "assistant", "system"])
CHATS = st.lists(
    st.builds(SpokenLine, ROLES, st.just(""), SENTENCES | st.sampled_from(["", " \n"])),
    min_size=1,
    max_size=6,
)


def native_side(snapshot: Any, fields: Document, chat: list[SpokenLine]) -> NativeSide:
    books = [compiled(entries, book_id=book_id) for book_id, entries in snapshot]
    usual = {**fields, "query": " ", "history": [], "books": [book.ref for book in books]}
    return NativeSide(books=books, request=SelectRequest.model_validate(usual), chat=chat)


def turn_of(side: NativeSide, number: int, **changes: Any) -> SelectRequest:
    """Return the request that a host would make after so many messages."""
    earlier = [
        Message(role=line.role, content=line.content)
        for line in side.chat[: number - 1]
        if line.role != "system" and line.content.strip()
    ]
    request = side.request
    return request.model_copy(
        update={
            "query": side.chat[number - 1].content or " ",
            "history": tuple(earlier[-max(20, request.scan_depth) :]),
            "seed": seed_of(request.seed, number),
            **changes,
        }
    )


def selected(books: list[CompiledBook], request: SelectRequest) -> SelectResponse | str:
    try:
        return select(books, request)
    except SelectionError as error:
        return error.code


@few
@given(snapshots(), request_fields(), CHATS)
def test_a_native_replay_is_its_selections(
    snapshot: Any, fields: Document, chat: list[SpokenLine]
) -> None:
    side = native_side(snapshot, fields, chat)
    turns = turns_after(chat, "every_message")
    found = replay_side(side, turns)
    before: set[Any] = set()
    for number, step in zip(turns, found.steps, strict=True):
        answer = selected(list(side.books), turn_of(side, number))
        if isinstance(answer, str):
            assert (step.failed, step.used, step.tokens) == (answer, (), 0)
            before = set()
            continue
        given_now = {(side.key_of(each.id), each.reason, each.content) for each in answer.blocks}
        assert {(use.key, use.reason, step.texts[use.key]) for use in step.used} == given_now
        assert step.failed is None
        assert step.seed == seed_of(side.request.seed, number)
        costs = {side.key_of(each.id): each.cost for each in answer.decisions if each.selected}
        assert {use.key: use.tokens for use in step.used} == costs
        assert step.tokens == sum(cost or 0 for cost in costs.values())
        assert set(step.entered) == costs.keys() - before
        assert set(step.left) == before - costs.keys()
        figures = {
            side.key_of(each.id): (each.reason, each.facts.tokens, each.facts.room)
            for each in answer.decisions
        }
        for refused in step.refused:
            told = figures[refused.key]
            assert told == (refused.reason, refused.tokens, refused.room) or told[0] == "dependency"
        before = set(costs)
    for story in found.entries:
        used = [s.messages for s in found.steps if any(u.key == key_of(story) for u in s.used)]
        assert (story.turns, story.first) == (len(used), used[0] if used else None)
        assert (story.why is None) == bool(used)


def key_of(story: Any) -> tuple[int, str]:
    return story.book, story.entry_id


@few
@given(snapshots(), request_fields(), CHATS, st.data())
def test_the_curve_is_what_selections_at_those_budgets_give(
    snapshot: Any, fields: Document, chat: list[SpokenLine], data: st.DataObject
) -> None:
    side = native_side(snapshot, fields, chat)
    turns = turns_after(chat, "every_message")
    plan = plan_side(side, turns)
    assert plan.cut == 0
    budgets = [step.budget for step in plan.curve]
    assert budgets == sorted(set(budgets))
    tried = {0, MAX_BUDGET, fields["token_budget"], *budgets, *(b - 1 for b in budgets if b)}
    tried.add(data.draw(st.integers(0, 400)))
    for budget in sorted(tried):
        at = [step for step in plan.curve if step.budget <= budget][-1]
        answers = [
            selected(list(side.books), turn_of(side, number, token_budget=budget))
            for number in turns
        ]
        going = [each for each in answers if isinstance(each, SelectResponse)]
        costs = [[each.cost or 0 for each in answer.decisions if each.selected] for answer in going]
        assert at.uses == sum(map(len, costs))
        assert at.tokens == sum(map(sum, costs))
        assert at.fullest == max(map(sum, costs), default=0)
        assert at.failed == len(answers) - len(going)


@few
@given(snapshots(), request_fields(), CHATS)
def test_equal_sides_do_not_differ(snapshot: Any, fields: Document, chat: list[SpokenLine]) -> None:
    side = native_side(snapshot, fields, chat)
    turns = turns_after(chat, "user_messages")
    diff = compare_sides(side, side, turns)
    assert (diff.changed, diff.entries, diff.tokens) == ((), (), 0)
    assert diff.summary == f"0 of {len(turns)} turns change"


@few
@given(snapshots(), request_fields(), request_fields(), CHATS)
def test_a_difference_is_between_the_turns_of_both_sides(
    snapshot: Any, fields: Document, others: Document, chat: list[SpokenLine]
) -> None:
    first, second = (native_side(snapshot, each, chat) for each in (fields, others))
    turns = turns_after(chat, "every_message")
    sides: tuple[ChatSide, ChatSide] = (first, second)
    old, new = ([{u.key for u in s.used} for s in side.steps(turns)] for side in sides)
    changed = {each.messages: each for each in compare_sides(first, second, turns).changed}
    for number, before, after in zip(turns, old, new, strict=True):
        change = changed.get(number)
        joined = set() if change is None else set(change.joined)
        dropped = set() if change is None else set(change.dropped)
        assert (joined, dropped) == (after - before, before - after)


@few
@given(st.lists(ENTRIES, max_size=5), CHATS)
def test_a_replica_replay_is_its_turns(entries: list[Document], chat: list[SpokenLine]) -> None:
    world = compile_world({"name": "渡口", "entries": entries}, book_id="b")
    document = {"worldBookData": {"globalBooks": [{"id": "b"}]}, "seed": "种"}
    side = ReplicaSide(
        worlds={"b": world}, request=ReplicaRequest.model_validate(document), chat=chat
    )
    turns = turns_after(chat, "every_message")
    for number, step in zip(turns, replay_side(side, turns).steps, strict=True):
        earlier = [
            line.content
            for line in chat[: number - 1]
            if line.role != "system" and line.content.strip()
        ]
        turn = {"mes": chat[number - 1].content, "chatHistory": earlier, "seed": f"种:{number}"}
        answer = activate_replica({"b": world}, ReplicaRequest.model_validate({**document, **turn}))
        told = [(each.uid, each.trigger_type, each.content) for each in answer.entries]
        assert [(use.key.entry_id, use.reason, step.texts[use.key]) for use in step.used] == told


@few
@given(st.lists(SENTENCES, min_size=1, max_size=5), st.integers(0, 3), st.sampled_from([50, 100]))
def test_a_sillytavern_replay_carries_its_state(
    lines: list[str], sticky: int, percent: int
) -> None:
    entry = {"uid": 7, "key": ["lamp", "灯"], "content": "灯塔 king", "sticky": sticky}
    other = {"uid": 8, "key": ["king"], "content": "B", "probability": percent}
    document = {
        "books": [
            {"name": "雾.隐", "entries": {"0": entry, "1": {**other, "useProbability": True}}}
        ],
        "chat": [{"content": line} for line in lines],
        "context_tokens": 4096,
    }
    request = SillyTavernRequest.model_validate(document)
    library = Library([attach(book) for book in request.books])
    request = request.model_copy(update={"books": ()})
    turns = list(range(1, len(lines) + 1))
    found = replay_side(SillyTavernSide(library=library, request=request), turns)
    state: Any = {}
    for number, step in zip(turns, found.steps, strict=True):
        turn = {"chat": request.chat[:number], "timed_state": state, "seed": f"0:{number}"}
        answer = activate(library, request.model_copy(update=turn))
        told = [(each.id.removeprefix("雾.隐."), each.reason) for each in answer.activated]
        assert [(use.key.entry_id, use.reason) for use in step.used] == told
        assert step.tokens == answer.budget.used
        assert {key for key, _ in told} == {use.key.entry_id for use in step.used}
        state = {**answer.timed_state}
    last = {v.id.removeprefix("雾.隐."): v.reason for v in answer.verdicts}
    for story in found.entries:
        if not story.turns:
            assert story.why == last[story.entry_id]
