"""Load cases, play them through the library, and compare what a case lists."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import conform
from lorewell import BookCreate, SelectRequest, compile_book, select
from lorewell.errors import LorewellError
from lorewell.model.parse import parse_model

HERE = Path(__file__).parent

Case = dict[str, Any]


def load_cases(file: Path) -> list[Case]:
    """Return the cases of one file in their order."""
    cases: list[Case] = json.loads(file.read_text(encoding="utf-8"))
    return cases


@cache
def conformance_cases() -> dict[str, Any]:
    """Return the cases of the policy `sillytavern` by id; to read all of them takes a while."""
    return {case["id"]: case for case in conform.load_cases(conform.CASES)}


def as_params(files: Iterator[Path] | list[Path]) -> list[Any]:
    """Return every case of these files as a pytest parameter under its own id."""
    return [
        pytest.param(case, id=str(case["id"]))
        for file in sorted(files)
        for case in load_cases(file)
    ]


# The cases were recorded when these were the only rules of recall.
RECALL = {"recall_floor": "off", "recall_limit": 30, "recall_gate": "loose"}


def play(case: Case) -> Case:
    """Return the answer to a case in its JSON form, or the error's code and details."""
    asked = case["request"]
    if isinstance(asked, dict) and asked.get("strategy") == "hybrid":
        asked = RECALL | asked
    try:
        books = [
            compile_book(
                parse_model(BookCreate, stored["book"]),
                book_id=stored["book_id"],
                revision=stored["revision"],
            )
            for stored in case["books"]
        ]
        response = select(books, parse_model(SelectRequest, asked))
    except LorewellError as error:
        return {"error": {"code": error.code, "details": dict(error.details)}}
    answer: Case = json.loads(response.to_json())
    return {"error": None, **answer}


def listed(expected: Any, actual: Any) -> Any:
    """Reduce an actual value to the members that an expectation lists, at every depth."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return {
            name: listed(value, actual.get(name, "(absent)")) for name, value in expected.items()
        }
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        return [listed(each, other) for each, other in zip(expected, actual, strict=True)]
    return actual


def compare(case: Case) -> tuple[Case, Case]:
    """Return what the answer holds of what the case lists, and what the case lists."""
    expected = case["expect"]
    if expected["error"] is not None:
        expected = {"error": expected["error"]}
    return listed(expected, play(case)), expected
