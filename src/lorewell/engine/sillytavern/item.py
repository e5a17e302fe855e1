"""The state of an entry in a scan."""

from __future__ import annotations

from dataclasses import dataclass, field

from lorewell.engine.sillytavern.key_matcher import NOTHING, KeyHits
from lorewell.engine.sillytavern.scan_entry import ScanEntry
from lorewell.model.activated import Activation

OUTSIDE = -1


@dataclass(slots=True, eq=False)
class ScanItem:
    """An entry of the list, or a copy forced from outside. Compared by identity.

    Attributes:
        place: its place in the list; `OUTSIDE` for a forced copy, which is not in the list.
        book: number of the entry's book; `OUTSIDE` for a forced copy.
        content: as written; macros are expanded when the entry is about to activate.
        failed: whether it ever failed its probability.
        why, found: what last made it a candidate.
        loop: the loop that activated it; 0 for none.
    """

    entry: ScanEntry
    place: int
    book: int
    content: str = field(init=False)
    failed: bool = False
    why: Activation = "primary"
    found: KeyHits = NOTHING
    loop: int = 0

    def __post_init__(self) -> None:
        """Start with the content as written."""
        self.content = self.entry.content

    @property
    def id(self) -> str:
        """The entry's "book.uid"."""
        return self.entry.id
