"""The vector index of a revision (docs/rules/native.md §10)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lorewell.model.base import Contract
from lorewell.model.records import RevisionNumber, Timestamp
from lorewell.model.select import RecallScale
from lorewell.model.text import Flag

IndexStatus = Literal["absent", "building", "ready", "failed"]


class IndexRequest(Contract):
    """A vector index to build.

    Attributes:
        revision: the revision to index.
        force: build the index again even if it is ready.
    """

    revision: RevisionNumber
    force: Flag = False


class IndexState(Contract):
    """The state of a revision's vector index. All fields but `usable` describe its last build.

    Attributes:
        book_id: the book.
        revision: the revision.
        status: `absent` if the index was never built.
        embedding_version: the embedding model of the build.
        chunk_count: number of chunks of the revision.
        done: number of chunks that have a vector.
        usable: whether a search can use the index: some build with the current embedding model is
            complete. It stays true while a new build runs or if that fails.
        error: why the build failed.
        updated_at: when the state last changed.
        quiet: what texts that need no lore reach at most in the index, by language: cosine
            similarities; empty if this has not been measured. `recall_floor: "auto"` needs them.
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
    quiet: Annotated[dict[str, RecallScale], Field(max_length=100)] = Field(default_factory=dict)


class IndexBuilt(IndexState):
    """The index that a request built.

    Attributes:
        reused: whether the index was ready before, so that nothing was built.
    """

    reused: bool


class IndexPage(Contract):
    """A page of the indexes of revisions in use: the latest of each book, and pinned ones.

    Attributes:
        indexes: ordered by book, then revision.
        next_cursor: `cursor` of the next page; null on the last page.
    """

    indexes: tuple[IndexState, ...]
    next_cursor: str | None
