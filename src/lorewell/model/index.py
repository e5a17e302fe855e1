"""The vector index of a revision (spec/native.md §10)."""

from __future__ import annotations

from typing import Literal

from lorewell.model.base import Contract
from lorewell.model.records import RevisionNumber, Timestamp
from lorewell.model.text import Flag

IndexStatus = Literal["absent", "building", "ready", "failed"]


class IndexRequest(Contract):
    """Which revision to index; `force` builds again what is ready."""

    revision: RevisionNumber
    force: Flag = False


class IndexState(Contract):
    """How far the index of a revision is; `absent` if it was never built."""

    book_id: str
    revision: int
    status: IndexStatus
    embedding_version: str | None
    chunk_count: int
    error: str | None
    updated_at: Timestamp | None
