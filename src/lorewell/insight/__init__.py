"""Analysis beyond a selection: lint a book, replay, compare and plan a chat."""

from lorewell.insight.chats import NativeSide, ReplicaSide, SillyTavernSide, turns_after
from lorewell.insight.compare import compare_sides
from lorewell.insight.lint import diagnostics, lint
from lorewell.insight.plan import plan_side
from lorewell.insight.stories import replay_side
from lorewell.model.chat_replay import SpokenLine

__all__ = [
    "NativeSide",
    "ReplicaSide",
    "SillyTavernSide",
    "SpokenLine",
    "compare_sides",
    "diagnostics",
    "lint",
    "plan_side",
    "replay_side",
    "turns_after",
]
