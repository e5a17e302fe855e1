"""What is said about an embedder before it is made."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderOptions:
    """Which vectors are wanted, and how patiently they are asked for.

    The model at hand uses `batch_size` and `query_timeout_s` alone.

    Attributes:
        url: of the server, up to what comes before `/embeddings`; it may hold a user and password.
        api_key: sent as a bearer token, in place of what the URL holds; empty for none.
        model: its name at the server.
        dimensions: numbers of a vector.
        send_dimensions: whether to ask the server for that many; many servers refuse to be asked.
        query_prefix: put before what is looked for; some models ask for it (`query: `).
        text_prefix: put before texts that are to be found (`passage: `).
        batch_size: texts of one call at most.
        concurrency: calls for texts that run at the same time, and so many for queries.
        timeout_s: of one attempt at a call for texts.
        query_timeout_s: of a query, with all its attempts.
        retries: attempts at a call for texts after the first.
        first_pause_s: before the second attempt; it doubles from one to the next.
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
