"""Changes offered under the policy `sillytavern`, applied to the documents and run from scratch."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

from lorewell import SillyTavernRequest, activate, explain
from lorewell.engine.sillytavern.sources import Library
from lorewell.engine.sillytavern.turns import with_inline
from lorewell.engine.steps import Steps
from lorewell.insight.explain.sillytavern import SillyTavernTrials
from lorewell.model.explained import EditStep
from property.sillytavern_cases import SETTINGS, TEXTS, THEMES, Case, entries, messages, one_of
from property.test_explain import Outcome, patch

relaxed = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
some = settings(relaxed, max_examples=30)


@st.composite
def turns(draw: st.DrawFn) -> Case:
    """Return the document of a turn with one or two inline books."""
    theme = draw(st.sampled_from(sorted(THEMES)))
    books = []
    for name in ("b", "c")[: draw(st.sampled_from((1, 1, 2)))]:
        size = draw(st.integers(1, 5))
        listed = {str(at): {**draw(entries(theme, at)), "uid": at} for at in range(size)}
        books.append({"source": "global", "name": name, "entries": listed})
    chosen = draw(st.lists(one_of(SETTINGS), max_size=4))
    chat = draw(st.lists(messages(theme), min_size=1, max_size=4))
    return {
        "books": books,
        "settings": {f"world_info_{name}": value for name, value in chosen},
        "chat": [{"name": "Tom", "content": text} for text in chat],
        "scan_texts": {"scenario": draw(TEXTS[theme])},
        "macros": {"user": "Tom", "char": "Mira"},
        "context_tokens": draw(st.sampled_from((100_000, 100_000, 160, 60))),
        "seed": draw(st.sampled_from(("0", "1", "灯"))),
    }


def run(turn: Case) -> Outcome:
    response = activate([], SillyTavernRequest.model_validate(turn))
    ids = frozenset(each.id for each in response.activated)
    return Outcome(ids, response.budget.used)


def edited(turn: Case, steps: Sequence[EditStep]) -> Case:
    """Return the document with the edits made."""
    parsed = SillyTavernRequest.model_validate(turn).model_dump(mode="json")
    document = {**parsed, "books": copy.deepcopy(turn["books"])}
    for step in steps:
        target: Any = document
        if step.target == "entry":
            book = next(each for each in document["books"] if each["name"] == step.book_id)
            target = book["entries"][step.entry_id]
        patch(target, EditStep.model_validate_json(step.model_dump_json()))
    return document


@some
@given(turns(), st.data())
def test_every_offered_change_flips_the_verdict(turn: Case, data: st.DataObject) -> None:
    book = data.draw(st.sampled_from(turn["books"]))
    entry = f"{book['name']}.{data.draw(st.sampled_from(sorted(book['entries'])))}"
    explanation = explain([], SillyTavernRequest.model_validate(turn), entry)
    before = run(turn)
    assert explanation.complete
    assert explanation.selected == (entry in before.ids)
    for change in explanation.changes:
        after = run(edited(turn, change.edits))
        assert (entry in after.ids) != explanation.selected
        others = (before.ids ^ after.ids) - {entry}
        assert set(change.joins) | set(change.leaves) == others
        assert (change.others, change.tokens) == (len(others), after.tokens - before.tokens)


@some
@given(turns(), st.data())
def test_brute_force_agrees_on_single_changes(turn: Case, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(turn["books"]) - 1))
    listed = turn["books"][number]["entries"]
    index = data.draw(st.integers(0, len(listed) - 1))
    entry = f"{turn['books'][number]['name']}.{index}"
    request = SillyTavernRequest.model_validate(turn)
    explanation = explain([], request, entry)
    library: Library = with_inline([], request, Steps())
    plain = request.model_copy(update={"books": (), "explain": "full"})
    trials = SillyTavernTrials(library, plain, number, index)
    flips = 0
    for change in trials.changes(()):
        after = run(edited(turn, trials.steps_of(change.edits)))
        flips += (entry in after.ids) != explanation.selected
    singles = [change for change in explanation.changes if change.kind != "pair"]
    assert bool(singles) == bool(flips)
