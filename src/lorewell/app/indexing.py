"""Vector indexes of revisions (§10). There are no vectors yet, so none is ever built."""

from __future__ import annotations

from typing import NoReturn

from lorewell.app.books import get_head, get_revision
from lorewell.app.ports import RevisionRow, Transaction
from lorewell.app.services import Services
from lorewell.errors import VectorDisabledError
from lorewell.model.index import IndexState


async def build_index(services: Services, tenant_id: str, book_id: str, revision: int) -> NoReturn:
    """Refuse to build an index.

    Raises:
        BookNotFoundError, RevisionNotFoundError: it is not there.
        VectorDisabledError: there are no vectors here.
    """
    await _find(services, tenant_id, book_id, revision)
    raise VectorDisabledError("This service has no vectors, so it builds no index.")


async def index_state(
    services: Services, tenant_id: str, book_id: str, revision: int | None
) -> IndexState:
    """Return how far the index of a revision is, of the latest one for None.

    Raises:
        BookNotFoundError, RevisionNotFoundError: it is not there.
    """
    row = await _find(services, tenant_id, book_id, revision)
    return IndexState(
        book_id=row.book_id,
        revision=row.revision,
        status="absent",
        embedding_version=None,
        chunk_count=0,
        error=None,
        updated_at=None,
    )


async def _find(
    services: Services, tenant_id: str, book_id: str, revision: int | None
) -> RevisionRow:
    def load(tx: Transaction) -> RevisionRow:
        return get_revision(tx, get_head(tx, tenant_id, book_id), revision)

    return await services.store.read(load)
