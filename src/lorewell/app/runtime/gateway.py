"""The gateway of a service: its upstream, its options, and what it remembers between turns."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lorewell.app.ports import Upstream
from lorewell.app.runtime.bound_prompts import BoundPrompt
from lorewell.app.runtime.unchanged import UnchangedCache
from lorewell.engine.tokens import TokenCounter
from lorewell.model.select import Strategy

_MAX_PROMPTS: Final = 500
_MAX_CHARS: Final = 16_000_000
_MAX_PROMPT_CHARS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SentPrompt:
    """The messages of a prompt as sent upstream, and their approximate length."""

    messages: tuple[Mapping[str, object], ...]
    chars: int


class SentPrompts:
    """The last prompt of each conversation, bounded in number and text; the oldest go first.

    Belongs to one process: with several, another one may have answered the previous turn.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._held: OrderedDict[tuple[str, str], SentPrompt] = OrderedDict()
        self._chars = 0

    def find(self, tenant_id: str, conversation_id: str) -> tuple[Mapping[str, object], ...] | None:
        """Return the messages of the previous turn."""
        found = self._held.get((tenant_id, conversation_id))
        return None if found is None else found.messages

    def keep(self, tenant_id: str, conversation_id: str, sent: SentPrompt) -> None:
        """Remember a prompt in place of the previous one, unless it is very long."""
        name = (tenant_id, conversation_id)
        before = self._held.pop(name, None)
        self._chars -= before.chars if before else 0
        if sent.chars > _MAX_PROMPT_CHARS:
            return
        self._held[name] = sent
        self._chars += sent.chars
        while len(self._held) > _MAX_PROMPTS or self._chars > _MAX_CHARS:
            self._chars -= self._held.popitem(last=False)[1].chars


class KnownCounts:
    """A `TokenCounter` that caches counts, since a chat sends most of its texts again each turn.

    Safe to use from several threads: a count lost to a race is computed again.
    """

    def __init__(self, counter: TokenCounter) -> None:
        """Cache the counts of this counter."""
        self.name = counter.name
        self._count = counter.count
        self._known: dict[str, int] = {}
        self._chars = 0

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        known = self._known.get(text)
        if known is not None:
            return known
        tokens = self._count(text)
        if len(text) <= _MAX_PROMPT_CHARS:
            if self._chars > _MAX_CHARS:
                self._known, self._chars = {}, 0
            self._known[text] = tokens
            self._chars += len(text)
        return tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The gateway to one upstream.

    Attributes:
        upstream: the server that requests are forwarded to.
        upstream_model: replaces `model` of every request; empty keeps the client's.
        tenant_id: the tenant of callers whose API key does not name one; empty for none.
        strategy, token_budget: of selections; the budget applies under every policy.
        context_window: of the upstream's model in tokens; None if unknown.
        reserved_output: tokens kept free for an answer that the request does not limit.
        stable_prefix: put long-lasting lore first, and report the prefix shared with the last turn.
        merge_adjacent: merge adjacent messages of one role.
        pass_authorization: without API keys, pass the client's `Authorization` to the upstream.
        counter: counts the tokens of prompts.
        sent: the last prompts.
        bound: the books of prompts.
    """

    upstream: Upstream
    upstream_model: str
    tenant_id: str
    strategy: Strategy
    token_budget: int
    context_window: int | None
    reserved_output: int
    stable_prefix: bool
    merge_adjacent: bool
    pass_authorization: bool
    counter: TokenCounter
    sent: SentPrompts = field(default_factory=SentPrompts)
    bound: UnchangedCache[BoundPrompt | None] = field(default_factory=UnchangedCache)
