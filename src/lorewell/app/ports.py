"""What the use cases need of the world outside, as protocols; no adapter is named here.

A use case's database part is one plain function that takes a `Transaction`; a `Store` runs it
whole. So the same function runs on every database, and in one thread hop.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Hashable,
    Mapping,
    Sequence,
)
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
    RevisionRow,
    StateMark,
    StoredBindings,
    StoredResult,
)

if TYPE_CHECKING:  # who has no vectors loads no numpy for them
    from numpy import float32
    from numpy.typing import NDArray

Result = TypeVar("Result")

Part = Literal["storage", "not_a_database", "migrations", "newer_schema", "writes"]
"""What of a database is not ready: reading, the file, an old schema, a new schema, writing."""


class Transaction(Protocol):
    """One transaction. Everything is seen, and in a write done, as a whole or not at all.

    Reads of a tenant never show another tenant's rows. Deleted books are returned with
    `deleted_at` set; what that means is the caller's to say.
    """

    # Books
    def find_head(self, tenant_id: str, book_id: str, *, lock: bool = False) -> HeadRow | None:
        """Return a book's head; with `lock` nobody else changes it before this transaction ends."""

    def find_heads(self, tenant_id: str, book_ids: Sequence[str]) -> Mapping[str, HeadRow]:
        """Return the heads that exist, by book id."""

    def find_heads_named(self, tenant_id: str, names: Sequence[str]) -> Mapping[str, HeadRow]:
        """Return the books with exactly these names that are not deleted, by name.

        Of several with one name it is the one that was changed last, then the first book id.
        """

    def hold_name(self, tenant_id: str, name: str) -> None:
        """Wait for other transactions that did this; till this one ends others wait for it.

        Who adds a book only if nobody has its name does it first.
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

        Without a tenant those of all tenants. `after` is (updated_at, book_id, tenant_id) of the
        last one seen. `name_contains` minds case for ASCII letters no more than SQL does: the
        comparison is of Unicode-folded text.
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
        """Add a revision; content that the tenant has already is stored no second time."""

    def find_revision(self, tenant_id: str, book_id: str, revision: int) -> RevisionRow | None:
        """Return a revision without its content."""

    def list_revisions(
        self, tenant_id: str, book_id: str, *, limit: int, before: int | None
    ) -> Sequence[RevisionRow]:
        """Return revisions, newest first, below number `before` if given."""

    def get_content(self, tenant_id: str, content_hash: str) -> bytes:
        """Return a content that a revision names."""

    # Files
    def find_file(self, tenant_id: str, sha256: str) -> str | None:
        """Return the id of the book that a file made."""

    def claim_file(self, tenant_id: str, sha256: str) -> str | None:
        """Take a file for this transaction, or return the id of the book that it made before.

        A twin that runs at the same time waits until this transaction has ended. Who takes a file
        puts its book.
        """

    def put_file(self, tenant_id: str, sha256: str, book_id: str) -> None:
        """Remember which book a file made; a later book replaces an earlier one."""

    # Idempotency
    def claim(self, tenant_id: str, key: str, request_hash: str) -> StoredResult | None:
        """Take a key for this transaction, or return what it was taken for before.

        A twin that runs at the same time waits until this transaction has ended.
        """

    def settle(self, tenant_id: str, key: str, *, status: int, response: bytes) -> None:
        """Say what a key claimed in this transaction stands for."""

    # Bindings
    def find_bindings(self, tenant_id: str, prompt_id: str) -> StoredBindings | None:
        """Return a prompt's bindings, None if none were ever put."""

    def put_bindings(self, tenant_id: str, prompt_id: str, bindings: StoredBindings) -> None:
        """Replace all of a prompt's bindings."""

    def is_bound(self, tenant_id: str, book_id: str) -> bool:
        """Return whether an enabled binding of any prompt names the book."""

    def list_prompts(self, tenant_id: str) -> Sequence[str]:
        """Return the prompts that have an enabled binding, in alphabetical order; 1,000 at most."""

    # API keys
    def insert_key(self, row: KeyRow) -> None:
        """Add an API key."""

    def find_key(self, key_id: str) -> KeyRow | None:
        """Return an API key, revoked ones too."""

    def list_keys(self) -> Sequence[KeyRow]:
        """Return all API keys, oldest first."""

    def revoke_key(self, key_id: str, revoked_at: datetime) -> None:
        """Close a key for good; one that is closed already stays as it was."""

    # Kept requests
    def keep_request(self, kept: KeptRequest) -> None:
        """Keep a request; one with the same id is replaced."""

    def find_request(self, tenant_id: str, selection_id: str) -> KeptRequest | None:
        """Return a kept request, expired ones too."""

    def drop_requests(self, expired_by: datetime) -> int:
        """Forget the requests that expired by then; return how many."""

    # Live events
    def add_live(self, events: Sequence[LiveEvent]) -> int:
        """Add events in their order, tell `Store.hear` of them, and return the last one's id.

        Ids go up in the order in which they become visible: who has seen one never misses a
        smaller one that comes later.
        """

    def live_ids(self) -> tuple[int, int]:
        """Return the ids of the oldest and the newest event that are kept; 0 where none is."""

    def list_live(self, *, after: int, limit: int) -> Sequence[LiveEvent]:
        """Return the events after an id, of all tenants, oldest first."""

    def list_live_of(
        self, tenant_id: str, prompt_id: str, *, after: int, until: int, most: LiveMost
    ) -> tuple[Sequence[LiveEvent], bool]:
        """Return the newest events of a prompt after an id and up to another one, oldest first.

        And whether these are all of them.
        """

    def drop_live(self, *, made_before: datetime, most: int) -> int:
        """Forget old events, and all but about that many; never the newest. Return how many."""

    # Conversations
    def keep_state(
        self, tenant_id: str, conversation_id: str, mark: StateMark, state: bytes, *, most: int
    ) -> None:
        """Keep a state, in place of one after the same messages; of more than `most` the newest.

        The conversation is made with its first state.
        """

    def find_conversation(self, tenant_id: str, conversation_id: str) -> ConversationRow | None:
        """Return a conversation."""

    def list_conversations(
        self, tenant_id: str, *, limit: int, after: tuple[datetime, str] | None
    ) -> Sequence[ConversationRow]:
        """Return conversations by `updated_at` descending, then id ascending.

        `after` is (updated_at, conversation_id) of the last one seen.
        """

    def list_marks(self, tenant_id: str, conversation_id: str) -> Sequence[StateMark]:
        """Return which states are kept of a conversation, newest first, then longest first."""

    def list_states(
        self, tenant_id: str, conversation_id: str
    ) -> Sequence[tuple[StateMark, bytes]]:
        """Return the states that are kept of a conversation, in the order of their marks."""

    def get_state(self, tenant_id: str, conversation_id: str, messages_hash: str) -> bytes:
        """Return a state that is kept."""

    def delete_conversation(self, tenant_id: str, conversation_id: str) -> bool:
        """Forget a conversation and all its states; return whether it was there."""

    # Vectors
    def find_index(
        self, tenant_id: str, book_id: str, revision: int, *, lock: bool = False
    ) -> IndexRow | None:
        """Return a revision's index; with `lock` nobody else changes it before this ends."""

    def find_indexes(
        self, tenant_id: str, revisions: Sequence[tuple[str, int]]
    ) -> Mapping[tuple[str, int], IndexRow]:
        """Return the indexes of revisions that have one, by (book_id, revision)."""

    def list_indexes(
        self,
        tenant_id: str,
        *,
        limit: int,
        after: tuple[str, int] | None,
        not_ready_for: str | None,
    ) -> Sequence[tuple[str, int, IndexRow | None]]:
        """Return the revisions in use with their index, by book id, then revision.

        In use are the latest one of each book that is not deleted, and those that an enabled
        binding names. `after` is (book_id, revision) of the last one seen. `not_ready_for` leaves
        out those that are ready for this embedding version.
        """

    def add_index(self, row: IndexRow) -> bool:
        """Add an index and return True; where the revision has one already, False."""

    def put_index(self, row: IndexRow) -> None:
        """Replace a revision's index."""

    def advance_index(
        self, row: IndexRow, *, done: int, lease_until: datetime, updated_at: datetime
    ) -> bool:
        """Say how far the build of this row is; return whether it still is the one that runs."""

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
        """Keep vectors by the hash of their text, in place of those that were there."""

    def put_chunks(
        self,
        tenant_id: str,
        book_id: str,
        revision: int,
        embedding_version: str,
        found: Sequence[Chunk],
    ) -> None:
        """Replace all chunks of a revision, whose index and vectors are there."""

    def hold_texts(self, tenant_id: str) -> None:
        """Wait for other transactions that did this; till this one ends others wait for it.

        Who names texts in chunks, and who drops those without a name, do it first.
        """

    def drop_embeddings(self, tenant_id: str, made_before: datetime) -> int:
        """Forget old vectors that no chunk names; return how many."""

    def similarities(self, index: IndexRow, query: NDArray[float32]) -> ChunkScores:
        """Return how near all chunks of a ready index are to a query of length 1."""

    def near_chunks(
        self, tenant_id: str, embedding_version: str, query: NDArray[float32], *, limit: int
    ) -> Sequence[NearChunk]:
        """Return the nearest chunks of the latest revisions of all books that are not deleted.

        Nearest first. Where the tenant has very many, a database may miss some.
        """


class Store(Protocol):
    """A database. Methods raise StorageUnavailableError when it can't be reached."""

    async def read(self, work: Callable[[Transaction], Result]) -> Result:
        """Run `work` in one consistent read-only snapshot that shows every acknowledged write."""

    def mark(self) -> Hashable | None:
        """Return a value that stays equal while nobody commits anything, whatever the process.

        At once, without waiting. None where nothing short of a read can tell.
        """

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Run `work` and commit what it wrote, or nothing of it if it raises.

        It may run more than once where the database asks for that, so it must not do anything
        else than read and write this transaction.
        """

    async def hear(self, heard: Callable[[], None]) -> None:
        """Call `heard` soon after live events were added, whatever the process, until cancelled.

        It may be called without need; where nothing can be heard for a while, it is afterwards.
        """

    async def prepare_tenant_search(self, embedding_version: str, dimensions: int) -> None:
        """Make `near_chunks` fast where there are very many vectors, if it takes something."""

    async def migrate(self) -> None:
        """Bring the schema up to date; several processes may do this at the same time."""

    async def check(self) -> Part | None:
        """Return what is not ready, None if all is. It takes a few seconds at most."""

    async def close(self) -> None:
        """Let go of all connections."""


class Embedder(Protocol):
    """Makes vectors of texts. Vectors are rows of length 1, so their product is their cosine.

    Attributes:
        version: names the model and all that its vectors depend on; it changes if any of that does.
        dimensions: numbers of a vector.
        batch_size: texts of one call to `embed_texts` at most.
        concurrency: calls that may run at the same time.
    """

    version: str
    dimensions: int
    batch_size: int
    concurrency: int

    async def embed_texts(self, texts: Sequence[str]) -> NDArray[float32]:
        """Return the vectors of texts that are to be found: one row a text, in their order.

        It tries patiently.

        Raises:
            EmbeddingUnavailableError: they could not be had; the message says why and holds
                nothing of the texts.
        """

    async def embed_query(self, text: str) -> NDArray[float32]:
        """Return the vector of what is looked for, within the time that a turn has for it.

        Raises:
            EmbeddingUnavailableError: it could not be had; the message says why and holds nothing
                of the text.
        """

    async def prepare(self) -> None:
        """Do at leisure what the first query would have to wait for, if there is anything.

        Raises:
            EmbeddingUnavailableError: that failed; the next call tries again.
        """

    async def close(self) -> None:
        """Let go of all connections."""


class ReplyPiece(Protocol):
    """A piece of a model's reply."""

    @property
    def content(self) -> str:
        """Its text; it may be empty."""


class ReplyModel(Protocol):
    """A model that replies."""

    def stream(self, messages: Sequence[Mapping[str, Any]]) -> AsyncGenerator[ReplyPiece]:
        """Yield the reply in pieces, as they come; closing it early ends the call.

        Raises:
            UpstreamError: there is no reply, or it breaks off in the middle.
        """

    async def close(self) -> None:
        """Let go of all connections."""


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
    """Tells the time, so that tests can."""

    def now(self) -> datetime:
        """Return the time, aware, in UTC, no finer than microseconds."""
