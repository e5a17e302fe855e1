"""Times in the form of the API."""

from __future__ import annotations

from datetime import datetime


def stamp(time: datetime) -> str:
    """Format a UTC time for the API: RFC 3339 with microseconds and Z.

    >>> from datetime import UTC
    >>> stamp(datetime(2026, 3, 1, 12, tzinfo=UTC))
    '2026-03-01T12:00:00.000000Z'
    """
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
