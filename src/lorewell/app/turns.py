"""The books of one tenant, as a turn in this process asks them."""

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
    """A `Lore` of `lorewell.turn` without a network in between. Errors are those of use cases.

    Several callers may wait for one turn, so that the first of them leaves is no reason to end it.
    """

    services: Services
    tenant_id: str

    async def resolve_bindings(self, prompt_id: str, /) -> ResolvedBindings:
        """Return the concrete revisions that a prompt uses now, in order, and their policy."""
        return await resolve(self.services, self.tenant_id, prompt_id)

    async def select_for_turn(
        self, request: SelectRequest, /, *, prompt_id: str | None = None
    ) -> SelectResponse:
        """Return what of the requested books belongs into a turn."""
        caller_leaves.set(None)
        occasion = Occasion.of(prompt_id, "turn")
        return await select_context(self.services, self.tenant_id, request, occasion)

    async def activate_replica(
        self, request: ReplicaRequest, /, *, prompt_id: str | None = None
    ) -> ReplicaResponse:
        """Return what is active of the requested books by the rules of SillyTavern_replica."""
        caller_leaves.set(None)
        occasion = Occasion.of(prompt_id, "turn")
        return await activate_replica(self.services, self.tenant_id, request, occasion)

    async def activate_for_turn(
        self, request: ActivateRequest, /, *, prompt_id: str | None = None
    ) -> SillyTavernResponse:
        """Return what SillyTavern does with the requested books in a turn."""
        caller_leaves.set(None)
        occasion = Occasion.of(prompt_id, "turn", request.conversation_id)
        return await activate_turn(self.services, self.tenant_id, request, occasion)
