"""Reports of users of SillyTavern, as it answers them."""

from __future__ import annotations

from collections import Counter

import pytest

from world_info import names, reasons, scan

GROUP_G = {"constant": True, "group": "g"}


def test_b05_a_regex_may_hold_a_comma() -> None:
    entries = {"a": {"key": ["/Test[,;]/", "plain"]}}
    assert names(scan(entries, ["Test;"])) == ["a"]
    assert names(scan(entries, ["Test"])) == []


def test_b15_what_is_active_stays_whatever_is_found_later() -> None:
    entries = {
        "a": {"key": ["1"], "content": "a"},
        "b": {"key": ["2"], "keysecondary": ["a"], "selectiveLogic": 2, "content": "b"},
    }
    answer = scan(entries, ["1 2"])
    assert [(str(entry.uid), entry.loop) for entry in answer.activated] == [("a", 1), ("b", 1)]


def test_b17_what_is_over_budget_wakes_nobody() -> None:
    entries = {
        "a": {"key": ["gate"], "content": "the warden " + "word " * 500, "order": 2},
        "b": {"key": ["warden"], "content": "short", "order": 1},
    }
    answer = scan(entries, ["gate"], context_tokens=200)
    assert names(answer) == []
    assert reasons(answer) == {"a": "budget_overflow", "b": "not_triggered"}


def test_b22_an_entry_may_ignore_the_budget() -> None:
    long = {"constant": True, "content": "word " * 300}
    answer = scan({"a": {**long, "ignoreBudget": True}, "b": long}, context_tokens=400)
    assert names(answer) == ["a"]
    assert reasons(answer)["b"] == "budget_overflow"


def test_b26_one_of_a_group_and_each_has_a_chance() -> None:
    entries = {key: {"key": [key], "group": "magic"} for key in ("fire", "water", "earth")}
    chat = ["fire and water and earth"]
    winners = Counter(tuple(names(scan(entries, chat, seed=str(seed)))) for seed in range(200))
    assert set(winners) == {("fire",), ("water",), ("earth",)}


def test_b27_weights_are_shares() -> None:
    entries = {"a": {**GROUP_G, "groupWeight": 100}, "b": {**GROUP_G, "groupWeight": 50}}
    drawn = [names(scan(entries, seed=str(seed), explain="none")) for seed in range(1_500)]
    assert 0.63 < drawn.count(["a"]) / len(drawn) < 0.70


def test_b28_the_group_chooses_before_probability_does() -> None:
    entries = {"a": GROUP_G, "b": {**GROUP_G, "probability": 0}}
    answers = [scan(entries, seed=str(seed)) for seed in range(400)]
    counts = Counter(tuple(reasons(answer).values()) for answer in answers)
    assert set(counts) == {("constant", "group_lost"), ("group_lost", "probability_failed")}
    assert 0.42 < counts["constant", "group_lost"] / len(answers) < 0.58


@pytest.mark.parametrize(("text", "active"), [("go test1", ["a", "c"]), ("go", ["a", "b"])])
def test_b29_a_group_that_is_decided_stays_so(text: str, active: list[str]) -> None:
    entries = {
        "a": {"key": ["go"], "content": "zeta", "order": 3},
        "b": {"key": ["zeta"], "group": "g", "groupOverride": True, "order": 2},
        "c": {"key": ["test1"], "group": "g", "order": 1},
    }
    answer = scan(entries, [text])
    assert names(answer) == active
    assert ("group_taken" in reasons(answer).values()) == (active == ["a", "c"])


def test_b30_b31_sticky_lasts_and_a_look_changes_nothing() -> None:
    entries = {"a": {"key": ["cellar"], "sticky": 2}}
    settings = {"world_info_depth": 1}
    first = scan(entries, ["cellar"], settings=settings)
    for _ in range(5):
        looked = scan(entries, ["cellar"], settings=settings, dry_run=True)
        assert looked.timed_state == {"sticky": {}, "cooldown": {}}
    swiped = scan(entries, ["cellar"], settings=settings, timed_state=first.timed_state)
    assert swiped.timed_state == first.timed_state
    second = scan(entries, ["cellar", "x"], settings=settings, timed_state=swiped.timed_state)
    third = scan(entries, ["cellar", "x", "y"], settings=settings, timed_state=second.timed_state)
    assert [names(answer) for answer in (first, swiped, second, third)] == [["a"], ["a"], ["a"], []]


@pytest.mark.parametrize(("key", "text"), [("caf", "café"), ("Орра", "Орраторий")])
def test_s10_words_end_at_every_letter_beyond_ascii(key: str, text: str) -> None:
    entries = {"a": {"key": [key]}}
    assert names(scan(entries, [text])) == ["a"]
    assert names(scan(entries, [text], mending={"word_borders": True})) == []
