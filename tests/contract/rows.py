"""Rows for tests of stores."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from lorewell.app.ports import Transaction
from lorewell.app.rows import (
    HeadRow,
    KeptRequest,
    KeyRow,
    RevisionRow,
)
from lorewell.model.binding import Binding

START = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)


def at(microseconds: int) -> datetime:
    """Return a time that long after the start."""
    return START + timedelta(microseconds=microseconds)


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def head(number: int = 1, tenant_id: str = "a", **fields: Any) -> HeadRow:
    values: dict[str, Any] = {
        "tenant_id": tenant_id,
        "book_id": uuid(number),
        "name": f"Book {number}",
        "latest_revision": 1,
        "created_at": START,
        "updated_at": START,
    }
    return HeadRow(**(values | fields))


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def revision(
    number: int = 1, revision: int = 1, tenant_id: str = "a", content: bytes = b"{}", **fields: Any
) -> RevisionRow:
    values: dict[str, Any] = {
        "tenant_id": tenant_id,
        "book_id": uuid(number),
        "revision": revision,
        "name": f"Book {number}",
        "entry_count": 3,
        "content_hash": digest(content),
        "origin": "native",
        "import_report": b'{"format":"native"}',
        "created_at": START,
    }
    return RevisionRow(**(values | fields))


def binding(number: int, **fields: Any) -> Binding:
    return Binding(book_id=uuid(number), **fields)


def key_row(key_id: str = "k1", **fields: Any) -> KeyRow:
    values: dict[str, Any] = {
        "key_id": key_id,
        "name": "laptop",
        "tenants": ("b", "a", "*"),
        "scopes": ("write", "read"),
        "salt": bytes(range(16)),
        "secret_hash": bytes(range(255, 223, -1)),
        "created_at": START,
    }
    return KeyRow(**(values | fields))


def kept(selection_id: str = "s1", tenant_id: str = "a", **fields: Any) -> KeptRequest:
    values: dict[str, Any] = {
        "tenant_id": tenant_id,
        "selection_id": selection_id,
        "body": b'{"query":"\xe9\x9b\xbe"}',
        "expires_at": START,
    }
    return KeptRequest(**(values | fields))


def add_book(
    number: int = 1, tenant_id: str = "a", content: bytes = b"{}", **fields: Any
) -> Callable[[Transaction], None]:
    """Return the work of adding a book with its first revision."""

    def work(tx: Transaction) -> None:
        tx.insert_book(head(number, tenant_id, **fields))
        tx.insert_revision(revision(number, 1, tenant_id, content), content)

    return work
