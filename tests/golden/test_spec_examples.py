"""The worked examples of docs/rules/native.md §14, to the figure and to the byte."""

from __future__ import annotations

import hashlib

import pytest

from golden.cases import HERE, Case, as_params, compare, play
from support import count_tokens

CASES = as_params([HERE / "spec14.json"])


@pytest.mark.parametrize("case", CASES)
def test_worked_example(case: Case) -> None:
    """Everything that the section states about this request holds."""
    actual, expected = compare(case)
    assert actual == expected


@pytest.mark.parametrize("case", [each for each in CASES if not each.values[0]["expect"]["error"]])
def test_count_and_hash_belong_to_the_context(case: Case) -> None:
    """Count and hash of the answer are those of its own context."""
    answer = play(case)
    assert answer["token_count"] == count_tokens(answer["context"])
    assert answer["prompt_hash"] == hashlib.sha256(answer["context"].encode()).hexdigest()
