"""Each switch that mends an oddity, on the golden case that shows it; off, nothing changes."""

from __future__ import annotations

import pytest

from conform import load_defaults, steps_of
from golden.cases import conformance_cases
from lorewell.engine.sillytavern.activate import activate
from lorewell.model.activate import Mending
from lorewell_engine import library_of, request_of
from world_info import names, reasons, scan


def play(case_id: str, mending: Mending) -> list[list[str]]:
    """Return what is active after each step of a golden case."""
    case = conformance_cases()[case_id]
    state, active = case["timedState"], []
    for asked, _ in steps_of(case, load_defaults()):
        request = request_of({**asked, "timedState": state})
        mended = request.model_copy(update={"mending": mending})
        answer = activate(library_of(asked), mended)
        state = answer.timed_state
        active.append(names(answer))
    return active


@pytest.mark.parametrize(
    ("case_id", "switch", "before", "after"),
    [
        ("groups-046", "group_removal", [["0", "2"]], [["0", "2", "3"]]),
        ("groups-047", "group_removal", [["0", "2", "3"]], [["0", "2", "3", "4", "5"]]),
        ("groups-055", "group_removal", [["0", "1"]], [["0", "1", "3"]]),
        ("groups-067", "group_cooldown", [["0"], [], []], [["0"], ["0"], ["0"]]),
        ("groups-069", "group_cooldown", [["0"], ["2"]], [["0"], ["0", "2"]]),
        ("budget-028", "budget", [[]], [["1"]]),
        ("whole_words-011", "word_borders", [["0"]], [[]]),
        ("whole_words-039", "word_borders", [["0"]], [["0"]]),
        ("keywords-010", "blank_keys", [["0"]], [[]]),
        ("macros-010", "blank_keys", [["0"]], [[]]),
    ],
)
def test_switch_changes_the_case(
    case_id: str, switch: str, before: list[list[str]], after: list[list[str]]
) -> None:
    assert play(case_id, Mending()) == before
    assert play(case_id, Mending.model_validate({switch: True})) == after


def test_budget_may_be_used_up_to_its_last_token() -> None:
    entries = {"a": {"constant": True, "content": "word"}}
    tight = {"context_tokens": 8, "message_tokens": 0}
    assert names(scan(entries, [], **tight)) == []
    assert names(scan(entries, [], **tight, mending={"budget": True})) == ["a"]


def test_entry_left_out_for_the_budget_wakes_nobody_and_is_weighed_again() -> None:
    entries = {
        "big": {"key": ["gate"], "content": "the warden " + "word " * 50, "order": 3},
        "small": {"key": ["gate"], "content": "the moat", "order": 2},
        "woken": {"key": ["moat"], "content": "the carp", "order": 1},
        "never": {"key": ["warden"], "content": "the axe"},
    }
    answer = scan(entries, ["gate"], context_tokens=80, mending={"budget": True})
    assert names(answer) == ["small", "woken"]
    assert reasons(answer)["big"] == "budget_refused"
    assert reasons(answer)["never"] == "not_triggered"
    assert [event.loop for event in answer.events if event.kind == "budget_refused"] == [1, 2, 3]
    assert not answer.budget.overflowed
