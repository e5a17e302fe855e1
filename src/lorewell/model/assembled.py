"""Assembled prompts: messages ready to send, and the origin of every part.

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
    """A part of a message, from the draft or from lore.

    Attributes:
        kind: the part's kind; `worldbook` for lore.
        draft_index: index of its message in the draft; null for lore.
        ids: ids of the entries that it holds; empty unless it is lore.
        span: its place in the content, half-open, in code points; null if the content is not a
            text.
    """

    kind: PartKind
    draft_index: int | None
    ids: tuple[str, ...]
    span: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageOrigin:
    """The origin of a message.

    Attributes:
        history_count: number of chat messages that it holds.
        parts: its parts, in order.
    """

    history_count: int
    parts: tuple[PromptPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The place of an entry in the prompt.

    Attributes:
        id: id of the entry.
        position: where it was placed; `stable_prefix` may change the requested position.
        depth: the entry's depth.
        role: role of the message that holds it.
        reason: why the entry was selected.
        message_index: index of that message after merging; null if the entry was left out.
    """

    id: str
    position: Position
    depth: int
    role: str
    reason: str
    message_index: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFigures:
    """The token counts of a prompt.

    Attributes:
        needed_tokens: sum of messages, overhead, tools and reserved output.
        window_tokens: the model's context window; null if it was not given.
        message_tokens: tokens of the texts of all messages.
        overhead_tokens: overhead of all messages.
        tool_tokens: tokens of the tool definitions.
        reserved_tokens: tokens reserved for the reply.
        worldbook_tokens: share of the lore in `message_tokens`.
        history_tokens: share of chat messages in `message_tokens`.
        tokenizer: the tokenizer that counted.
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
    """The beginning that a prompt shares with that of the previous turn.

    Attributes:
        message_count: number of equal messages.
        token_count: tokens up to the first difference, overhead included; a lower bound.
        prompt_tokens: tokens of the whole prompt, overhead included.
    """

    message_count: int
    token_count: int
    prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembleResponse:
    """An assembled prompt.

    Attributes:
        messages: ready to send; draft messages that were not changed keep all their members.
        origins: one for each message.
        placements: one for each entry, in the order of the prompt; entries that were left out come
            last.
        figures: the token counts.
        prefix: the beginning shared with the previous turn; null unless `previous` was given.
    """

    messages: tuple[Mapping[str, Any], ...]
    origins: tuple[MessageOrigin, ...]
    placements: tuple[Placement, ...]
    figures: PromptFigures
    prefix: SharedPrefix | None

    def to_json(self) -> bytes:
        """Return the response as compact JSON in UTF-8."""
        # Messages may hold integers of any size, which orjson refuses.
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
