"""Revisions and their contents, each content stored once per tenant."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import bindparam, insert, select

from lorewell.app.rows import RevisionRow
from lorewell.errors import LorewellError
from lorewell.store.statements import LARGEST_INTEGER, Statements
from lorewell.store.tables import contents, revisions

_OF_BOOK = select(revisions).where(
    revisions.c.tenant_id == bindparam("tenant"), revisions.c.book_id == bindparam("book")
)
_FIND = _OF_BOOK.where(revisions.c.revision == bindparam("revision"))
_LIST = _OF_BOOK.order_by(revisions.c.revision.desc()).limit(bindparam("limit"))
_LIST_BEFORE = _LIST.where(revisions.c.revision < bindparam("before"))
_INSERT = insert(revisions)
_HAS_CONTENT = select(contents.c.content_hash).where(
    contents.c.tenant_id == bindparam("tenant"), contents.c.content_hash == bindparam("hash")
)
_CONTENT = _HAS_CONTENT.with_only_columns(contents.c.body)


class RevisionStatements(Statements):
    """The statements on revisions."""

    def insert_revision(self, row: RevisionRow, content: bytes) -> None:
        """Add a revision; content that the tenant already has is not stored again."""
        if self._row(_HAS_CONTENT, tenant=row.tenant_id, hash=row.content_hash) is None:
            stored = {
                "tenant_id": row.tenant_id,
                "content_hash": row.content_hash,
                "body": self._pack(content),
            }
            self._add(contents, stored)
        self._change(
            _INSERT,
            tenant_id=row.tenant_id,
            book_id=row.book_id,
            revision=row.revision,
            name=row.name,
            entry_count=row.entry_count,
            content_hash=row.content_hash,
            origin=row.origin,
            import_report=row.import_report,
            created_at=row.created_at,
        )

    def find_revision(self, tenant_id: str, book_id: str, revision: int) -> RevisionRow | None:
        """Return a revision without its content."""
        if revision > LARGEST_INTEGER:  # out of range for a BIGINT
            return None
        found = self._row(_FIND, tenant=tenant_id, book=book_id, revision=revision)
        return None if found is None else RevisionRow(**found)

    def list_revisions(
        self, tenant_id: str, book_id: str, *, limit: int, before: int | None
    ) -> Sequence[RevisionRow]:
        """Return revisions, newest first, below number `before` if given."""
        values: dict[str, object] = {"tenant": tenant_id, "book": book_id, "limit": limit}
        if before is None or before > LARGEST_INTEGER:
            rows = self._rows(_LIST, **values)
        else:
            rows = self._rows(_LIST_BEFORE, **values, before=before)
        return [RevisionRow(**row) for row in rows]

    def get_content(self, tenant_id: str, content_hash: str) -> bytes:
        """Return the content of a revision by its hash."""
        found = self._row(_CONTENT, tenant=tenant_id, hash=content_hash)
        if found is None:
            raise LorewellError("A stored content is missing.", content_hash=content_hash)
        return self._unpack(found["body"])
