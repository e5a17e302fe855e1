"""The options of an embedder."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderOptions:
    """The model that makes vectors, and the limits of its calls.

    The local model uses only `batch_size` and `query_timeout_s`.

    Attributes:
        url: the base URL of the server, without `/embeddings`; it may hold a user and a password.
        api_key: sent as a bearer token, in place of the URL's password; empty for none.
        model: the server's name for the model.
        dimensions: the length of a vector.
        send_dimensions: whether to send `dimensions` in the request; many servers refuse it.
        query_prefix: put before a query; some models need one (`query: `).
        text_prefix: put before an indexed text (`passage: `).
        batch_size: the most texts of one call.
        concurrency: the most calls for texts at the same time, and as many for queries.
        timeout_s: seconds for one attempt at a call for texts.
        query_timeout_s: seconds for a query, with all its attempts.
        retries: attempts at a call for texts after the first.
        first_pause_s: seconds before the second attempt; each later pause is twice as long.
    """

    url: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    model: str = ""
    dimensions: int = 0
    send_dimensions: bool = False
    query_prefix: str = ""
    text_prefix: str = ""
    batch_size: int = 64
    concurrency: int = 4
    timeout_s: float = 60.0
    query_timeout_s: float = 2.0
    retries: int = 4
    first_pause_s: float = 0.5
