"""Evaluates a condition or key expression and reports the result of every part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lorewell.engine.conditions.flaw import Flaw
from lorewell.engine.conditions.keys import find_words, read_key_expression
from lorewell.engine.conditions.parsing import parse_condition, parse_expression
from lorewell.engine.conditions.syntax import Comparison, Expression, Leaf, Word, parts_of
from lorewell.engine.conditions.truth import compare, holds, in_state, in_table
from lorewell.engine.conditions.writing import write
from lorewell.engine.state import AbsentValue
from lorewell.model.condition_trial import ConditionFlaw, ConditionTrial, ConditionTried, Rules

_PARSERS: dict[Rules, Callable[[str], Expression | Flaw]] = {
    "native": parse_expression,
    "replica": parse_condition,
    "keys": read_key_expression,
}


def try_condition(trial: ConditionTrial) -> ConditionTried:
    """Evaluate a condition or key expression, part by part.

    >>> tried = try_condition(ConditionTrial(text="tb.力量＞10", table={"力量": 15}))
    >>> tried.holds, tried.written, tried.tree["found"]
    (True, 'tb.力量 > 10', 15)
    """
    parsed = _PARSERS[trial.rules](trial.text)
    if isinstance(parsed, Flaw):
        return ConditionTried(holds=False, flaw=ConditionFlaw(at=parsed.at, detail=parsed.detail))
    tree = _tree(parsed, _leaf_evaluator(parsed, trial))
    return ConditionTried(holds=tree["holds"], written=write(parsed), tree=tree)


def _leaf_evaluator(parsed: Expression, trial: ConditionTrial) -> Callable[[Leaf], dict[str, Any]]:
    """Return a function that evaluates one comparison or key to its node of the tree."""
    table = in_table(trial.table) if trial.rules == "replica" else in_state(trial.table)
    places = find_words(
        parsed,
        trial.message,
        case_sensitive=trial.case_sensitive,
        whole_words=trial.match_whole_words,
    )

    def evaluate(leaf: Leaf) -> dict[str, Any]:
        if isinstance(leaf, Word):
            place = places.get(leaf.text)
            return {"kind": "key", "holds": place is not None, "key": leaf.text, "span": place}
        found = table(leaf.field)
        missing = found is None or found is AbsentValue.ABSENT
        return {
            "kind": "comparison",
            "holds": compare(found, leaf.operator, leaf.value),
            "field": leaf.field,
            "operator": leaf.operator,
            "value": leaf.value,
            "found": None if missing else found,
            "missing": missing,
        }

    return evaluate


def _tree(expression: Expression, evaluate: Callable[[Leaf], dict[str, Any]]) -> dict[str, Any]:
    match expression:
        case Comparison() | Word():
            return evaluate(expression)
        case _:
            kind = type(expression).__name__.lower()
            truth = holds(expression, lambda leaf: bool(evaluate(leaf)["holds"]))
            parts = [_tree(part, evaluate) for part in parts_of(expression)]
            return {"kind": kind, "holds": truth, "parts": parts}
