"""Random texts of the language of conditions: sound ones, and such as nobody would write."""

from __future__ import annotations

import random
import sys

from hypothesis import strategies as st

from lorewell.engine.conditions import (
    MAX_CHARS,
    And,
    Comparison,
    Expression,
    Flaw,
    Not,
    Or,
    Word,
    holds,
    in_state,
    parse_condition,
    parse_expression,
    parse_key_expression,
    write,
)
from lorewell.engine.conditions.truth import compare

PIECES = [
    *("tb.", "tb.力量", "tb.a.b", "tb.ไทย", "力量", "灯塔", "ประภาคาร", "🗡️", "e\u0301", "king"),
    *(">=", "<=", "==", "!=", ">", "<", "=", "包括", "≥", "＝", "！＝", "且", "或", "非"),
    *(" and ", " or ", " not ", "AND", "(", ")", "（", "）", '"', "'", "“", "”", "「", "」"),
    *(" ", "\u3000", "\n", "\t", "\0", "\ud800", "15", "-3.5", "1e9", "٣", ".", "\\", "{{x}}"),
    *("__import__('os').system('x')", "lambda: 0", "1/0", "exec(", "\N{ZERO WIDTH JOINER}"),
]


def random_text(source: random.Random) -> str:
    """Return a text of pieces, now and then with any other characters between them."""
    parts = source.choices(PIECES, k=source.randrange(24))
    if source.random() < 0.3:
        parts.append("".join(chr(source.randrange(0x110000)) for _ in range(source.randrange(9))))
        source.shuffle(parts)
    if source.random() < 0.02:
        parts *= 60
    return "".join(parts)


_NAMES = st.sampled_from(["力量", "态度 今天", "a.b", "包括", "x(旧)", "ไทย", "🗡️", "x!", "orca"])
_VALUES = st.sampled_from(
    [
        "15",
        "-3.5",
        "友好",
        "",
        " x ",
        "a and b",
        "(x)",
        ">=5",
        'say "hi"',
        "it's",
        "”」",
        "1e9",
        "\n",
    ]
)
_OPERATORS = st.sampled_from([">=", "<=", "==", "!=", ">", "<", "=", "包括"])
_WORDS = st.sampled_from(["king", "灯塔", "and", "非", "red dragon", "(x)", "a 或 b", "'x'", "ดาบ"])


def _joined(leaf: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    def deeper(part: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        parts = st.lists(part, min_size=2, max_size=3).map(tuple)
        return st.one_of(part.map(Not), parts.map(And), parts.map(Or))

    return st.recursive(leaf, deeper, max_leaves=6)


conditions = _joined(st.builds(Comparison, _NAMES, _OPERATORS, _VALUES))
key_expressions = _joined(st.builds(Word, _WORDS))

STATE = {"力量": 15, "a": {"b": "king"}, "ไทย": ["灯塔", None], "灯塔": True}
# Audit events of whatever a text could do if it were run as code.
FORBIDDEN = ("exec", "compile", "import", "open", "os.", "subprocess.", "socket.", "ctypes.")
_watch: list[str] = []
_watching = False


def _note(event: str, _arguments: object) -> None:
    if _watching and event.startswith(FORBIDDEN):
        _watch.append(event)


sys.addaudithook(_note)  # it can't be taken off again, so it looks only while it is asked to


def weigh(text: str) -> None:
    """Read a text in every way, and weigh what it says."""
    look = in_state(STATE)
    for parse in (parse_condition, parse_expression, parse_key_expression):
        parsed = parse(text)
        if isinstance(parsed, Flaw):
            assert 0 <= parsed.at <= min(len(text), MAX_CHARS)
            continue
        if parse is not parse_condition:
            written = write(parsed)  # quotes may make it longer than a text may be
            assert len(written) > MAX_CHARS or parse(written) == parsed
        holds(
            parsed,
            lambda leaf: (
                isinstance(leaf, Comparison)
                and compare(look(leaf.field), leaf.operator, leaf.value)
            ),
        )


def weigh_random_texts(count: int, seed: int) -> None:
    """Weigh random texts.

    Raises:
        AssertionError: one of them made something happen beside an answer.
    """
    global _watching  # noqa: PLW0603  the hook is one for the whole process
    source = random.Random(seed)
    _watch.clear()
    _watching = True
    try:
        for _ in range(count):
            weigh(random_text(source))
    finally:
        _watching = False
    assert _watch == []
