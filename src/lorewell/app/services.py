"""What all use cases share: the adapters and the state of one service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from lorewell.app.computing.pool import Computing
from lorewell.app.ledgers import LedgerRef
from lorewell.app.live.hub import LiveHub, Make
from lorewell.app.ports import Clock, Embedder, ReplyModel, Store, Transaction
from lorewell.app.rows import KeyRow
from lorewell.app.runtime.cache import BookCache
from lorewell.app.runtime.gateway import Gateway
from lorewell.app.runtime.jobs import Jobs
from lorewell.app.runtime.kept import TurnKeeper
from lorewell.app.runtime.locks import NamedLocks
from lorewell.app.runtime.new_revisions import NewRevisions
from lorewell.app.runtime.query_vectors import QueryVectors
from lorewell.app.runtime.recent import RecentTurns
from lorewell.app.runtime.secrets import TenantSecrets
from lorewell.app.runtime.unchanged import UnchangedCache
from lorewell.engine.native import SnapshotLimits
from lorewell.engine.tokens import TokenCounter
from lorewell.model.live import Occasion

Loaded = TypeVar("Loaded")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The adapters, state and limits of one service, built once at start.

    Attributes:
        store: the database.
        clock: the current time.
        new_id: makes a UUID in lower case.
        computing: the compute pool.
        cache: compiled books.
        recent: the last native turns, to run short ones on the event loop.
        keeper: turns that are kept so that their ledgers can be opened later.
        counter: the service's own tokenizer.
        tokenizers: those with a file in the settings, by name.
        limits: the size of all books of one selection together.
        auth: whether requests need an API key.
        keys: API keys, to check known ones without a read.
        max_conversation_states: timed states kept per conversation, at most.
        max_variable_users: users of a tenant whose global variables are kept, at most.
        secrets: of the tenants, for the lines of their conversations.
        embedder: None if vectors are off.
        queries: vectors of recent queries; None if vectors are off.
        auto_index: whether new revisions are indexed unless a prompt says otherwise.
        new_revisions: revisions that were stored and may have to be indexed.
        index_lease: how long an index build counts as running after its last update.
        gateway: None if there is no upstream.
        model: replies on the chat socket of SillyTavern_replica; None if there is no model.
        locks: serialize changes of one book within this process.
        jobs: background work.
        live: the live channel; None if it is off.
    """

    store: Store
    clock: Clock
    new_id: Callable[[], str]
    computing: Computing
    cache: BookCache
    recent: RecentTurns
    keeper: TurnKeeper
    counter: TokenCounter
    tokenizers: Mapping[str, TokenCounter]
    limits: SnapshotLimits
    auth: bool
    keys: UnchangedCache[KeyRow | None]
    max_conversation_states: int
    max_variable_users: int
    secrets: TenantSecrets
    embedder: Embedder | None
    queries: QueryVectors | None
    auto_index: bool
    new_revisions: NewRevisions
    index_lease: timedelta
    gateway: Gateway | None
    model: ReplyModel | None
    locks: NamedLocks
    jobs: Jobs
    live: LiveHub | None

    async def read_and_compute(
        self,
        tenant_id: str,
        load: Callable[[Transaction], Loaded],
        compute: Callable[[Loaded], Result],
    ) -> Result:
        """Read from the store, then compute in the pool, both within one long turn.

        Raises:
            OverloadedError: as `Computing.long_turn`.
        """
        async with self.computing.long_turn(tenant_id) as turn:
            loaded = await self.store.read(load)
            return await turn.run(lambda: compute(loaded))

    def publish_live(
        self, tenant_id: str, occasion: Occasion | None, make: Make, ledger: LedgerRef | None
    ) -> None:
        """Publish a live event, unless the channel is off or no prompt is named (None)."""
        if self.live is not None and occasion is not None:
            self.live.publish(tenant_id, occasion, make, ledger)
