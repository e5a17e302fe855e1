"""Finds the entries that a vector search activates (docs/rules/sillytavern.md §13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lorewell.engine.sillytavern.scan_entry import ScanEntry
from lorewell.engine.sillytavern.world import SillyTavernWorld
from lorewell.model.activate import ChatLine
from lorewell.model.activated import VectorEntry
from lorewell.model.conversation import VectorSearch

if TYPE_CHECKING:  # numpy is loaded only where there are vectors
    from numpy import float64
    from numpy.typing import NDArray


def query_of(chat: Sequence[ChatLine], search: VectorSearch) -> str:
    """Return the query: the newest messages without their names, oldest first."""
    newest = chat[-search.messages :]
    return "\n".join(line.content for line in newest).strip()


def may_be_found(entry: ScanEntry, search: VectorSearch) -> bool:
    """Return whether a search covers an entry: enabled, not blank, and marked if it must be."""
    is_searched = search.all_entries or entry.fields.get("vectorized") is True
    return is_searched and not entry.disabled and bool(entry.content.strip())


def find_entries(
    worlds: Sequence[SillyTavernWorld],
    similarities: Mapping[int, NDArray[float64]],
    search: VectorSearch,
) -> tuple[VectorEntry, ...]:
    """Return the entries to activate, best first.

    The search finds contents. All entries with such a content are returned, including those that
    the search does not cover.

    Args:
        worlds: the books of the turn.
        similarities: by number of a world, the similarity of each of its entries, in order; NaN for
            an entry without a vector. Worlds without an index are missing.
        search: the maximum number of contents, and the minimum similarity.
    """
    best: dict[str, float] = {}
    for number, near in similarities.items():
        for entry, similarity in zip(worlds[number].entries, near.tolist(), strict=True):
            # NaN fails the comparison, too.
            if similarity >= search.threshold and may_be_found(entry, search):
                best[entry.content] = max(similarity, best.get(entry.content, similarity))
    nearest = sorted(best, key=lambda content: (-best[content], content))[: search.max_entries]
    ranks = {content: rank for rank, content in enumerate(nearest, 1)}
    found = {
        entry.id: VectorEntry(id=entry.id, rank=rank, similarity=round(best[entry.content], 6))
        for world in worlds
        for entry in world.entries
        if (rank := ranks.get(entry.content)) is not None
    }
    return tuple(sorted(found.values(), key=lambda entry: (entry.rank, entry.id)))
