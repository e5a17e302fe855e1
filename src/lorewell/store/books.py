"""Books, by their heads."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    bindparam,
    insert,
    or_,
    select,
    update,
)

from lorewell.app.rows import HeadRow
from lorewell.errors import LorewellError
from lorewell.store.statements import Statements
from lorewell.store.tables import books

_HEADS = select(*(column for column in books.c if column is not books.c.name_folded))
_OF_TENANT = books.c.tenant_id == bindparam("tenant")
_FIND = _HEADS.where(_OF_TENANT, books.c.book_id == bindparam("book"))
_FIND_AND_LOCK = _FIND.with_for_update()
_FIND_SEVERAL = _HEADS.where(_OF_TENANT, books.c.book_id.in_(bindparam("books", expanding=True)))
_FIND_NAMED = _HEADS.where(
    _OF_TENANT, books.c.deleted_at.is_(None), books.c.name.in_(bindparam("names", expanding=True))
)
_NEWEST_FIRST = (books.c.updated_at.desc(), books.c.book_id, books.c.tenant_id)
_TENANTS = select(books.c.tenant_id).distinct().order_by(books.c.tenant_id)
_INSERT = insert(books)
_CHANGE = update(books).where(_OF_TENANT, books.c.book_id == bindparam("book"))


def fold_name(name: str) -> str:
    """Return a name in the form for search: NFC, fully case-folded, and NFC again.

    >>> fold_name("STRASSE") == fold_name("Straße")
    True
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


class BookStatements(Statements):
    """The statements on books."""

    def find_head(self, tenant_id: str, book_id: str, *, lock: bool = False) -> HeadRow | None:
        """Return a book's head; `lock` blocks other writers of it until this transaction ends."""
        found = self._row(_FIND_AND_LOCK if lock else _FIND, tenant=tenant_id, book=book_id)
        return None if found is None else HeadRow(**found)

    def find_heads(self, tenant_id: str, book_ids: Sequence[str]) -> Mapping[str, HeadRow]:
        """Return the heads that exist, by book id."""
        if not book_ids:
            return {}
        found = self._rows(_FIND_SEVERAL, tenant=tenant_id, books=sorted(set(book_ids)))
        return {row["book_id"]: HeadRow(**row) for row in found}

    def find_heads_named(self, tenant_id: str, names: Sequence[str]) -> Mapping[str, HeadRow]:
        """Return the books with these names that are not deleted: per name the last changed."""
        if not names:
            return {}
        named: dict[str, HeadRow] = {}
        statement = _FIND_NAMED.order_by(*_NEWEST_FIRST)
        for row in self._rows(statement, tenant=tenant_id, names=sorted(set(names))):
            named.setdefault(row["name"], HeadRow(**row))
        return named

    def hold_name(self, tenant_id: str, name: str) -> None:
        """Do nothing: SQLite allows one writing transaction at a time."""

    def list_heads(
        self,
        tenant_id: str | None,
        *,
        limit: int,
        after: tuple[datetime, str, str] | None,
        name_contains: str | None,
        include_deleted: bool,
    ) -> Sequence[HeadRow]:
        """Return heads by `updated_at` descending, then book id, then tenant id ascending."""
        statement: Select[tuple[object, ...]] = _HEADS
        if tenant_id is not None:
            statement = statement.where(books.c.tenant_id == tenant_id)
        if after is not None:
            statement = statement.where(_comes_after(*after))
        if name_contains:
            statement = statement.where(
                self._contains(books.c.name_folded, fold_name(name_contains))
            )
        if not include_deleted:
            statement = statement.where(books.c.deleted_at.is_(None))
        return [
            HeadRow(**row) for row in self._rows(statement.order_by(*_NEWEST_FIRST).limit(limit))
        ]

    def list_tenants(self) -> Sequence[str]:
        """Return all tenants with a book, even a deleted one, in alphabetical order."""
        return [row["tenant_id"] for row in self._rows(_TENANTS)]

    def insert_book(self, head: HeadRow) -> None:
        """Add a book."""
        self._change(
            _INSERT,
            tenant_id=head.tenant_id,
            book_id=head.book_id,
            name=head.name,
            name_folded=fold_name(head.name),
            latest_revision=head.latest_revision,
            created_at=head.created_at,
            updated_at=head.updated_at,
            deleted_at=head.deleted_at,
        )

    def advance_book(
        self, tenant_id: str, book_id: str, *, revision: int, name: str, updated_at: datetime
    ) -> None:
        """Move a book's head to another revision."""
        self._change_book(
            tenant_id,
            book_id,
            latest_revision=revision,
            name=name,
            name_folded=fold_name(name),
            updated_at=updated_at,
        )

    def set_deleted(
        self, tenant_id: str, book_id: str, *, deleted_at: datetime | None, updated_at: datetime
    ) -> None:
        """Mark a book as deleted, or as no longer deleted."""
        self._change_book(tenant_id, book_id, deleted_at=deleted_at, updated_at=updated_at)

    def _change_book(self, tenant_id: str, book_id: str, **changes: object) -> None:
        if self._change(_CHANGE, tenant=tenant_id, book=book_id, **changes) != 1:
            raise LorewellError("The book to change is missing.", book_id=book_id)


def _comes_after(updated_at: datetime, book_id: str, tenant_id: str) -> ColumnElement[bool]:
    # The first condition is redundant, but an index can use it.
    return and_(
        books.c.updated_at <= updated_at,
        or_(
            books.c.updated_at < updated_at,
            books.c.book_id > book_id,
            and_(books.c.book_id == book_id, books.c.tenant_id > tenant_id),
        ),
    )
