"""The engine agrees with a slow, literal form of the rules: on the golden cases and on random ones.

The oracle counts for something only because it passes the golden corpus as the engine does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from golden.cases import load_cases
from golden.test_sillytavern import FOLDER, Table, as_expected, library_of, listed, request_of
from lorewell.engine.sillytavern.activate import activate
from lorewell.engine.tokens import TokenCounter, counter
from property.sillytavern_cases import THEMES, Case, cases
from property.sillytavern_oracle import play

DEEP = settings.get_current_profile_name() == "deep"
EXAMPLES = 5_000 if DEEP else 125  # for each theme
LARGE = [HealthCheck.too_slow, HealthCheck.data_too_large]  # a case is a book and a chat


class Quarters:
    """A token for every four code units, begun ones too: borders of a budget in small texts."""

    name = "len4"

    def count(self, text: str) -> int:
        return -(-len(text.encode("utf-16-le")) // 8)


COUNTERS: list[TokenCounter] = [Quarters(), counter()]


def comparable(expected: Case) -> Case:
    return {**expected, "events": [listed(event) for event in expected["events"]]}


def played(case: Case, count: TokenCounter) -> Iterator[tuple[Case, int, list[Any]]]:
    """Give what the engine makes of every step."""
    library = library_of(case)
    state, forced = case["timedState"], list[Any]()
    for step in case["steps"]:
        answer = activate(library, request_of(case, step, state, forced), counter=count)
        yield as_expected(answer), answer.draws_used, [each.model_dump() for each in answer.forced]
        state, forced = answer.timed_state, list(answer.forced)


def counted(case: Case) -> Callable[[str], int]:
    counts: dict[str, int] = {}
    for step in case["steps"]:
        counts |= step["tokenCounts"]
    return Table(counts).count


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.json")), ids=lambda file: str(file.stem))
def test_the_oracle_passes_the_golden_cases(file: Path) -> None:
    """Events, loops and draws as SillyTavern had them."""
    for case in load_cases(file):
        if any(step["expected"]["error"] for step in case["steps"]):
            continue
        for step, answer in zip(case["steps"], play(case, counted(case)), strict=True):
            expected = comparable(step["expected"])
            assert (case["id"], comparable(answer.expected)) == (case["id"], expected)
            assert answer.draws_used == len(step["rng"])


def differences(case: Case, count: TokenCounter) -> list[tuple[str, Any, Any]]:
    """Return what the engine has and what the oracle has, where that is not the same."""
    found = []
    for answer, (engine, used, queued) in zip(
        play(case, count.count), played(case, count), strict=True
    ):
        wanted = {**comparable(answer.expected), "draws": answer.draws_used}
        ours = {**comparable(engine), "draws": used}
        found += [(name, ours[name], wanted[name]) for name in wanted if ours[name] != wanted[name]]
        if len(queued) != len(answer.forced):
            found.append(("forced", queued, answer.forced))
    return found


@pytest.mark.parametrize("theme", THEMES)
@settings(max_examples=EXAMPLES, suppress_health_check=LARGE)
@given(data=st.data())
def test_the_engine_agrees_with_the_oracle(theme: str, data: st.DataObject) -> None:
    """Order, buckets, timed state, budget, draws, loops and reasons, over all turns of a chat."""
    case, count = data.draw(cases(theme)), data.draw(st.sampled_from(COUNTERS))
    steps = [{**step, "rng": 200 * step["rng"]} for step in case["steps"]]
    assert differences({**case, "steps": steps}, count) == []
