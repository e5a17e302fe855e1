"""Replays a whole chat turn by turn, as SillyTavern would have run it."""

from __future__ import annotations

from collections.abc import Iterator

from lorewell.engine.sillytavern.sources import Library
from lorewell.engine.sillytavern.turns import replay as run_turns, seed_of
from lorewell.engine.steps import Steps
from lorewell.engine.tokens import TokenCounter
from lorewell.model.activate import SillyTavernRequest, SillyTavernScene
from lorewell.model.activated import ReplayedEntry, ReplayedTurn, SillyTavernResponse
from lorewell.model.conversation import ReplayRequest


def turns_of(request: ReplayRequest) -> list[int]:
    """Return the number of messages at each turn, in order."""
    user = request.macros.user
    only_users = request.turns_after == "user_messages"
    return [
        number
        for number, line in enumerate(request.chat, 1)
        if number >= request.from_messages and (not only_users or line.name == user)
    ]


def replay(
    library: Library,
    request: ReplayRequest,
    *,
    counter: TokenCounter | None = None,
    steps: Steps | None = None,
) -> Iterator[ReplayedTurn]:
    """Yield the turns of a chat, oldest first; each starts with the state of the one before.

    Args:
        library: the books that the request names.
        request: the chat.
        counter: counts tokens; by default that of the request, or `cl100k_base`.
        steps: the budget of all turns together; by default each has a `Steps()` of its own.

    Raises:
        TooExpensiveError: a turn needs more than `steps` has left.
    """
    scene = {name: getattr(request, name) for name in SillyTavernScene.model_fields}
    turn = SillyTavernRequest.model_construct(**scene, explain="none")
    turns = turns_of(request)
    answers = run_turns(library, turn, turns=turns, counter=counter, steps=steps)
    for messages, answer in zip(turns, answers, strict=True):
        yield _turn(messages, seed_of(request.seed, messages), answer)


def _turn(messages: int, seed: str, answer: SillyTavernResponse) -> ReplayedTurn:
    return ReplayedTurn(
        messages=messages,
        seed=seed,
        activated=tuple(
            ReplayedEntry(each.id, each.reason, each.key, each.hit, each.loop)
            for each in answer.activated
        ),
        timed_state=answer.timed_state,
        variables=answer.variables,
        chat_hash=answer.chat_hash,
        budget=answer.budget,
        draws_used=answer.draws_used,
    )
