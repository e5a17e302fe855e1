"""The policy `sillytavern` against the golden corpus; conformance/README.md has the format.

`LOREWELL_GOLDEN_ST` names another folder of any of these formats.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conform import ALL_CASES, differences, load_cases, load_defaults, steps_of
from golden.cases import Case
from lorewell_engine import answer_to

FOLDER = os.environ.get("LOREWELL_GOLDEN_ST")
FOLDERS = (Path(FOLDER),) if FOLDER else ALL_CASES
PARAMS = [pytest.param(case, id=case["id"]) for case in load_cases(*FOLDERS)]
DEFAULTS = load_defaults()


def test_folder_holds_cases() -> None:
    """A wrong folder is a failure, not a silent pass."""
    assert PARAMS


@pytest.mark.parametrize("case", PARAMS)
def test_golden_case(case: Case) -> None:
    """Every step gives what SillyTavern gave, for its reasons, and consumes all of its draws."""
    for request, expected in steps_of(case, DEFAULTS):
        if expected is None:  # groups-063: a group named like a built-in property
            pytest.skip("SillyTavern itself throws here, and its answer is of no use")
        assert differences(expected, answer_to(request), ledger=True) == []
