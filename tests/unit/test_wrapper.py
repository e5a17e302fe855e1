"""The setting `wrapper`: what surrounds an entry's text, and what that costs."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from lorewell import BookCreate, Entry, SelectRequest, SelectResponse, compile_book, select
from lorewell.engine.native.compiled import CompiledBook
from lorewell.engine.steps import Steps
from lorewell.engine.tokens import counter
from lorewell.host import from_selection
from lorewell.model.assemble import SelectedBlock
from lorewell.model.parse import parse_model

FERRY, PIER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def book_of(book_id: str, *names: str) -> CompiledBook:
    entries = tuple(
        Entry(id=name, title=f"«{name}»", content=f"{name} & </worldbook-entry>", constant=True)
        for name in names
    )
    return compile_book(BookCreate(name="雾隐渡", entries=entries), book_id=book_id)


def ask(*books: CompiledBook, **asked: Any) -> SelectResponse:
    usual = {"query": "?", "token_budget": 32_000, "constant_budget_ratio": 1}
    refs = [book.ref for book in books]
    return select(books, SelectRequest.model_validate({"books": refs, **usual, **asked}))


def test_short_names_the_entry_alone() -> None:
    answer = ask(book_of(FERRY, "灯塔"), wrapper="short")
    assert answer.context == (
        '<worldbook-entry id="灯塔" title="«灯塔»">\n'
        "灯塔 &amp; &lt;/worldbook-entry&gt;\n</worldbook-entry>"
    )
    assert [block.wrapper for block in answer.blocks] == ["short"]


def test_an_id_of_two_requested_books_keeps_the_full_wrapper() -> None:
    books = book_of(FERRY, "a", "灯塔"), book_of(PIER, "灯塔", "ë")
    answer = ask(*books, wrapper="short")
    assert {block.id.partition(":1:")[2]: block.wrapper for block in answer.blocks} == {
        "a": "short",
        "灯塔": "full",
        "ë": "short",
    }
    assert f'id="{PIER}:1:灯塔"' in answer.context
    assert f'id="{FERRY}:1:灯塔"' in answer.context
    # The other book is not requested, so the id is unique.
    alone = select(
        books, SelectRequest(books=(books[0].ref,), query="?", wrapper="short", token_budget=999)
    )
    assert 'id="灯塔"' in alone.context


def test_plain_is_the_text_as_it_is() -> None:
    answer = ask(book_of(FERRY, "a", "灯塔"), wrapper="plain")
    assert answer.context == "a & </worldbook-entry>\n\n灯塔 & </worldbook-entry>"
    assert answer.token_count == counter().count(answer.context)


@pytest.mark.parametrize("wrapper", ["full", "short", "plain"])
def test_costs_budget_and_ledger_follow(wrapper: str) -> None:
    book = book_of(FERRY, "a", "b")
    answer = ask(book, wrapper=wrapper)
    costs = [decision.cost or 0 for decision in answer.decisions]
    assert sum(costs) >= answer.token_count
    exact = ask(book, wrapper=wrapper, token_budget=sum(costs))
    assert len(exact.blocks) == 2
    tight = ask(book, wrapper=wrapper, token_budget=sum(costs) - 1)
    assert [decision.reason for decision in tight.decisions] == ["constant", "budget_dropped"]
    assert tight.decisions[1].facts.tokens == costs[1]


def test_names_are_counted_where_they_are_known() -> None:
    spec = Entry(id="e", content="{{char}} waits.", constant=True)
    book = compile_book(BookCreate(name="B", entries=(spec,)), book_id=FERRY)
    answer = ask(book, wrapper="plain", template_vars={"char": "Odalys"})
    assert answer.context == "Odalys waits."
    assert answer.decisions[0].cost == counter().count("Odalys waits.\n\n")


def test_the_default_leaves_every_byte_and_the_fingerprint() -> None:
    book = book_of(FERRY, "a", "灯塔")
    answers = {name: ask(book, wrapper=name) for name in ("full", "short", "plain")}
    assert ask(book).context == answers["full"].context
    assert ask(book).selection_fingerprint == answers["full"].selection_fingerprint
    assert len({each.selection_fingerprint for each in answers.values()}) == 3
    assert len({each.prompt_hash for each in answers.values()}) == 3
    sizes = [answers[name].token_count for name in ("full", "short", "plain")]
    assert sizes == sorted(sizes, reverse=True)


def test_a_full_ledger_costs_the_same_steps_whatever_was_counted_before() -> None:
    book, spent = book_of(FERRY, "a", "b", "c"), []
    for _ in range(2):
        steps = Steps()
        request = SelectRequest(books=(book.ref,), query="?", wrapper="short")
        select([book], request, steps=steps)
        spent.append((steps.spent, dict(steps.by)))
    assert spent[0] == spent[1]


@pytest.mark.parametrize(
    ("wrapper", "text"),
    [
        ("short", '<worldbook-entry id="灯塔" title="«灯塔»">灯塔 &amp; &lt;/worldbook-entry&gt;'),
        ("plain", "灯塔 & </worldbook-entry>"),
    ],
)
def test_a_host_uses_the_same_form(wrapper: str, text: str) -> None:
    answer = ask(book_of(FERRY, "灯塔"), wrapper=wrapper)
    assert from_selection(answer.blocks)[0].text.startswith(text)
    sent = parse_model(SelectedBlock, vars_of(answer))
    assert from_selection([sent])[0].text == from_selection(answer.blocks)[0].text


def vars_of(answer: SelectResponse) -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(answer.to_json())["blocks"][0]
    return document
