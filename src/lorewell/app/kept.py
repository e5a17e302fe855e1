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
from typing import NamedTuple

from lorewell.app.ports import Clock, KeptRequest, Store, Transaction
from lorewell.app.query_vectors import QueryVector
from lorewell.errors import StorageUnavailableError
from lorewell.model import BookRef, SelectRequest, SelectResponse, SnapshotItem
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


class Keeper:
    """Keeps requests for `keep_s` seconds; 0 keeps none. Belongs to one event loop."""

    def __init__(self, store: Store, clock: Clock, *, keep_s: int) -> None:
        """Keep into this store."""
        self._store = store
        self._clock = clock
        self._keep = timedelta(seconds=keep_s)
        self._waiting: OrderedDict[tuple[str, str], _Held] = OrderedDict()
        self._writing: Mapping[tuple[str, str], _Held] = {}

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
        expires_at = self._clock.now() + self._keep
        name = (tenant_id, response.selection_fingerprint)
        self._waiting[name] = _Held(request, query, response.snapshot, expires_at)
        if len(self._waiting) > MAX_WAITING:
            self._waiting.popitem(last=False)

    async def find(self, tenant_id: str, selection_id: str) -> Kept | None:
        """Return a request that is still kept."""
        name = (tenant_id, selection_id)
        held = self._waiting.get(name) or self._writing.get(name)
        if held is not None:
            found, expires_at = Kept(held.pinned(), held.query), held.expires_at
        else:
            kept = await self._store.read(lambda tx: tx.find_request(tenant_id, selection_id))
            if kept is None:
                return None
            found, expires_at = _read(kept.body), kept.expires_at
        return found if expires_at > self._clock.now() else None

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


def _kept(tenant_id: str, selection_id: str, held: _Held) -> KeptRequest:
    query = None if held.query is None else held.query.to_members()
    members = {"request": held.pinned().model_dump(mode="json"), "query": query}
    return KeptRequest(
        tenant_id=tenant_id,
        selection_id=selection_id,
        body=json.dumps(members).encode(),
        expires_at=held.expires_at,
    )


def _read(body: bytes) -> Kept:
    members = json.loads(body)
    query = None if members["query"] is None else QueryVector.from_members(members["query"])
    return Kept(parse_model(SelectRequest, members["request"]), query)
