"""Vector search for the policy `sillytavern`: the entries most similar to the chat.

The scan activates them as forced entries (docs/rules/sillytavern.md §13).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lorewell.app.ports import Transaction
from lorewell.app.runtime.query_vectors import QueryVector
from lorewell.app.services import Services
from lorewell.app.sillytavern.worlds import LoadedWorld, find_worlds
from lorewell.app.vectors.similarities import (
    INDEX_NOT_READY,
    VECTOR_DISABLED,
    best_of_entries,
    find_usable,
    not_ready,
    partly_ready,
    query_source,
    vector_of,
)
from lorewell.engine.sillytavern.vectorized import find_entries, may_be_found, query_of
from lorewell.engine.sillytavern.world import SillyTavernWorld
from lorewell.model import ActivateRequest
from lorewell.model.activate import AttachedBook, ForcedEntry
from lorewell.model.activated import VectorsUsed
from lorewell.model.conversation import VectorSearch

if TYPE_CHECKING:  # services without vectors never load numpy
    from numpy import float64
    from numpy.typing import NDArray


async def embed_chat(
    services: Services, tenant_id: str, request: ActivateRequest
) -> QueryVector | None:
    """Return the vector of the last messages; None if the request has no vector search.

    Without any index, or for an empty query, there is neither a vector nor a cause: `VectorMatches`
    lists the books without an index.

    Raises:
        LorewellError: the books can't be found, as `find_worlds`.
    """
    search = request.vectors
    if search is None:
        return None
    source = query_source(services)
    if source is None:
        return QueryVector(degraded=(VECTOR_DISABLED,))
    queries, version = source

    def look(tx: Transaction) -> bool:
        found = find_worlds(tx, tenant_id, request.prompt_id, request.books)
        rows = [each.row for each in found if each.row is not None]
        return bool(find_usable(tx, tenant_id, rows, version).rows)

    text = query_of(request.chat, search)
    if not text or not await services.store.read(look):
        return QueryVector(None, version)
    return await vector_of(queries, text, version)


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorMatches:
    """The vector search results for the books of a turn.

    Attributes:
        similarities: entry similarities by the index of the book; empty without a vector.
        missing: by the index of a book without an index, the cause to report.
        query: the vector, or the causes why there is none.
    """

    similarities: Mapping[int, NDArray[float64]]
    missing: Mapping[int, str]
    query: QueryVector

    def entries(self, worlds: Sequence[SillyTavernWorld], search: VectorSearch) -> VectorsUsed:
        """Return the entries found in the compiled books."""
        causes = {
            cause
            for number, cause in self.missing.items()
            if any(may_be_found(entry, search) for entry in worlds[number].entries)
        }
        return VectorsUsed(
            entries=find_entries(worlds, self.similarities, search),
            degraded=self.query.degraded or tuple(sorted(causes)),
            embedding_version=self.query.embedding_version,
        )


def find_near(
    tx: Transaction, tenant_id: str, loaded: Sequence[LoadedWorld], query: QueryVector
) -> VectorMatches:
    """Return the similarity of the entries of all indexed books to the last messages."""
    version = query.embedding_version
    if version is None:
        return VectorMatches(similarities={}, missing={}, query=query)
    stored = {
        number: each.row
        for number, each in enumerate(loaded)
        if each.row is not None and isinstance(each.item, AttachedBook)
    }
    usable = find_usable(tx, tenant_id, list(stored.values()), version).rows
    similarities: dict[int, NDArray[float64]] = {}
    missing: dict[int, str] = {}
    for number, each in enumerate(loaded):
        row = stored.get(number)
        index = None if row is None else usable.get((row.book_id, row.revision))
        if row is None:  # given or changed in the request
            missing[number] = f"{INDEX_NOT_READY}:{each.item.name}"
        elif index is None:
            missing[number] = not_ready(row.book_id, row.revision)
        elif query.vector is not None:
            scores = tx.similarities(index, query.vector)
            similarities[number] = best_of_entries(scores, row.entry_count)
            if index.ready_version != version:
                missing[number] = partly_ready(row.book_id, row.revision)
    return VectorMatches(similarities=similarities, missing=missing, query=query)


def with_forced(request: ActivateRequest, used: VectorsUsed) -> ActivateRequest:
    """Return the request with the found entries forced; its own forced entries take precedence."""
    found = (ForcedEntry(ref=entry.id) for entry in used.entries)
    return request.model_copy(update={"forced": (*found, *request.forced)})
