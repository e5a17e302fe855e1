"""A small language for conditions and key expressions: read, written, weighed, never run as code.

A condition weighs fields of a table or state; a key expression weighs which keys were found.
"""

from lorewell.engine.conditions.parsing import (
    MAX_CHARS,
    Flaw,
    parse_condition,
    parse_expression,
    parse_key_expression,
)
from lorewell.engine.conditions.syntax import And, Comparison, Expression, Not, Or, Word, leaves
from lorewell.engine.conditions.truth import Table, holds, in_state, in_table, told
from lorewell.engine.conditions.writing import write

__all__ = [
    "MAX_CHARS",
    "And",
    "Comparison",
    "Expression",
    "Flaw",
    "Not",
    "Or",
    "Table",
    "Word",
    "holds",
    "in_state",
    "in_table",
    "leaves",
    "parse_condition",
    "parse_expression",
    "parse_key_expression",
    "told",
    "write",
]
