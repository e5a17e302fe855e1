"""Vector indexes: their state, their chunks, and the vectors of texts.

A vector belongs to a text and is stored once per tenant and embedding version; chunks link it to
revisions. Each database computes similarities in its own way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from sqlalchemy import (
    and_,
    bindparam,
    delete,
    exists,
    insert,
    or_,
    select,
    tuple_,
    union,
    update,
)

from lorewell.app.rows import Chunk, IndexRow
from lorewell.store.statements import LARGEST_INTEGER, Statements
from lorewell.store.tables import bindings, books, chunks, embeddings, vector_indexes as indexes

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

_BATCH = 500  # values per statement; both databases allow more
_OF_REVISION = (
    (indexes.c.tenant_id == bindparam("tenant"))
    & (indexes.c.book_id == bindparam("book"))
    & (indexes.c.revision == bindparam("number"))
)
_FIND = select(indexes).where(_OF_REVISION)
_FIND_AND_LOCK = _FIND.with_for_update()
_ADVANCE = update(indexes).where(
    _OF_REVISION, indexes.c.build_id == bindparam("build"), indexes.c.status == "building"
)
_KNOWN = select(embeddings.c.text_hash).where(
    embeddings.c.tenant_id == bindparam("tenant"),
    embeddings.c.embedding_version == bindparam("version"),
    embeddings.c.text_hash.in_(bindparam("hashes", expanding=True)),
)
_DROP_CHUNKS = delete(chunks).where(
    chunks.c.tenant_id == bindparam("tenant"),
    chunks.c.book_id == bindparam("book"),
    chunks.c.revision == bindparam("number"),
)
_IS_USED = exists().where(
    chunks.c.tenant_id == embeddings.c.tenant_id,
    chunks.c.embedding_version == embeddings.c.embedding_version,
    chunks.c.text_hash == embeddings.c.text_hash,
)
_DROP_EMBEDDINGS = delete(embeddings).where(
    embeddings.c.tenant_id == bindparam("tenant"),
    embeddings.c.made_at < bindparam("made_before"),
    ~_IS_USED,
)
_IN_USE = union(
    select(books.c.book_id, books.c.latest_revision.label("revision")).where(
        books.c.tenant_id == bindparam("tenant"), books.c.deleted_at.is_(None)
    ),
    select(bindings.c.book_id, bindings.c.revision)
    .join(
        books,
        and_(books.c.tenant_id == bindings.c.tenant_id, books.c.book_id == bindings.c.book_id),
    )
    .where(
        bindings.c.tenant_id == bindparam("tenant"),
        bindings.c.enabled,
        bindings.c.revision.is_not(None),
        books.c.deleted_at.is_(None),
    ),
).subquery("in_use")
_LIST = (
    select(
        _IN_USE.c.book_id.label("used_book"),
        _IN_USE.c.revision.label("used_revision"),
        *indexes.c,
    )
    .select_from(_IN_USE)
    .outerjoin(
        indexes,
        and_(
            indexes.c.tenant_id == bindparam("tenant"),
            indexes.c.book_id == _IN_USE.c.book_id,
            indexes.c.revision == _IN_USE.c.revision,
        ),
    )
    .order_by(_IN_USE.c.book_id, _IN_USE.c.revision)
)


class VectorStatements(Statements):
    """The statements on vector indexes, without the search."""

    def find_index(
        self, tenant_id: str, book_id: str, revision: int, *, lock: bool = False
    ) -> IndexRow | None:
        """Return a revision's index; `lock` blocks other writers of it until this ends."""
        statement = _FIND_AND_LOCK if lock else _FIND
        found = self._row(statement, tenant=tenant_id, book=book_id, number=revision)
        return None if found is None else IndexRow(**found)

    def find_indexes(
        self, tenant_id: str, revisions: Sequence[tuple[str, int]]
    ) -> Mapping[tuple[str, int], IndexRow]:
        """Return the indexes of these revisions by (book_id, revision), without missing ones."""
        names = [name for name in revisions if name[1] <= LARGEST_INTEGER]
        if not names:
            return {}
        is_named = tuple_(indexes.c.book_id, indexes.c.revision).in_(names)
        found = self._rows(select(indexes).where(indexes.c.tenant_id == tenant_id, is_named))
        return {(row["book_id"], row["revision"]): IndexRow(**row) for row in found}

    def list_indexes(
        self,
        tenant_id: str,
        *,
        limit: int,
        after: tuple[str, int] | None,
        not_ready_for: str | None,
    ) -> Sequence[tuple[str, int, IndexRow | None]]:
        """Return the revisions in use with their index, by book id, then revision."""
        statement = _LIST.limit(limit)
        if after is not None:
            book_id, revision = after
            statement = statement.where(
                or_(
                    _IN_USE.c.book_id > book_id,
                    and_(_IN_USE.c.book_id == book_id, _IN_USE.c.revision > revision),
                )
            )
        if not_ready_for is not None:
            ready, quiet = indexes.c.ready_version, indexes.c.quiet
            is_stale = or_(ready.is_(None), ready != not_ready_for, quiet.is_(None))
            statement = statement.where(is_stale)
        found = []
        for row in self._rows(statement, tenant=tenant_id):
            values = {name: row[name] for name in indexes.c.keys()}  # noqa: SIM118  no mapping
            index = None if row["status"] is None else IndexRow(**values)
            found.append((str(row["used_book"]), int(row["used_revision"]), index))
        return found

    def add_index(self, row: IndexRow) -> bool:
        """Add an index and return True; return False if the revision has one already."""
        return self._add(indexes, _values(row))

    def put_index(self, row: IndexRow) -> None:
        """Replace a revision's index."""
        self._put(indexes, _values(row))

    def advance_index(
        self, row: IndexRow, *, done: int, lease_until: datetime, updated_at: datetime
    ) -> bool:
        """Record the progress of this row's build; return whether it is still the current build."""
        changed = _ADVANCE.values(
            done=done,
            chunk_count=row.chunk_count,
            lease_until=lease_until,
            updated_at=updated_at,
        )
        named = {"tenant": row.tenant_id, "book": row.book_id, "number": row.revision}
        return self._change(changed, **named, build=row.build_id) == 1

    def known_texts(
        self, tenant_id: str, embedding_version: str, text_hashes: Sequence[str]
    ) -> frozenset[str]:
        """Return which of the texts have vectors."""
        named = {"tenant": tenant_id, "version": embedding_version}
        known: set[str] = set()
        for hashes in _batches(sorted(set(text_hashes))):
            known.update(row["text_hash"] for row in self._rows(_KNOWN, **named, hashes=hashes))
        return frozenset(known)

    def put_embeddings(
        self,
        tenant_id: str,
        embedding_version: str,
        vectors: Mapping[str, NDArray[float32]],
        made_at: datetime,
    ) -> None:
        """Store vectors by the hash of their text, replacing existing ones."""
        # Sorted, so that two builds of the same texts can't deadlock.
        rows = [
            {
                "tenant_id": tenant_id,
                "embedding_version": embedding_version,
                "text_hash": text_hash,
                "vector": vectors[text_hash],
                "made_at": made_at,
            }
            for text_hash in sorted(vectors)
        ]
        if rows:
            self._put_all(embeddings, rows)

    def put_chunks(
        self,
        tenant_id: str,
        book_id: str,
        revision: int,
        embedding_version: str,
        found: Sequence[Chunk],
    ) -> None:
        """Replace all chunks of a revision; its index and the vectors must exist."""
        self._change(_DROP_CHUNKS, tenant=tenant_id, book=book_id, number=revision)
        named = {
            "tenant_id": tenant_id,
            "book_id": book_id,
            "revision": revision,
            "embedding_version": embedding_version,
        }
        rows = [
            {**named, "number": number, **chunk._asdict()} for number, chunk in enumerate(found)
        ]
        if rows:
            self._execute(insert(chunks), rows)

    def hold_texts(self, tenant_id: str) -> None:
        """Do nothing: SQLite allows one writing transaction at a time."""

    def drop_embeddings(self, tenant_id: str, made_before: datetime) -> int:
        """Delete old vectors that no chunk uses; return how many."""
        return self._change(_DROP_EMBEDDINGS, tenant=tenant_id, made_before=made_before)


def _values(row: IndexRow) -> dict[str, object]:
    return {name: getattr(row, name) for name in indexes.c.keys()}  # noqa: SIM118  no mapping


def _batches(values: Sequence[str]) -> Iterator[Sequence[str]]:
    left = iter(values)
    while batch := list(islice(left, _BATCH)):
        yield batch
