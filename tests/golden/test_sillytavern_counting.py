"""How two releases of SillyTavern count with tokenizers other than OpenAI's, on the same cases.

The counts of the cases are those of 1.19.0, which count the text alone. The answers of 1.18.0 come
from runs of that release with its own counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import conform
from golden.cases import Case, as_params
from lorewell.engine.sillytavern.activate import activate
from lorewell_engine import TokenTable, library_of, request_of, runner_answer

PARAMS = as_params([conform.HERE / "sillytavern" / "cases-1.19" / "tokens.json"])
ACTIVE_IN_1_18: Mapping[str, list[str]] = {
    "st119-tokens-001": [],
    "st119-tokens-002": ["book.0"],
    "st119-tokens-003": ["book.0"],
    "st119-tokens-004": ["book.0"],
    "st119-tokens-006": [],
    "st119-tokens-007": [],
}


class NamedTable(TokenTable):
    """The counts of a case under the name of its tokenizer."""

    def __init__(self, case: Case) -> None:
        super().__init__(case["steps"][0]["tokenCounts"])
        self.name = case["tokenizer"]


def played(case: Case, **settings: Any) -> tuple[Case, Case]:
    """Return what the engine answers with these settings, and what SillyTavern 1.19.0 answered."""
    ((request, expected),) = conform.steps_of(case, conform.load_defaults())
    assert expected is not None
    turn = request_of(request)
    chosen = turn.settings.model_copy(update={"token_counting": None, **settings})
    turn = turn.model_copy(update={"settings": chosen})
    return runner_answer(activate(library_of(request), turn, counter=NamedTable(case))), expected


@pytest.mark.parametrize("case", PARAMS)
@pytest.mark.parametrize(
    "settings", [{}, {"version": "1.19"}, {"version": "1.18", "token_counting": "sillytavern-1.19"}]
)
def test_1_19_counts_the_text_alone(case: Case, settings: dict[str, str]) -> None:
    answer, expected = played(case, **settings)
    assert conform.differences(expected, answer, ledger=True) == []


@pytest.mark.parametrize("case", PARAMS)
@pytest.mark.parametrize("settings", [{"version": "1.18"}, {"token_counting": "sillytavern-1.18"}])
def test_1_18_counts_a_message_with_its_role(case: Case, settings: dict[str, str]) -> None:
    answer, _ = played(case, **settings)
    assert answer["activated"] == ACTIVE_IN_1_18[case["id"]]
    assert answer["overflowed"]
