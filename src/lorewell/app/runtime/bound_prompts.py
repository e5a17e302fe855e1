"""Which prompt of a tenant has books, and which: what was found last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from lorewell.app.ports import Store, Transaction
from lorewell.model import BookRef, Policy

_MOST: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundPrompt:
    """A prompt that has books: their policy, and the revisions that it uses now, in order."""

    prompt_id: str
    policy: Policy
    refs: tuple[BookRef, ...]


class BoundPromptCache:
    """What was found last; on a database that tells, nobody looks again until one writes."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._known: OrderedDict[Hashable, tuple[Hashable, BoundPrompt | None]] = OrderedDict()

    async def find(
        self, store: Store, name: Hashable, look: Callable[[Transaction], BoundPrompt | None]
    ) -> BoundPrompt | None:
        """Return what `look` finds for a name, or found since the last write."""
        mark = store.mark()  # before looking: whatever is written meanwhile makes it stale
        known = self._known.get(name)
        if known is not None and mark is not None and known[0] == mark:
            return known[1]
        found = await store.read(look)
        self._known[name] = (mark, found)
        self._known.move_to_end(name)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
        return found
