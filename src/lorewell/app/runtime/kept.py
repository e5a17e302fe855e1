"""Turns kept for a while, so that their ledgers can be computed on demand (§6).

A selection is a function of its request and of immutable revisions, so its ledger is not stored.
Turns are written after the answer, many in one transaction, so no answer waits for its own write.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

from lorewell.app.computing.pool import Computing
from lorewell.app.ports import Clock, Store, Transaction
from lorewell.app.rows import KeptRequest
from lorewell.errors import NotFoundError, StorageUnavailableError

MAX_WAITING = 10_000
MAX_WAITING_CHARS = 32 * 1024 * 1024
_SECONDS_BETWEEN_WRITES = 2.0  # each write makes short turns look up their books again


class KeptTurn(Protocol):
    """The inputs of a turn: its request, its revisions, and everything else it depends on.

    Attributes:
        kind: the name of this kind of turn in the stored JSON.
        noun: what a message calls such a turn.
    """

    kind: ClassVar[str]
    noun: ClassVar[str]

    @property
    def chars(self) -> int:
        """Its approximate size in characters."""

    def to_members(self) -> dict[str, Any]:
        """Return it as JSON-safe members."""

    @classmethod
    def from_members(cls, members: Mapping[str, Any]) -> Self:
        """Return what `to_members` wrote."""


Turn = TypeVar("Turn", bound=KeptTurn)


class _Held(NamedTuple):
    """A turn with its expiry."""

    turn: KeptTurn
    expires_at: datetime


class TurnKeeper:
    """Keeps turns for `keep_s` seconds; 0 keeps none. Belongs to one event loop."""

    def __init__(self, store: Store, clock: Clock, computing: Computing, *, keep_s: int) -> None:
        """Write to `store`; stored turns are parsed in the compute pool."""
        self._store = store
        self._clock = clock
        self._computing = computing
        self._keep = timedelta(seconds=keep_s)
        self._waiting: OrderedDict[tuple[str, str], _Held] = OrderedDict()
        self._chars = 0  # of the waiting turns
        self._writing: Mapping[tuple[str, str], _Held] = {}

    @property
    def is_on(self) -> bool:
        """Whether turns are kept at all."""
        return bool(self._keep)

    def keep(self, tenant_id: str, name: str, turn: KeptTurn) -> None:
        """Queue a turn to be written soon. A full queue drops its oldest turns."""
        replaced = self._waiting.get((tenant_id, name))
        self._waiting[tenant_id, name] = _Held(turn, self._clock.now() + self._keep)
        self._chars += turn.chars - (0 if replaced is None else replaced.turn.chars)
        while len(self._waiting) > MAX_WAITING or self._chars > MAX_WAITING_CHARS:
            _, oldest = self._waiting.popitem(last=False)
            self._chars -= oldest.turn.chars

    async def find(self, tenant_id: str, name: str, kind: type[Turn]) -> Turn | None:
        """Return a turn of this kind that is still kept."""
        held = self._waiting.get((tenant_id, name)) or self._writing.get((tenant_id, name))
        if held is not None and isinstance(held.turn, kind):
            return held.turn if held.expires_at > self._clock.now() else None
        kept = await self._store.read(lambda tx: tx.find_request(tenant_id, name))
        if kept is None or kept.expires_at <= self._clock.now():
            return None
        body = kept.body

        def parse() -> Turn | None:
            members = json.loads(body).get(kind.kind)
            return None if members is None else kind.from_members(members)

        return await self._computing.run(tenant_id, parse)

    async def get(self, tenant_id: str, name: str, kind: type[Turn]) -> Turn:
        """Return a turn of this kind that is still kept.

        Raises:
            NotFoundError: there is no such turn, or it expired.
        """
        turn = await self.find(tenant_id, name, kind)
        if turn is None:
            message = f"There is no {kind.noun} {name}, or it is no longer kept."
            raise NotFoundError(message)
        return turn

    async def flush(self) -> None:
        """Write the queued turns, and delete expired ones.

        Raises:
            StorageUnavailableError: writing failed; the turns stay queued.
        """
        if not self._waiting:
            return
        taken, self._waiting = self._waiting, OrderedDict()
        chars, self._chars = self._chars, 0
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
            self._chars += chars
            raise
        finally:
            self._writing = {}

    async def run(self) -> None:
        """Write periodically until cancelled, and once more at the end."""
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
            return  # /readyz reports it; the turns stay queued


def _kept(tenant_id: str, name: str, held: _Held) -> KeptRequest:
    return KeptRequest(
        tenant_id=tenant_id,
        selection_id=name,
        body=json.dumps({held.turn.kind: held.turn.to_members()}).encode(),
        expires_at=held.expires_at,
    )
