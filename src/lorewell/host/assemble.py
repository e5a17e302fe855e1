"""Assembles the messages of a prompt from a draft and selected lore."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from lorewell.engine.steps import Steps
from lorewell.engine.tokens import CountedCounter, TokenCounter
from lorewell.host.blocks import HostBlock, from_selection
from lorewell.host.buckets import from_activation
from lorewell.host.budget import check_budget, measure, shared_prefix
from lorewell.host.draft import Part, PromptMessage, role_of
from lorewell.host.merge import merge
from lorewell.host.place import insert_note, place
from lorewell.model.assemble import AssembleOptions, AssembleRequest, DraftMessage
from lorewell.model.assembled import AssembleResponse, MessageOrigin, Placement, PromptPart

_STEPS_PER_PART: Final = 20


def assemble(
    draft: Sequence[DraftMessage],
    blocks: Iterable[HostBlock],
    options: AssembleOptions,
    *,
    counter: TokenCounter,
    steps: Steps | None = None,
) -> AssembleResponse:
    """Return the prompt: blocks placed, adjacent messages merged, tokens checked.

    Args:
        draft: the messages, in order.
        blocks: from `from_selection`, `from_activation` or `from_replica`, in any order.
        options: how to place and merge, and the token budget.
        counter: counts tokens as the model does that reads the prompt.
        steps: the computing budget; `Steps()` by default.

    Raises:
        PlacementFailedError: the draft lacks the place of a block.
        ContextOverflowError: the prompt needs more tokens than the context window has.
        TooExpensiveError: assembling needs more than `steps`.

    Source: docs/rules/host.md §7 to §9.
    """
    steps = steps or Steps()
    counter = CountedCounter(counter, steps)
    listed = list(blocks)
    steps.spend("output", _STEPS_PER_PART * (len(draft) + len(listed)))
    placed = place(draft, listed, stable_prefix=options.stable_prefix)
    messages = merge(placed.messages) if options.merge_adjacent else placed.messages
    figures = measure(messages, draft, options.budget, counter=counter)
    check_budget(figures)
    sent = tuple(message.message for message in messages)
    prefix = None
    if options.previous is not None:
        prefix = shared_prefix(sent, options.previous, options.budget, counter=counter)
    return AssembleResponse(
        messages=sent,
        origins=tuple(map(_origin, messages)),
        placements=(
            *(
                placement
                for index, message in enumerate(messages)
                for part in message.parts
                if part.block is not None
                for placement in _placements(part.block, role_of(message.message), index)
            ),
            *(
                placement
                for block in placed.left_out
                for placement in _placements(block, block.role, None)
            ),
        ),
        figures=figures,
        prefix=prefix,
    )


def assemble_request(
    request: AssembleRequest, *, counter: TokenCounter, steps: Steps | None = None
) -> AssembleResponse:
    """Return the prompt of a request; raises as `assemble`."""
    steps = steps or Steps()
    scene, draft = request.scene, request.draft
    if scene is not None and scene.note is not None:
        draft = insert_note(draft, scene.note)
    if scene is not None and scene.enabled is False:
        blocks: tuple[HostBlock, ...] = ()
    elif request.sillytavern is None:
        blocks = from_selection(request.blocks, steps=steps)
    else:
        blocks = from_activation(request.sillytavern, split_lasting=request.stable_prefix)
    return assemble(draft, blocks, request, counter=counter, steps=steps)


def _origin(message: PromptMessage) -> MessageOrigin:
    parts = tuple(map(_part, message.parts))
    return MessageOrigin(history_count=message.history_count, parts=parts)


def _part(part: Part) -> PromptPart:
    ids = () if part.block is None else part.block.ids
    return PromptPart(kind=part.kind, draft_index=part.draft_index, ids=ids, span=part.span)


def _placements(block: HostBlock, role: str, index: int | None) -> list[Placement]:
    return [
        Placement(
            id=source.id,
            position=block.position,
            depth=block.depth,
            role=role,
            reason=source.reason,
            message_index=index,
        )
        for source in block.sources
    ]
