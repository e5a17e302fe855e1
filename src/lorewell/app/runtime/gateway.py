"""The gateway of a service: its upstream, its options, and what it remembers between turns."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lorewell.app.ports import Upstream
from lorewell.app.runtime.bound_prompts import BoundPromptCache
from lorewell.engine.tokens import TokenCounter
from lorewell.model.select import Strategy

_MOST_PROMPTS: Final = 500
_MOST_CHARS: Final = 16_000_000
_MOST_CHARS_OF_ONE: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SentPrompt:
    """The messages of a prompt as they went to the upstream, and how long they are."""

    messages: tuple[Mapping[str, object], ...]
    chars: int


class SentPrompts:
    """The last prompt of each conversation, so many of them and so much text; the oldest go first.

    Belongs to one process: where several answer, the turn before may have been another one's.
    """

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._held: OrderedDict[tuple[str, str], SentPrompt] = OrderedDict()
        self._chars = 0

    def find(self, tenant_id: str, conversation_id: str) -> tuple[Mapping[str, object], ...] | None:
        """Return the messages of the turn before."""
        found = self._held.get((tenant_id, conversation_id))
        return None if found is None else found.messages

    def keep(self, tenant_id: str, conversation_id: str, sent: SentPrompt) -> None:
        """Hold a prompt in place of the one before; one that is very long is not held."""
        name = (tenant_id, conversation_id)
        before = self._held.pop(name, None)
        self._chars -= before.chars if before else 0
        if sent.chars > _MOST_CHARS_OF_ONE:
            return
        self._held[name] = sent
        self._chars += sent.chars
        while len(self._held) > _MOST_PROMPTS or self._chars > _MOST_CHARS:
            self._chars -= self._held.popitem(last=False)[1].chars


class KnownCounts:
    """A `TokenCounter` that remembers: a chat sends most of its texts again, turn by turn.

    It may be used by several threads at once: what one of them forgets, another one counts again.
    """

    def __init__(self, counter: TokenCounter) -> None:
        """Count with this counter."""
        self.name = counter.name
        self._count = counter.count
        self._known: dict[str, int] = {}
        self._chars = 0

    def count(self, text: str) -> int:
        """Return the tokens of a text."""
        known = self._known.get(text)
        if known is not None:
            return known
        tokens = self._count(text)
        if len(text) <= _MOST_CHARS_OF_ONE:
            if self._chars > _MOST_CHARS:
                self._known, self._chars = {}, 0
            self._known[text] = tokens
            self._chars += len(text)
        return tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A gateway to one upstream.

    Attributes:
        upstream: where requests are forwarded to.
        upstream_model: what `model` of every request becomes; empty leaves it as it is.
        tenant_id: whose books are used where the API key does not say; empty for none.
        strategy, token_budget: of selections; the budget is that of every policy.
        context_window: of the upstream's model in tokens, None if it is not known.
        reserved_output: tokens kept free for an answer whose length the request does not limit.
        stable_prefix: lasting lore stands first, and the likeness to the turn before is told.
        merge_adjacent: neighbouring messages of one role go out as one.
        pass_authorization: without API keys, the client's `Authorization` is the upstream's.
        counter: counts tokens of prompts.
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
    bound: BoundPromptCache = field(default_factory=BoundPromptCache)
