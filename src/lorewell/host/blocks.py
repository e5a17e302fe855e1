"""Lore of any policy as one kind of value: a text that is ready for its place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from lorewell.engine.render import escaping_chars, opening_tag, wrap_inline
from lorewell.engine.steps import Steps
from lorewell.model import Block, Position
from lorewell.model.assemble import SelectedBlock
from lorewell.model.entry import Role

Lasting = Literal["constant", "sticky"]
IfMissing = Literal["fail", "leave_out", "after_character"]

_ALWAYS_IN = frozenset({"constant", "required"})


@dataclass(frozen=True, slots=True)
class Source:
    """An entry whose text it is, and why that was selected."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostBlock:
    """A text ready for its place.

    Attributes:
        sources: the entries that it is made of.
        text: as it stands in the message, wrapped or not.
        role: of the message, where it gets one of its own.
        order: lower stands first, among those of one position and depth; then ids decide.
        lasting: constant, or sticky for some turns; None if it may be gone the next turn.
        if_missing: what happens where the prompt has no such place.
    """

    sources: tuple[Source, ...]
    text: str
    position: Position
    depth: int = 0
    role: Role = "system"
    order: int = 0
    outlet_name: str | None = None
    lasting: Lasting | None = None
    if_missing: IfMissing = "fail"

    @property
    def ids(self) -> tuple[str, ...]:
        """The entries that it is made of."""
        return tuple(source.id for source in self.sources)


def from_selection(
    blocks: Iterable[Block | SelectedBlock], *, steps: Steps | None = None
) -> tuple[HostBlock, ...]:
    """Return the blocks of a native selection, each wrapped and escaped, in their order.

    Args:
        blocks: of the selection.
        steps: what it may cost; `Steps()` if not given.

    Raises:
        TooExpensiveError: the texts get too long when they are escaped.

    Source: docs/rules/host.md §7.
    """
    steps = steps or Steps()
    made = []
    for block in blocks:
        steps.write("escaping", escaping_chars(block.content))
        made.append(
            HostBlock(
                sources=(Source(block.id, block.reason),),
                text=wrap_inline(opening_tag(block.id, block.title), block.content),
                position=block.position,
                depth=block.depth,
                role=block.role,
                order=block.order,
                outlet_name=block.outlet_name,
                lasting="constant" if block.reason in _ALWAYS_IN else None,
            )
        )
    return tuple(made)
