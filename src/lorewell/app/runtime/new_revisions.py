"""The revisions that this process stored last, for the job that indexes them."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

_MAX_WAITING: Final = 10_000


class NewRevision(NamedTuple):
    """A revision that is being stored; its transaction may not have ended yet, or may fail."""

    tenant_id: str
    book_id: str
    revision: int
    looked: int = 0


class NewRevisions:
    """A queue of new revisions, bounded: of very many, the oldest are forgotten. Thread-safe."""

    def __init__(self) -> None:
        """Start empty."""
        self._waiting: deque[NewRevision] = deque(maxlen=_MAX_WAITING)

    def add(self, revision: NewRevision) -> None:
        """Add a revision."""
        self._waiting.append(revision)

    def take(self) -> list[NewRevision]:
        """Return the waiting revisions, oldest first, and forget them."""
        return [self._waiting.popleft() for _ in range(len(self._waiting))]
