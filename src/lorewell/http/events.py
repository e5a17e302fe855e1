"""Server-sent events (the `text/event-stream` of the HTML standard)."""

from __future__ import annotations

MEDIA_TYPE = "text/event-stream"
STILL_HERE = b": still here\n\n"  # a comment, so that nobody between ends a quiet connection
QUIET_SECONDS = 15.0


def event(name: str, data: str) -> bytes:
    """Return one event; `data` is JSON, which has no line of its own."""
    return f"event: {name}\ndata: {data}\n\n".encode()
