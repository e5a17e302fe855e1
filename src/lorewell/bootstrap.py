"""Builds a service, the only place that names concrete adapters, and runs it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import structlog
from structlog.typing import FilteringBoundLogger

from lorewell.app.computing.places import PlaceLimits
from lorewell.app.computing.pool import ComputeLimits, Computing
from lorewell.app.live.hub import LiveHub
from lorewell.app.ports import ReplyModel
from lorewell.app.runtime.cache import BookCache
from lorewell.app.runtime.gateway import Gateway, KnownCounts
from lorewell.app.runtime.jobs import Jobs
from lorewell.app.runtime.kept import TurnKeeper
from lorewell.app.runtime.locks import NamedLocks
from lorewell.app.runtime.new_revisions import NewRevisions
from lorewell.app.runtime.query_vectors import QueryVectors
from lorewell.app.runtime.recent import RecentTurns
from lorewell.app.runtime.secrets import TenantSecrets
from lorewell.app.runtime.unchanged import UnchangedCache
from lorewell.app.services import Services
from lorewell.app.vectors.auto_index import follow
from lorewell.embedders import EmbedderOptions, make_embedder
from lorewell.engine.native import SnapshotLimits
from lorewell.engine.tokens import TokenCounter, counter, named_counters
from lorewell.errors import StorageUnavailableError
from lorewell.settings import Settings
from lorewell.store import open_store
from lorewell.upstreams import OpenAiChat, UpstreamOptions
from lorewell.upstreams.passthrough import Passthrough

_SECONDS_BETWEEN_ATTEMPTS = 1.0
_UNUSABLE = frozenset({"not_a_database", "newer_schema"})
_ANY_MODEL = "default"  # servers with one model accept any name


log: FilteringBoundLogger = structlog.get_logger("lorewell")


class SystemClock:
    """The system clock."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)


def new_uuid() -> str:
    """Return a random UUID in lower case."""
    return str(uuid4())


def build_services(settings: Settings) -> Services:
    """Return the services of a process. Connections are made on first use.

    Raises:
        ValidationFailedError: the URL of the database or a tokenizer is invalid.
    """
    store = open_store(
        settings.database_url,
        pool_size=settings.postgres_pool_size,
        statement_cache_size=settings.postgres_statement_cache_size,
        vector_cache_bytes=settings.vector_cache_bytes,
    )
    embedder = make_embedder(settings.embedder, _embedder_options(settings))
    clock = SystemClock()
    token_counter = counter(settings.tokenizer)
    computing = Computing(_compute_limits(settings))
    return Services(
        store=store,
        clock=clock,
        new_id=new_uuid,
        computing=computing,
        cache=BookCache(limit_bytes=settings.cache_bytes),
        recent=RecentTurns(),
        keeper=TurnKeeper(store, clock, computing, keep_s=settings.ledger_keep_s),
        counter=token_counter,
        tokenizers=named_counters(settings.tokenizer_files),
        limits=SnapshotLimits(
            entries=settings.max_snapshot_entries, content_chars=settings.max_snapshot_chars
        ),
        auth=settings.auth,
        keys=UnchangedCache(),
        max_conversation_states=settings.max_conversation_states,
        max_variable_users=settings.max_variable_users,
        secrets=TenantSecrets(),
        embedder=embedder,
        queries=None if embedder is None else QueryVectors(embedder),
        auto_index=settings.auto_index,
        new_revisions=NewRevisions(),
        index_lease=timedelta(seconds=settings.index_lease_s),
        gateway=_gateway(settings, token_counter),
        model=_model(settings),
        locks=NamedLocks(),
        jobs=Jobs(),
        live=LiveHub(store, clock, keep_s=settings.live_keep_s) if settings.live else None,
    )


def _compute_limits(settings: Settings) -> ComputeLimits:
    return ComputeLimits(
        threads=settings.compute_threads,
        places=PlaceLimits(
            requests=settings.compute_requests,
            tenant_requests=settings.compute_tenant_requests,
            queue=settings.compute_queue,
            tenant_queue=settings.compute_tenant_queue,
        ),
        queue_seconds=settings.queue_seconds,
        turn_seconds=settings.turn_seconds,
        import_seconds=settings.import_seconds,
        max_steps=settings.max_steps,
        max_import_steps=settings.max_import_steps,
        max_chars=settings.max_made_chars,
    )


def _gateway(settings: Settings, token_counter: TokenCounter) -> Gateway | None:
    if not settings.gateway_upstream_url:
        return None
    upstream = Passthrough(
        settings.gateway_upstream_url,
        api_key=settings.gateway_upstream_api_key,
        timeout_s=settings.gateway_timeout_s,
    )
    return Gateway(
        upstream=upstream,
        upstream_model=settings.gateway_upstream_model,
        tenant_id=settings.gateway_tenant,
        strategy=settings.gateway_strategy,
        token_budget=settings.gateway_token_budget,
        context_window=settings.gateway_context_window or None,
        reserved_output=settings.gateway_reserved_output,
        stable_prefix=settings.gateway_stable_prefix,
        merge_adjacent=settings.gateway_merge_adjacent,
        pass_authorization=settings.gateway_pass_authorization,
        counter=KnownCounts(token_counter),
    )


def _model(settings: Settings) -> ReplyModel | None:
    """Return the model for clients without one of their own: the gateway's upstream."""
    if not settings.replica_tenant or not settings.gateway_upstream_url:
        return None
    return OpenAiChat(
        UpstreamOptions(
            url=settings.gateway_upstream_url,
            model=settings.gateway_upstream_model or _ANY_MODEL,
            api_key=settings.gateway_upstream_api_key,
            timeout_s=settings.gateway_timeout_s,
            retries=1,
        )
    )


def _embedder_options(settings: Settings) -> EmbedderOptions:
    return EmbedderOptions(
        url=settings.embedding_url,
        api_key=settings.embedding_api_key,
        model=settings.embedding_model,
        dimensions=settings.embedding_dimensions,
        send_dimensions=settings.embedding_send_dimensions,
        query_prefix=settings.embedding_query_prefix,
        text_prefix=settings.embedding_text_prefix,
        batch_size=settings.embedding_batch_size,
        concurrency=settings.embedding_concurrency,
        timeout_s=settings.embedding_timeout_s,
        query_timeout_s=settings.embedding_query_timeout_s,
        retries=settings.embedding_retries,
    )


async def start(services: Services) -> None:
    """Bring the database's schema up to date.

    Raises:
        StorageUnavailableError: the database can't be reached.
    """
    await services.store.migrate()


async def check_database(services: Services) -> None:
    """Refuse a database that can never be used; one that can't be reached may come up later.

    Raises:
        StorageUnavailableError: the file is not a database, or its schema is newer than this
            program.
    """
    try:
        if await services.store.check() in _UNUSABLE:
            await start(services)  # raises with the cause
    finally:
        await stop(services)


async def stop(services: Services) -> None:
    """Stop jobs, write what is queued, and close all connections."""
    await services.jobs.stop()
    services.computing.close()
    with suppress(StorageUnavailableError):  # then queued turns are lost, which only costs ledgers
        await services.keeper.flush()
    if services.live is not None:
        with suppress(StorageUnavailableError):
            await services.live.flush()
    if services.embedder is not None:
        await services.embedder.close()
    if services.gateway is not None:
        await services.gateway.upstream.close()
    if services.model is not None:
        await services.model.close()
    await services.store.close()


@asynccontextmanager
async def running(services: Services) -> AsyncIterator[None]:
    """Run a service: bring its database up to date, and write its queues in the background.

    While the database can't be reached, the service retries; `Store.check` reports the state.
    """
    tasks = [asyncio.create_task(_start_with_retries(services))]
    done, _ = await asyncio.wait(tasks, timeout=_SECONDS_BETWEEN_ATTEMPTS)
    for task in done:  # usually the database is ready at once
        task.result()
    tasks[0].add_done_callback(_exit_if_unusable)
    tasks.append(asyncio.create_task(services.keeper.run()))
    if services.embedder is not None:
        tasks.append(asyncio.create_task(follow(services)))
    if services.live is not None:
        tasks.append(asyncio.create_task(services.live.run()))
    if services.embedder is not None:  # in the background; if it fails, queries report it
        services.jobs.start(services.embedder.prepare())
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await stop(services)


async def _start_with_retries(services: Services) -> None:
    while True:
        try:
            return await start(services)
        except StorageUnavailableError:
            if await services.store.check() in _UNUSABLE:
                raise
            await asyncio.sleep(_SECONDS_BETWEEN_ATTEMPTS)


def _exit_if_unusable(starting: asyncio.Task[None]) -> None:
    """Terminate the process if its database came up late and is unusable."""
    error = None if starting.cancelled() else starting.exception()
    if error is not None:
        log.error("database", error=type(error).__name__, detail=str(error))
        signal.raise_signal(signal.SIGTERM)
