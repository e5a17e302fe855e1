"""Every planted fault is found, and its clean twin has at most one finding."""

from __future__ import annotations

import pytest
from tests.lint_books import PLANTED, Planted

from lorewell.insight.lint import TABLE, lint
from lorewell.model.lint import Finding

_IDS = [f"{each.name}-{each.form}-{each.language}-{n}" for n, each in enumerate(PLANTED)]


def _names(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.name for finding in findings]


@pytest.mark.parametrize("planted", PLANTED, ids=_IDS)
def test_a_planted_fault_is_found_and_its_twin_is_clean(planted: Planted) -> None:
    found = lint(planted.book(clean=False))
    assert planted.name in _names(found)
    assert len(found) <= 2
    assert _names(lint(planted.book(clean=True))) == []


def test_there_are_enough_faults_of_enough_kinds() -> None:
    assert len(PLANTED) >= 60
    kinds = {each.name for each in PLANTED}
    assert len(kinds) >= 30
    assert {(each.form, each.language) for each in PLANTED} == {
        (form, language) for form in ("native", "st") for language in ("en", "zh")
    }
    assert {row.name for row in TABLE} - kinds == {"path-unset"}  # which needs a state
