"""Server-sent events (the `text/event-stream` of the HTML standard)."""

from __future__ import annotations

MEDIA_TYPE = "text/event-stream"
STILL_HERE = b": still here\n\n"  # a comment, so that nobody between ends a quiet connection
QUIET_SECONDS = 15.0


def event(name: str, data: str, number: int = 0) -> bytes:
    """Return one event; `data` is JSON, which has no line of its own. Without a number it has 0."""
    numbered = f"id: {number}\n" if number else ""
    return f"event: {name}\n{numbered}data: {data}\n\n".encode()
