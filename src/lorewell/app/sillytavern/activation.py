"""Turns under the policy `sillytavern`: a turn, a preview, and the replay of a chat."""

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
    keep_state,
)
from lorewell.app.sillytavern.vectorized import VectorMatches, embed_chat, find_near, with_forced
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

# Limits of one replay answer, which always contains the first turn.
MAX_TURNS = 1_000
MAX_REPLAY_ITEMS = 100_000  # active entries, timed effects and variables of all turns
_CHARS_PER_ITEM = 100
_RESERVED_RATIO = 0.4  # of the remaining time, for one more turn and the answer


@dataclass(frozen=True, slots=True)
class KeptActivation:
    """A turn with fixed revisions and timed state, which gives the same answer every time."""

    kind: ClassVar[str] = "activation"
    noun: ClassVar[str] = "activation"

    request: ActivateRequest

    @property
    def chars(self) -> int:
        """Its approximate size in characters."""
        chars = sum(len(line.content) for line in self.request.chat)
        return chars + sum(len(each.content) for each in self.request.macros.messages or ())

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
    """Run one turn under SillyTavern's rules.

    Unless it is a dry run, a turn of a conversation stores its timed state, and subscribers to the
    prompt of the occasion get a live event.

    Raises:
        BindingInvalidError: a binding of the prompt names a missing book or revision.
        PolicyMismatchError: the prompt's books run under another policy.
        BookNotFoundError, RevisionNotFoundError: a book or revision is missing.
        SnapshotTooLargeError: the books are too large in total.
        ValidationFailedError: the given draws run out before the scan ends.
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
    """Return an earlier turn with its full ledger, computed now.

    Raises:
        NotFoundError: there was no such turn, or it is no longer kept.
        BookNotFoundError: a book was deleted since.
    """
    kept = await services.keeper.get(tenant_id, activation_id, KeptActivation)
    request = kept.request.model_copy(update={"explain": "full"})
    return (await _activate(services, tenant_id, request, [])).response


class _FinishedTurn(NamedTuple):
    """A turn with its starting timed state, its answer, and the books it used."""

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
        await keep_state(services, (tenant_id, request.conversation_id), hashes, state)
    return finished


async def preview_turn(
    services: Services, tenant_id: str, request: ActivatePreview
) -> SillyTavernResponse:
    """Run a turn as `activate_turn` does, with books that may be changed or not stored.

    It gives the same bytes for the same books, and stores nothing.

    Raises:
        LorewellError: as `activate_turn`.
        ValidationFailedError: a change does not fit its book.
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
        started = scan_request = request if beginning is None else beginning.of(request)
        attached = attach_worlds(services, turn, loaded)
        used = None
        if near is not None and request.vectors is not None:
            used = near.entries([each.world for each in attached], request.vectors)
            scan_request = with_forced(scan_request, used)
        library = make_library(services, loaded, attached)
        response = replace(
            activate(library, scan_request, counter=services.counter, steps=turn.steps),
            snapshot=snapshot_of(each.row for each in loaded),
            conversation=None if beginning is None else beginning.report,
            vectors=used,
        )
        books = [
            NamedBook(each.world, None if book.row is None else book.row.book_id)
            for each, book in zip(attached, loaded, strict=True)
        ]
        return _FinishedTurn(started, response, books)

    computing = services.computing
    # A preview may contain whole books, which may take longer than a turn.
    make_turn = computing.long_turn if isinstance(request, ActivatePreview) else computing.turn
    async with make_turn(tenant_id) as turn:
        loaded, beginning, near = await services.store.read(load)
        loaded = await compile_stored(services, turn, loaded)
        return await turn.run(lambda: answer(turn, loaded, beginning, near))


async def replay_chat(services: Services, tenant_id: str, request: ReplayRequest) -> ReplayResponse:
    """Run SillyTavern's rules for each turn of a chat, without storing anything.

    A long replay is cut off; the answer names the turn where the rest begins.

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


def _weigh_variables(variables: Mapping[str, str | float]) -> int:
    """Return how many items of an answer variables count as."""
    return sum(1 + len(str(value)) // _CHARS_PER_ITEM for value in variables.values())


def _bounded(turn: ComputeTurn, turns: Iterable[ReplayedTurn]) -> Iterator[ReplayedTurn]:
    """Yield turns until the answer is full or most of its time or steps are used."""
    number, found, reserved_s = 0, 0, turn.seconds_left() * _RESERVED_RATIO
    try:
        for number, each in enumerate(turns, 1):
            yield each
            found += len(each.activated) + sum(map(len, each.timed_state.values()))
            found += sum(map(_weigh_variables, each.variables.values()))
            if number == MAX_TURNS or found > MAX_REPLAY_ITEMS or turn.seconds_left() < reserved_s:
                return
    except TooExpensiveError:
        if not number:
            raise
