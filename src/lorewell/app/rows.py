"""The rows that use cases and stores exchange."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

from lorewell.model.access import Scope
from lorewell.model.binding import Binding, PolicyChoice
from lorewell.model.prompt_settings import NO_SETTINGS, PromptSettings

if TYPE_CHECKING:  # services without vectors never load numpy
    from numpy import float64, int64
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRow:
    """The head of a book: its newest revision. All times are aware and in UTC."""

    tenant_id: str
    book_id: str
    name: str
    latest_revision: int
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRow:
    """A revision without its content, which is stored once per tenant under `content_hash`.

    Attributes:
        origin: the policy that its entries were written for, known from their format: `native`,
            `sillytavern` or `replica`.
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
    """A prompt's bindings, in stored order, their policy, and how its turns use the books."""

    policy: PolicyChoice
    bindings: tuple[Binding, ...]
    settings: PromptSettings = NO_SETTINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRow:
    """A prompt that uses books: its stored policy and settings, and the number of its books."""

    prompt_id: str
    policy: PolicyChoice
    settings: PromptSettings
    book_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """An API key; only a salted hash of its secret is stored."""

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
    """The hash of an idempotent request, and its answer."""

    request_hash: str
    status: int
    response: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRequest:
    """A request, kept for a while so that its ledger can be computed later."""

    tenant_id: str
    selection_id: str
    body: bytes
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEvent:
    """An event of the live channel.

    Attributes:
        id: unique over all tenants; 0 before it is stored.
        body: JSON without the id.
    """

    id: int = 0
    tenant_id: str
    prompt_id: str
    made_at: datetime
    body: bytes


class LiveMost(NamedTuple):
    """Limits of a read: events, and bytes; the last event read may exceed the bytes."""

    events: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRow:
    """A conversation, and the number of its stored states."""

    tenant_id: str
    conversation_id: str
    state_count: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMark:
    """The messages that a stored state follows, and when it was stored."""

    messages_hash: str
    message_count: int
    kept_at: datetime


class PairsChange(NamedTuple):
    """Pairs of lines to add to a conversation and to remove from it."""

    added: Sequence[bytes]
    removed: Sequence[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    """The vector index of one revision, with its last build.

    Attributes:
        embedding_version: of the last build, as are all attributes below.
        build_id: names that build.
        chunk_count: chunks of the revision; 0 before they are counted.
        done: chunks that have vectors.
        error: why the build failed.
        lease_until: a running build renews it before that time; after it, the build is dead.
        ready_version, ready_build_id: of the last build that succeeded, whose vectors are searched;
            None before the first.
        partial_version: before the first, of the stored chunks of texts that had vectors when the
            build began; None if there are none.
        quiet: what texts that need no lore reach in the ready vectors, as JSON; None if this has
            not been measured.
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
    partial_version: str | None = None
    quiet: str | None = None


class Chunk(NamedTuple):
    """A piece of an entry's content: the entry's index in the book, its start, its text's hash."""

    place: int
    start: int
    text_hash: str


class ChunkScores(NamedTuple):
    """The similarity of each chunk of one revision to a query: three arrays of equal length.

    `similarities` are cosines. The chunks have no particular order.
    """

    places: NDArray[int64]
    starts: NDArray[int64]
    similarities: NDArray[float64]


class NearChunk(NamedTuple):
    """A chunk found by a search over a whole tenant, with its cosine."""

    book_id: str
    revision: int
    place: int
    start: int
    similarity: float
