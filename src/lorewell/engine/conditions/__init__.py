"""A small language for conditions and key expressions: read, written, weighed, never run as code.

A condition weighs fields of a table or state; a key expression weighs which keys were found.
"""

from lorewell.engine.conditions.flaw import Flaw
from lorewell.engine.conditions.keys import read_key_expression
from lorewell.engine.conditions.parsing import (
    MAX_CHARS,
    parse_condition,
    parse_expression,
    parse_key_expression,
)
from lorewell.engine.conditions.syntax import (
    And,
    Comparison,
    Expression,
    Leaf,
    Not,
    Or,
    Word,
    leaves,
    words_of,
)
from lorewell.engine.conditions.truth import (
    Table,
    counted,
    fault,
    holds,
    in_state,
    in_table,
    is_true,
    told,
)
from lorewell.engine.conditions.writing import write

__all__ = [
    "MAX_CHARS",
    "And",
    "Comparison",
    "Expression",
    "Flaw",
    "Leaf",
    "Not",
    "Or",
    "Table",
    "Word",
    "counted",
    "fault",
    "holds",
    "in_state",
    "in_table",
    "is_true",
    "leaves",
    "parse_condition",
    "parse_expression",
    "parse_key_expression",
    "read_key_expression",
    "told",
    "words_of",
    "write",
]
