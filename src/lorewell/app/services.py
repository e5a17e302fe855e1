"""What all use cases work with, put together once at start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from lorewell.app.cache import BookCache
from lorewell.app.computing.pool import Computing
from lorewell.app.gateway.options import Gateway
from lorewell.app.jobs import Jobs
from lorewell.app.kept import TurnKeeper
from lorewell.app.live.hub import LiveHub
from lorewell.app.native.recent import RecentTurns
from lorewell.app.one_by_one import OneByOne
from lorewell.app.ports import Clock, Embedder, ReplyModel, Store
from lorewell.app.vectors.queries import QueryVectors
from lorewell.engine.native import SnapshotLimits
from lorewell.engine.tokens import TokenCounter


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The adapters and figures of one service.

    Attributes:
        store: where everything is kept.
        clock: tells the time.
        new_id: makes a UUID, in lower case.
        computing: where requests compute.
        cache: compiled books.
        recent: what short turns need, at hand.
        keeper: requests kept so that a ledger can be computed when somebody opens it.
        counter: counts tokens.
        limits: how much the books of one selection may hold together.
        auth: whether API keys are asked for.
        max_conversation_states: timed states that are kept of a conversation at most.
        embedder: makes vectors; None where there are none.
        queries: the vectors of queries, if there is an embedder.
        index_lease: how long a build of an index counts as running after its last sign of life.
        gateway: forwards chats; None if there is no upstream.
        model: replies on the socket of SillyTavern_replica; None if there is none.
        one_by_one: keeps changes of one book from getting into each other's way.
        jobs: work that goes on after its request was answered.
        live: tells who watches of selections; None if the channel is off.
    """

    store: Store
    clock: Clock
    new_id: Callable[[], str]
    computing: Computing
    cache: BookCache
    recent: RecentTurns
    keeper: TurnKeeper
    counter: TokenCounter
    limits: SnapshotLimits
    auth: bool
    max_conversation_states: int
    embedder: Embedder | None
    queries: QueryVectors | None
    index_lease: timedelta
    gateway: Gateway | None
    model: ReplyModel | None
    one_by_one: OneByOne
    jobs: Jobs
    live: LiveHub | None
