"""Files: which book each of them made."""

from __future__ import annotations

from sqlalchemy import bindparam, select

from lorewell.store.statements import Statements
from lorewell.store.tables import files

_FIND = select(files.c.book_id).where(
    files.c.tenant_id == bindparam("tenant"), files.c.sha256 == bindparam("sha256")
)


class FileStatements(Statements):
    """What a transaction does with files."""

    def find_file(self, tenant_id: str, sha256: str) -> str | None:
        """Return the id of the book that a file made."""
        found = self._row(_FIND, tenant=tenant_id, sha256=sha256)
        return None if found is None else found["book_id"]

    def claim_file(self, tenant_id: str, sha256: str) -> str | None:
        """Take a file for this transaction, or return the id of the book that it made before.

        A twin waits in its own insert until this transaction has ended.
        """
        if self._add(files, {"tenant_id": tenant_id, "sha256": sha256}):
            return None
        return self.find_file(tenant_id, sha256)

    def put_file(self, tenant_id: str, sha256: str, book_id: str) -> None:
        """Remember which book a file made; a later book replaces an earlier one."""
        self._put(files, {"tenant_id": tenant_id, "sha256": sha256, "book_id": book_id})
