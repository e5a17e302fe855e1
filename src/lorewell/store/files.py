"""Imported files, each with the book made from it."""

from __future__ import annotations

from sqlalchemy import bindparam, select

from lorewell.store.statements import Statements
from lorewell.store.tables import files

_FIND = select(files.c.book_id).where(
    files.c.tenant_id == bindparam("tenant"), files.c.sha256 == bindparam("sha256")
)


class FileStatements(Statements):
    """The statements on imported files."""

    def find_file(self, tenant_id: str, sha256: str) -> str | None:
        """Return the id of the book that was imported from a file."""
        found = self._row(_FIND, tenant=tenant_id, sha256=sha256)
        return None if found is None else found["book_id"]

    def claim_file(self, tenant_id: str, sha256: str) -> str | None:
        """Claim a file for this transaction, or return the id of the book imported from it before.

        A concurrent claim waits in its insert until this transaction ends.
        """
        if self._add(files, {"tenant_id": tenant_id, "sha256": sha256}):
            return None
        return self.find_file(tenant_id, sha256)

    def put_file(self, tenant_id: str, sha256: str, book_id: str) -> None:
        """Record the book that was imported from a file, in place of an earlier one."""
        self._put(files, {"tenant_id": tenant_id, "sha256": sha256, "book_id": book_id})
