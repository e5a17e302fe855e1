"""What is said about a model server before it is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

MAX_REPLY_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt at a reply.

    Attributes:
        number: from 1.
        status: that the server answered; None if it answered nothing.
        failure: what went wrong, as the end of "The model server …"; None if nothing did.
        duration_ms: until it failed, or until the reply began or, in one piece, was there.
    """

    number: int
    status: int | None
    failure: str | None
    duration_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamOptions:
    """Which model is asked, and how patiently.

    Attributes:
        url: of the server, up to what comes before `/chat/completions`; it may hold a user and
            password.
        model: its name at the server.
        api_key: sent as a bearer token, in place of what the URL holds; empty for none.
        parameters: further members of every request, such as `temperature`.
        timeout_s: of a reply in one piece; in a stream, of the wait for each next piece.
        retries: attempts after the first. A time-out is none of what is tried again.
        first_pause_s: before the second attempt; it doubles from one to the next.
        max_reply_bytes: of one reply.
        on_attempt: told of every attempt.
    """

    url: str = field(repr=False)
    model: str
    api_key: str = field(default="", repr=False)
    parameters: Mapping[str, object] = field(default_factory=dict)
    timeout_s: float = 120.0
    retries: int = 2
    first_pause_s: float = 0.5
    max_reply_bytes: int = MAX_REPLY_BYTES
    on_attempt: Callable[[Attempt], object] | None = None
