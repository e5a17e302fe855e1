"""One JSON form for hashes: the fast encoder and Python's write the same bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from lorewell.model.text import canonical_json

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def plainly(value: Any) -> bytes:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


@given(VALUES)
def test_any_value_is_written_as_python_writes_it(value: Any) -> None:
    assert canonical_json(value) == plainly(value)


@pytest.mark.parametrize(
    "value",
    [
        *(10.0**exponent for exponent in range(-12, 25)),
        *(1.2345678901234567 * 10.0**exponent for exponent in range(-12, 25)),
        -0.0,
        2**53 - 1,
        2**53,
        2**64,
        float(2**53),
        ("tuple", 1),
        {
            "é": 1,
            "z": 2,
            "\U0001f98a": 3,
            "\uffee": 4,
            "": 5,
            "\x7f\x1f\u2028": "\x00\x1f\x7f\u2028",
        },
    ],
)
def test_numbers_at_the_borders(value: Any) -> None:
    assert canonical_json(value) == plainly(value)
