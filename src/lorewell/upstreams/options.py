"""The options of a model server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

MAX_REPLY_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt at a reply.

    Attributes:
        number: from 1.
        status: the server's HTTP status; None without an answer.
        failure: the end of a sentence that begins "The model server …"; None for a success.
        duration_ms: until the attempt failed, the stream began, or the whole reply was there.
    """

    number: int
    status: int | None
    failure: str | None
    duration_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamOptions:
    """The model to call, and the limits of a call.

    Attributes:
        url: the base URL of the server, without `/chat/completions`; it may hold a user and a
            password.
        model: the server's name for the model.
        api_key: sent as a bearer token, in place of the URL's password; empty for none.
        parameters: more members of every request, such as `temperature`.
        timeout_s: seconds for a whole reply; in a stream, for each next piece.
        retries: attempts after the first. Timeouts are not retried.
        first_pause_s: seconds before the second attempt; each later pause is twice as long.
        max_reply_bytes: the largest size of a reply.
        on_attempt: called with every attempt.
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
