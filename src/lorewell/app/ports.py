"""The ports of the use cases: database, embedder, model servers and clock, as protocols.

The database part of a use case is one plain function of a `Transaction`, which a `Store`
runs whole. So the same function runs on every database, in one thread hop.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from lorewell.app.rows import (
    Chunk,
    ChunkScores,
    ConversationRow,
    HeadRow,
    IndexRow,
    KeptRequest,
    KeyRow,
    LiveEvent,
    LiveMost,
    NearChunk,
    PairsChange,
    PromptRow,
    RevisionRow,
    StateMark,
    StoredBindings,
    StoredResult,
)

if TYPE_CHECKING:  # services without vectors never load numpy
    from numpy import float32
    from numpy.typing import NDArray

Result = TypeVar("Result")

Part = Literal["storage", "not_a_database", "migrations", "newer_schema", "writes"]
"""The part of a database that is not ready: reading, the file, an old or newer schema, writing."""


class Transaction(Protocol):
    """One transaction: a consistent snapshot, and all writes or none.

    Reads for a tenant never return rows of another tenant. Deleted books are returned too, with
    `deleted_at` set.
    """

    # Books
    def find_head(self, tenant_id: str, book_id: str, *, lock: bool = False) -> HeadRow | None:
        """Return a book's head; `lock` blocks other writers of it until this transaction ends."""

    def find_heads(self, tenant_id: str, book_ids: Sequence[str]) -> Mapping[str, HeadRow]:
        """Return the heads that exist, by book id."""

    def find_heads_named(self, tenant_id: str, names: Sequence[str]) -> Mapping[str, HeadRow]:
        """Return the books with exactly these names that are not deleted, by name.

        Of several books with one name, the one changed last; ties by book id.
        """

    def hold_name(self, tenant_id: str, name: str) -> None:
        """Lock a book name until this transaction ends.

        Take the lock before adding a book whose name must be unique.
        """

    def list_heads(
        self,
        tenant_id: str | None,
        *,
        limit: int,
        after: tuple[datetime, str, str] | None,
        name_contains: str | None,
        include_deleted: bool,
    ) -> Sequence[HeadRow]:
        """Return heads by `updated_at` descending, then book id, then tenant id ascending.

        `tenant_id` None lists all tenants. `after` is (updated_at, book_id, tenant_id) of the last
        head seen. `name_contains` ignores case: it compares Unicode-folded text.
        """

    def list_tenants(self) -> Sequence[str]:
        """Return all tenants that have a book, deleted ones included, in alphabetical order."""

    def insert_book(self, head: HeadRow) -> None:
        """Add a book."""

    def advance_book(
        self, tenant_id: str, book_id: str, *, revision: int, name: str, updated_at: datetime
    ) -> None:
        """Move a book's head to another revision."""

    def set_deleted(
        self, tenant_id: str, book_id: str, *, deleted_at: datetime | None, updated_at: datetime
    ) -> None:
        """Mark a book as deleted, or as no longer deleted."""

    # Revisions
    def insert_revision(self, row: RevisionRow, content: bytes) -> None:
        """Add a revision; content that the tenant already has is not stored again."""

    def find_revision(self, tenant_id: str, book_id: str, revision: int) -> RevisionRow | None:
        """Return a revision without its content."""

    def list_revisions(
        self, tenant_id: str, book_id: str, *, limit: int, before: int | None
    ) -> Sequence[RevisionRow]:
        """Return revisions, newest first, below number `before` if given."""

    def get_content(self, tenant_id: str, content_hash: str) -> bytes:
        """Return the content of a revision by its hash."""

    # Files
    def find_file(self, tenant_id: str, sha256: str) -> str | None:
        """Return the id of the book that was imported from a file."""

    def claim_file(self, tenant_id: str, sha256: str) -> str | None:
        """Claim a file for this transaction, or return the id of the book imported from it before.

        A concurrent claim of the file waits until this transaction ends. Then call `put_file`.
        """

    def put_file(self, tenant_id: str, sha256: str, book_id: str) -> None:
        """Record the book that was imported from a file, in place of an earlier one."""

    # Idempotency
    def claim(self, tenant_id: str, key: str, request_hash: str) -> StoredResult | None:
        """Claim a key for this transaction, or return the stored result of an earlier claim.

        A concurrent claim of the same key waits until this transaction ends.
        """

    def settle(self, tenant_id: str, key: str, *, status: int, response: bytes) -> None:
        """Store the result of a key that this transaction claimed."""

    # Bindings
    def find_bindings(self, tenant_id: str, prompt_id: str) -> StoredBindings | None:
        """Return a prompt's bindings; None if none were ever stored."""

    def put_bindings(self, tenant_id: str, prompt_id: str, bindings: StoredBindings) -> None:
        """Replace all of a prompt's bindings."""

    def list_prompts(
        self, tenant_id: str, *, limit: int, after: str | None = None, book_id: str | None = None
    ) -> Sequence[PromptRow]:
        """Return prompts that have an enabled binding, by name; with a book, those that use it.

        `after` is the last prompt seen.
        """

    # API keys
    def insert_key(self, row: KeyRow) -> None:
        """Add an API key."""

    def find_key(self, key_id: str) -> KeyRow | None:
        """Return an API key, even if it is revoked."""

    def list_keys(self) -> Sequence[KeyRow]:
        """Return all API keys, oldest first."""

    def revoke_key(self, key_id: str, revoked_at: datetime) -> None:
        """Revoke a key permanently; a revoked key stays as it is."""

    # Kept requests
    def keep_request(self, kept: KeptRequest) -> None:
        """Store a request, in place of one with the same id."""

    def find_request(self, tenant_id: str, selection_id: str) -> KeptRequest | None:
        """Return a kept request, even if it expired."""

    def drop_requests(self, expired_by: datetime) -> int:
        """Delete the requests that expired by then; return how many."""

    # Live events
    def add_live(self, events: Sequence[LiveEvent]) -> int:
        """Add events in order, wake `Store.hear`, and return the id of the last one.

        Ids increase in the order in which events become visible: a reader that has seen an id never
        misses a smaller one that appears later.
        """

    def live_ids(self) -> tuple[int, int]:
        """Return the ids of the oldest and the newest stored event; 0 if there is none."""

    def list_live(self, *, after: int, limit: int) -> Sequence[LiveEvent]:
        """Return the events after an id, of all tenants, oldest first."""

    def list_live_of(
        self, tenant_id: str, prompt_id: str, *, after: int, until: int, most: LiveMost
    ) -> tuple[Sequence[LiveEvent], bool]:
        """Return the newest events of a prompt in `(after, until]`, oldest first.

        The second value is whether these are all of them.
        """

    def drop_live(self, *, made_before: datetime, most: int) -> int:
        """Delete old events, and all but about `most`; never the newest. Return how many."""

    # Conversations
    def keep_state(
        self, tenant_id: str, conversation_id: str, mark: StateMark, state: bytes, *, most: int
    ) -> None:
        """Store a state in place of one after the same messages.

        Only the newest `most` states of a conversation stay. The first state creates it.
        """

    def find_conversation(self, tenant_id: str, conversation_id: str) -> ConversationRow | None:
        """Return a conversation."""

    def list_conversations(
        self, tenant_id: str, *, limit: int, after: tuple[datetime, str] | None
    ) -> Sequence[ConversationRow]:
        """Return conversations by `updated_at` descending, then id ascending.

        `after` is (updated_at, conversation_id) of the last conversation seen.
        """

    def list_marks(self, tenant_id: str, conversation_id: str) -> Sequence[StateMark]:
        """Return the marks of a conversation's states, newest first, then longest first."""

    def list_states(
        self, tenant_id: str, conversation_id: str
    ) -> Sequence[tuple[StateMark, bytes]]:
        """Return a conversation's states in the order of `list_marks`."""

    def get_state(self, tenant_id: str, conversation_id: str, messages_hash: str) -> bytes:
        """Return a stored state."""

    def delete_conversation(self, tenant_id: str, conversation_id: str) -> bool:
        """Delete a conversation with all its states and lines; return whether it existed."""

    def find_lines(
        self, tenant_id: str, conversation_id: str, *, lock: bool = False
    ) -> bytes | None:
        """Return the stored lines of a conversation; `lock` blocks other writers of them."""

    def put_lines(self, tenant_id: str, conversation_id: str, body: bytes) -> None:
        """Store the lines of an existing conversation in place of earlier ones."""

    def put_pairs(self, tenant_id: str, conversation_id: str, change: PairsChange) -> None:
        """Add and remove pairs of an existing conversation.

        A pair that 8 conversations have is not added: it would tell them apart no more.
        """

    def find_variables(self, tenant_id: str, owner: bytes, *, lock: bool = False) -> bytes | None:
        """Return the global variables of a user; `lock` blocks other writers of them."""

    def put_variables(self, tenant_id: str, owner: bytes, body: bytes | None, at: datetime) -> None:
        """Store the global variables of a user in place of earlier ones; None deletes them."""

    def drop_old_variables(self, tenant_id: str, *, most: int) -> None:
        """Delete the global variables of all users but the `most` whose changed last."""

    def find_paired(self, tenant_id: str, pairs: Sequence[bytes]) -> Sequence[tuple[bytes, str]]:
        """Return which conversations have these pairs: pair and id, in the order of the ids."""

    def add_secret(self, tenant_id: str, secret: bytes) -> bytes:
        """Store the tenant's secret unless it has one; return the stored one."""

    def find_secret(self, tenant_id: str) -> bytes | None:
        """Return the tenant's secret."""

    # Vectors
    def find_index(
        self, tenant_id: str, book_id: str, revision: int, *, lock: bool = False
    ) -> IndexRow | None:
        """Return a revision's index; `lock` blocks other writers of it until this ends."""

    def find_indexes(
        self, tenant_id: str, revisions: Sequence[tuple[str, int]]
    ) -> Mapping[tuple[str, int], IndexRow]:
        """Return the indexes of these revisions by (book_id, revision), without missing ones."""

    def list_indexes(
        self,
        tenant_id: str,
        *,
        limit: int,
        after: tuple[str, int] | None,
        not_ready_for: str | None,
    ) -> Sequence[tuple[str, int, IndexRow | None]]:
        """Return the revisions in use with their index, by book id, then revision.

        In use are the latest revision of each book that is not deleted, and the revisions that
        enabled bindings name. `after` is (book_id, revision) of the last one seen. `not_ready_for`
        excludes the revisions that are ready for this embedding version.
        """

    def add_index(self, row: IndexRow) -> bool:
        """Add an index and return True; return False if the revision has one already."""

    def put_index(self, row: IndexRow) -> None:
        """Replace a revision's index."""

    def advance_index(
        self, row: IndexRow, *, done: int, lease_until: datetime, updated_at: datetime
    ) -> bool:
        """Record the progress of this row's build; return whether it is still the current build."""

    def known_texts(
        self, tenant_id: str, embedding_version: str, text_hashes: Sequence[str]
    ) -> frozenset[str]:
        """Return which of the texts have vectors."""

    def put_embeddings(
        self,
        tenant_id: str,
        embedding_version: str,
        vectors: Mapping[str, NDArray[float32]],
        made_at: datetime,
    ) -> None:
        """Store vectors by the hash of their text, replacing existing ones."""

    def put_chunks(
        self,
        tenant_id: str,
        book_id: str,
        revision: int,
        embedding_version: str,
        found: Sequence[Chunk],
    ) -> None:
        """Replace all chunks of a revision; its index and the vectors must exist."""

    def hold_texts(self, tenant_id: str) -> None:
        """Lock the texts of a tenant until this transaction ends.

        Take the lock before `put_chunks` and `drop_embeddings`.
        """

    def drop_embeddings(self, tenant_id: str, made_before: datetime) -> int:
        """Delete old vectors that no chunk uses; return how many."""

    def similarities(self, index: IndexRow, query: NDArray[float32]) -> ChunkScores:
        """Return the similarity of each chunk of a ready index to a query vector of length 1."""

    def near_chunks(
        self, tenant_id: str, embedding_version: str, query: NDArray[float32], *, limit: int
    ) -> Sequence[NearChunk]:
        """Return the nearest chunks of the latest revisions of all books that are not deleted.

        Nearest first. With very many chunks, an approximate index may miss some.
        """


class Store(Protocol):
    """A database. Methods raise StorageUnavailableError if it can't be reached."""

    async def read(self, work: Callable[[Transaction], Result]) -> Result:
        """Run `work` in a consistent read-only snapshot that includes every acknowledged write."""

    def mark(self) -> Hashable | None:
        """Return a value that changes with every commit, by any process.

        It never waits. None if only a read could find out.
        """

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Run `work` and commit its writes; roll back if it raises.

        It may be called again, so `work` must only read and write this transaction.
        """

    async def hear(self, heard: Callable[[], None]) -> None:
        """Call `heard` soon after any process added live events, until cancelled.

        Spurious calls are allowed. After an interruption it is called once more.
        """

    async def prepare_tenant_search(self, embedding_version: str, dimensions: int) -> None:
        """Prepare `near_chunks` for very many vectors, if the database needs it."""

    async def migrate(self) -> None:
        """Bring the schema up to date; safe to call from several processes at once."""

    async def check(self) -> Part | None:
        """Return the part that is not ready; None if all are. It takes a few seconds at most."""

    async def close(self) -> None:
        """Close all connections."""


class Embedder(Protocol):
    """Embeds texts. Vectors have length 1, so their dot product is their cosine.

    Attributes:
        version: names the model and everything else that its vectors depend on.
        dimensions: numbers per vector.
        batch_size: maximum texts per call to `embed_texts`.
        concurrency: maximum parallel calls.
    """

    version: str
    dimensions: int
    batch_size: int
    concurrency: int

    async def embed_texts(
        self, texts: Sequence[str], *, as_queries: bool = False
    ) -> NDArray[float32]:
        """Return the vectors of texts, in order; it retries patiently.

        Raises:
            EmbeddingUnavailableError: it failed; the message says why and quotes no text.
        """

    async def embed_query(self, text: str) -> NDArray[float32]:
        """Return the vector of a query, within the time that a turn allows.

        Raises:
            EmbeddingUnavailableError: it failed; the message says why and does not quote the text.
        """

    async def prepare(self) -> None:
        """Do ahead of time what the first query would otherwise wait for.

        Raises:
            EmbeddingUnavailableError: it failed; the next call tries again.
        """

    async def close(self) -> None:
        """Close all connections."""


class ReplyPiece(Protocol):
    """A piece of a model's reply."""

    @property
    def content(self) -> str:
        """Its text; it may be empty."""


class ReplyModel(Protocol):
    """A model that replies."""

    def stream(self, messages: Sequence[Mapping[str, Any]]) -> AsyncGenerator[ReplyPiece]:
        """Yield the pieces of the reply as they arrive; closing the generator ends the call.

        Raises:
            UpstreamError: there is no reply, or it breaks off.
        """

    async def close(self) -> None:
        """Close all connections."""


Header = tuple[bytes, bytes]
"""A header as on the wire: name, value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamCall:
    """A request to the upstream.

    Attributes:
        path: appended to the upstream's base URL.
        authorization: the caller's header, in place of the upstream's own key; None sends that key.
    """

    method: str
    path: str
    headers: Sequence[Header]
    authorization: str | None = field(default=None, repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamAnswer:
    """The upstream's answer; `pieces` of its body are neither decompressed nor joined."""

    status: int
    headers: Sequence[Header]
    pieces: AsyncIterator[bytes]


class Upstream(Protocol):
    """A server of chat completions."""

    def exchange(self, call: UpstreamCall) -> AbstractAsyncContextManager[UpstreamAnswer]:
        """Send a call and yield its answer as soon as that begins; leaving the block ends both.

        Raises:
            UpstreamUnavailableError: there is no answer, or it breaks off; also while `pieces` are
                read.
            UpstreamTimeoutError: the next byte takes too long.
        """

    async def close(self) -> None:
        """Close all connections."""


class Clock(Protocol):
    """A clock, so that tests can set the time."""

    def now(self) -> datetime:
        """Return the current time: aware, UTC, whole microseconds."""
