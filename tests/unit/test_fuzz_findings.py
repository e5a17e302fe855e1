"""What fuzzing found, in the smallest form: each file is refused in words or gives a whole book."""

from __future__ import annotations

import pytest

from deep.fuzzing.invariants import check

FINDINGS = {
    "broken character one byte behind a byte order mark": "\ufeff1灯".encode()[:-1],
    "broken character two bytes behind it": b"\xef\xbb\xbf{[\xff",
    "entries that are not the book's": '{"gamestarted": true, "entries": "灯"}'.encode(),
}


@pytest.mark.parametrize("data", FINDINGS.values(), ids=FINDINGS)
def test_file_breaks_nothing(data: bytes) -> None:
    check(data)
