"""Faults of a document: the first are kept with their places, the rest counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from lorewell.errors import Fault, ValidationFailedError
from lorewell.formats.faults import naming
from lorewell.model import (
    ActivateRequest,
    AssembleRequest,
    BookCreate,
    ImportBatch,
    PreviewRequest,
    SelectRequest,
)
from lorewell.model.parse import parse_model
from lorewell.model.replica_books import NewReplicaBook
from measured import STATUS, forked

TURN = {"books": [{"book_id": "b"}], "query": "q"}
SCENE = {"context_tokens": 1}


def refused(model: type[BaseModel], document: object) -> ValidationFailedError:
    with pytest.raises(ValidationFailedError) as caught:
        parse_model(model, document)
    return caught.value


def book(*entries: object, **members: object) -> dict[str, Any]:
    return {"name": "B", "entries": list(entries), **members}


def names(count: int) -> dict[str, int]:
    return {f"n{number}": 1 for number in range(count)}


def test_a_hundred_faults_are_all_kept() -> None:
    error = refused(BookCreate, book(*[{}] * 100))
    assert [fault.pointer for fault in error.faults] == [
        f"/entries/{number}/content" for number in range(100)
    ]
    assert (error.fault_count, error.details) == (100, {})


def test_of_more_the_rest_is_counted() -> None:
    error = refused(BookCreate, book(*[{}] * 5_000, description=7))
    assert error.faults[0] == Fault("/description", "Input should be a valid string")
    assert error.faults[99] == Fault("/entries/98/content", "must be given")
    assert error.faults[100:] == (Fault("", "and 4,901 more"),)
    assert (error.fault_count, error.details) == (5_001, {"fault_count": 5_001})
    assert str(error).endswith("/entries/98/content: must be given; and 4,901 more")


def test_counting_ends_somewhere() -> None:
    entry = {"content": "", "keys": [1] * 200}
    error = refused(BookCreate, book(*[entry] * 2_000))
    assert str(error).endswith("; and at least 100,100 more")


@pytest.mark.parametrize(
    ("model", "document", "pointer", "detail"),
    [
        (BookCreate, book(*[{}] * 5_001), "/entries", "must hold at most 5000, holds 5001"),
        (
            BookCreate,
            book({"content": "", "keys": [1] * 201}),
            "/entries/0/keys",
            "must hold at most 200, holds 201",
        ),
        (
            SelectRequest,
            {**TURN, "template_vars": names(200)},
            "/template_vars",
            "must hold at most 2, holds 200",
        ),
        (
            PreviewRequest,
            {**TURN, "books": [{"book_id": "b", "changes": [{}] * 5_001}]},
            "/books/0/changes",
            "must hold at most 5000, holds 5001",
        ),
    ],
)
def test_lengths_count_before_what_is_in_it(
    model: type[BaseModel], document: object, pointer: str, detail: str
) -> None:
    assert refused(model, document).faults == (Fault(pointer, detail),)


def test_unknown_members_are_counted() -> None:
    error = refused(BookCreate, book({"content": "", **names(1_000)}))
    assert error.faults[0] == Fault("/entries/0/n0", "there is no such field")
    assert error.faults[99:] == (
        Fault("/entries/0/n99", "there is no such field"),
        Fault("", "and 900 more"),
    )


def test_a_few_unknown_members_hide_no_other_fault() -> None:
    error = refused(BookCreate, {"colour": "red", "entries": [{"content": 7}]})
    assert [fault.pointer for fault in error.faults] == ["/name", "/entries/0/content", "/colour"]


@pytest.mark.parametrize(
    ("model", "document", "place"),
    [
        (ImportBatch, {"books": [book(), book({"content": "", "keys": ["a", 7]})]}, "keys/1"),
        (ImportBatch, {"books": [book(), book({"content": "", "keys": 7})]}, "keys"),
        (
            ActivateRequest,
            {**SCENE, "books": [{"name": "n", "entries": {**names(0), "x": 1}}]},
            "/books/0/entries/x",
        ),
        (
            AssembleRequest,
            {"draft": [], "sillytavern": {"outlets": {"o": ["a", 7]}}},
            "/sillytavern/outlets/o/1",
        ),
        (NewReplicaBook, {"name": "n", "entries": [{}, 7]}, "/entries/1"),
        (NewReplicaBook, {"name": "n", "entries": {"u": 7}}, "/entries/u"),
    ],
)
def test_pointers_lead_to_the_item(model: type[BaseModel], document: object, place: str) -> None:
    assert any(each.pointer.endswith(place) for each in refused(model, document).faults)


def test_members_of_an_object_are_checked_part_by_part() -> None:
    entries = {str(number): {"uid": number} for number in range(1_000)}
    asked = parse_model(ActivateRequest, {**SCENE, "books": [{"name": "n", "entries": entries}]})
    assert asked.books[0].entries == entries
    flawed = {**entries, "7": 1, "999": 1}
    error = refused(ActivateRequest, {**SCENE, "books": [{"name": "n", "entries": flawed}]})
    assert [fault.pointer for fault in error.faults] == [
        "/books/0/entries/7",
        "/books/0/entries/999",
    ]


def test_too_few_items_are_told() -> None:
    assert refused(ImportBatch, {"books": []}).faults == (
        Fault("/books", "must hold at least 1, holds 0"),
    )


def test_what_is_quoted_is_cut() -> None:
    error = refused(BookCreate, book(**{"a" * 100_000: 1}))
    assert error.faults == (Fault("/" + "a" * 298 + "…", "there is no such field"),)
    error = ValidationFailedError.at(Fault("/a", "d" * 600, parameter="p" * 400))
    assert error.faults == (Fault("/a", "d" * 499 + "…", parameter="p" * 299 + "…"),)


def test_faults_that_move_are_as_many() -> None:
    error = refused(BookCreate, book(*[{}] * 200))
    moved = error.moved(lambda fault: fault._replace(pointer="/at" + fault.pointer))
    assert moved.faults[99:] == (
        Fault("/at/entries/99/content", "must be given"),
        Fault("", "and 100 more"),
    )
    few = refused(BookCreate, {}).moved(lambda fault: fault._replace(pointer="/at"))
    assert few.faults == (Fault("/at", "must be given"),)
    assert str(naming(error, "b.json is not a valid book")).endswith("; and 190 more)")


HOSTILE: Mapping[str, tuple[type[BaseModel], Callable[[int], object]]] = {
    "empty entries": (BookCreate, lambda n: book(*[{}] * n)),
    "entries of a batch": (ImportBatch, lambda n: {"books": [book(*[{}] * (n // 10))] * 10}),
    "unknown members": (BookCreate, names),
    "unknown members everywhere": (BookCreate, lambda n: book(*[names(100)] * (n // 100))),
    "keys": (BookCreate, lambda n: book(*[{"content": "", "keys": [1] * 200}] * (n // 200))),
    "variables": (SelectRequest, lambda n: {**TURN, "template_vars": names(n)}),
    "inline entries": (
        ActivateRequest,
        lambda n: {**SCENE, "books": [{"name": "n", "entries": names(n)}]},
    ),
    "outlets": (AssembleRequest, lambda n: {"draft": [], "sillytavern": {"outlets": names(n)}}),
    "draws": (ActivateRequest, lambda n: {**SCENE, "draws": ["x"] * n}),
}


@pytest.mark.skipif(not STATUS.exists(), reason="only Linux reports memory")
@pytest.mark.parametrize("shape", HOSTILE)
def test_time_for_faults_grows_with_their_number_and_memory_does_not(shape: str) -> None:
    model, make = HOSTILE[shape]

    def cost(count: int) -> tuple[float, int]:
        document = make(count)
        found = forked(lambda: refused(model, document))
        return found["cpu_s"], found["grown_bytes"]

    few = min(cost(5_000) for _ in range(2))
    many = min(cost(20_000) for _ in range(2))
    assert many[0] < 10 * few[0] + 0.02
    assert many[1] < 8_000_000
