"""A small language for conditions and key expressions: parser, writer, evaluation; no code runs.

A condition compares fields of a table or state. A key expression combines keys.
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
    counting,
    describe_fields,
    explain_false,
    holds,
    in_state,
    in_table,
    is_true,
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
    "counting",
    "describe_fields",
    "explain_false",
    "holds",
    "in_state",
    "in_table",
    "is_true",
    "leaves",
    "parse_condition",
    "parse_expression",
    "parse_key_expression",
    "read_key_expression",
    "words_of",
    "write",
]
