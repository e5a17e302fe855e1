"""A condition tried out on some values, part by part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lorewell.engine.conditions.flaw import Flaw
from lorewell.engine.conditions.parsing import parse_condition, parse_expression
from lorewell.engine.conditions.syntax import Comparison, Expression, parts_of
from lorewell.engine.conditions.truth import Table, in_state, in_table, is_true
from lorewell.engine.conditions.writing import write
from lorewell.engine.state import Absent
from lorewell.model.condition_trial import ConditionFlaw, ConditionTrial, ConditionTried, Rules

_READERS: dict[Rules, Callable[[str], Expression | Flaw]] = {
    "native": parse_expression,
    "replica": parse_condition,
}


def try_condition(trial: ConditionTrial) -> ConditionTried:
    """Return whether a condition holds, and what each part of it came to.

    >>> tried = try_condition(ConditionTrial(text="tb.力量＞10", table={"力量": 15}))
    >>> tried.holds, tried.written, tried.tree["found"]
    (True, 'tb.力量 > 10', 15)
    """
    parsed = _READERS[trial.rules](trial.text)
    if isinstance(parsed, Flaw):
        return ConditionTried(holds=False, flaw=ConditionFlaw(at=parsed.at, detail=parsed.detail))
    table = in_table(trial.table) if trial.rules == "replica" else in_state(trial.table)
    tree = _tree(parsed, table)
    return ConditionTried(holds=tree["holds"], written=write(parsed), tree=tree)


def _tree(expression: Expression, table: Table) -> dict[str, Any]:
    holds = is_true(expression, table)
    if not isinstance(expression, Comparison):
        kind, parts = type(expression).__name__.lower(), parts_of(expression)
        return {"kind": kind, "holds": holds, "parts": [_tree(part, table) for part in parts]}
    found = table(expression.field)
    missing = found is None or found is Absent.ABSENT
    return {
        "kind": "comparison",
        "holds": holds,
        "field": expression.field,
        "operator": expression.operator,
        "value": expression.value,
        "found": None if missing else found,
        "missing": missing,
    }
