"""What macros, templates and escapes make is bounded before it is made."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from lorewell import BookCreate, SelectRequest, Steps, compile_book, select
from lorewell.engine.replica import (
    ReplicaDraft,
    activate as activate_replica,
    assemble as assemble_replica,
    compile_world,
    rag_queries,
)
from lorewell.engine.sillytavern.activate import activate
from lorewell.engine.tokens import counter
from lorewell.errors import TooExpensiveError
from lorewell.host import assemble_request, from_selection
from lorewell.model import AssembleRequest
from lorewell.model.assemble import SelectedBlock
from lorewell.model.parse import parse_model
from lorewell.model.replica import ReplicaRequest
from replica_books import constant, entry, trigger
from world_info import library, request

MOST = 1_000_000
Work = Callable[[Steps], Any]


def selection(content: str, entries: int = 1, **members: object) -> Work:
    document = {
        "name": "B",
        "entries": [{"content": content, "constant": True} for _ in range(entries)],
    }
    book = compile_book(parse_model(BookCreate, document))
    asked = parse_model(
        SelectRequest,
        {"books": [{"book_id": book.book_id}], "query": "q", "token_budget": 32_000, **members},
    )
    return lambda steps: select([book], asked, steps=steps)


def activation(content: str, entries: int = 1, **members: Any) -> Work:
    listed = {str(uid): {"constant": True, "content": content} for uid in range(entries)}
    books, asked = library(listed), request(["a"], **members)
    return lambda steps: activate(books, asked, steps=steps)


def replica(*entries: dict[str, Any], **members: object) -> tuple[Any, ReplicaRequest]:
    world = compile_world({"name": "B", "entries": list(entries)}, book_id="b")
    document = {"worldBookData": {"globalBooks": [{"id": "b"}]}, **members}
    return world, parse_model(ReplicaRequest, document)


def replica_turn(*entries: dict[str, Any], **members: object) -> Work:
    world, asked = replica(*entries, **members)
    return lambda steps: activate_replica({"b": world}, asked, steps=steps)


def queries() -> Work:
    config = trigger(rag={"query_template": "{{message}}" * 1_000})
    world, asked = replica(entry("e", config), mes="m" * 5_000)
    return lambda steps: rag_queries([world], asked, steps=steps)


def outlets() -> Work:
    world, asked = replica(constant("o", content="x" * 10_000, position=7))
    active = activate_replica({"b": world}, asked).entries
    draft = ReplicaDraft(character="{{outlet::o}}" * 1_000)
    return lambda steps: assemble_replica(draft, active, steps=steps)


def blocks() -> tuple[SelectedBlock, ...]:
    members = {"title": "", "position": "before_character", "depth": 0, "role": "system"}
    listed = [
        {**members, "id": f"b:1:{n}", "content": "&" * 100_000, "order": 0, "reason": "keyword"}
        for n in range(4)
    ]
    return parse_model(AssembleRequest, {"draft": [], "blocks": listed}).blocks


USER = {"user": "u" * 500}
WORK: dict[str, tuple[str, Callable[[], Work]]] = {
    "a name in entries": (
        "macros",
        lambda: selection("{{user}}" * 7_000, 100, template_vars=USER),
    ),
    "a name that is escaped": (
        "escaping",
        lambda: selection("{{user}}" * 400, 3, template_vars={"user": "&" * 500}),
    ),
    "SillyTavern's names": ("macros", lambda: activation("<USER>" * 7_000, 100, macros=USER)),
    "a card in an entry": (
        "macros",
        lambda: activation("{{persona}}" * 9, macros={"persona": "p" * 200_000}),
    ),
    "names in a card": (
        "macros",
        lambda: activation("{{persona}}", macros={**USER, "persona": "{{user}}" * 9_000}),
    ),
    "names in prompts": (
        "macros",
        lambda: activation("a", macros=USER, prompts=[{"name": "p", "value": "{{user}}" * 9_000}]),
    ),
    "names in keys": (
        "macros",
        lambda: (
            lambda steps: activate(
                library({str(n): {"key": ["{{user}}" * 90 + str(n)]} for n in range(90)}),
                request(["a"], macros=USER),
                steps=steps,
            )
        ),
    ),
    "the replica's names": (
        "macros",
        lambda: replica_turn(constant("e", content="{{user}}" * 9_000), **USER),
    ),
    "templates of queries": ("queries", queries),
    "outlets": ("outlets", outlets),
    "blocks": ("escaping", lambda: lambda steps: from_selection(blocks(), steps=steps)),
}


@pytest.mark.parametrize("name", WORK)
def test_a_text_that_gets_too_long_is_never_made(name: str) -> None:
    kind, make = WORK[name]
    work = make()
    tracemalloc.start()
    try:
        with pytest.raises(TooExpensiveError, match=f"at most {MOST}") as caught:
            work(Steps(max_chars=MOST))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    details = caught.value.details
    by = details["by"]
    assert isinstance(by, dict)
    assert details["chars"] == sum(by.values()) > details["max_chars"] == MOST
    assert max(by, key=lambda each: by[each]) == kind
    assert peak_bytes < 16 * MOST


@pytest.mark.parametrize("name", WORK)
def test_a_text_of_exactly_the_limit_is_made(name: str) -> None:
    work = WORK[name][1]()
    steps = Steps(10**9, max_chars=10**9)
    if name in ("a name in entries", "SillyTavern's names"):  # hundreds of megabytes
        return
    work(steps)
    work(Steps(10**9, max_chars=steps.chars))
    with pytest.raises(TooExpensiveError):
        work(Steps(10**9, max_chars=steps.chars - 1))


def test_a_value_that_names_itself_grows_no_further_than_the_limit() -> None:
    """What does not fit into the budget is expanded again in each loop."""
    chain = {
        str(n): {"key": [f"k{n} "], "content": f"x k{n + 1} ", "matchWholeWords": False}
        for n in range(60)
    }
    large = {"key": ["k0"], "content": "{{user}} " + "y " * 9_000}
    books = library({**chain, "large": {**large, "matchWholeWords": False}})
    asked = request(
        ["k0 "],
        macros={"user": "{{user}}{{user}}"},
        settings={"world_info_budget_cap": 5_000},
        mending={"budget": True},
    )
    with pytest.raises(TooExpensiveError) as caught:
        activate(books, asked, steps=Steps(10**9, max_chars=MOST))
    assert caught.value.details["by"] == {"macros": caught.value.details["chars"]}


def test_a_prompt_is_counted_with_its_blocks() -> None:
    members = {"draft": [{"kind": "input", "message": {"role": "user", "content": "Go."}}]}
    asked = parse_model(AssembleRequest, {**members, "blocks": []})
    asked = asked.model_copy(update={"blocks": blocks()})
    steps = Steps()
    assemble_request(asked, counter=counter(), steps=steps)
    assert steps.chars_by == {"escaping": 1_600_000}
    assert steps.by["tokens"] > 2_000_000 // 20
    with pytest.raises(TooExpensiveError):
        assemble_request(asked, counter=counter(), steps=Steps(steps.spent - 1))
    with pytest.raises(TooExpensiveError):
        assemble_request(asked, counter=counter(), steps=Steps(max_chars=1_599_999))
