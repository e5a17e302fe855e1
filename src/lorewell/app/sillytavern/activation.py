"""Turns under the policy `sillytavern`: one, a preview of one, and those of a whole chat."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

from lorewell.app.computing.pool import ComputeTurn
from lorewell.app.ledgers import LedgerRef
from lorewell.app.live.events import NamedBook, of_activation
from lorewell.app.loaded import snapshot_of
from lorewell.app.ports import Transaction
from lorewell.app.services import Services
from lorewell.app.sillytavern.conversations import (
    StartingState,
    find_beginning,
    hash_beginnings,
    keep,
)
from lorewell.app.sillytavern.vectorized import VectorMatches, embed_chat, find_near, force
from lorewell.app.sillytavern.worlds import (
    LoadedWorld,
    attach_worlds,
    compile_stored,
    load_worlds,
    make_library,
)
from lorewell.engine.sillytavern.activate import activate
from lorewell.errors import TooExpensiveError
from lorewell.insight.replay import replay, turns_of
from lorewell.model import (
    ActivatePreview,
    ActivateRequest,
    ReplayRequest,
    ReplayResponse,
    SillyTavernResponse,
)
from lorewell.model.activated import ReplayedTurn
from lorewell.model.live import Occasion
from lorewell.model.parse import parse_model

# What one answer of a replay holds at most; the first turn is always in it.
MAX_TURNS = 1_000
MAX_FOUND = 100_000  # active entries and timed effects, of all turns together
_RESERVED_RATIO = 0.4  # of its time: for one more turn, and for the answer


@dataclass(frozen=True, slots=True)
class KeptActivation:
    """A turn with the revisions and the timed state that it got: it will always give the same."""

    kind: ClassVar[str] = "activation"
    noun: ClassVar[str] = "activation"

    request: ActivateRequest

    @property
    def chars(self) -> int:
        """About how many characters it holds."""
        return sum(len(line.content) for line in self.request.chat)

    def to_members(self) -> dict[str, Any]:
        """Return it as JSON-safe members."""
        return self.request.model_dump(mode="json", exclude_unset=True)

    @classmethod
    def from_members(cls, members: Mapping[str, Any]) -> Self:
        """Return what `to_members` wrote."""
        return cls(parse_model(ActivateRequest, members))


async def activate_turn(
    services: Services,
    tenant_id: str,
    request: ActivateRequest,
    occasion: Occasion | None = None,
) -> SillyTavernResponse:
    """Return what SillyTavern does with these books in this turn.

    A turn of a conversation keeps its timed state, and who watches the prompt of the occasion is
    told of it, unless it is a dry run.

    Raises:
        BindingInvalidError: a binding of the prompt names a book or revision that is gone.
        PolicyMismatchError: the prompt's books run under another policy.
        BookNotFoundError, RevisionNotFoundError: a book is not there.
        SnapshotTooLargeError: the books hold too much together.
        ValidationFailedError: the draws given are used up before the scan ends.
    """
    finished = await _activate_and_keep(services, tenant_id, request)
    _publish(services, tenant_id, finished, occasion)
    return finished.response


async def activate_kept(
    services: Services, tenant_id: str, request: ActivateRequest, occasion: Occasion
) -> tuple[SillyTavernResponse, LedgerRef | None]:
    """Run a turn as `activate_turn` does, and keep it for a while so that its ledger can be opened.

    Returns:
        The answer, and where its ledger can be opened; None if turns are not kept.

    Raises:
        LorewellError: as `activate_turn`.
    """
    finished = await _activate_and_keep(services, tenant_id, request)
    ledger = None
    if services.keeper.is_on:
        pinned = finished.turn.model_copy(update={"conversation_id": None})
        kept_id = await services.computing.finish(
            tenant_id, lambda: hashlib.sha256(pinned.model_dump_json().encode()).hexdigest()
        )
        services.keeper.keep(tenant_id, kept_id, KeptActivation(pinned))
        ledger = LedgerRef.of("sillytavern", tenant_id, kept_id)
    _publish(services, tenant_id, finished, occasion, ledger)
    return finished.response, ledger


def _publish(
    services: Services,
    tenant_id: str,
    finished: _FinishedTurn,
    occasion: Occasion | None,
    ledger: LedgerRef | None = None,
) -> None:
    if not finished.turn.dry_run:
        make = partial(of_activation, finished.response, finished.books)
        services.publish_live(tenant_id, occasion, make, ledger)


async def open_activation(
    services: Services, tenant_id: str, activation_id: str
) -> SillyTavernResponse:
    """Return a turn that was made a while ago, with its whole ledger, computed now.

    Raises:
        NotFoundError: it was never made, or is no longer kept.
        BookNotFoundError: a book was deleted since.
    """
    kept = await services.keeper.get(tenant_id, activation_id, KeptActivation)
    request = kept.request.model_copy(update={"explain": "full"})
    return (await _activate(services, tenant_id, request, [])).response


class _FinishedTurn(NamedTuple):
    """A turn with the timed state that it began with, its answer, and the books it looked at."""

    turn: ActivateRequest
    response: SillyTavernResponse
    books: Sequence[NamedBook]


async def _activate_and_keep(
    services: Services, tenant_id: str, request: ActivateRequest
) -> _FinishedTurn:
    hashes = await hash_beginnings(services, tenant_id, request)
    finished = await _activate(services, tenant_id, request, hashes)
    if request.conversation_id is not None and not request.dry_run:
        state = finished.response.timed_state
        await keep(services, (tenant_id, request.conversation_id), hashes, state)
    return finished


async def preview_turn(
    services: Services, tenant_id: str, request: ActivatePreview
) -> SillyTavernResponse:
    """Return what a turn would give with books that are changed or not stored at all.

    The same code and the same bytes as `activate_turn`; nothing is kept.

    Raises:
        LorewellError: as `activate_turn`.
        ValidationFailedError: a change does not fit to its book.
    """
    hashes = await hash_beginnings(services, tenant_id, request)
    return (await _activate(services, tenant_id, request, hashes)).response


async def _activate(
    services: Services, tenant_id: str, request: ActivateRequest, hashes: list[str]
) -> _FinishedTurn:
    query = await embed_chat(services, tenant_id, request)

    def load(
        tx: Transaction,
    ) -> tuple[list[LoadedWorld], StartingState | None, VectorMatches | None]:
        loaded = load_worlds(tx, services.cache, tenant_id, request.prompt_id, request.books)
        near = None if query is None else find_near(tx, tenant_id, loaded, query)
        return loaded, find_beginning(tx, tenant_id, request, hashes), near

    def answer(
        turn: ComputeTurn,
        loaded: Sequence[LoadedWorld],
        beginning: StartingState | None,
        near: VectorMatches | None,
    ) -> _FinishedTurn:
        begun = scene = request if beginning is None else beginning.of(request)
        attached = attach_worlds(services, turn, loaded)
        used = None
        if near is not None and request.vectors is not None:
            used = near.entries([each.world for each in attached], request.vectors)
            scene = force(scene, used)
        library = make_library(services, loaded, attached)
        response = replace(
            activate(library, scene, counter=services.counter, steps=turn.steps),
            snapshot=snapshot_of(each.row for each in loaded),
            conversation=None if beginning is None else beginning.told,
            vectors=used,
        )
        books = [
            NamedBook(each.world, None if of.row is None else of.row.book_id)
            for each, of in zip(attached, loaded, strict=True)
        ]
        return _FinishedTurn(begun, response, books)

    computing = services.computing
    # A preview may bring whole books, which take longer than a turn has.
    bound = computing.long_turn if isinstance(request, ActivatePreview) else computing.turn
    async with bound(tenant_id) as turn:
        loaded, beginning, near = await services.store.read(load)
        loaded = await compile_stored(services, turn, loaded)
        return await turn.run(lambda: answer(turn, loaded, beginning, near))


async def replay_chat(services: Services, tenant_id: str, request: ReplayRequest) -> ReplayResponse:
    """Return what SillyTavern would have done in each turn of a chat; nothing is kept.

    A long replay is cut off; the answer says where the rest begins.

    Raises:
        LorewellError: as `activate_turn`.
    """

    def load(tx: Transaction) -> list[LoadedWorld]:
        return load_worlds(tx, services.cache, tenant_id, request.prompt_id, request.books)

    def answer(turn: ComputeTurn, loaded: Sequence[LoadedWorld]) -> ReplayResponse:
        library = make_library(services, loaded, attach_worlds(services, turn, loaded))
        made = replay(library, request, counter=services.counter, steps=turn.steps)
        turns = tuple(_bounded(turn, made))
        rest = turns_of(request)[len(turns) :]
        return ReplayResponse(
            turns=turns,
            rest_from=rest[0] if rest else None,
            snapshot=snapshot_of(each.row for each in loaded),
        )

    async with services.computing.turn(tenant_id) as turn:
        loaded = await compile_stored(services, turn, await services.store.read(load))
        return await turn.run(lambda: answer(turn, loaded))


def _bounded(turn: ComputeTurn, turns: Iterable[ReplayedTurn]) -> Iterator[ReplayedTurn]:
    """Yield turns until they are enough for one answer, or take most of what it may cost."""
    number, found, reserved_s = 0, 0, turn.seconds_left() * _RESERVED_RATIO
    try:
        for number, each in enumerate(turns, 1):
            yield each
            found += len(each.activated) + sum(map(len, each.timed_state.values()))
            if number == MAX_TURNS or found > MAX_FOUND or turn.seconds_left() < reserved_s:
                return
    except TooExpensiveError:
        if not number:
            raise
