"""What is kept, as values: the rows that use cases and stores pass to each other."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

from lorewell.model.access import Scope
from lorewell.model.binding import Binding, PolicyChoice

if TYPE_CHECKING:  # who has no vectors loads no numpy for them
    from numpy import float64, int64
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRow:
    """A book by its newest revision. All times are aware and in UTC."""

    tenant_id: str
    book_id: str
    name: str
    latest_revision: int
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRow:
    """A revision without its content, which is stored once a tenant under `content_hash`.

    Attributes:
        origin: the policy that its entries were written for, `native` or `sillytavern` or
            `replica`, by the formats they came from.
        import_report: JSON.
    """

    tenant_id: str
    book_id: str
    revision: int
    name: str
    entry_count: int
    content_hash: str
    origin: str
    import_report: bytes
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBindings:
    """A prompt's bindings, in stored order, and their policy."""

    policy: PolicyChoice
    bindings: tuple[Binding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """An API key; of its secret only a salted hash is stored."""

    key_id: str
    name: str
    tenants: tuple[str, ...]
    scopes: tuple[Scope, ...]
    salt: bytes
    secret_hash: bytes
    created_at: datetime
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResult:
    """What a key of an idempotent request stands for: its content and what it answered."""

    request_hash: str
    status: int
    response: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRequest:
    """A selection's request, kept for a while so that its ledger can be computed later."""

    tenant_id: str
    selection_id: str
    body: bytes
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEvent:
    """An event of the live channel.

    Attributes:
        id: its number, over all tenants; 0 before it is stored.
        body: JSON, without its number.
    """

    id: int = 0
    tenant_id: str
    prompt_id: str
    made_at: datetime
    body: bytes


class LiveMost(NamedTuple):
    """How many events are read at most; the bytes are exceeded by the last one of them."""

    events: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRow:
    """A conversation, and how many states are kept of it."""

    tenant_id: str
    conversation_id: str
    state_count: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMark:
    """Which messages a kept state comes after, and since when it is kept."""

    messages_hash: str
    message_count: int
    kept_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    """The vector index of one revision, or the build of one.

    Attributes:
        embedding_version: what its last build makes vectors with, as all below is of that build.
        build_id: names that build.
        chunk_count: chunks that the revision has; 0 before they are counted.
        done: how many of them have their vectors.
        error: why the last build failed.
        lease_until: a build that runs shows before that time that it does; else it is dead.
        ready_version, ready_build_id: of the vectors that can be searched, those of the last build
            that succeeded; None before the first.
    """

    tenant_id: str
    book_id: str
    revision: int
    embedding_version: str
    status: Literal["building", "ready", "failed"]
    build_id: str
    chunk_count: int = 0
    done: int = 0
    error: str | None = None
    lease_until: datetime | None = None
    updated_at: datetime
    ready_version: str | None = None
    ready_build_id: str | None = None


class Chunk(NamedTuple):
    """A piece of an entry's content: the entry's place, where it starts, what was embedded."""

    place: int
    start: int
    text_hash: str


class ChunkScores(NamedTuple):
    """How near the chunks of one revision are to a query: three arrays, one number a chunk.

    `similarities` are cosines. The order of the chunks is not told.
    """

    places: NDArray[int64]
    starts: NDArray[int64]
    similarities: NDArray[float64]


class NearChunk(NamedTuple):
    """A chunk that was found among those of a whole tenant, and its cosine."""

    book_id: str
    revision: int
    place: int
    start: int
    similarity: float
