"""Explains one entry in one turn: its gates, near misses, and the changes that flip it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from lorewell.engine.native import NO_VECTORS, VectorScores
from lorewell.engine.native.compiled import CompiledBook
from lorewell.engine.sillytavern.sources import Attached, Library
from lorewell.engine.sillytavern.turns import with_inline
from lorewell.engine.steps import Steps
from lorewell.insight.explain.native import explain_context
from lorewell.insight.explain.replica import explain_replica
from lorewell.insight.explain.sillytavern import explain_activation
from lorewell.model import SelectRequest
from lorewell.model.activate import SillyTavernRequest
from lorewell.model.explained import MAX_BUDGET, EntryName, ExplainOptions, Explanation
from lorewell.model.replica import ReplicaRequest

__all__ = ["explain", "explain_activation", "explain_context", "explain_replica"]


Book = TypeVar("Book")


def explain(
    books: Sequence[CompiledBook] | Library | Sequence[Attached],
    request: SelectRequest | SillyTavernRequest | ReplicaRequest,
    entry: str | EntryName,
    *,
    vectors: VectorScores = NO_VECTORS,
    budget: int = MAX_BUDGET,
    steps: Steps | None = None,
) -> Explanation:
    """Return why an entry is selected in a turn or not, and the smallest changes that flip it.

    The kind of request chooses the policy.

    Args:
        books: compiled books, as for `select` or `activate`; a `ReplicaRequest` has its own.
        request: the turn.
        entry: the entry's id if it is unique in the request's books, else its book and id; under
            the policy `sillytavern` also its `book.uid`.
        vectors: similarities of the entries to the query, as for `select`.
        budget: most steps of the search for changes.
        steps: the step budget of the turn itself; `Steps()` by default.

    Raises:
        ValidationFailedError: there is no such entry, or several.
        LorewellError: as `select` and `activate`; but a required entry that does not fit is
            explained.

    >>> from lorewell import BookCreate, Entry, compile_book
    >>> lamp = Entry(id="lamp", content="It burns.", keys=["lamp"], match_whole_words=True)
    >>> book = compile_book(BookCreate(name="Harbour", entries=[lamp]))
    >>> found = explain([book], SelectRequest(books=[book.ref], query="The lamps!"), "lamp")
    >>> found.gate, found.near[0].kind, found.changes[0].edits[0].path
    ('keys', 'inside_word', '/match_whole_words')
    """
    asked = ExplainOptions(entry=entry, budget=budget)
    steps = steps or Steps()
    if isinstance(request, SillyTavernRequest):
        given = books if isinstance(books, Library) else _of_kind(books, Attached)
        library = with_inline(given, request, steps)
        return explain_activation(library, request, asked, steps=steps)
    if isinstance(request, ReplicaRequest):
        return explain_replica({}, request, asked, steps=steps)
    compiled = [] if isinstance(books, Library) else _of_kind(books, CompiledBook)
    return explain_context(compiled, request, asked, vectors=vectors, steps=steps)


def _of_kind(books: Iterable[object], kind: type[Book]) -> list[Book]:
    return [book for book in books if isinstance(book, kind)]
