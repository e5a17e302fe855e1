"""What an assembled prompt is: messages ready to send, and where every part of them came from.

Slotted dataclasses and named tuples, as in `model/decision.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from lorewell.model.assemble import DraftKind
from lorewell.model.entry import Position

PartKind = DraftKind | Literal["worldbook"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPart:
    """A part of a message: of the draft, or of the lore.

    Attributes:
        draft_index: the message of the draft that it is from; None for lore.
        ids: the entries whose text it is; empty for what is no lore.
        span: where it stands in the content, half-open, in code points; None where the content is
            no text.
    """

    kind: PartKind
    draft_index: int | None
    ids: tuple[str, ...]
    span: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageOrigin:
    """Where a message came from; `history_count` real chat messages are in it."""

    history_count: int
    parts: tuple[PromptPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where an entry went.

    Attributes:
        position: where it stands; with a stable prefix this may be another one than was asked for.
        role: of the message it stands in.
        message_index: of that message, after merging; None if it was left out.
    """

    id: str
    position: Position
    depth: int
    role: str
    reason: str
    message_index: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFigures:
    """How much room the whole prompt takes, in tokens.

    Attributes:
        needed_tokens: messages, overhead, tools and reserved output together.
        window_tokens: what may be needed at most; None if it is not known.
        worldbook_tokens: of the lore alone, a part of `message_tokens`.
        history_tokens: of real chat messages alone, a part of `message_tokens`.
    """

    needed_tokens: int
    window_tokens: int | None
    message_tokens: int
    overhead_tokens: int
    tool_tokens: int
    reserved_tokens: int
    worldbook_tokens: int
    history_tokens: int
    tokenizer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPrefix:
    """How much of the beginning of a prompt is that of the turn before.

    Attributes:
        message_count: messages that are the same.
        token_count: tokens up to the first difference, overhead included; rather too few than too
            many.
        prompt_tokens: of the whole prompt, overhead included.
    """

    message_count: int
    token_count: int
    prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembleResponse:
    """An assembled prompt.

    Attributes:
        messages: ready for the provider; those of the draft that nothing was done to are as they
            were given, member by member.
        origins: one for each message.
        placements: one for each entry, in the order of the prompt; what was left out comes last.
        prefix: None if no messages of the turn before were given.
    """

    messages: tuple[Mapping[str, Any], ...]
    origins: tuple[MessageOrigin, ...]
    placements: tuple[Placement, ...]
    figures: PromptFigures
    prefix: SharedPrefix | None

    def to_json(self) -> bytes:
        """Return the response as compact JSON in UTF-8."""
        # Messages are the caller's own: Python's encoder takes integers of any size.
        messages = json.dumps(self.messages, ensure_ascii=False, separators=(",", ":"))
        return orjson.dumps(
            {
                "messages": orjson.Fragment(messages.encode()),
                "origins": self.origins,
                "placements": self.placements,
                "figures": self.figures,
                "prefix": self.prefix,
            }
        )
