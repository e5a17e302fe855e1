"""Turns under the policy `sillytavern`: one, a preview of one, and those of a whole chat."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, ClassVar, Self

from lorewell.app.conversations import Beginning, find_beginning, hash_beginnings, keep
from lorewell.app.ports import Transaction
from lorewell.app.services import Services
from lorewell.app.vectorized import Near, embed_chat, find_near, force
from lorewell.app.worlds import (
    LoadedWorld,
    compile_worlds,
    load_worlds,
    make_library,
    snapshot_of,
)
from lorewell.engine.sillytavern.activate import activate
from lorewell.errors import NotFoundError
from lorewell.insight.replay import replay, turns_of
from lorewell.model import (
    ActivatePreview,
    ActivateRequest,
    ReplayRequest,
    ReplayResponse,
    SillyTavernResponse,
)
from lorewell.model.activated import ReplayedTurn
from lorewell.model.parse import parse_model

# What one answer of a replay holds at most; the first turn is always in it.
MAX_TURNS = 1_000
MAX_FOUND = 100_000  # active entries and timed effects, of all turns together
MAX_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class KeptActivation:
    """A turn with the revisions and the timed state that it got: it will always give the same."""

    kind: ClassVar[str] = "activation"

    request: ActivateRequest

    def to_members(self) -> dict[str, Any]:
        """Return it as JSON-safe members."""
        return self.request.model_dump(mode="json", exclude_unset=True)

    @classmethod
    def from_members(cls, members: Mapping[str, Any]) -> Self:
        """Return what `to_members` wrote."""
        return cls(parse_model(ActivateRequest, members))


async def activate_turn(
    services: Services, tenant_id: str, request: ActivateRequest
) -> SillyTavernResponse:
    """Return what SillyTavern does with these books in this turn.

    A turn of a conversation keeps its timed state, unless it is a dry run.

    Raises:
        BindingInvalidError: a binding of the prompt names a book or revision that is gone.
        PolicyMismatchError: the prompt's books run under another policy.
        BookNotFoundError, RevisionNotFoundError: a book is not there.
        SnapshotTooLargeError: the books hold too much together.
        ValidationFailedError: the draws given are used up before the scan ends.
    """
    return (await _activate_and_keep(services, tenant_id, request))[1]


async def activate_kept(
    services: Services, tenant_id: str, request: ActivateRequest
) -> tuple[SillyTavernResponse, str | None]:
    """Do as `activate_turn`, and keep the turn for a while so that its ledger can be opened.

    Beside the answer it returns what the turn is kept as; None if nothing is kept here.

    Raises:
        LorewellError: as `activate_turn`.
    """
    turn, response = await _activate_and_keep(services, tenant_id, request)
    if not services.keeper.is_on:
        return response, None
    pinned = turn.model_copy(update={"conversation_id": None})
    digest = hashlib.sha256(pinned.model_dump_json().encode())
    kept_as = digest.hexdigest()
    services.keeper.keep(tenant_id, kept_as, KeptActivation(pinned))
    return response, kept_as


async def open_activation(
    services: Services, tenant_id: str, activation_id: str
) -> SillyTavernResponse:
    """Return a turn that was made a while ago, with its whole ledger, computed now.

    Raises:
        NotFoundError: it was never made, or is no longer kept.
        BookNotFoundError: a book was deleted since.
    """
    kept = await services.keeper.find(tenant_id, activation_id, KeptActivation)
    if kept is None:
        message = f"There is no activation {activation_id}, or it is no longer kept."
        raise NotFoundError(message)
    request = kept.request.model_copy(update={"explain": "full"})
    return (await _activate(services, tenant_id, request, []))[1]


async def _activate_and_keep(
    services: Services, tenant_id: str, request: ActivateRequest
) -> tuple[ActivateRequest, SillyTavernResponse]:
    hashes = await hash_beginnings(request)
    turn, response = await _activate(services, tenant_id, request, hashes)
    if request.conversation_id is not None and not request.dry_run:
        await keep(services, (tenant_id, request.conversation_id), hashes, response.timed_state)
    return turn, response


async def preview_turn(
    services: Services, tenant_id: str, request: ActivatePreview
) -> SillyTavernResponse:
    """Return what a turn would give with books that are changed or not stored at all.

    The same code and the same bytes as `activate_turn`; nothing is kept.

    Raises:
        LorewellError: as `activate_turn`.
        ValidationFailedError: a change does not fit to its book.
    """
    return (await _activate(services, tenant_id, request, await hash_beginnings(request)))[1]


async def _activate(
    services: Services, tenant_id: str, request: ActivateRequest, hashes: list[str]
) -> tuple[ActivateRequest, SillyTavernResponse]:
    """Return the turn with the timed state that it began with, and its answer."""
    query = await embed_chat(services, tenant_id, request)

    def load(tx: Transaction) -> tuple[list[LoadedWorld], Beginning | None, Near | None]:
        loaded = load_worlds(tx, services.cache, tenant_id, request.prompt_id, request.books)
        near = None if query is None else find_near(tx, tenant_id, loaded, query)
        return loaded, find_beginning(tx, tenant_id, request, hashes), near

    def answer(
        found: tuple[list[LoadedWorld], Beginning | None, Near | None],
    ) -> tuple[ActivateRequest, SillyTavernResponse]:
        loaded, beginning, near = found
        begun = turn = request if beginning is None else beginning.of(request)
        attached = compile_worlds(services, loaded)
        used = None
        if near is not None and request.vectors is not None:
            used = near.entries([each.world for each in attached], request.vectors)
            turn = force(turn, used)
        library = make_library(services, loaded, attached)
        response = replace(
            activate(library, turn, counter=services.counter),
            snapshot=snapshot_of(loaded),
            conversation=None if beginning is None else beginning.told,
            vectors=used,
        )
        return begun, response

    return await services.store.read_then(load, answer)


async def replay_chat(services: Services, tenant_id: str, request: ReplayRequest) -> ReplayResponse:
    """Return what SillyTavern would have done in each turn of a chat; nothing is kept.

    A long replay is cut off; the answer says where the rest begins.

    Raises:
        LorewellError: as `activate_turn`.
    """

    def load(tx: Transaction) -> list[LoadedWorld]:
        return load_worlds(tx, services.cache, tenant_id, request.prompt_id, request.books)

    def answer(loaded: list[LoadedWorld]) -> ReplayResponse:
        library = make_library(services, loaded, compile_worlds(services, loaded))
        turns = tuple(_bounded(replay(library, request, counter=services.counter)))
        rest = turns_of(request)[len(turns) :]
        return ReplayResponse(
            turns=turns, rest_from=rest[0] if rest else None, snapshot=snapshot_of(loaded)
        )

    return await services.store.read_then(load, answer)


def _bounded(turns: Iterable[ReplayedTurn]) -> Iterator[ReplayedTurn]:
    """Yield turns until they are enough for one answer."""
    begin, found = perf_counter(), 0
    for number, turn in enumerate(turns, 1):
        yield turn
        found += len(turn.activated) + sum(map(len, turn.timed_state.values()))
        if number == MAX_TURNS or found > MAX_FOUND or perf_counter() - begin > MAX_SECONDS:
            return
