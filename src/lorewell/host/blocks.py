"""`HostBlock`: the selected lore of any policy, ready to be placed in a prompt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, assert_never

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
    """The id of an entry, and the reason why it was selected."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostBlock:
    """A text with the place where it goes in a prompt.

    Attributes:
        sources: the entries that the text comes from.
        text: as inserted into the message, wrapped or plain.
        role: of the message, if the block becomes a message of its own.
        order: ascending among blocks of one position and depth; ties are broken by ids.
        lasting: constant, or sticky for some turns; None if it may be gone in the next turn.
        if_missing: what to do if the prompt lacks the place.
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
        """The ids of the entries that the text comes from."""
        return tuple(source.id for source in self.sources)


def from_selection(
    blocks: Iterable[Block | SelectedBlock], *, steps: Steps | None = None
) -> tuple[HostBlock, ...]:
    """Return the blocks of a native selection, each wrapped and escaped, in the same order.

    Args:
        blocks: of the selection.
        steps: the computing budget; `Steps()` by default.

    Raises:
        TooExpensiveError: the escaped texts get too long.

    Source: docs/rules/host.md §7.
    """
    steps = steps or Steps()
    host_blocks = []
    for block in blocks:
        if block.wrapper != "plain":
            steps.write("escaping", escaping_chars(block.content))
        host_blocks.append(
            HostBlock(
                sources=(Source(block.id, block.reason),),
                text=_wrapped(block),
                position=block.position,
                depth=block.depth,
                role=block.role,
                order=block.order,
                outlet_name=block.outlet_name,
                lasting="constant" if block.reason in _ALWAYS_IN else None,
            )
        )
    return tuple(host_blocks)


def _wrapped(block: Block | SelectedBlock) -> str:
    """Return the text of a block in its wrapper."""
    match block.wrapper:
        case "full":
            name = block.id
        case "short":
            name = block.id.split(":", 2)[-1]  # of book, revision and entry
        case "plain":
            return block.content
        case never:
            assert_never(never)
    return wrap_inline(opening_tag(name, block.title), block.content)
