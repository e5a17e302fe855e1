"""Explains one entry in one turn: its gates, near misses, and the changes that flip it."""

from __future__ import annotations

from collections.abc import Sequence

from lorewell.engine.native import NO_VECTORS, VectorScores
from lorewell.engine.native.compiled import CompiledBook
from lorewell.engine.steps import Steps
from lorewell.insight.explain.native import explain_context
from lorewell.model import SelectRequest
from lorewell.model.explained import MAX_BUDGET, EntryName, ExplainOptions, Explanation

__all__ = ["explain", "explain_context"]


def explain(
    books: Sequence[CompiledBook],
    request: SelectRequest,
    entry: str | EntryName,
    *,
    vectors: VectorScores = NO_VECTORS,
    budget: int = MAX_BUDGET,
    steps: Steps | None = None,
) -> Explanation:
    """Return why an entry is selected in a turn or not, and the smallest changes that flip it.

    Args:
        books: compiled revisions, as for `select`.
        request: the turn.
        entry: the entry's id if it is unique in the request's books, else its book and id.
        vectors: similarities of the entries to the query, as for `select`.
        budget: most steps of the search for changes.
        steps: the step budget of the turn itself; `Steps()` by default.

    Raises:
        ValidationFailedError: there is no such entry, or several.
        BookNotFoundError, RevisionNotFoundError, SnapshotTooLargeError, TooExpensiveError: as
            `select`.

    >>> from lorewell import BookCreate, Entry, compile_book
    >>> lamp = Entry(id="lamp", content="It burns.", keys=["lamp"], match_whole_words=True)
    >>> book = compile_book(BookCreate(name="Harbour", entries=[lamp]))
    >>> found = explain([book], SelectRequest(books=[book.ref], query="The lamps!"), "lamp")
    >>> found.gate, found.near[0].kind, found.changes[0].edits[0].path
    ('keys', 'inside_word', '/match_whole_words')
    """
    asked = ExplainOptions(entry=entry, budget=budget)
    return explain_context(books, request, asked, vectors=vectors, steps=steps)
