"""The eight positions of an entry, and their names in other programs.

Source: docs/rules/replica.md §5, §6.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Position(NamedTuple):
    """One position.

    Attributes:
        label: the label to display.
        weight: how much attention a model tends to pay to the place; only displayed.
    """

    label: str
    weight: str


POSITIONS: Final = (
    Position("角色定义之后", "高"),
    Position("角色定义之前", "中"),
    Position("示例对话之前", "低"),
    Position("示例对话之后", "低"),
    Position("系统提示/作者注释", "极高"),
    Position("作为系统消息", "最高"),
    Position("深度插入", "–"),
    Position("宏替换", "–"),
)
AFTER_CHARACTER, BEFORE_CHARACTER, BEFORE_EXAMPLES, AFTER_EXAMPLES = range(4)
NOTE, SYSTEM_MESSAGE, AT_DEPTH, OUTLET = range(4, 8)

BY_WORD: Final[Mapping[str, int]] = {
    "after_char": AFTER_CHARACTER,
    "before_char": BEFORE_CHARACTER,
    "before_example": BEFORE_EXAMPLES,
    "after_example": AFTER_EXAMPLES,
    "author_note": NOTE,
    "system_prompt": SYSTEM_MESSAGE,
    "at_depth": AT_DEPTH,
}
# By SillyTavern's number (docs/rules/sillytavern.md §12).
FROM_SILLYTAVERN: Final[Mapping[int, int]] = {
    0: BEFORE_CHARACTER,
    1: AFTER_CHARACTER,
    2: NOTE,
    3: NOTE,
    4: AT_DEPTH,
    5: BEFORE_EXAMPLES,
    6: AFTER_EXAMPLES,
    7: OUTLET,
}
