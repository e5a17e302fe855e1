"""Host blocks from an answer of the policy `replica`: its eight positions.

Source: docs/rules/replica.md §5, §7.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from lorewell.host.blocks import HostBlock, IfMissing, Source
from lorewell.model import Position
from lorewell.model.entry import Role
from lorewell.model.replica import ReplicaActive

_NOTE, _SYSTEM_MESSAGE, _AT_DEPTH, _OUTLET = 4, 5, 6, 7
_PLACES: Final[Mapping[int, Position]] = {
    0: "after_character",
    1: "before_character",
    2: "before_examples",
    3: "after_examples",
    _NOTE: "at_depth",
    _SYSTEM_MESSAGE: "before_character",
    _AT_DEPTH: "at_depth",
    _OUTLET: "outlet",
}
_MISSING: Final[Mapping[int, IfMissing]] = {
    2: "after_character",
    3: "after_character",
    _OUTLET: "leave_out",
}
_ROLES: Final[tuple[Role, ...]] = ("system", "user", "assistant")
_MAX_DEPTH: Final = 10_000
# SillyTavern_replica does not count the current input, which is the last message here.
_INPUT: Final = 1


def from_replica(entries: Iterable[ReplicaActive]) -> tuple[HostBlock, ...]:
    """Return active entries as blocks, plain, for a draft that ends with the current input.

    A system-message entry comes first of all at the character. A note comes directly before the
    input, after the entries inserted there by depth. A macro entry fills the outlet named like its
    uid, and is left out if there is none.

    Args:
        entries: in the order of the answer.
    """
    listed = list(entries)
    blocks = []
    for number, entry in enumerate(listed):
        position = entry.position
        order = number
        if position == _SYSTEM_MESSAGE:
            order -= len(listed)
        elif position == _NOTE:
            order += len(listed)
        is_deep = position == _AT_DEPTH
        blocks.append(
            HostBlock(
                sources=(Source(f"{entry.book_id}:{entry.uid}", entry.trigger_type),),
                text=entry.content,
                position=_PLACES[position],
                depth=min((entry.depth if is_deep else 0) + _INPUT, _MAX_DEPTH),
                role=_ROLES[entry.role] if is_deep else "system",
                order=order,
                outlet_name=entry.uid if position == _OUTLET else None,
                lasting="constant" if entry.trigger_type == "constant" else None,
                if_missing=_MISSING.get(position, "fail"),
            )
        )
    return tuple(blocks)
