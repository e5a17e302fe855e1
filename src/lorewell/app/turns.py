"""The books of one tenant as a `LoreSource` for turns in this process."""

from __future__ import annotations

from dataclasses import dataclass

from lorewell.app.bindings import resolve
from lorewell.app.computing.pool import caller_leaves
from lorewell.app.native.selection import select_context
from lorewell.app.replica.activation import activate_replica
from lorewell.app.services import Services
from lorewell.app.sillytavern.activation import activate_turn
from lorewell.model import (
    ActivateRequest,
    ReplicaRequest,
    ReplicaResponse,
    ResolvedBindings,
    SelectRequest,
    SelectResponse,
    SillyTavernResponse,
)
from lorewell.model.live import Occasion


@dataclass(frozen=True, slots=True)
class TenantLore:
    """A `LoreSource` of `lorewell.turn` without a network. Errors are those of the use cases.

    Several callers may wait for one turn, so a turn continues when one of them leaves.
    """

    services: Services
    tenant_id: str

    async def resolve_bindings(self, prompt_id: str, /) -> ResolvedBindings:
        """Return the revisions that a prompt uses now, in order, and their policy."""
        return await resolve(self.services, self.tenant_id, prompt_id)

    async def select_for_turn(
        self, request: SelectRequest, /, *, prompt_id: str | None = None
    ) -> SelectResponse:
        """Select the entries of the requested books for a turn."""
        caller_leaves.set(None)
        occasion = Occasion.of(prompt_id, "turn")
        return await select_context(self.services, self.tenant_id, request, occasion)

    async def activate_replica(
        self, request: ReplicaRequest, /, *, prompt_id: str | None = None
    ) -> ReplicaResponse:
        """Return the entries of the requested books that SillyTavern_replica's rules activate."""
        caller_leaves.set(None)
        occasion = Occasion.of(prompt_id, "turn")
        return await activate_replica(self.services, self.tenant_id, request, occasion)

    async def activate_for_turn(
        self, request: ActivateRequest, /, *, prompt_id: str | None = None
    ) -> SillyTavernResponse:
        """Return the result of SillyTavern's rules for the requested books in a turn."""
        caller_leaves.set(None)
        occasion = Occasion.of(prompt_id, "turn", request.conversation_id)
        turn = await activate_turn(self.services, self.tenant_id, request, occasion)
        return turn.response
