"""One logical turn: its lore is asked for once, whatever happens after (docs/rules/host.md §4)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from lorewell.engine.tokens import TokenCounter, counter as default_counter
from lorewell.errors import (
    ContextOverflowError,
    LorewellError,
    UpstreamInvalidError,
    UpstreamUnavailableError,
)
from lorewell.host import assemble, capabilities
from lorewell.model.assemble import AssembleOptions, PromptBudget
from lorewell.model.assembled import AssembleResponse
from lorewell.model.parse import parse_model
from lorewell.model.worldbook import WorldbookConfig
from lorewell.turn.asking import Asking, TurnLore
from lorewell.turn.conversations import MemoryConversations
from lorewell.turn.errors import Stage, TurnError
from lorewell.turn.inputs import TurnInput
from lorewell.turn.ports import Conversations, LoreSource
from lorewell.turn.trace import TurnTrace

Reply = TypeVar("Reply")

log = logging.getLogger("lorewell.turn")

_DISABLED = TurnLore(skipped="disabled")
_MAY_RETRY = (UpstreamUnavailableError, UpstreamInvalidError)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTurn:
    """What the model is asked.

    Attributes:
        messages: ready for the provider.
        tools: definitions of tools, as they were given.
        prompt: how the messages were put together; None without the block `worldbook`.
        lore: what the books gave.
        trace: what `on_trace` was told.
    """

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...]
    prompt: AssembleResponse | None
    lore: TurnLore
    trace: TurnTrace


class TurnHost:
    """Prepares turns: knows where the books are, and how they are used.

    >>> from lorewell.turn import FileLore, TurnHost, TurnInput
    >>> from lorewell.host import DraftMessage
    >>> from lorewell.model.worldbook import WorldbookConfig
    >>> from lorewell import BookCreate, Entry, compile_book
    >>> bell = Entry(id="bell", content="钟归沈七管。", keys=["钟"], position="at_depth")
    >>> lore = FileLore([compile_book(BookCreate(name="渡口", entries=[bell]))])
    >>> host = TurnHost(WorldbookConfig(tenant_id="demo", strategy="rules"), lore)
    >>> said = [DraftMessage(kind="input", message={"role": "user", "content": "我敲钟。"})]
    >>> ids = {"request_id": "r1", "user_id": "u1", "conversation_id": "c1", "prompt_id": "p1"}
    >>> prepared = asyncio.run(host.begin(TurnInput(draft=said, **ids)).prepare())
    >>> [message["role"] for message in prepared.messages], prepared.prompt.placements[0].reason
    (['user', 'system'], 'keyword')
    """

    def __init__(
        self,
        config: WorldbookConfig | None,
        lore: LoreSource | None = None,
        *,
        conversations: Conversations | None = None,
        on_trace: Callable[[TurnTrace], object] | None = None,
        counter: TokenCounter | None = None,
    ) -> None:
        """Prepare turns.

        Args:
            config: of `read_config`; with None no books are asked, and drafts go out as they are.
            lore: where the books are.
            conversations: where conversations are kept; in memory if not given.
            on_trace: told of every preparation. What it raises is logged and ignored.
            counter: of the model that replies; `cl100k_base` if not given.

        Raises:
            ValueError: there is a configuration, and no `lore`.
        """
        if config is not None and lore is None:
            message = "books are configured, and there is nowhere to ask them"
            raise ValueError(message)
        self.config = config
        self.lore = lore
        self.conversations = MemoryConversations() if conversations is None else conversations
        self.counter = default_counter() if counter is None else counter
        self._on_trace = on_trace

    def begin(self, given: TurnInput) -> Turn:
        """Return a turn, of which nothing is asked yet."""
        return Turn(self, given)

    def tell(self, trace: TurnTrace) -> None:
        """Tell of a preparation."""
        if self._on_trace is None:
            return
        try:
            self._on_trace(trace)
        except Exception:
            log.exception("on_trace failed for the turn %s", trace.given.request_id)


class Turn:
    """One logical turn. Its cache lives in memory and ends with it.

    Usable as `async with`, which ends what is still being asked.
    """

    def __init__(self, host: TurnHost, given: TurnInput) -> None:
        self.given = given
        self._host = host
        self._asking: Asking | None = None
        if host.config is not None and host.lore is not None:
            self._asking = Asking(
                lore=host.lore,
                conversations=host.conversations,
                config=host.config,
                given=given,
            )
        self._promise: asyncio.Task[TurnLore] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End what is still being asked, and forget what was answered."""
        promise, self._promise = self._promise, None
        if promise is not None and not promise.done():
            promise.cancel()
            await asyncio.wait([promise])

    async def prepare(self, *, reply_id: str | None = None) -> PreparedTurn:
        """Return what the model is asked. Every call but the first one uses the same lore again.

        Callers at the same time share one set of calls. After a failure the next call asks again,
        but for what had succeeded: so the turn's revisions stay the same.

        Args:
            reply_id: for the trace.

        Raises:
            TurnError: the turn can't go on; `code` and `stage` say why.
        """
        lore, prompt, failed, reused = None, None, None, self._is_under_way()
        try:
            lore = await self._ask()
            prompt = None if self._host.config is None else await self._assemble(lore)
        except TurnError as error:
            failed = error
        trace = TurnTrace(
            given=self.given,
            config=self._host.config,
            reply_id=reply_id,
            capabilities=capabilities(self.given.draft),
            lore=lore,
            prompt=prompt,
            error=failed,
            reused=reused,
        )
        self._host.tell(trace)
        if failed is not None or lore is None:
            raise failed or AssertionError
        messages = tuple(item.message for item in self.given.draft)
        return PreparedTurn(
            messages=messages if prompt is None else prompt.messages,
            tools=tuple(self.given.tools),
            prompt=prompt,
            lore=lore,
            trace=trace,
        )

    async def run(
        self,
        actor: Callable[[PreparedTurn], Awaitable[Reply]],
        *,
        attempts: int = 3,
        accept: Callable[[Reply], bool] = bool,
        retry_on: tuple[type[Exception], ...] = _MAY_RETRY,
        reply_id: str | None = None,
    ) -> Reply:
        """Return the model's reply, asked as often as it takes with the same lore.

        Args:
            actor: asks the model.
            attempts: how often at most.
            accept: whether a reply will do; by default every one that is not empty.
            retry_on: what `actor` may raise and be asked again.
            reply_id: for the trace.

        Raises:
            TurnError: the turn can't go on; the model was not asked.
            UpstreamInvalidError: no reply was accepted.
            Exception: what `actor` raised at last.
        """
        for attempt in range(1, attempts + 1):
            prepared = await self.prepare(reply_id=reply_id)
            try:
                reply = await actor(prepared)
            except retry_on:
                if attempt == attempts:
                    raise
            else:
                if accept(reply):
                    return reply
        raise UpstreamInvalidError(f"None of {attempts} replies could be used.")

    def _is_under_way(self) -> bool:
        """Return whether the books were asked, and did not fail."""
        promise = self._promise
        if promise is None:
            return False
        return not promise.done() or (not promise.cancelled() and promise.exception() is None)

    async def _ask(self) -> TurnLore:
        if self._asking is None:
            return _DISABLED
        promise = self._promise if self._is_under_way() else None
        if promise is None:
            promise = self._promise = asyncio.create_task(self._asking.ask())
            promise.add_done_callback(_look)
        # One caller that goes away takes nothing from the others.
        return await asyncio.shield(promise)

    async def _assemble(self, lore: TurnLore) -> AssembleResponse:
        config = self._host.config
        if config is None:
            raise AssertionError
        stage: Stage = "place"
        try:
            options = _options(config, self.given.tools)
            return await asyncio.to_thread(
                assemble, self.given.draft, lore.blocks, options, counter=self._host.counter
            )
        except LorewellError as error:
            if isinstance(error, ContextOverflowError):
                stage = "budget"
            raise TurnError(stage, error, turn_id=self.given.request_id) from error


def _options(config: WorldbookConfig, tools: Sequence[Mapping[str, Any]]) -> AssembleOptions:
    budget = parse_model(
        PromptBudget,
        {
            "context_window": config.context_window,
            "reserved_output": config.reserved_output,
            "message_overhead": config.message_overhead,
            "tools": tuple(map(dict, tools)),
        },
    )
    return AssembleOptions(
        merge_adjacent=config.merge_adjacent, stable_prefix=config.stable_prefix, budget=budget
    )


def _look(promise: asyncio.Task[TurnLore]) -> None:
    """Take note of how it ended, though nobody may be waiting any more."""
    if not promise.cancelled():
        promise.exception()
