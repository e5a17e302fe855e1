"""Which entries a vector search activates from outside (docs/rules/sillytavern.md §13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lorewell.engine.sillytavern.scan_entry import ScanEntry
from lorewell.engine.sillytavern.world import SillyTavernWorld
from lorewell.model.activate import ChatLine
from lorewell.model.activated import VectorEntry
from lorewell.model.conversation import VectorSearch

if TYPE_CHECKING:  # who has no vectors loads no numpy for them
    from numpy import float64
    from numpy.typing import NDArray


def query_of(chat: Sequence[ChatLine], search: VectorSearch) -> str:
    """Return what is looked for: the newest messages without their names, oldest first."""
    newest = chat[-search.messages :]
    return "\n".join(line.content for line in newest).strip()


def may_be_found(entry: ScanEntry, search: VectorSearch) -> bool:
    """Return whether a search may find an entry: one that is marked, or any if all count."""
    is_meant = search.all_entries or entry.fields.get("vectorized") is True
    return is_meant and not entry.disabled and bool(entry.content.strip())


def find_entries(
    worlds: Sequence[SillyTavernWorld],
    similarities: Mapping[int, NDArray[float64]],
    search: VectorSearch,
) -> tuple[VectorEntry, ...]:
    """Return the entries that are to be activated, best first.

    What is found is a content, and all entries that have it are meant: also those that could not
    be found themselves.

    Args:
        worlds: the books of the turn.
        similarities: by the number of a world, how near each of its entries is, in the order of its
            entries; NaN where one has no vector. Worlds without an index are not here.
        search: how many, and how near they must be.
    """
    best: dict[str, float] = {}
    for number, near in similarities.items():
        for entry, similarity in zip(worlds[number].entries, near.tolist(), strict=True):
            # NaN is not at the threshold or above it either.
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
