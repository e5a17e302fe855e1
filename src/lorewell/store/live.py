"""Events of the live channel, with ids in the order in which they become visible."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import RowMapping, bindparam, delete, func, insert, select

from lorewell.app.rows import LiveEvent, LiveMost
from lorewell.store.statements import Statements
from lorewell.store.tables import live_events

_INSERT = insert(live_events)
_NEWEST = select(func.max(live_events.c.id)).scalar_subquery()
# Two subqueries: SQLite would scan the whole table for both in one.
_OLDEST = select(func.min(live_events.c.id)).scalar_subquery()
_IDS = select(func.coalesce(_OLDEST, 0).label("oldest"), func.coalesce(_NEWEST, 0).label("newest"))
_AFTER = (
    select(live_events)
    .where(live_events.c.id > bindparam("after"))
    .order_by(live_events.c.id)
    .limit(bindparam("limit"))
)
_NEWEST_OF = (
    select(live_events)
    .where(
        live_events.c.tenant_id == bindparam("tenant"),
        live_events.c.prompt_id == bindparam("prompt"),
        live_events.c.id > bindparam("after"),
        live_events.c.id <= bindparam("until"),
    )
    .order_by(live_events.c.id.desc())
    .limit(bindparam("limit"))
)
# Ids follow the times, apart from clock differences. So the first event that is young enough ends
# the range to delete, and no more events are read.
_YOUNG = (
    select(live_events.c.id)
    .where(live_events.c.made_at >= bindparam("made_before"))
    .order_by(live_events.c.id)
    .limit(1)
    .scalar_subquery()
)
_DROP_OLD = delete(live_events).where(live_events.c.id < func.coalesce(_YOUNG, _NEWEST))
_DROP_MANY = delete(live_events).where(
    live_events.c.id < _NEWEST, live_events.c.id <= _NEWEST - bindparam("most")
)


class LiveEventStatements(Statements):
    """The statements on live events."""

    def add_live(self, events: Sequence[LiveEvent]) -> int:
        """Add events in order, notify listeners, and return the id of the last one."""
        self._take_turn()
        rows = [
            {
                "tenant_id": each.tenant_id,
                "prompt_id": each.prompt_id,
                "made_at": each.made_at,
                "body": self._pack(each.body),
            }
            for each in events
        ]
        self._execute(_INSERT, rows)
        newest = self.live_ids()[1]
        self._announce(newest)
        return newest

    def live_ids(self) -> tuple[int, int]:
        """Return the ids of the oldest and the newest stored event; 0 if there is none."""
        row = self._row(_IDS)
        return (0, 0) if row is None else (row["oldest"], row["newest"])

    def list_live(self, *, after: int, limit: int) -> Sequence[LiveEvent]:
        """Return events of all tenants, oldest first."""
        return self._events(self._rows(_AFTER, after=after, limit=limit))

    def list_live_of(
        self, tenant_id: str, prompt_id: str, *, after: int, until: int, most: LiveMost
    ) -> tuple[Sequence[LiveEvent], bool]:
        """Return the newest events of a prompt, oldest first, and whether these are all."""
        place = {"tenant": tenant_id, "prompt": prompt_id, "after": after, "until": until}
        rows = self._rows(_NEWEST_OF, **place, limit=most.events + 1)
        found: list[LiveEvent] = []
        for row in rows[: most.events]:
            found += self._events([row])
            if sum(len(each.body) for each in found) > most.bytes:
                break
        return found[::-1], len(found) == len(rows)

    def drop_live(self, *, made_before: datetime, most: int) -> int:
        """Delete old events, and all but the newest ones; return how many."""
        dropped = self._change(_DROP_OLD, made_before=made_before)
        return dropped + self._change(_DROP_MANY, most=most)

    def _take_turn(self) -> None:
        """Wait until other transactions that add events have ended."""

    def _announce(self, newest: int) -> None:
        """Notify all processes on commit that there are events up to this id."""

    def _events(self, rows: Sequence[RowMapping]) -> Sequence[LiveEvent]:
        return [LiveEvent(**{**row, "body": self._unpack(row["body"])}) for row in rows]
