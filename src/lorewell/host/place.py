"""Inserts blocks into the places of a draft (docs/rules/host.md §7)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from lorewell.errors import Fault, PlacementFailedError, ValidationFailedError
from lorewell.host.blocks import HostBlock
from lorewell.host.draft import (
    TOOL_ROLES,
    Anchors,
    Part,
    PromptMessage,
    ProviderMessage,
    role_of,
    slots,
    text_of,
)
from lorewell.model import POSITIONS
from lorewell.model.assemble import DraftMessage
from lorewell.model.scene import SceneNote
from lorewell.model.text import is_blank

_AT_CHARACTER = frozenset({"before_character", "after_character"})
_STEADINESS = {"constant": 0, "sticky": 1, None: 2}

_Piece = tuple[str, Part | None]
_LINE_BREAK: _Piece = ("\n", None)


@dataclass(frozen=True, slots=True)
class Placed:
    """A draft with its blocks inserted.

    Attributes:
        messages: of the prompt, in order.
        left_out: blocks whose place is missing, with `if_missing` set to `leave_out`.
    """

    messages: tuple[PromptMessage, ...]
    left_out: tuple[HostBlock, ...]


def place(
    draft: Sequence[DraftMessage], blocks: Iterable[HostBlock], *, stable_prefix: bool = False
) -> Placed:
    """Return the messages of the draft with the blocks in their places, not yet merged.

    Places refer to the given draft, so no block shifts the place of another. Blocks in one gap are
    sorted by position, then depth (deepest first), order and id.

    Args:
        draft: the messages, in order. They are not changed.
        blocks: in any order.
        stable_prefix: whether to sort the blocks before and after the character so that the prompt
            starts alike each turn: constant ones first, then sticky ones, and all others after
            the character.

    Raises:
        PlacementFailedError: the draft lacks the place of a block.
    """
    anchors = Anchors.of(draft)
    places = _Places(draft, anchors, frozenset(anchors.outlets), _gaps(draft))
    for block in _in_order(blocks, stable_prefix=stable_prefix):
        places.add(block)
    return Placed(tuple(places.messages()), tuple(places.left_out))


def insert_note(draft: Sequence[DraftMessage], note: SceneNote) -> tuple[DraftMessage, ...]:
    """Return the draft with the author's note of a scene in its place.

    Raises:
        ValidationFailedError: the draft has an author's note already; the fault is at `/note`.
    """
    if any(item.kind == "author_note" for item in draft):
        raise ValidationFailedError.at(Fault("/note", "is also given by a message"))
    anchors = Anchors.of(draft)
    match note.position:
        case "before_prompt":
            gap = 0
        case "after_prompt":
            gap = anchors.opening_end
        case "in_chat":
            gap = anchors.at_depth(note.depth)
        case never:
            assert_never(never)
    gap = _gaps(draft)[gap]
    message = DraftMessage.model_construct(
        kind="author_note", message={"role": note.role, "content": note.text}
    )
    return (*draft[:gap], message, *draft[gap:])


def _gaps(draft: Sequence[DraftMessage]) -> list[int]:
    """Return, for each gap, the next gap that may be filled.

    Providers reject a tool call whose result does not follow directly.
    """
    gaps = list(range(len(draft) + 1))
    for index in reversed(range(len(draft))):
        if role_of(draft[index].message) in TOOL_ROLES:
            gaps[index] = gaps[index + 1]
    return gaps


def _in_order(blocks: Iterable[HostBlock], *, stable_prefix: bool) -> list[HostBlock]:
    keyed = []
    for block in blocks:
        steadiness, moved = 0, block
        if stable_prefix and block.position in _AT_CHARACTER:
            steadiness = _STEADINESS[block.lasting]
            if block.lasting is None:  # before the character it would shift the rest
                moved = replace(block, position="after_character")
        requested = POSITIONS.index(block.position)
        order = (requested, -block.depth, block.order, block.ids)
        keyed.append(((POSITIONS.index(moved.position), steadiness, *order), moved))
    return [block for _, block in sorted(keyed, key=lambda each: each[0])]


@dataclass(frozen=True, slots=True)
class _Places:
    """The places of a draft, and the blocks collected for them."""

    draft: Sequence[DraftMessage]
    anchors: Anchors
    has_outlets: frozenset[str]
    next_gap: Sequence[int]
    gaps: dict[int, list[HostBlock]] = field(default_factory=lambda: defaultdict(list))
    note_top: list[HostBlock] = field(default_factory=list)
    note_bottom: list[HostBlock] = field(default_factory=list)
    outlets: dict[str, list[HostBlock]] = field(default_factory=lambda: defaultdict(list))
    left_out: list[HostBlock] = field(default_factory=list)

    def add(self, block: HostBlock) -> None:
        """Add a block to its place, after the blocks already there."""
        anchors = self.anchors
        match block.position:
            case "before_character":
                self._insert(block, anchors.before_character)
            case "after_character":
                self._insert(block, anchors.after_character)
            case "before_examples" if anchors.examples:
                self._insert(block, anchors.examples[0])
            case "after_examples" if anchors.examples:
                self._insert(block, anchors.examples[1] + 1)
            case "author_note_top" if anchors.note is not None:
                self.note_top.append(block)
            case "author_note_bottom" if anchors.note is not None:
                self.note_bottom.append(block)
            case "at_depth":
                self._insert(block, anchors.at_depth(block.depth))
            case "outlet" if block.outlet_name in self.has_outlets:
                self.outlets[block.outlet_name].append(block)
            case _:
                self._handle_missing(block)

    def _handle_missing(self, block: HostBlock) -> None:
        match block.if_missing:
            case "after_character":
                self._insert(block, self.anchors.after_character)
            case "leave_out":
                self.left_out.append(block)
            case _:
                where = f"{block.position} {block.outlet_name or ''}".rstrip()
                message = f"The prompt has no place {where!r} for {', '.join(block.ids)}."
                raise PlacementFailedError(
                    message,
                    ids=list(block.ids),
                    position=block.position,
                    outlet_name=block.outlet_name,
                )

    def _insert(self, block: HostBlock, gap: int) -> None:
        self.gaps[self.next_gap[gap]].append(block)

    def messages(self) -> Iterator[PromptMessage]:
        """Yield the messages of the prompt, in order."""
        for index, item in enumerate(self.draft):
            yield from map(_block_message, self.gaps.get(index, ()))
            filled = self._filled(index, item)
            if filled is not None:
                yield filled
        yield from map(_block_message, self.gaps.get(len(self.draft), ()))

    def _filled(self, index: int, item: DraftMessage) -> PromptMessage | None:
        """Return a message with its outlets or note filled; None if it ends up blank."""
        if item.kind == "author_note":
            return self._filled_note(index, item)
        own = Part(kind=item.kind, draft_index=index)
        text = text_of(item.message)
        markers = list(slots(item))
        if text is None or not markers:
            return _single_part(item.message, own)
        pieces: list[_Piece] = []
        end = 0
        for name, span in markers:
            pieces.append((text[end : span[0]], own))
            pieces += _joined_by_line(
                self.outlets.pop(name, ())
            )  # so only the first marker of a name is filled
            end = span[1]
        return _composed(item.message, [*pieces, (text[end:], own)])

    def _filled_note(self, index: int, item: DraftMessage) -> PromptMessage | None:
        own = Part(kind=item.kind, draft_index=index)
        text = text_of(item.message)
        is_empty = not (self.note_top or self.note_bottom)
        if text is None or index != self.anchors.note or is_empty:
            return None if text is not None and is_blank(text) else _single_part(item.message, own)
        pieces: list[_Piece] = []
        note: list[_Piece] = [] if is_blank(text) else [(text, own)]
        for group in (_joined_by_line(self.note_top), note, _joined_by_line(self.note_bottom)):
            if group:
                pieces += [_LINE_BREAK, *group] if pieces else group
        return _composed(item.message, pieces)


def _joined_by_line(blocks: Iterable[HostBlock]) -> list[_Piece]:
    pieces: list[_Piece] = []
    for block in blocks:
        pieces += [_LINE_BREAK] if pieces else []
        pieces.append((block.text, Part(kind="worldbook", block=block)))
    return pieces


def _block_message(block: HostBlock) -> PromptMessage:
    message = {"role": block.role, "content": block.text}
    return _single_part(message, Part(kind="worldbook", block=block))


def _single_part(message: ProviderMessage, part: Part) -> PromptMessage:
    text = text_of(message)
    span = None if text is None else (0, len(text))
    return PromptMessage(message=message, parts=(replace(part, span=span),))


def _composed(message: ProviderMessage, pieces: Sequence[_Piece]) -> PromptMessage | None:
    """Return the message with the pieces as its content; None if that is blank."""
    parts, length = [], 0
    for text, part in pieces:
        span = (length, length + len(text))
        if part is not None and (text or part.block is not None):
            parts.append(replace(part, span=span))
        length += len(text)
    content = "".join(text for text, _ in pieces)
    if is_blank(content) and not any(part.block for part in parts):
        return None
    return PromptMessage(message={**message, "content": content}, parts=tuple(parts))
