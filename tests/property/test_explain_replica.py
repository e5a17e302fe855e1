"""Changes offered under the policy `replica`, applied to the documents and run from scratch."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings, strategies as st

from lorewell import explain
from lorewell.engine.replica import activate, compile_world
from lorewell.insight.explain.replica import ReplicaTrials
from lorewell.model.explained import EditStep
from lorewell.model.parse import parse_model
from lorewell.model.replica import ReplicaRequest
from property.test_explain import patch
from property.test_replica import ENTRIES, SENTENCES

Case = dict[str, Any]
some = settings(max_examples=40)


@st.composite
def turns(draw: st.DrawFn) -> Case:
    """Return the document of a turn with an inline book of entries in their internal form."""
    raw = draw(st.lists(ENTRIES, min_size=1, max_size=5))
    raw = [{**each, "uid": f"u{number}"} for number, each in enumerate(raw)]
    world = compile_world({"name": "b", "entries": raw}, book_id="b")
    return {
        "worldBookData": {"globalBooks": [{"id": "b"}]},
        "books": {"b": {"name": "b", "entries": [e.spec.members() for e in world.entries]}},
        "mes": draw(SENTENCES),
        "chatHistory": draw(st.lists(SENTENCES, max_size=3)),
        "dynamicTableData": {"currentValues": draw(st.sampled_from([{}, {"力量": 15}]))},
        "seed": draw(st.sampled_from(["0", "1"])),
    }


def run(turn: Case) -> frozenset[str]:
    response = activate({}, parse_model(ReplicaRequest, turn))
    return frozenset(f"{each.book_id}.{each.uid}" for each in response.entries)


def edited(turn: Case, steps: Sequence[EditStep]) -> Case:
    """Return the document with the edits made."""
    document = copy.deepcopy(turn)
    for step in steps:
        target: Any = document
        if step.target == "entry":
            listed = document["books"]["b"]["entries"]
            target = next(each for each in listed if each["uid"] == step.entry_id)
        patch(target, EditStep.model_validate_json(step.model_dump_json()))
    return document


@some
@given(turns(), st.data())
def test_every_offered_change_flips_the_verdict(turn: Case, data: st.DataObject) -> None:
    uid = data.draw(st.sampled_from([each["uid"] for each in turn["books"]["b"]["entries"]]))
    request = parse_model(ReplicaRequest, turn)
    explanation = explain([], request, uid)
    before, name = run(turn), f"b.{uid}"
    assert explanation.complete
    assert explanation.selected == (name in before)
    for change in explanation.changes:
        after = run(edited(turn, change.edits))
        assert (name in after) != explanation.selected
        others = (before ^ after) - {name}
        assert set(change.joins) | set(change.leaves) == others
        assert change.others == len(others)


@some
@given(turns(), st.data())
def test_brute_force_agrees_on_single_changes(turn: Case, data: st.DataObject) -> None:
    listed = turn["books"]["b"]["entries"]
    index = data.draw(st.integers(0, len(listed) - 1))
    request = parse_model(ReplicaRequest, turn)
    explanation = explain([], request, listed[index]["uid"])
    books = {"b": compile_world(turn["books"]["b"], book_id="b")}
    trials = ReplicaTrials(books, request.model_copy(update={"books": {}}), "b", index)
    flips = 0
    for change in trials.changes(()):
        after = run(edited(turn, trials.steps_of(change.edits)))
        flips += (f"b.{listed[index]['uid']}" in after) != explanation.selected
    singles = [change for change in explanation.changes if change.kind != "pair"]
    assert bool(singles) == bool(flips)
