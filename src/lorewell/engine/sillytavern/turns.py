"""Turns of a chat: one with the books at hand, or all of them one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from lorewell.engine.sillytavern.activate import activate as run_turn
from lorewell.engine.sillytavern.sources import Attached, Library
from lorewell.engine.sillytavern.world import compile_world, world_entries
from lorewell.engine.steps import Steps
from lorewell.engine.tokens import TokenCounter
from lorewell.errors import BookNotFoundError
from lorewell.model.activate import AttachedBook, SillyTavernRequest
from lorewell.model.activated import SillyTavernResponse

_STEPS_PER_TURN: Final = 100
_MESSAGES_PER_STEP: Final = 200


def activate(
    books: Library | Iterable[Attached],
    request: SillyTavernRequest,
    *,
    counter: TokenCounter | None = None,
    steps: Steps | None = None,
) -> SillyTavernResponse:
    """Return what SillyTavern 1.18.0 does with these books in this turn, and why.

    Pure: no clock, no I/O; chance comes from the request's seed or draws. Who asks again and again
    makes one `Library` of the books and passes that, so that their order is worked out once.

    Args:
        books: compiled books, in the order in which they were selected or bound.
        request: the turn; books that it holds inline are compiled and come after the others.
        counter: counts tokens; `cl100k_base` if not given.
        steps: what the turn may cost, books inside the request included; `Steps()` if not given.

    Raises:
        TooExpensiveError: the turn needs more than `steps`.
        BookNotFoundError: the request names a stored book, which only the service has.
        ValidationFailedError: the request's draws are used up before the scan ends.

    Source: docs/rules/sillytavern.md.

    >>> entry = {"uid": 0, "key": ["灯塔"], "content": "灯塔由{{char}}看守。", "position": 0}
    >>> turn = {"chat": [{"content": "他走进灯塔大门"}], "macros": {"char": "哑女"}}
    >>> book = {"name": "雾隐渡", "entries": {"0": entry}}
    >>> request = SillyTavernRequest.model_validate({**turn, "books": [book], "context_tokens": 99})
    >>> answer = activate([], request)
    >>> answer.world_info_before, answer.activated[0].key
    ('灯塔由哑女看守。', '灯塔')
    """
    steps = steps or Steps()
    given = books.books if isinstance(books, Library) else books
    inline = [attach(book, steps=steps) for book in request.books]
    library = books if isinstance(books, Library) and not inline else Library([*given, *inline])
    return run_turn(library, request, counter=counter, steps=steps)


def attach(book: AttachedBook, *, steps: Steps | None = None) -> Attached:
    """Return a book that a request holds inline, ready to be scanned.

    Raises:
        BookNotFoundError: it names a stored book.
    """
    if book.entries is None or book.name is None:
        raise BookNotFoundError(
            f"The request names the stored book {book.book_id}, which is not given here.",
            book_id=book.book_id,
        )
    return Attached(book.source, compile_world(book.name, world_entries(book.entries), steps=steps))


def seed_of(seed: str, messages: int) -> str:
    """Return what the turn after so many messages draws from: no roll is the same every turn."""
    return f"{seed}:{messages}"


def replay(
    library: Library,
    request: SillyTavernRequest,
    *,
    turns: Iterable[int] | None = None,
    counter: TokenCounter | None = None,
    steps: Steps | None = None,
) -> Iterator[SillyTavernResponse]:
    """Yield the answers of a chat's turns, oldest first.

    Timed state and what stays forced go from turn to turn, as in a chat that was written with
    these books from its beginning. A chat without messages has no turn.

    Args:
        library: the books.
        request: its `chat` is the whole chat, `timed_state` and `forced` are what the first turn
            begins with. Given draws are used up turn after turn; without them each turn draws from
            its `seed_of`.
        turns: how many messages there are at each turn, ascending; after each message, if not
            given.
        counter: counts tokens; `cl100k_base` if not given.
        steps: what all turns together may cost; each may cost `Steps()` if not given.

    Raises:
        TooExpensiveError: the turn needs more than is left of `steps`.
        ValidationFailedError: the draws are used up before the last turn ends.
    """
    state, forced, draws = request.timed_state, request.forced, request.draws
    for number in range(1, len(request.chat) + 1) if turns is None else turns:
        change = {
            "chat": request.chat[:number],
            "timed_state": state,
            "forced": forced,
            "draws": draws,
            "seed": seed_of(request.seed, number),
        }
        left = steps or Steps()
        left.begin_turn()
        left.spend("turns", _STEPS_PER_TURN + number // _MESSAGES_PER_STEP)
        turn = request.model_copy(update=change)
        answer = run_turn(library, turn, counter=counter, steps=left)
        yield answer
        state, forced = {**answer.timed_state}, answer.forced
        draws = None if draws is None else draws[answer.draws_used :]
