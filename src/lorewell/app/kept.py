"""Requests kept for a while, so that a ledger can be computed when somebody opens it (§6).

A selection is a function of its request and of revisions that never change, so its ledger is never
stored. Requests are written behind the answer, many in one transaction: an answer waits for no
write of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from lorewell.app.ports import Clock, Store, Transaction
from lorewell.app.query_vectors import QueryVector
from lorewell.app.rows import KeptRequest
from lorewell.errors import StorageUnavailableError
from lorewell.model import ActivateRequest, BookRef, SelectRequest, SelectResponse, SnapshotItem
from lorewell.model.parse import parse_model

MAX_WAITING = 10_000
_SECONDS_BETWEEN_WRITES = 2.0  # each write makes the short turns look up their books again


class Kept(NamedTuple):
    """A request that names the revisions it got, and the vector that its query had."""

    request: SelectRequest
    query: QueryVector | None


class _Held(NamedTuple):
    """A request, its query's vector, the revisions that it got, and when it expires."""

    request: SelectRequest
    query: QueryVector | None
    snapshot: Sequence[SnapshotItem]
    expires_at: datetime

    def pinned(self) -> SelectRequest:
        """Return the request with the revisions that it got: it will always give the same."""
        refs = [BookRef(book_id=each.book_id, revision=each.revision) for each in self.snapshot]
        return self.request.model_copy(update={"books": tuple(refs)})


class _HeldActivation(NamedTuple):
    """A turn of the policy `sillytavern`, with the revisions and the timed state that it got."""

    request: ActivateRequest
    expires_at: datetime


class Keeper:
    """Keeps requests for `keep_s` seconds; 0 keeps none. Belongs to one event loop."""

    def __init__(self, store: Store, clock: Clock, *, keep_s: int) -> None:
        """Keep into this store."""
        self._store = store
        self._clock = clock
        self._keep = timedelta(seconds=keep_s)
        self._waiting: OrderedDict[tuple[str, str], _Held | _HeldActivation] = OrderedDict()
        self._writing: Mapping[tuple[str, str], _Held | _HeldActivation] = {}

    @property
    def is_on(self) -> bool:
        """Whether requests are kept at all."""
        return bool(self._keep)

    def keep(
        self,
        tenant_id: str,
        request: SelectRequest,
        response: SelectResponse,
        query: QueryVector | None = None,
    ) -> None:
        """Take a request, under its answer's fingerprint; it is written soon.

        Of too many, the oldest are let go.
        """
        name = (tenant_id, response.selection_fingerprint)
        self._hold(name, _Held(request, query, response.snapshot, self._expiry()))

    def keep_activation(self, tenant_id: str, activation_id: str, request: ActivateRequest) -> None:
        """Take a turn of the policy `sillytavern` that will always give the same."""
        self._hold((tenant_id, activation_id), _HeldActivation(request, self._expiry()))

    def _expiry(self) -> datetime:
        return self._clock.now() + self._keep

    def _hold(self, name: tuple[str, str], held: _Held | _HeldActivation) -> None:
        self._waiting[name] = held
        if len(self._waiting) > MAX_WAITING:
            self._waiting.popitem(last=False)

    async def find(self, tenant_id: str, selection_id: str) -> Kept | None:
        """Return a request that is still kept."""
        held = self._held(tenant_id, selection_id)
        if isinstance(held, _Held):
            found, expires_at = Kept(held.pinned(), held.query), held.expires_at
            return found if expires_at > self._clock.now() else None
        body = await self._read(tenant_id, selection_id)
        return None if body is None or "request" not in body else _read(body)

    async def find_activation(self, tenant_id: str, activation_id: str) -> ActivateRequest | None:
        """Return a turn of the policy `sillytavern` that is still kept."""
        held = self._held(tenant_id, activation_id)
        if isinstance(held, _HeldActivation):
            return held.request if held.expires_at > self._clock.now() else None
        body = await self._read(tenant_id, activation_id)
        if body is None or "activation" not in body:
            return None
        return parse_model(ActivateRequest, body["activation"])

    def _held(self, tenant_id: str, name: str) -> _Held | _HeldActivation | None:
        return self._waiting.get((tenant_id, name)) or self._writing.get((tenant_id, name))

    async def _read(self, tenant_id: str, name: str) -> dict[str, Any] | None:
        kept = await self._store.read(lambda tx: tx.find_request(tenant_id, name))
        if kept is None or kept.expires_at <= self._clock.now():
            return None
        body: dict[str, Any] = json.loads(kept.body)
        return body

    async def flush(self) -> None:
        """Write what waits, and forget what has expired.

        Raises:
            StorageUnavailableError: it could not be written; it goes on waiting.
        """
        if not self._waiting:
            return
        taken, self._waiting = self._waiting, OrderedDict()
        self._writing = taken
        now = self._clock.now()
        kept = await asyncio.to_thread(lambda: [_kept(*name, held) for name, held in taken.items()])

        def work(tx: Transaction) -> None:
            for each in kept:
                tx.keep_request(each)
            tx.drop_requests(now)

        try:
            await self._store.write(work)
        except StorageUnavailableError:
            self._waiting = OrderedDict([*taken.items(), *self._waiting.items()])
            raise
        finally:
            self._writing = {}

    async def run(self) -> None:
        """Write again and again, until cancelled; what waits then is written last."""
        try:
            while True:
                await asyncio.sleep(_SECONDS_BETWEEN_WRITES)
                await self._flush_quietly()
        finally:
            await self._flush_quietly()

    async def _flush_quietly(self) -> None:
        try:
            await self.flush()
        except StorageUnavailableError:
            return  # /readyz says so; the requests go on waiting


def _kept(tenant_id: str, name: str, held: _Held | _HeldActivation) -> KeptRequest:
    if isinstance(held, _Held):
        query = None if held.query is None else held.query.to_members()
        members = {"request": held.pinned().model_dump(mode="json"), "query": query}
    else:
        members = {"activation": held.request.model_dump(mode="json", exclude_unset=True)}
    return KeptRequest(
        tenant_id=tenant_id,
        selection_id=name,
        body=json.dumps(members).encode(),
        expires_at=held.expires_at,
    )


def _read(members: Mapping[str, Any]) -> Kept:
    query = None if members["query"] is None else QueryVector.from_members(members["query"])
    return Kept(parse_model(SelectRequest, members["request"]), query)
