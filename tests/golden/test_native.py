"""The native policy against the golden corpus; README.md in the folder has the format.

`LOREWELL_GOLDEN_NATIVE` names another folder of the same format.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from golden.cases import HERE, Case, as_params, compare

FOLDER = Path(os.environ.get("LOREWELL_GOLDEN_NATIVE") or HERE / "native")
CASES = as_params(list(FOLDER.glob("*.json")))


def test_folder_holds_cases() -> None:
    """A wrong folder is a failure, not a silent pass."""
    assert CASES


@pytest.mark.parametrize("case", CASES)
def test_golden_case(case: Case) -> None:
    """Error, blocks, decisions, count, hash and degradation are what the case lists."""
    actual, expected = compare(case)
    assert actual == expected
