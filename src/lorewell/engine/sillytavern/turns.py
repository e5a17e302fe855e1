"""Runs one turn of a chat with the given books, or replays all its turns."""

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
from lorewell.model.scene_fields import with_scene
from lorewell.model.select import Explain

_STEPS_PER_TURN: Final = 100
_MESSAGES_PER_STEP: Final = 200


def activate(
    books: Library | Iterable[Attached],
    request: SillyTavernRequest,
    *,
    counter: TokenCounter | None = None,
    steps: Steps | None = None,
) -> SillyTavernResponse:
    """Activate entries as SillyTavern does in this turn, with the reasons.

    Pure: no clock, no I/O; chance comes from the request's seed or draws. For many turns with the
    same books, build one `Library` and pass it: the order of entries is then computed once.

    Args:
        books: compiled books, in the order in which they were selected or bound.
        request: the turn; inline books are compiled and come after the others.
        counter: the token counter; by default that of the request, or `cl100k_base`.
        steps: the step budget of the turn, inline books included; `Steps()` by default.

    Raises:
        TooExpensiveError: the turn needs more than `steps`.
        BookNotFoundError: the request names a stored book; only the service can resolve it.
        ValidationFailedError: the scan needs more draws than the request has, or its tokenizer is
            not one that ships.

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
    return run_turn(with_inline(books, request, steps), request, counter=counter, steps=steps)


def with_inline(
    books: Library | Iterable[Attached], request: SillyTavernRequest, steps: Steps
) -> Library:
    """Return the books of a turn with the inline ones of its request, which come last.

    Raises:
        BookNotFoundError: the request names a stored book.
    """
    given = books.books if isinstance(books, Library) else books
    inline = [attach(book, steps=steps) for book in request.books]
    return books if isinstance(books, Library) and not inline else Library([*given, *inline])


def attach(book: AttachedBook, *, steps: Steps | None = None) -> Attached:
    """Compile an inline book of a request.

    Raises:
        BookNotFoundError: the book is a reference to a stored one.
    """
    if book.entries is None or book.name is None:
        raise BookNotFoundError(
            f"The request names the stored book {book.book_id}, which was not passed in.",
            book_id=book.book_id,
        )
    return Attached(book.source, compile_world(book.name, world_entries(book.entries), steps=steps))


def seed_of(seed: str, messages: int) -> str:
    """Return the seed of the turn after so many messages, so that rolls differ between turns."""
    return f"{seed}:{messages}"


def replay(
    library: Library,
    request: SillyTavernRequest,
    *,
    turns: Iterable[int] | None = None,
    counter: TokenCounter | None = None,
    steps: Steps | None = None,
    explain_last: Explain | None = None,
) -> Iterator[SillyTavernResponse]:
    """Yield the answers of a chat's turns, oldest first.

    Timed effects, variables and leftover forced entries carry over from turn to turn, as if the
    chat had used these books from its start. A chat without messages has no turn.

    Args:
        library: the books.
        request: `chat` is the whole chat; `timed_state`, `variables` and `forced` are those of the
            first turn.
            Given draws are consumed turn by turn; without them, each turn has its own seed (see
            `seed_of`).
        turns: number of messages at each turn, ascending; by default one turn after each message.
        counter: the token counter; by default that of the request, or `cl100k_base`.
        steps: the step budget of all turns together; by default `Steps()` for each turn.
        explain_last: replaces `explain` in the last turn.

    Raises:
        TooExpensiveError: a turn needs more than is left of `steps`.
        ValidationFailedError: the turns need more draws than the request has.
    """
    request = with_scene(request, request.scene, "sillytavern")
    state, forced, draws = request.timed_state, request.forced, request.draws
    variables, macros = request.variables, request.macros
    numbers = list(range(1, len(request.chat) + 1) if turns is None else turns)
    for number in numbers:
        change = {
            "chat": request.chat[:number],
            "chat_length": None,
            "timed_state": state,
            "variables": variables,
            "macros": macros,
            "forced": forced,
            "draws": draws,
            "seed": seed_of(request.seed, number),
        }
        if explain_last is not None and number == numbers[-1]:
            change["explain"] = explain_last
        budget = steps or Steps()
        budget.begin_turn()
        budget.spend("turns", _STEPS_PER_TURN + number // _MESSAGES_PER_STEP)
        turn = request.model_copy(update=change)
        answer = run_turn(library, turn, counter=counter, steps=budget)
        yield answer
        state, forced = {**answer.timed_state}, answer.forced
        variables = {scope: {**values} for scope, values in answer.variables.items()}
        if answer.chat_hash != macros.chat_hash:
            macros = macros.model_copy(update={"chat_hash": answer.chat_hash})
        draws = None if draws is None else draws[answer.draws_used :]
