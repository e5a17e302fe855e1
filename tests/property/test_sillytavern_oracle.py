"""The engine agrees with a slow, literal form of the rules: on the golden cases and on random ones.

The oracle counts for something only because it passes the golden corpus as the engine does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from conform import CASES, differences, load_defaults, steps_of
from golden.cases import load_cases
from lorewell.engine.sillytavern import key_matcher
from lorewell.engine.sillytavern.activate import activate
from lorewell.engine.tokens import TokenCounter, counter
from lorewell.jsregex import Look, LookResult, RegexGuard
from lorewell_engine import TokenTable, library_of, request_of, runner_answer
from property.sillytavern_cases import THEMES, Case, cases
from property.sillytavern_oracle import play

DEEP = settings.get_current_profile_name() == "deep"
EXAMPLES = 5_000 if DEEP else settings().max_examples  # for each theme
EVERY = 1 if DEEP else 4  # which golden cases the oracle passes
LARGE = [HealthCheck.too_slow, HealthCheck.data_too_large]  # a case is a book and a chat
DEFAULTS = load_defaults()
NOTHING = {"error": None, "timedState": None, "budget": None}  # what a step has to expect


class Quarters:
    """A token for every four code units, begun ones too: borders of a budget in small texts."""

    name = "len4"

    def count(self, text: str) -> int:
        return -(-len(text.encode("utf-16-le")) // 8)


COUNTERS: list[TokenCounter] = [Quarters(), counter()]


class PatientGuard(RegexGuard):
    """Searches again, with a new time limit, where a busy machine left a regex without a verdict.

    All regexes of the cases are quick and the oracle knows no limits, so a regex that never gets
    a verdict is a disagreement.
    """

    PAUSES_S = (0, 0.1, 1, 4, 12)  # ten seconds after a failed start, the next engine is started

    def search(self, text: str, looks: Sequence[Look]) -> list[LookResult]:
        for pause_s in self.PAUSES_S:
            sleep(pause_s)
            results = RegexGuard().search(text, looks)
            verdicts = {o.verdict for each in results for o in (*each.primary, *each.secondary)}
            if verdicts.isdisjoint({"timeout", "unsupported"}):
                break
        return results


@pytest.fixture(scope="module", autouse=True)
def patient_guard() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_matcher, "RegexGuard", PatientGuard)
        yield


def played(case: Case, count: TokenCounter) -> Iterator[tuple[Case, int]]:
    """Give what the engine makes of every step, in the terms of a case, and what stays queued."""
    state, forced = case["timedState"], list[Any]()
    inputs = case.get("macroInputs")
    for step in case["steps"]:
        asked = {**step, "force": [*forced, *step.get("force", [])], "expected": NOTHING}
        now = {"id": "", **case, "macroInputs": inputs, "timedState": state, "steps": [asked]}
        (turn,) = steps_of(now, DEFAULTS)
        answer = activate(library_of(turn.request), request_of(turn.request), counter=count)
        yield runner_answer(answer), len(answer.forced)
        if inputs is not None:
            inputs = {"variables": answer.variables}
        state, forced = answer.timed_state, [each.model_dump() for each in answer.forced]


def counted(case: Case) -> Callable[[str], int]:
    counts: dict[str, int] = {}
    for step in case["steps"]:
        counts |= step["tokenCounts"]
    return TokenTable(counts).count


@pytest.mark.parametrize("file", sorted(CASES.glob("*.json")), ids=lambda file: str(file.stem))
def test_the_oracle_passes_the_golden_cases(file: Path) -> None:
    """Events, loops and draws as SillyTavern had them."""
    for case in load_cases(file)[::EVERY]:
        if any(step["expected"]["error"] for step in case["steps"]):
            continue
        for step, answer in zip(case["steps"], play(case, counted(case)), strict=True):
            expected = {**step["expected"], "drawsUsed": len(step["rng"])}
            told = {**answer.expected, "error": None, "drawsUsed": answer.draws_used}
            assert (case["id"], differences(expected, told, ledger=True)) == (case["id"], [])


def disagreements(case: Case, count: TokenCounter) -> list[str]:
    """Return a sentence for each field in which engine and oracle differ."""
    found = []
    for answer, (told, queued) in zip(play(case, count.count), played(case, count), strict=True):
        wanted = {**answer.expected, "drawsUsed": answer.draws_used}
        found += differences(wanted, told, ledger=True)
        if queued != len(answer.forced):
            found.append(f"forced: {queued}, {answer.forced}")
    return found


@pytest.mark.parametrize("theme", THEMES)
@settings(max_examples=EXAMPLES, suppress_health_check=LARGE)
@given(data=st.data())
def test_the_engine_agrees_with_the_oracle(theme: str, data: st.DataObject) -> None:
    """Order, buckets, timed state, budget, draws, loops and reasons, over all turns of a chat."""
    case, count = data.draw(cases(theme)), data.draw(st.sampled_from(COUNTERS))
    steps = [{**step, "rng": 200 * step["rng"]} for step in case["steps"]]
    assert disagreements({**case, "steps": steps}, count) == []
