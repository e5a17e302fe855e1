"""One logical turn: its lore is selected once, even with retries (docs/rules/host.md §4)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from lorewell.engine.tokens import (
    BUNDLED,
    TokenCounter,
    counter as default_counter,
    shipped_counter,
)
from lorewell.errors import (
    ContextOverflowError,
    Fault,
    LorewellError,
    UpstreamInvalidError,
    UpstreamUnavailableError,
    ValidationFailedError,
)
from lorewell.host import assemble, capabilities
from lorewell.model.assemble import AssembleOptions, DraftMessage, PromptBudget
from lorewell.model.assembled import AssembleResponse
from lorewell.model.parse import parse_model
from lorewell.model.worldbook import WorldbookConfig
from lorewell.turn.asking import TurnLore, TurnSteps
from lorewell.turn.conversations import MemoryConversations
from lorewell.turn.errors import Stage, TurnError
from lorewell.turn.inputs import TurnInput, prompt_draft
from lorewell.turn.ports import Conversations, LoreSource
from lorewell.turn.trace import TurnTrace

Reply = TypeVar("Reply")

log = logging.getLogger("lorewell.turn")

_DISABLED = TurnLore(skipped="disabled")
_MAY_RETRY = (UpstreamUnavailableError, UpstreamInvalidError)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTurn:
    """The request for the model.

    Attributes:
        messages: ready for the provider.
        tools: the tool definitions of the input.
        prompt: the assembled prompt; None without the block `worldbook`.
        lore: the lore of the turn.
        trace: the trace that `on_trace` got.
    """

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...]
    prompt: AssembleResponse | None
    lore: TurnLore
    trace: TurnTrace


class TurnHost:
    """Prepares turns with the books and the configuration of a host.

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
        """Create a host.

        Args:
            config: the result of `read_config`; with None, drafts are sent unchanged.
            lore: the source of the books.
            conversations: the store of conversations; in memory if not given.
            on_trace: called with the trace of every preparation. Its errors are logged and ignored.
            counter: the token counter of the model; `cl100k_base` if not given.

        Raises:
            ValueError: there is a configuration, but no `lore`.
        """
        if config is not None and lore is None:
            message = "world books are configured, but `lore` is not given"
            raise ValueError(message)
        self.config = config
        self.lore = lore
        self.conversations = MemoryConversations() if conversations is None else conversations
        self.counter = default_counter() if counter is None else counter
        self._on_trace = on_trace

    def begin(self, given: TurnInput) -> Turn:
        """Return a turn; nothing is selected yet."""
        return Turn(self, given)

    def report(self, trace: TurnTrace) -> None:
        """Pass a trace to `on_trace`."""
        if self._on_trace is None:
            return
        try:
            self._on_trace(trace)
        except Exception:
            log.exception("on_trace failed for the turn %s", trace.given.request_id)


class Turn:
    """One logical turn. Its cache is in memory and ends with the turn.

    As an async context manager it cancels calls that are still running.
    """

    def __init__(self, host: TurnHost, given: TurnInput) -> None:
        self.given = given
        self._host = host
        self._draft: Sequence[DraftMessage] = given.draft
        self._steps: TurnSteps | None = None
        if host.config is not None and host.lore is not None:
            self._steps = TurnSteps(
                lore=host.lore,
                conversations=host.conversations,
                config=host.config,
                given=given,
            )
        self._lore_task: asyncio.Task[TurnLore] | None = None

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
        """Cancel running calls, and forget the lore."""
        task, self._lore_task = self._lore_task, None
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])

    async def prepare(self, *, reply_id: str | None = None) -> PreparedTurn:
        """Return the request for the model. Calls after the first reuse its lore.

        Concurrent callers share one selection. After a failure the next call repeats only the steps
        that had not succeeded, so the turn's revisions stay the same.

        Args:
            reply_id: for the trace.

        Raises:
            TurnError: the turn can't go on; `code` and `stage` say why.
        """
        lore, prompt, failed, reused = None, None, None, self._is_under_way()
        try:
            self._add_note()
            lore = await self._select_once()
            prompt = None if self._host.config is None else await self._assemble(lore)
        except TurnError as error:
            failed = error
        trace = TurnTrace(
            given=self.given,
            config=self._host.config,
            reply_id=reply_id,
            capabilities=capabilities(self._draft),
            lore=lore,
            prompt=prompt,
            error=failed,
            reused=reused,
        )
        self._host.report(trace)
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
        """Return the model's reply; retries use the same lore.

        Args:
            actor: calls the model.
            attempts: the largest number of calls.
            accept: whether a reply is acceptable; by default, whether it is not empty.
            retry_on: the errors of `actor` that are retried.
            reply_id: for the trace.

        Raises:
            TurnError: the turn can't go on; the model was not called.
            UpstreamInvalidError: no reply was accepted.
            Exception: the last error of `actor`.
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
        raise UpstreamInvalidError(f"None of {attempts} replies was acceptable.")

    def _add_note(self) -> None:
        """Put the author's note of the scene into the draft, once."""
        if self._steps is None or self._steps.draft:
            return
        try:
            self._draft = self._steps.draft = prompt_draft(self.given)
        except LorewellError as error:
            raise TurnError("select", error, turn_id=self.given.request_id) from error

    def _is_under_way(self) -> bool:
        """Return whether a selection is running or has succeeded."""
        task = self._lore_task
        if task is None:
            return False
        return not task.done() or (not task.cancelled() and task.exception() is None)

    async def _select_once(self) -> TurnLore:
        if self._steps is None:
            return _DISABLED
        task = self._lore_task if self._is_under_way() else None
        if task is None:
            task = self._lore_task = asyncio.create_task(self._steps.run())
            task.add_done_callback(_retrieve_error)
        # The cancellation of one caller must not cancel the others.
        return await asyncio.shield(task)

    async def _assemble(self, lore: TurnLore) -> AssembleResponse:
        config = self._host.config
        if config is None:
            raise AssertionError
        stage: Stage = "place"
        try:
            options, tokens = _options(config, self.given.tools), self._counter(lore)
            return await asyncio.to_thread(
                assemble, self._draft, lore.blocks, options, counter=tokens
            )
        except LorewellError as error:
            if isinstance(error, ContextOverflowError):
                stage = "budget"
            raise TurnError(stage, error, turn_id=self.given.request_id) from error

    def _counter(self, lore: TurnLore) -> TokenCounter:
        """Return the counter of the prompt: the turn's, that of its settings, or the host's."""
        given, bound = self.given, lore.bindings
        if given.counter is not None:
            return given.counter
        if given.scene is not None and given.scene.tokenizer is not None:
            return _counter(given.scene.tokenizer)
        default = None if bound is None else bound.settings.scene
        if default is None or default.tokenizer is None:
            return self._host.counter
        try:
            return shipped_counter(default.tokenizer)
        except ValidationFailedError:  # its file is at the service
            return self._host.counter


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


def _counter(name: str) -> TokenCounter:
    """Return the counter of a bundled encoding, which the scene names."""
    if name not in BUNDLED:
        fault = Fault("/scene/tokenizer", f"must be one of {', '.join(BUNDLED)}")
        raise ValidationFailedError.at(fault)
    return default_counter(name)


def _retrieve_error(task: asyncio.Task[TurnLore]) -> None:
    """Retrieve the error of a task that nobody may await any more, so that asyncio logs none."""
    if not task.cancelled():
        task.exception()
