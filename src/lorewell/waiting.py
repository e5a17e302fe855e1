"""What a request does before it waits for something other than this process."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

on_wait: ContextVar[Callable[[], object] | None] = ContextVar("on_wait", default=None)
"""Called when the current request begins to wait; the server begins its caller's next request."""


def begin_to_wait() -> None:
    """Let the caller's next request begin: this one waits for a server or for its turn."""
    call = on_wait.get()
    if call is not None:
        call()
