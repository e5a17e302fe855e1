"""Steps 1 to 4 of a turn: check, resolve, select; each succeeds once (docs/rules/host.md §4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
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
from lorewell.model.assemble import DraftMessage
from lorewell.model.worldbook import WorldbookConfig
from lorewell.turn.conversations import check_conversation
from lorewell.turn.errors import Stage, TurnError
from lorewell.turn.inputs import TurnInput, activation_request, with_prompt_scene
from lorewell.turn.ports import ConversationRecord, Conversations, LoreSource

Answer = TypeVar("Answer")

Skipped = Literal["no_bindings", "disabled"]

# The client's reasons for a connection that was refused or reset. Timeouts are not among them.
_BROKEN: Final = frozenset(
    {"ConnectError", "ReadError", "WriteError", "CloseError", "RemoteProtocolError"}
)
# Its reasons for answers that the service did not write, such as those of a proxy.
_NO_ANSWER: Final = frozenset({"no_problem_body", "unreadable"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLore:
    """The lore of a turn; all retries of the turn use the same.

    Attributes:
        skipped: why there was no selection; None if there was one.
        bindings: the prompt's books when the turn began; None if they were not resolved.
        query: the query of the selection, under the policy `native` only.
        activation: the request, under the policies `sillytavern` and `replica` only.
        answer: the selection or the activation.
        blocks: the lore, ready to be placed.
        duration_ms: the duration of the selection.
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
        """The policy of the books; None if they were not resolved."""
        return None if self.bindings is None else self.bindings.policy


@dataclass(slots=True, kw_only=True)
class TurnSteps:
    """Gets the lore of one turn, and keeps the results of earlier steps when a later one fails.

    Attributes:
        draft: the draft of the prompt, with the author's note of the scene.
    """

    lore: LoreSource
    conversations: Conversations
    config: WorldbookConfig
    given: TurnInput
    draft: Sequence[DraftMessage] = ()
    bindings: ResolvedBindings | None = None
    _is_checked: bool = field(default=False)

    async def run(self) -> TurnLore:
        """Return the lore. Steps that succeeded before do not run again.

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
        if self.given.scene is not None and self.given.scene.enabled is False:
            return TurnLore(skipped="disabled", bindings=self.bindings)
        try:
            return await self._select(self.bindings)
        except TurnError:
            raise
        except LorewellError as error:  # the request could not be made
            raise self._failed("select", error) from error

    async def _check(self) -> None:
        record = ConversationRecord(prompt_id=self.given.prompt_id, scene_id=self.given.scene_id)
        key = self.given.key(self.config.tenant_id)
        try:  # the host's own store: the service's timeout and retry do not apply
            await check_conversation(self.conversations, key, record)
        except LorewellError as error:
            raise self._failed("check", error) from error

    async def _select(self, bindings: ResolvedBindings) -> TurnLore:
        begin, prompt_id = perf_counter(), self.given.prompt_id
        given = with_prompt_scene(self.given, bindings)
        match bindings.policy:
            case "native":
                query = make_query(self.draft, self._inputs(given, bindings))
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
                request = activation_request(given, self.config, bindings)
                activated = await self._step(
                    "select", lambda: self.lore.activate_for_turn(request, prompt_id=prompt_id)
                )
                stable = self.config.stable_prefix
                return TurnLore(
                    bindings=bindings,
                    activation=request,
                    answer=activated,
                    blocks=from_activation(activated, split_lasting=stable),
                    duration_ms=(perf_counter() - begin) * 1000,  # the answer holds no duration
                )
            case "replica":
                replica_request = make_replica(self.draft, self._inputs(given, bindings))
                found = await self._step(
                    "select",
                    lambda: self.lore.activate_replica(replica_request, prompt_id=prompt_id),
                )
                return TurnLore(
                    bindings=bindings,
                    activation=replica_request,
                    answer=found,
                    blocks=from_replica(found.entries),
                    duration_ms=(perf_counter() - begin) * 1000,
                )
            case never:
                assert_never(never)

    def _inputs(self, given: TurnInput, bindings: ResolvedBindings) -> TurnInputs:
        return TurnInputs(
            books=bindings.books,
            request_id=given.request_id,
            strategy=self.config.strategy,
            token_budget=self.config.token_budget,
            settings=bindings.settings.native.model_copy(update=given.usage),
            saved_state=given.saved_state,
            char=given.char,
            user=given.user,
            scene=given.scene,
        )

    async def _step(self, stage: Stage, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the answer to a call, within the timeout; retry a broken connection once."""
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
            message = f"The world book service did not answer within {timeout_s:g} s."
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
