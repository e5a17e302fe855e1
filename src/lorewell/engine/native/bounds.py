"""What `recall_floor: "auto"` stands for in one turn (docs/rules/native.md §9.3.1)."""

from __future__ import annotations

from collections.abc import Sequence

from lorewell.engine.native.compiled import CompiledBook
from lorewell.engine.native.recall import VectorScores, recall_text
from lorewell.errors import Fault, ValidationFailedError
from lorewell.model import SelectRequest
from lorewell.model.select import RecallBook, RecallBounds, RecallScale
from lorewell.retrieval.evidence import BUDGET_SHARE, FLOOR, LIMIT, QuietScale, choose_scale
from lorewell.retrieval.scripts import main_script


def with_bounds(
    books: Sequence[CompiledBook], request: SelectRequest, vectors: VectorScores
) -> SelectRequest:
    """Return the request with a floor in numbers, or none.

    `off` becomes null, and `auto` is null under `rules`; else `auto` gets its numbers.
    A request that has them gives the same selection again, whatever has been measured since.

    Args:
        books: the snapshot, in request order.
        request: the turn.
        vectors: from the caller, with the scales of the indexes.

    Raises:
        ValidationFailedError: the request has numbers for other books.
    """
    given = request.recall_bounds
    if request.strategy != "hybrid" or request.recall_floor != "auto":
        # `off` is what null was, and nothing is recalled by `rules`.
        is_named = isinstance(request.recall_floor, str)
        if is_named or given is not None:
            floor = None if is_named else request.recall_floor
            request = request.model_copy(update={"recall_floor": floor, "recall_bounds": None})
        return request
    if given is None:
        return request.model_copy(update={"recall_bounds": _measure(books, request, vectors)})
    if [each.book_id for each in given.books] != [book.book_id for book in books]:
        raise ValidationFailedError.at(
            Fault("/recall_bounds/books", "must be the requested books, in their order")
        )
    return request


def _measure(
    books: Sequence[CompiledBook], request: SelectRequest, vectors: VectorScores
) -> RecallBounds:
    script = main_script(recall_text(request))
    limit, tokens = request.recall_limit, request.recall_tokens
    return RecallBounds(
        floor=FLOOR,
        limit=LIMIT if limit is None else limit,
        tokens=int(request.token_budget * BUDGET_SHARE) if tokens is None else tokens,
        books=tuple(_measure_book(book, vectors, script) for book in books),
    )


def _measure_book(book: CompiledBook, vectors: VectorScores, script: str) -> RecallBook:
    words = choose_scale(book.quiet_words(), script)
    assert words is not None  # noqa: S101  measured for every language
    scales = {} if vectors.degraded else vectors.scales.get((book.book_id, book.revision), {})
    near = choose_scale(scales, script)
    return RecallBook(
        book_id=book.book_id,
        words=_written(words),
        vectors=None if near is None else _written(near),
    )


def _written(scale: QuietScale) -> RecallScale:
    return RecallScale(mean=scale.mean, deviation=scale.deviation)
