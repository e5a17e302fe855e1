"""Explanations of entries under the policy `native`."""

from __future__ import annotations

import pytest

from lorewell import EntryName, Explanation, SelectRequest, SillyTavernRequest, explain
from lorewell.engine.native.select import decide
from lorewell.engine.steps import Steps
from lorewell.errors import TooExpensiveError, ValidationFailedError
from lorewell.insight.explain.near import is_one_edit
from lorewell.model.replica import ReplicaRequest
from support import OTHER_BOOK_ID, Document, compiled, entry, said


def told(entries: list[Document], name: str, query: str = "?", **fields: object) -> Explanation:
    """Explain an entry of one book."""
    book = compiled(entries)
    request = SelectRequest.model_validate({"books": [book.ref], "query": query, **fields})
    return explain([book], request, name)


def paths(explanation: Explanation) -> dict[str, object]:
    """Return the first value of each single edit that is offered, by target and path."""
    found: dict[str, object] = {}
    for change in explanation.changes:
        if len(change.edits) == 1:
            edit = change.edits[0]
            found.setdefault(f"{edit.target}{edit.path}", edit.value)
    return found


def status(explanation: Explanation) -> dict[str, str]:
    return {gate.gate: gate.status for gate in explanation.gates}


def test_a_key_outside_the_window_names_its_message_and_the_depth() -> None:
    history = said("对岸的灯塔亮了。", *["雾。"] * 10)
    found = told([entry("tower", "灯塔")], "tower", "走吧。", history=history)
    assert (found.selected, found.reason, found.gate) == (False, "not_triggered", "keys")
    assert [(miss.kind, miss.key, miss.message) for miss in found.near] == [
        ("outside_window", "灯塔", 0)
    ]
    assert paths(found)["entry/scan_depth"] == 12
    assert paths(found)["request/scan_depth"] == 12


@pytest.mark.parametrize(
    ("key", "query", "fields", "kind", "path"),
    [
        ("king", "the kingdom", {"match_whole_words": True}, "inside_word", "match_whole_words"),
        ("Mara", "mara came", {"case_sensitive": True}, "case", "case_sensitive"),
        ("lantern", "a lanten", {}, "typo", "keys/-"),
        ("ABC", "ＡＢＣ", {}, "form", "keys/-"),
        ("灯塔", "灯\u200b塔", {}, "form", "keys/-"),
    ],
)
def test_near_misses_and_the_change_that_helps(
    key: str, query: str, fields: Document, kind: str, path: str
) -> None:
    found = told([entry("e", key, **fields)], "e", query)
    assert [miss.kind for miss in found.near] == [kind]
    assert f"entry/{path}" in paths(found)


def test_one_edit_is_one_letter() -> None:
    assert is_one_edit("tower", "towers")
    assert is_one_edit("tower", "twer")
    assert not is_one_edit("tower", "tower")
    assert not is_one_edit("tower", "two")
    assert not is_one_edit("tower", "wotre")


def test_causes_that_the_ledger_does_not_name() -> None:
    awake = {"prevent_recursion": False, "exclude_recursion": False}
    waker = entry("a", "灯", content="鹤来了", **awake)
    woken = entry("b", "鹤", content="雾散了", **awake)
    late = told([waker, woken], "b", "灯", max_recursion_rounds=0)
    assert (late.reason, late.cause) == ("not_triggered", "round_limit")
    assert paths(late)["request/max_recursion_rounds"] == 1
    silent = {**waker, "prevent_recursion": True}
    not_waking = told([silent, woken], "b", "灯")
    assert (not_waking.reason, not_waking.cause) == ("not_triggered", "not_waking")
    assert paths(not_waking)["entry/prevent_recursion"] is False
    deaf = told([waker, {**woken, "exclude_recursion": True}], "b", "灯")
    assert (deaf.reason, deaf.cause) == ("not_triggered", "excluded")
    assert paths(deaf)["entry/exclude_recursion"] is False


def test_conditions_show_each_operand_and_the_state_that_helps() -> None:
    conditions = [
        {"path": "time.day", "op": "eq", "value": True},
        {"path": "hero", "op": "exists"},
    ]
    found = told([entry("e", "灯", conditions=conditions)], "e", "灯", state={"hero": 1})
    gate = next(gate for gate in found.gates if gate.gate == "conditions")
    first, second = gate.facts["conditions"]
    assert (first["missing"], first["holds"]) == (True, False)
    assert (second["found"], second["holds"]) == (1, True)
    assert paths(found)["request/state/time"] == {"day": True}
    assert paths(found)["entry/conditions/0"] is None


def test_pairs_are_tried_where_no_single_change_helps() -> None:
    found = told([entry("e", "灯", enabled=False)], "e", "雾")
    assert found.gate == "enabled"
    assert {change.kind for change in found.changes} == {"pair"}
    assert all(change.edits[0].path == "/enabled" for change in found.changes)


def test_rolls_budgets_and_conflicts_have_their_figures() -> None:
    rolled = told([entry("e", "灯", probability=1)], "e", "灯")
    assert rolled.gate == "probability"
    assert set(paths(rolled)) == {"entry/probability", "request/seed"}
    big = entry("big", "灯", priority=5)
    small = told([big, entry("e", "灯")], "e", "灯", token_budget=60)
    assert small.gate == "budget"
    gate = next(gate for gate in small.gates if gate.gate == "budget")
    needed = 60 + gate.facts["tokens"] - gate.facts["room"]
    assert paths(small)["request/token_budget"] == needed
    assert paths(small)["entry/priority"] == 6
    clash = told(
        [entry("a", "灯", conflict_key="c", priority=1), entry("e", "灯", conflict_key="c")],
        "e",
        "灯",
    )
    assert (clash.gate, clash.reason) == ("conflict", "conflict")
    assert clash.changes[0].edits[0].path == "/conflict_key"
    assert clash.changes[0].others == 0


def test_a_selected_entry_is_told_what_would_keep_it_out() -> None:
    found = told([entry("e", "灯")], "e", "灯")
    assert (found.selected, found.gate, found.cause) == (True, None, None)
    assert status(found)["budget"] == "passed"
    assert "failed" not in status(found).values()
    assert paths(found)["entry/enabled"] is False


def test_a_required_entry_that_fails_the_request_is_explained() -> None:
    entries = [entry("must", required=True), entry("e", "灯")]
    found = told(entries, "must", "灯", token_budget=5)
    assert (found.selected, found.reason) == (False, "budget_dropped")
    other = told(entries, "e", "灯", token_budget=5)
    assert (other.reason, other.gate) == ("budget_exceeded", "request")


def test_an_entry_of_several_books_needs_its_book() -> None:
    books = [compiled([entry("e", "灯")]), compiled([entry("e", "雾")], book_id=OTHER_BOOK_ID)]
    request = SelectRequest(books=[book.ref for book in books], query="灯")
    with pytest.raises(ValidationFailedError, match="several"):
        explain(books, request, "e")
    found = explain(books, request, EntryName(book_id=OTHER_BOOK_ID, entry_id="e"))
    assert (found.book_id, found.selected) == (OTHER_BOOK_ID, False)
    with pytest.raises(ValidationFailedError):
        explain(books, request, "missing")


def test_the_budget_bounds_the_search_alone() -> None:
    book = compiled([entry("e", "灯")])
    request = SelectRequest(books=[book.ref], query="雾")
    cut = explain([book], request, "e", budget=0)
    assert (cut.complete, cut.changes, cut.gate) == (False, (), "keys")
    with pytest.raises(TooExpensiveError):
        explain([book], request, "e", steps=Steps(1))
    steps = Steps()
    decide([book], request, steps=steps)
    assert explain([book], request, "e", steps=Steps(steps.spent * 4)).complete


def world(*entries: Document) -> Document:
    listed = {str(each["uid"]): {"position": 0, "order": 100, **each} for each in entries}
    return {"source": "chat", "name": "雾", "entries": listed}


def scanned(entry_id: str, *entries: Document, said: str, **fields: object) -> Explanation:
    """Explain an entry of an inline book under SillyTavern's rules."""
    document = {"books": [world(*entries)], "chat": [{"content": said}], "context_tokens": 4000}
    return explain([], SillyTavernRequest.model_validate({**document, **fields}), entry_id)


def test_a_scan_is_explained_from_its_events() -> None:
    waker = {"uid": 0, "key": ["摆渡人"], "content": "一枚骨哨。", "preventRecursion": True}
    woken = {"uid": 1, "key": ["骨哨"], "content": "x", "comment": "骨哨"}
    found = scanned("雾.1", waker, woken, said="找摆渡人")
    assert (found.policy, found.title, found.cause) == ("sillytavern", "骨哨", "not_waking")
    assert ("not_waking", "雾.0") in [(miss.kind, miss.entry) for miss in found.near]
    assert paths(found)["entry/preventRecursion"] is False
    persona = {"uid": 2, "key": ["Mira"], "content": "x"}
    texts = {"persona_description": "Mira is kind."}
    found = scanned("2", persona, said="?", scan_texts=texts)
    assert [(miss.kind, miss.text) for miss in found.near] == [
        ("other_text", "persona_description")
    ]
    assert paths(found)["entry/matchPersonaDescription"] is True


def test_rolls_and_groups_of_a_scan_have_their_figures() -> None:
    rolled = {"uid": 0, "key": ["灯"], "content": "x", "useProbability": True, "probability": 0}
    found = scanned("0", rolled, said="灯")
    assert (found.reason, found.gate) == ("probability_failed", "probability")
    gate = next(gate for gate in found.gates if gate.gate == "probability")
    assert gate.facts["threshold"] == 0
    assert "roll" in gate.facts
    pair = [
        {"uid": 1, "key": ["灯"], "content": "a", "group": "g"},
        {"uid": 2, "key": ["灯"], "content": "b", "group": "g", "groupOverride": True},
    ]
    lost = scanned("1", *pair, said="灯")
    assert (lost.reason, lost.gate) == ("group_lost", "group")
    assert paths(lost)["entry/group"] == ""
    won = scanned("2", *pair, said="灯")
    assert (won.selected, won.gate) == (True, None)
    assert paths(won)["entry/disable"] is True


def test_edits_of_decorated_entries_keep_the_decorator() -> None:
    forced = {"uid": 0, "key": [], "content": "@@activate\nx"}
    found = scanned("0", forced, said="?")
    assert (found.selected, found.reason) == (True, "decorator_activate")
    assert set(paths(found)) >= {"entry/disable"}
    with pytest.raises(ValidationFailedError):
        scanned("7", forced, said="?")


def test_a_turn_of_sillytavern_replica_is_explained() -> None:
    entries = [
        {"uid": "灯", "key": ["灯塔"], "content": "x", "requires": ["油"]},
        {"uid": "油", "content": "x", "disable": True},
        {"uid": "lamp", "key": ["lantern"], "matchWholeWords": True, "content": "x"},
    ]
    document = {
        "worldBookData": {"globalBooks": [{"id": "b"}]},
        "books": {"b": {"name": "b", "entries": entries}},
        "mes": "去灯塔, lanterns",
    }
    request = ReplicaRequest.model_validate(document)
    needy = explain([], request, "灯")
    assert (needy.gate, needy.reason) == ("requires", "dependency_unavailable")
    assert paths(needy)["entry/requires"] == []
    lamp = explain([], request, EntryName(book_id="b", entry_id="lamp"))
    assert [miss.kind for miss in lamp.near] == ["inside_word"]
    assert "entry/trigger_config/triggers/keyword" in paths(lamp)
    off = explain([], request, "油")
    assert status(off)["enabled"] == "failed"
    with pytest.raises(ValidationFailedError):
        explain([], request, "nobody")
