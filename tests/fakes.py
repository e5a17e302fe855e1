"""Ports in memory. They are real: they pass the same contract tests as the databases do."""

from __future__ import annotations

import asyncio
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lorewell.app.ports import Transaction
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
from lorewell.errors import LorewellError, StorageUnavailableError

Vector = NDArray[np.float32]
Result = TypeVar("Result")


@dataclass
class State:
    """All rows, by their keys; every key but that of an API key begins with the tenant."""

    books: dict[tuple[str, str], HeadRow] = field(default_factory=dict)
    revisions: dict[tuple[str, str, int], RevisionRow] = field(default_factory=dict)
    contents: dict[tuple[str, str], bytes] = field(default_factory=dict)
    files: dict[tuple[str, str], str] = field(default_factory=dict)
    claims: dict[tuple[str, str], tuple[str, StoredResult | None]] = field(default_factory=dict)
    bindings: dict[tuple[str, str], StoredBindings] = field(default_factory=dict)
    keys: dict[str, KeyRow] = field(default_factory=dict)
    requests: dict[tuple[str, str], KeptRequest] = field(default_factory=dict)
    conversations: dict[tuple[str, str], datetime] = field(default_factory=dict)
    states: dict[tuple[str, str, str], tuple[StateMark, bytes]] = field(default_factory=dict)
    lines: dict[tuple[str, str], bytes] = field(default_factory=dict)
    pairs: dict[tuple[str, str], set[bytes]] = field(default_factory=dict)
    variables: dict[tuple[str, bytes], tuple[bytes, datetime]] = field(default_factory=dict)
    secrets: dict[str, bytes] = field(default_factory=dict)
    indexes: dict[tuple[str, str, int], IndexRow] = field(default_factory=dict)
    embeddings: dict[tuple[str, str, str], tuple[Vector, datetime]] = field(default_factory=dict)
    chunks: dict[tuple[str, str, int], tuple[str, Sequence[Chunk]]] = field(default_factory=dict)
    live: dict[int, LiveEvent] = field(default_factory=dict)

    def copy(self) -> State:
        return State(**{each.name: dict(getattr(self, each.name)) for each in fields(self)})


def fold(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


class MemoryTransaction:
    """A transaction on a state that nobody else sees."""

    def __init__(self, state: State, *, may_write: bool) -> None:
        self._state = state
        self._may_write = may_write

    @property
    def _writable(self) -> State:
        if not self._may_write:
            raise StorageUnavailableError("This transaction only reads.")
        return self._state

    # Books
    def find_head(self, tenant_id: str, book_id: str, *, lock: bool = False) -> HeadRow | None:
        del lock  # nobody else is here
        return self._state.books.get((tenant_id, book_id))

    def find_heads(self, tenant_id: str, book_ids: Sequence[str]) -> Mapping[str, HeadRow]:
        found = {book_id: self.find_head(tenant_id, book_id) for book_id in book_ids}
        return {book_id: head for book_id, head in found.items() if head is not None}

    def find_heads_named(self, tenant_id: str, names: Sequence[str]) -> Mapping[str, HeadRow]:
        found: dict[str, HeadRow] = {}
        every = {"limit": len(self._state.books), "after": None, "name_contains": None}
        for head in self.list_heads(tenant_id, **every, include_deleted=False):
            if head.name in names:
                found.setdefault(head.name, head)
        return found

    def hold_name(self, tenant_id: str, name: str) -> None:
        """Wait for nobody: nobody else is here."""

    def list_heads(
        self,
        tenant_id: str | None,
        *,
        limit: int,
        after: tuple[datetime, str, str] | None,
        name_contains: str | None,
        include_deleted: bool,
    ) -> Sequence[HeadRow]:
        def is_asked(head: HeadRow) -> bool:
            return (
                tenant_id in (None, head.tenant_id)
                and (after is None or place(head) > place_after(after))
                and fold(name_contains or "") in fold(head.name)
                and (include_deleted or head.deleted_at is None)
            )

        def place(head: HeadRow) -> tuple[float, str, str]:
            return place_after((head.updated_at, head.book_id, head.tenant_id))

        def place_after(key: tuple[datetime, str, str]) -> tuple[float, str, str]:
            return -key[0].timestamp(), key[1], key[2]

        return sorted(filter(is_asked, self._state.books.values()), key=place)[:limit]

    def list_tenants(self) -> Sequence[str]:
        return sorted({tenant_id for tenant_id, _ in self._state.books})

    def insert_book(self, head: HeadRow) -> None:
        key = (head.tenant_id, head.book_id)
        if key in self._state.books:
            raise LorewellError("The book is there already.")
        self._writable.books[key] = head

    def advance_book(
        self, tenant_id: str, book_id: str, *, revision: int, name: str, updated_at: datetime
    ) -> None:
        head = replace(
            self._get_book(tenant_id, book_id),
            latest_revision=revision,
            name=name,
            updated_at=updated_at,
        )
        self._writable.books[tenant_id, book_id] = head

    def set_deleted(
        self, tenant_id: str, book_id: str, *, deleted_at: datetime | None, updated_at: datetime
    ) -> None:
        head = self._get_book(tenant_id, book_id)
        self._writable.books[tenant_id, book_id] = replace(
            head, deleted_at=deleted_at, updated_at=updated_at
        )

    def _get_book(self, tenant_id: str, book_id: str) -> HeadRow:
        head = self.find_head(tenant_id, book_id)
        if head is None:
            raise LorewellError("The book is not there.")
        return head

    # Revisions
    def insert_revision(self, row: RevisionRow, content: bytes) -> None:
        self._get_book(row.tenant_id, row.book_id)
        key = (row.tenant_id, row.book_id, row.revision)
        if key in self._state.revisions:
            raise LorewellError("The revision is there already.")
        self._writable.contents.setdefault((row.tenant_id, row.content_hash), content)
        self._writable.revisions[key] = row

    def find_revision(self, tenant_id: str, book_id: str, revision: int) -> RevisionRow | None:
        return self._state.revisions.get((tenant_id, book_id, revision))

    def list_revisions(
        self, tenant_id: str, book_id: str, *, limit: int, before: int | None
    ) -> Sequence[RevisionRow]:
        rows = [
            row
            for row in self._state.revisions.values()
            if (row.tenant_id, row.book_id) == (tenant_id, book_id)
            and (before is None or row.revision < before)
        ]
        return sorted(rows, key=lambda row: -row.revision)[:limit]

    def get_content(self, tenant_id: str, content_hash: str) -> bytes:
        content = self._state.contents.get((tenant_id, content_hash))
        if content is None:
            raise LorewellError("The content is not there.")
        return content

    # Files
    def find_file(self, tenant_id: str, sha256: str) -> str | None:
        return self._state.files.get((tenant_id, sha256))

    def claim_file(self, tenant_id: str, sha256: str) -> str | None:
        return self._state.files.get((tenant_id, sha256))

    def put_file(self, tenant_id: str, sha256: str, book_id: str) -> None:
        self._get_book(tenant_id, book_id)
        self._writable.files[tenant_id, sha256] = book_id

    # Idempotency
    def claim(self, tenant_id: str, key: str, request_hash: str) -> StoredResult | None:
        if (tenant_id, key) not in self._state.claims:
            self._writable.claims[tenant_id, key] = (request_hash, None)
            return None
        _, remembered = self._state.claims[tenant_id, key]
        if remembered is None:
            raise LorewellError("A key was claimed twice in one transaction.")
        return remembered

    def settle(self, tenant_id: str, key: str, *, status: int, response: bytes) -> None:
        request_hash, remembered = self._state.claims.get((tenant_id, key), ("", None))
        if not request_hash or remembered is not None:
            raise LorewellError("A key was settled that this transaction did not claim.")
        settled = StoredResult(request_hash=request_hash, status=status, response=response)
        self._writable.claims[tenant_id, key] = (request_hash, settled)

    def check_settled(self) -> None:
        if any(remembered is None for _, remembered in self._state.claims.values()):
            raise LorewellError("A key was claimed and not settled.")

    # Bindings
    def find_bindings(self, tenant_id: str, prompt_id: str) -> StoredBindings | None:
        return self._state.bindings.get((tenant_id, prompt_id))

    def put_bindings(self, tenant_id: str, prompt_id: str, bindings: StoredBindings) -> None:
        for binding in bindings.bindings:
            self._get_book(tenant_id, binding.book_id)
        self._writable.bindings[tenant_id, prompt_id] = bindings

    def list_prompts(
        self, tenant_id: str, *, limit: int, after: str | None = None, book_id: str | None = None
    ) -> Sequence[PromptRow]:
        found = []
        for (owner, prompt_id), stored in sorted(self._state.bindings.items()):
            used = [each.book_id for each in stored.bindings if each.enabled]
            if owner != tenant_id or not used or (after is not None and prompt_id <= after):
                continue
            if book_id is None or book_id in used:
                row = PromptRow(
                    prompt_id=prompt_id,
                    policy=stored.policy,
                    settings=stored.settings,
                    book_count=len(used),
                )
                found.append(row)
        return found[:limit]

    # API keys
    def insert_key(self, row: KeyRow) -> None:
        if row.key_id in self._state.keys:
            raise LorewellError("The key is there already.")
        self._writable.keys[row.key_id] = row

    def find_key(self, key_id: str) -> KeyRow | None:
        return self._state.keys.get(key_id)

    def list_keys(self) -> Sequence[KeyRow]:
        return sorted(self._state.keys.values(), key=lambda row: (row.created_at, row.key_id))

    def revoke_key(self, key_id: str, revoked_at: datetime) -> None:
        row = self.find_key(key_id)
        if row is not None and row.revoked_at is None:
            self._writable.keys[key_id] = replace(row, revoked_at=revoked_at)

    # Kept requests
    def keep_request(self, kept: KeptRequest) -> None:
        self._writable.requests[kept.tenant_id, kept.selection_id] = kept

    def find_request(self, tenant_id: str, selection_id: str) -> KeptRequest | None:
        return self._state.requests.get((tenant_id, selection_id))

    def drop_requests(self, expired_by: datetime) -> int:
        requests = self._writable.requests
        expired = [key for key, kept in requests.items() if kept.expires_at <= expired_by]
        for key in expired:
            del requests[key]
        return len(expired)

    # Live events
    def add_live(self, events: Sequence[LiveEvent]) -> int:
        for each in events:
            number = self.live_ids()[1] + 1
            self._writable.live[number] = replace(each, id=number)
        return self.live_ids()[1]

    def live_ids(self) -> tuple[int, int]:
        return min(self._state.live, default=0), max(self._state.live, default=0)

    def list_live(self, *, after: int, limit: int) -> Sequence[LiveEvent]:
        return [each for number, each in self._state.live.items() if number > after][:limit]

    def list_live_of(
        self, tenant_id: str, prompt_id: str, *, after: int, until: int, most: LiveMost
    ) -> tuple[Sequence[LiveEvent], bool]:
        of_prompt = [
            each
            for number, each in self._state.live.items()
            if (each.tenant_id, each.prompt_id) == (tenant_id, prompt_id)
            if after < number <= until
        ]
        found = of_prompt[-most.events :]
        while sum(len(each.body) for each in found[1:]) > most.bytes:
            found = found[1:]
        return found, len(found) == len(of_prompt)

    def drop_live(self, *, made_before: datetime, most: int) -> int:
        newest = self.live_ids()[1]
        gone = [
            number
            for number, each in self._writable.live.items()
            if number < newest and (each.made_at < made_before or number <= newest - most)
        ]
        for number in gone:
            del self._writable.live[number]
        return len(gone)

    # Conversations
    def keep_state(
        self, tenant_id: str, conversation_id: str, mark: StateMark, state: bytes, *, most: int
    ) -> None:
        name, states = (tenant_id, conversation_id), self._writable.states
        self._state.conversations.setdefault(name, mark.kept_at)
        states[*name, mark.messages_hash] = (mark, state)
        for old in self.list_marks(*name)[most:]:
            del states[*name, old.messages_hash]

    def find_conversation(self, tenant_id: str, conversation_id: str) -> ConversationRow | None:
        created_at = self._state.conversations.get((tenant_id, conversation_id))
        if created_at is None:
            return None
        marks = self.list_marks(tenant_id, conversation_id)
        return ConversationRow(
            tenant_id=tenant_id,
            conversation_id=conversation_id,
            state_count=len(marks),
            created_at=created_at,
            updated_at=marks[0].kept_at,
        )

    def list_conversations(
        self, tenant_id: str, *, limit: int, after: tuple[datetime, str] | None
    ) -> Sequence[ConversationRow]:
        def place(time: datetime, conversation_id: str) -> tuple[float, str]:
            return -time.timestamp(), conversation_id

        found = [
            row
            for name in self._state.conversations
            if name[0] == tenant_id and (row := self.find_conversation(*name)) is not None
            if after is None or place(row.updated_at, row.conversation_id) > place(*after)
        ]
        return sorted(found, key=lambda row: place(row.updated_at, row.conversation_id))[:limit]

    def list_marks(self, tenant_id: str, conversation_id: str) -> Sequence[StateMark]:
        marks = [
            mark
            for name, (mark, _) in self._state.states.items()
            if name[:2] == (tenant_id, conversation_id)
        ]
        return sorted(
            marks,
            key=lambda mark: (-mark.kept_at.timestamp(), -mark.message_count, mark.messages_hash),
        )

    def list_states(
        self, tenant_id: str, conversation_id: str
    ) -> Sequence[tuple[StateMark, bytes]]:
        return [
            (mark, self.get_state(tenant_id, conversation_id, mark.messages_hash))
            for mark in self.list_marks(tenant_id, conversation_id)
        ]

    def get_state(self, tenant_id: str, conversation_id: str, messages_hash: str) -> bytes:
        found = self._state.states.get((tenant_id, conversation_id, messages_hash))
        if found is None:
            raise LorewellError("The state is not there.")
        return found[1]

    def delete_conversation(self, tenant_id: str, conversation_id: str) -> bool:
        for name in [
            name for name in self._state.states if name[:2] == (tenant_id, conversation_id)
        ]:
            del self._writable.states[name]
        self._writable.lines.pop((tenant_id, conversation_id), None)
        self._writable.pairs.pop((tenant_id, conversation_id), None)
        return self._writable.conversations.pop((tenant_id, conversation_id), None) is not None

    def find_lines(
        self, tenant_id: str, conversation_id: str, *, lock: bool = False
    ) -> bytes | None:
        del lock
        return self._state.lines.get((tenant_id, conversation_id))

    def put_lines(self, tenant_id: str, conversation_id: str, body: bytes) -> None:
        self._writable.lines[tenant_id, conversation_id] = body

    def put_pairs(self, tenant_id: str, conversation_id: str, change: PairsChange) -> None:
        name, pairs = (tenant_id, conversation_id), self._writable.pairs
        kept = pairs.get(name, set()) - set(change.removed)
        shared = Counter(pair for pair, _ in self.find_paired(tenant_id, change.added))
        pairs[name] = kept | {pair for pair in change.added if shared[pair] < 8}

    def find_variables(self, tenant_id: str, owner: bytes, *, lock: bool = False) -> bytes | None:
        del lock
        return self._state.variables.get((tenant_id, owner), (None,))[0]

    def put_variables(self, tenant_id: str, owner: bytes, body: bytes | None, at: datetime) -> None:
        if body is None:
            self._writable.variables.pop((tenant_id, owner), None)
        else:
            self._writable.variables[tenant_id, owner] = (body, at)

    def drop_old_variables(self, tenant_id: str, *, most: int) -> None:
        variables = self._writable.variables
        names = sorted(name for name in variables if name[0] == tenant_id)
        names.sort(key=lambda name: variables[name][1], reverse=True)
        for name in names[most:]:
            del variables[name]

    def find_paired(self, tenant_id: str, pairs: Sequence[bytes]) -> Sequence[tuple[bytes, str]]:
        return sorted(
            (
                (pair, name)
                for (tenant, name), has in self._state.pairs.items()
                for pair in has & set(pairs)
                if tenant == tenant_id
            ),
            key=lambda each: (each[1], each[0]),
        )

    def add_secret(self, tenant_id: str, secret: bytes) -> bytes:
        return self._writable.secrets.setdefault(tenant_id, secret)

    def find_secret(self, tenant_id: str) -> bytes | None:
        return self._state.secrets.get(tenant_id)

    # Vectors
    def find_index(
        self, tenant_id: str, book_id: str, revision: int, *, lock: bool = False
    ) -> IndexRow | None:
        del lock
        return self._state.indexes.get((tenant_id, book_id, revision))

    def find_indexes(
        self, tenant_id: str, revisions: Sequence[tuple[str, int]]
    ) -> Mapping[tuple[str, int], IndexRow]:
        found = {name: self.find_index(tenant_id, *name) for name in revisions}
        return {name: row for name, row in found.items() if row is not None}

    def list_indexes(
        self,
        tenant_id: str,
        *,
        limit: int,
        after: tuple[str, int] | None,
        not_ready_for: str | None,
    ) -> Sequence[tuple[str, int, IndexRow | None]]:
        heads = {
            head.book_id: head
            for head in self._state.books.values()
            if head.tenant_id == tenant_id and head.deleted_at is None
        }
        used = {(head.book_id, head.latest_revision) for head in heads.values()}
        for (tenant, _), stored in self._state.bindings.items():
            used |= {
                (each.book_id, each.revision)
                for each in stored.bindings
                if tenant == tenant_id
                and each.enabled
                and each.revision is not None
                and each.book_id in heads
            }

        def is_asked(row: IndexRow | None) -> bool:
            if not_ready_for is None:
                return True
            return row is None or row.ready_version != not_ready_for or row.quiet is None

        found = [
            (*name, self.find_index(tenant_id, *name))
            for name in sorted(used)
            if after is None or name > after
        ]
        return [each for each in found if is_asked(each[2])][:limit]

    def add_index(self, row: IndexRow) -> bool:
        if (row.tenant_id, row.book_id, row.revision) in self._state.indexes:
            return False
        self.put_index(row)
        return True

    def put_index(self, row: IndexRow) -> None:
        if self.find_revision(row.tenant_id, row.book_id, row.revision) is None:
            raise LorewellError("The revision is not there.")
        self._writable.indexes[row.tenant_id, row.book_id, row.revision] = row

    def advance_index(
        self, row: IndexRow, *, done: int, lease_until: datetime, updated_at: datetime
    ) -> bool:
        found = self.find_index(row.tenant_id, row.book_id, row.revision)
        if found is None or (found.build_id, found.status) != (row.build_id, "building"):
            return False
        self.put_index(
            replace(
                found,
                chunk_count=row.chunk_count,
                done=done,
                lease_until=lease_until,
                updated_at=updated_at,
            )
        )
        return True

    def known_texts(
        self, tenant_id: str, embedding_version: str, text_hashes: Sequence[str]
    ) -> frozenset[str]:
        names = {(tenant_id, embedding_version, each) for each in text_hashes}
        return frozenset(name[2] for name in names & self._state.embeddings.keys())

    def put_embeddings(
        self,
        tenant_id: str,
        embedding_version: str,
        vectors: Mapping[str, Vector],
        made_at: datetime,
    ) -> None:
        for text_hash, vector in vectors.items():
            name = (tenant_id, embedding_version, text_hash)
            self._writable.embeddings[name] = (vector, made_at)

    def put_chunks(
        self,
        tenant_id: str,
        book_id: str,
        revision: int,
        embedding_version: str,
        found: Sequence[Chunk],
    ) -> None:
        named = {each.text_hash for each in found}
        known = self.known_texts(tenant_id, embedding_version, sorted(named))
        if known != named or self.find_index(tenant_id, book_id, revision) is None:
            raise LorewellError("The index or a vector is not there.")
        self._writable.chunks[tenant_id, book_id, revision] = (embedding_version, tuple(found))

    def hold_texts(self, tenant_id: str) -> None:
        """Do nothing: one transaction writes at a time."""

    def drop_embeddings(self, tenant_id: str, made_before: datetime) -> int:
        named = {
            (tenant, version, chunk.text_hash)
            for (tenant, _, _), (version, found) in self._state.chunks.items()
            for chunk in found
        }
        gone = [
            name
            for name, (_, made_at) in self._state.embeddings.items()
            if name[0] == tenant_id and made_at < made_before and name not in named
        ]
        for name in gone:
            del self._writable.embeddings[name]
        return len(gone)

    def similarities(self, index: IndexRow, query: Vector) -> ChunkScores:
        name = (index.tenant_id, index.book_id, index.revision)
        version, found = self._state.chunks.get(name, ("", ()))
        vectors = [
            self._state.embeddings[index.tenant_id, version, chunk.text_hash][0] for chunk in found
        ]
        return ChunkScores(
            np.array([chunk.place for chunk in found], np.int64),
            np.array([chunk.start for chunk in found], np.int64),
            np.array([float(vector @ query) for vector in vectors], np.float64),
        )

    def near_chunks(
        self, tenant_id: str, embedding_version: str, query: Vector, *, limit: int
    ) -> Sequence[NearChunk]:
        near = []
        for row in self._state.indexes.values():
            head = self._state.books[row.tenant_id, row.book_id]
            if (
                (row.tenant_id, row.ready_version) == (tenant_id, embedding_version)
                and head.deleted_at is None
                and head.latest_revision == row.revision
            ):
                scores = zip(*self.similarities(row, query), strict=True)
                near += [
                    NearChunk(row.book_id, row.revision, int(place), int(start), float(found))
                    for place, start, found in scores
                ]
        near.sort(key=lambda chunk: (-chunk.similarity, *chunk[:4]))
        return near[:limit]


class MemoryStore:
    """A store in memory. Work runs on the event loop, so one unit of work never meets another."""

    def __init__(self) -> None:
        self._state = State()
        self._migrated = False
        self._closed = False
        self._hearing: list[Callable[[], None]] = []

    async def read(self, work: Callable[[Transaction], Result]) -> Result:
        await self._reach()
        return work(MemoryTransaction(self._state, may_write=False))

    def mark(self) -> None:
        return None

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        await self._reach()
        state = self._state.copy()
        transaction = MemoryTransaction(state, may_write=True)
        result = work(transaction)
        transaction.check_settled()
        self._state = state
        for heard in self._hearing:
            heard()
        return result

    async def hear(self, heard: Callable[[], None]) -> None:
        self._hearing.append(heard)
        try:
            await asyncio.Event().wait()
        finally:
            self._hearing.remove(heard)

    async def prepare_tenant_search(self, embedding_version: str, dimensions: int) -> None:
        pass

    async def migrate(self) -> None:
        self._migrated = True

    async def check(self) -> str | None:
        if self._closed:
            return "storage"
        return None if self._migrated else "migrations"

    async def close(self) -> None:
        self._closed = True

    async def _reach(self) -> None:
        await asyncio.sleep(0)  # whoever waits elsewhere may come first, as with a database
        if self._closed or not self._migrated:
            raise StorageUnavailableError("The database is closed or has no tables.")
