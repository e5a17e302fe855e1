"""Steps 1 to 4 of a turn: check, resolve, select; each is asked once (docs/rules/host.md §4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final, Literal, TypeVar, assert_never

from lorewell.errors import (
    LorewellError,
    ServiceUnreachableError,
    WorldbookUnavailableError,
)
from lorewell.host import (
    HostBlock,
    TurnInputs,
    TurnQuery,
    from_activation,
    from_replica,
    from_selection,
    make_query,
    make_replica,
)
from lorewell.model import (
    ActivateRequest,
    Policy,
    ReplicaRequest,
    ReplicaResponse,
    ResolvedBindings,
    SelectResponse,
    SillyTavernResponse,
)
from lorewell.model.worldbook import WorldbookConfig
from lorewell.turn.conversations import check_conversation
from lorewell.turn.errors import Stage, TurnError
from lorewell.turn.inputs import TurnInput, activation_request
from lorewell.turn.ports import ConversationRecord, Conversations, LoreSource

Answer = TypeVar("Answer")

Skipped = Literal["no_bindings", "disabled"]

# What the client says of a connection that was refused or reset. A time-out is none of these.
_BROKEN: Final = frozenset(
    {"ConnectError", "ReadError", "WriteError", "CloseError", "RemoteProtocolError"}
)
# And of answers that the service did not write: they are from something in between.
_NO_ANSWER: Final = frozenset({"no_problem_body", "unreadable"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLore:
    """What the books gave for a turn; all retries of the turn use the same.

    Attributes:
        skipped: why nothing was selected; None if it was.
        bindings: what the prompt used when the turn began; None if it was not asked.
        query: what a selection was asked with; under the policy `native` alone.
        activation: what SillyTavern's rules, or those of SillyTavern_replica, were asked with;
            under those policies alone.
        answer: of the selection or the activation.
        blocks: the lore, ready for its places.
        duration_ms: how long the answer took.
    """

    skipped: Skipped | None = None
    bindings: ResolvedBindings | None = None
    query: TurnQuery | None = None
    activation: ActivateRequest | ReplicaRequest | None = None
    answer: SelectResponse | SillyTavernResponse | ReplicaResponse | None = None
    blocks: tuple[HostBlock, ...] = ()
    duration_ms: float = 0.0

    @property
    def policy(self) -> Policy | None:
        """The rules that the books run under; None if no books were asked."""
        return None if self.bindings is None else self.bindings.policy


@dataclass(slots=True, kw_only=True)
class Asking:
    """Asks for the lore of one turn, and keeps what it got when a later step fails."""

    lore: LoreSource
    conversations: Conversations
    config: WorldbookConfig
    given: TurnInput
    bindings: ResolvedBindings | None = None
    _is_checked: bool = field(default=False)

    async def ask(self) -> TurnLore:
        """Return the lore; steps that succeeded before are not done again.

        Raises:
            TurnError: a step failed.
        """
        if not self._is_checked:
            await self._check()
            self._is_checked = True
        if self.bindings is None:
            prompt_id = self.given.prompt_id
            self.bindings = await self._step(
                "resolve", lambda: self.lore.resolve_bindings(prompt_id)
            )
        if not self.bindings.books:
            return TurnLore(skipped="no_bindings", bindings=self.bindings)
        try:
            return await self._select(self.bindings)
        except TurnError:
            raise
        except LorewellError as error:  # of the request that was to be made
            raise self._failed("select", error) from error

    async def _check(self) -> None:
        record = ConversationRecord(prompt_id=self.given.prompt_id, scene_id=self.given.scene_id)
        key = self.given.key(self.config.tenant_id)
        try:  # the host's own store: neither the service's time nor its patience count
            await check_conversation(self.conversations, key, record)
        except LorewellError as error:
            raise self._failed("check", error) from error

    async def _select(self, bindings: ResolvedBindings) -> TurnLore:
        begin, prompt_id = perf_counter(), self.given.prompt_id
        match bindings.policy:
            case "native":
                query = make_query(self.given.draft, self._inputs(bindings))
                selected = await self._step(
                    "select", lambda: self.lore.select_for_turn(query.request, prompt_id=prompt_id)
                )
                return TurnLore(
                    bindings=bindings,
                    query=query,
                    answer=selected,
                    blocks=from_selection(selected.blocks),
                    duration_ms=selected.duration_ms,
                )
            case "sillytavern":
                request = activation_request(self.given, self.config, bindings.books)
                activated = await self._step(
                    "select", lambda: self.lore.activate_for_turn(request, prompt_id=prompt_id)
                )
                stable = self.config.stable_prefix
                return TurnLore(
                    bindings=bindings,
                    activation=request,
                    answer=activated,
                    blocks=from_activation(activated, split_lasting=stable),
                    duration_ms=(perf_counter() - begin) * 1000,  # the answer does not say
                )
            case "replica":
                asked = make_replica(self.given.draft, self._inputs(bindings))
                found = await self._step(
                    "select", lambda: self.lore.activate_replica(asked, prompt_id=prompt_id)
                )
                return TurnLore(
                    bindings=bindings,
                    activation=asked,
                    answer=found,
                    blocks=from_replica(found.entries),
                    duration_ms=(perf_counter() - begin) * 1000,
                )
            case never:
                assert_never(never)

    def _inputs(self, bindings: ResolvedBindings) -> TurnInputs:
        return TurnInputs(
            books=bindings.books,
            request_id=self.given.request_id,
            strategy=self.config.strategy,
            token_budget=self.config.token_budget,
            saved_state=self.given.saved_state,
            char=self.given.char,
            user=self.given.user,
        )

    async def _step(self, stage: Stage, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return what a call answers, within its time; a broken connection is tried once more."""
        timeout_s = self.config.timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                try:
                    return await call()
                except ServiceUnreachableError as error:
                    if error.details.get("reason") not in _BROKEN:
                        raise
                return await call()
        except TimeoutError as error:
            message = f"The service of the books did not answer within {timeout_s:g} s."
            cause = WorldbookUnavailableError(message)
            raise self._failed(stage, cause) from error
        except LorewellError as error:
            raise self._failed(stage, error) from error

    def _failed(self, stage: Stage, error: LorewellError) -> TurnError:
        cause = error
        is_foreign = error.details.get("reason") in _NO_ANSWER
        if isinstance(error, ServiceUnreachableError) or is_foreign:
            cause = WorldbookUnavailableError(str(error))
            cause.details.update(error.details)
            cause.request_id = error.request_id
        return TurnError(stage, cause, turn_id=self.given.request_id)
