"""Compiling a book takes time in proportion to what is in it, whatever that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from growth import MOST, growth
from lorewell import BookCreate, compile_book
from lorewell.engine.matching.literal import LiteralIndex
from lorewell.engine.replica import compile_world as compile_replica
from lorewell.engine.sillytavern.world import compile_world
from lorewell.model.parse import parse_model
from lorewell.retrieval.text import tokens
from replica_books import constant, keyed

Entries = Callable[[int], list[dict[str, Any]]]

NATIVE: Mapping[str, Entries] = {
    "keys": lambda size: [{"keys": [f"key{n}", f"KEY{n}"]} for n in range(size)],
    "one key": lambda size: [{"keys": ["key"]} for _ in range(size)],
    "keys in one another": lambda size: [{"keys": [str(n) + "a" * (n % 400)]} for n in range(size)],
    "blank keys": lambda size: [{"keys": [" "] * 20} for _ in range(size)],
    "expressions": lambda size: [{"key_expression": f"a{n} or b and not c"} for n in range(size)],
    "conditions": lambda size: [{"conditions_text": [f"tb.a{n} > 1"] * 5} for n in range(size)],
    "a chain of requires": lambda size: [
        {"id": f"e{n}", "requires": [f"e{n - 1}"] if n else []} for n in range(size)
    ],
    "requires of many": lambda size: [
        {"id": f"e{n}", "requires": [f"e{k}" for k in range(max(0, n - 20), n)]}
        for n in range(size)
    ],
}
SILLYTAVERN: Mapping[str, Entries] = {
    "keys": lambda size: [{"uid": n, "key": [f"key{n}"]} for n in range(size)],
    "many keys of one entry": lambda size: [{"uid": 0, "key": [f"k{n}" for n in range(size)]}],
    "one uid": lambda size: [{"uid": 0, "key": ["k"], "content": "C"} for _ in range(size)],
    "nothing": lambda size: [{} for _ in range(size)],
    "groups": lambda size: [{"uid": n, "group": "a,b,c" * 20} for n in range(size)],
    "decorators": lambda size: [{"uid": 0, "content": "@@activate\n" * (10 * size)}],
    "a long content": lambda size: [{"uid": 0, "content": "x" * (20 * size)}],
}
REPLICA: Mapping[str, Entries] = {
    "keys": lambda size: [keyed(f"e{n}", f"key{n}") for n in range(size)],
    "one uid": lambda size: [constant("e") for _ in range(size)],
    "a chain of requires": lambda size: [
        constant(f"e{n}", requires=[f"e{n + 1}"]) for n in range(size)
    ],
    "requires of all": lambda size: [
        constant(f"e{n}", requires=[f"e{k}" for k in range(60)]) for n in range(size)
    ],
    "labels": lambda size: [constant(f"e{n}", group=["a", "b", f"g{n}"]) for n in range(size)],
}


@pytest.mark.parametrize("shape", NATIVE)
def test_native_books(shape: str) -> None:
    def make(size: int) -> BookCreate:
        listed = [{"content": "C", **each} for each in NATIVE[shape](size)]
        return parse_model(BookCreate, {"name": "B", "entries": listed})

    assert growth(make, compile_book, 300) < MOST


@pytest.mark.parametrize("shape", SILLYTAVERN)
def test_sillytavern_worlds(shape: str) -> None:
    def compile_all(entries: list[dict[str, Any]]) -> None:
        compile_world("b", entries).literals(False, True)  # noqa: FBT003  called by place

    assert growth(SILLYTAVERN[shape], compile_all, 300) < MOST


@pytest.mark.parametrize("shape", REPLICA)
def test_replica_worlds(shape: str) -> None:
    def compile_all(entries: list[dict[str, Any]]) -> None:
        compile_replica({"name": "B", "entries": entries}, book_id="b")

    assert growth(REPLICA[shape], compile_all, 300) < MOST


@pytest.mark.parametrize("pattern", ["k{}", "{}k", "the lamp of the {}", "k{:06}", "{}"])
def test_automata(pattern: str) -> None:
    def make(size: int) -> list[str]:
        return [pattern.format(number) for number in range(size)]

    assert growth(make, lambda keys: LiteralIndex(keys, [()] * len(keys)), 5_000) < MOST


@pytest.mark.parametrize("piece", ["\u0301\u0323", "a", "灯", "\uff9e\u0301", "İ", "_", "\u0f73"])
def test_words_of_a_text(piece: str) -> None:
    assert growth(lambda size: "é" + piece * size, tokens, 5_000) < MOST
