"""The vector index of a revision (docs/rules/native.md §10)."""

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
    """How far the index of a revision is; `absent` if it was never built.

    All but `usable` is of its last build; `done` of `chunk_count` chunks have their vectors.
    `usable` is whether a search can use it: a build was ready that was made by what makes vectors
    now. It stays so while another one is built, and if that fails.
    """

    book_id: str
    revision: int
    status: IndexStatus
    embedding_version: str | None
    chunk_count: int
    done: int
    usable: bool
    error: str | None
    updated_at: Timestamp | None


class IndexBuilt(IndexState):
    """An index that was asked for; `reused` if it was ready before."""

    reused: bool


class IndexPage(Contract):
    """Indexes of the revisions in use: each book's latest one, and those bound by number."""

    indexes: tuple[IndexState, ...]
    next_cursor: str | None
