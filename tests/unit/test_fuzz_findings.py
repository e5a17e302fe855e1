"""What fuzzing found, in the smallest form: each file is refused in words or gives a whole book."""

from __future__ import annotations

import pytest

from deep.fuzzing.invariants import check

FINDINGS: list[bytes] = []


@pytest.mark.parametrize("data", FINDINGS)
def test_file_breaks_nothing(data: bytes) -> None:
    check(data)
