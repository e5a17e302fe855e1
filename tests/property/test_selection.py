"""What holds for every book and every request of the native policy."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from hypothesis import HealthCheck, assume, given, settings, strategies as st

from lorewell import SelectResponse
from lorewell.errors import SelectionError
from property.strategies import entry_lists, request_fields, snapshots
from support import BOOK_ID, Document, ask, compiled, count_tokens

Snapshot = list[tuple[str, list[Document]]]

relaxed = settings(suppress_health_check=[HealthCheck.too_slow])


def answer(snapshot: Snapshot, fields: Document) -> SelectResponse | SelectionError:
    """Return the response, or the error where a required entry can't go in."""
    try:
        return ask([compiled(entries, book_id=book_id) for book_id, entries in snapshot], **fields)
    except SelectionError as error:
        return error


def answered(snapshot: Snapshot, fields: Document) -> SelectResponse:
    """Return the response; examples that end in an error are set aside."""
    response = answer(snapshot, fields)
    assume(isinstance(response, SelectResponse))
    assert isinstance(response, SelectResponse)
    return response


def in_bytes(outcome: SelectResponse | SelectionError) -> bytes:
    """Return everything an outcome says but the time it took."""
    if isinstance(outcome, SelectResponse):
        return dataclasses.replace(outcome, duration_ms=0.0).to_json()
    return json.dumps([outcome.code, outcome.details]).encode()


@relaxed
@given(snapshots(), request_fields())
def test_same_input_gives_the_same_bytes(snapshot: Snapshot, fields: Document) -> None:
    assert in_bytes(answer(snapshot, fields)) == in_bytes(answer(snapshot, fields))


PROGRAM = """
import hashlib, json
from golden.cases import HERE, load_cases, play

digest = hashlib.sha256()
for name in ("keywords", "regex", "recursion", "conflicts", "requires", "multi_book", "errors"):
    for case in load_cases(HERE / "native" / f"{name}.json"):
        digest.update(json.dumps({**play(case), "duration_ms": 0}).encode())
print(digest.hexdigest())
"""


def test_another_process_gives_the_same_bytes() -> None:
    """Golden cases of every kind, under hash seeds that would reorder a walk over a set."""
    path = os.pathsep.join(each for each in sys.path if each)
    digests = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            check=True,
            encoding="utf-8",
        ).stdout
        for seed in ("0", "1", "4242")
    ]
    assert len(digests[0].strip()) == 64
    assert len(set(digests)) == 1


def place_free(decision: Any) -> Document:
    """Return a decision without the place of a recursion hit in the joined text."""
    members = dataclasses.asdict(decision)
    if decision.round:
        members["facts"] = decision.facts._replace(message=None, span=None, woken_by=None)
    return members


@relaxed
@given(st.data(), request_fields())
def test_order_in_the_file_changes_nothing(data: st.DataObject, fields: Document) -> None:
    entries = data.draw(entry_lists())
    shuffled = data.draw(st.permutations(entries))
    first = answer([(BOOK_ID, entries)], fields)
    second = answer([(BOOK_ID, shuffled)], fields)
    if isinstance(first, SelectResponse) and isinstance(second, SelectResponse):
        assert first.blocks == second.blocks
        assert first.context == second.context
        decided = [
            {each.entry_id: place_free(each) for each in response.decisions}
            for response in (first, second)
        ]
        assert decided[0] == decided[1]
    else:
        assert isinstance(first, SelectionError)
        assert type(first) is type(second)


@relaxed
@given(snapshots(), request_fields())
def test_limits_are_kept(snapshot: Snapshot, fields: Document) -> None:
    """Tokens, entries, the cap of constants, one winner a conflict key, whole packages."""
    response = answered(snapshot, fields)
    specs = {
        f"{book_id}:1:{entry['id']}": entry for book_id, entries in snapshot for entry in entries
    }
    budget = fields["token_budget"]
    assert response.token_count <= budget
    assert len(response.blocks) <= fields["max_entries"]
    cap = int(
        (budget * Decimal(str(fields["constant_budget_ratio"]))).to_integral_value(ROUND_FLOOR)
    )
    selected = [decision for decision in response.decisions if decision.selected]
    spent = 0
    for decision in selected:
        root = specs[decision.included_by or ""]
        if root["constant"] and not root["required"]:
            spent += decision.cost or 0
    assert spent <= cap
    held = [specs[block.id]["conflict_key"] for block in response.blocks]
    keys = [key for key in held if key is not None]
    assert len(keys) == len(set(keys))
    ids = {block.id for block in response.blocks}
    for block in response.blocks:
        for needed in specs[block.id]["requires"]:
            assert f"{block.book_id}:1:{needed}" in ids


@relaxed
@given(snapshots(), request_fields())
def test_tokens_are_counted_as_another_library_counts(snapshot: Snapshot, fields: Document) -> None:
    response = answered(snapshot, fields)
    assert response.token_count == count_tokens(response.context)
    costs = [each.cost for each in response.decisions if each.selected]
    total = sum(cost or 0 for cost in costs)
    # Without wrappers, line breaks of neighbouring contents may share tokens.
    is_plain = fields["wrapper"] == "plain"
    assert response.token_count <= total if is_plain else response.token_count == total


SELECTED_REASONS = {"required", "constant", "keyword", "hybrid", "recursion", "dependency"}


@relaxed
@given(snapshots(), request_fields())
def test_every_entry_has_exactly_one_decision(snapshot: Snapshot, fields: Document) -> None:
    response = answered(snapshot, fields)
    assert [decision.id for decision in response.decisions] == [
        f"{book_id}:1:{entry['id']}" for book_id, entries in snapshot for entry in entries
    ]
    assert {each.id: each.reason for each in response.decisions if each.selected} == {
        block.id: block.reason for block in response.blocks
    }
    for decision in response.decisions:
        assert decision.selected is (decision.reason in SELECTED_REASONS)
    for thinner, kept in (("selected", True), ("none", False)):
        other = answered(snapshot, {**fields, "explain": thinner})
        assert other.blocks == response.blocks
        assert other.selection_fingerprint == response.selection_fingerprint
        assert other.decisions == tuple(
            each for each in response.decisions if each.selected and kept
        )


@relaxed
@given(entry_lists(), request_fields())
def test_recursion_ends_within_its_rounds(entries: list[Document], fields: Document) -> None:
    """Every entry may wake and be woken, and many name themselves or each other."""
    opened = [
        {**entry, "exclude_recursion": False, "prevent_recursion": False} for entry in entries
    ]
    response = answered([(BOOK_ID, opened)], fields)
    for decision in response.decisions:
        assert (decision.round or 0) <= fields["max_recursion_rounds"]
        if decision.reason == "recursion":
            assert (decision.round or 0) >= 1
