"""Times as the contract writes them."""

from __future__ import annotations

from datetime import datetime


def stamp(time: datetime) -> str:
    """Return a time as the contract writes it: RFC 3339, UTC, microseconds, Z.

    >>> from datetime import UTC
    >>> stamp(datetime(2026, 3, 1, 12, tzinfo=UTC))
    '2026-03-01T12:00:00.000000Z'
    """
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
