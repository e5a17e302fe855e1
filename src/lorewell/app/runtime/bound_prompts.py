"""A cache of the books that prompts use."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from lorewell.app.ports import Store, Transaction
from lorewell.model import Policy
from lorewell.model.binding import BoundBook
from lorewell.model.prompt_settings import PromptSettings

_MAX_PROMPTS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundPrompt:
    """A prompt with books: their policy, the revisions in use, in order, and its settings."""

    prompt_id: str
    policy: Policy
    books: tuple[BoundBook, ...]
    settings: PromptSettings


class BoundPromptCache:
    """The bound prompts looked up last, valid while the store's mark does not change."""

    def __init__(self) -> None:
        """Start empty."""
        self._known: OrderedDict[Hashable, tuple[Hashable, BoundPrompt | None]] = OrderedDict()

    async def find(
        self, store: Store, name: Hashable, look: Callable[[Transaction], BoundPrompt | None]
    ) -> BoundPrompt | None:
        """Return the cached result of `look` for a name; run it if the store has changed."""
        mark = store.mark()  # before reading: a write in between must make the result stale
        known = self._known.get(name)
        if known is not None and mark is not None and known[0] == mark:
            return known[1]
        found = await store.read(look)
        self._known[name] = (mark, found)
        self._known.move_to_end(name)
        if len(self._known) > _MAX_PROMPTS:
            self._known.popitem(last=False)
        return found
