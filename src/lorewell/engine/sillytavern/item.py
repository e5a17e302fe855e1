"""An entry in a scan."""

from __future__ import annotations

from dataclasses import dataclass, field

from lorewell.engine.sillytavern.key_matcher import NOTHING, KeyHits
from lorewell.engine.sillytavern.scan_entry import ScanEntry
from lorewell.model.activated import Activation

OUTSIDE = -1


@dataclass(slots=True, eq=False)
class ScanItem:
    """An entry of the list, or a copy that is forced from outside. Two are equal if identical.

    Attributes:
        place: in the list; a forced copy is not in it and has `OUTSIDE`.
        book: number of the entry's book; `OUTSIDE` for a forced copy.
        content: macros expanded, once it has been that far.
        failed: whether its probability has once decided against it.
        why, found: what made it a candidate last.
        loop: the loop that activated it.
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
        """Begin with the content as written."""
        self.content = self.entry.content

    @property
    def id(self) -> str:
        """The entry's "book.uid"."""
        return self.entry.id
