"""Server-sent events (the `text/event-stream` of the HTML standard)."""

from __future__ import annotations

MEDIA_TYPE = "text/event-stream"
STILL_HERE = b": still here\n\n"  # a comment, so that no proxy ends a quiet connection
QUIET_SECONDS = 15.0


def event(name: str, data: str, number: int = 0) -> bytes:
    """Return one event; `data` is JSON without line breaks. A number of 0 gives no `id`."""
    numbered = f"id: {number}\n" if number else ""
    return f"event: {name}\n{numbered}data: {data}\n\n".encode()
