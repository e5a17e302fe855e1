"""Turns under the policy `sillytavern`: a turn, a preview, and the replay of a chat."""

from __future__ import annotations

import hashlib
from collections.abc import (
    AsyncGenerator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import orjson

from lorewell.app.bindings import settings_of
from lorewell.app.computing.pieces import next_turns
from lorewell.app.computing.pool import ComputeTurn
from lorewell.app.ledgers import LedgerRef
from lorewell.app.live.events import NamedBook, of_activation
from lorewell.app.loaded import snapshot_of
from lorewell.app.ports import Transaction
from lorewell.app.services import Services
from lorewell.app.sillytavern.conversations import keep_reply, keep_turn
from lorewell.app.sillytavern.places import (
    StartingState,
    TurnChat,
    UnnamedScope,
    find_beginning,
    hash_chat,
)
from lorewell.app.sillytavern.vectorized import VectorMatches, embed_chat, find_near, with_forced
from lorewell.app.sillytavern.worlds import (
    LoadedWorld,
    attach_worlds,
    compile_stored,
    load_worlds,
    make_library,
)
from lorewell.app.tokens import choose_counter
from lorewell.engine.sillytavern.activate import activate
from lorewell.engine.sillytavern.releases import profile_of, with_release
from lorewell.errors import TooExpensiveError
from lorewell.host.alignment import SentLine
from lorewell.host.carried import CarriedState
from lorewell.host.usage import with_sillytavern
from lorewell.insight.explain import explain_activation as explain
from lorewell.insight.replay import replay, turns_of
from lorewell.model import (
    ActivatePreview,
    ActivateRequest,
    ReplayRequest,
    ReplayResponse,
    SillyTavernResponse,
)
from lorewell.model.activate import AttachedBook
from lorewell.model.activated import Continued, ReplayedTurn, VectorsUsed
from lorewell.model.explained import Explanation, SillyTavernExplain
from lorewell.model.live import Occasion
from lorewell.model.parse import parse_model
from lorewell.model.scene_fields import with_default, without_given
from lorewell.model.text import canonical_json

Hear = Callable[[str], Coroutine[None, None, None]]
Asked = TypeVar("Asked", ActivateRequest, ActivatePreview, ReplayRequest)

# Limits of one replay answer, which always contains the first turn.
MAX_TURNS = 1_000
MAX_REPLAY_ITEMS = 100_000  # active entries, timed effects and variables of all turns
_CHARS_PER_ITEM = 100
_SEEDING_LINES = 3
_USED, _CONVERSATION = "vectors_used", "conversation"
_RESERVED_RATIO = 0.4  # of the remaining time, for one more turn and the answer


@dataclass(frozen=True, slots=True)
class KeptActivation:
    """A turn with fixed revisions and timed state, which gives the same answer every time.

    Attributes:
        request: the turn; the entries that vector search found are forced.
        vectors: the outcome of that search; None if there was none.
        conversation: the timed state that the turn started from.
        chars: its approximate size.
    """

    kind: ClassVar[str] = "activation"
    noun: ClassVar[str] = "activation"

    request: ActivateRequest
    vectors: VectorsUsed | None = None
    conversation: Continued | None = None
    chars: int = 0

    def to_members(self) -> dict[str, Any]:
        """Return it as JSON-safe members."""
        members = self.request.model_dump(mode="json", exclude_unset=True)
        # The service sets fields of a turn, which the scene may give too.
        members = without_given(members, self.request.scene, "sillytavern")
        if self.vectors is not None:
            members[_USED] = self.vectors.to_members()
        if self.conversation is not None:
            members[_CONVERSATION] = asdict(self.conversation)
        return members

    @classmethod
    def from_members(cls, members: Mapping[str, Any]) -> Self:
        """Return what `to_members` wrote."""
        given = dict(members)
        vectors, conversation = given.pop(_USED, None), given.pop(_CONVERSATION, None)
        # Turns that name no counting are older than the setting.
        settings = {"token_counting": "plain", **given.get("settings", {})}
        return cls(
            parse_model(ActivateRequest, {**given, "settings": settings}),
            None if vectors is None else VectorsUsed.from_members(vectors),
            None if conversation is None else Continued(**conversation),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenChat:
    """What the gateway knows of a chat besides the request.

    Attributes:
        lines: the lines, by their roles.
        scope: who may continue it, unless the request names its conversation, and whose global
            variables it has.
        seed_name: a name that its random numbers depend on, besides its place and its last lines.
    """

    lines: Sequence[SentLine]
    scope: UnnamedScope | None
    seed_name: str

    def seed(self, length: int) -> str:
        """Return the seed at a place: a retry gets the same, and so does a chat sent in part."""
        last = [line.text for line in self.lines[-_SEEDING_LINES:]]
        return hashlib.sha256(canonical_json([self.seed_name, length, last])).hexdigest()


class ActivatedTurn(NamedTuple):
    """The answer to a turn, where its ledger can be opened if it is kept, and who takes its reply.

    `hear` stores the text of the reply, so that the next turn can be recognised by it; it is None
    if the turn has no conversation.
    """

    response: SillyTavernResponse
    ledger: LedgerRef | None
    hear: Hear | None


async def activate_turn(
    services: Services,
    tenant_id: str,
    request: ActivateRequest,
    occasion: Occasion | None = None,
    spoken: SpokenChat | None = None,
) -> ActivatedTurn:
    """Run one turn under SillyTavern's rules.

    Unless it is a dry run, a turn of a conversation stores its timed state, and subscribers to the
    prompt of the occasion get a live event. A turn of stored books is kept for a while, so that its
    ledger can be opened.

    Raises:
        BindingInvalidError: a binding of the prompt names a missing book or revision.
        PolicyMismatchError: the prompt's books run under another policy.
        BookNotFoundError, RevisionNotFoundError: a book or revision is missing.
        SnapshotTooLargeError: the books are too large in total.
        ValidationFailedError: the given draws run out before the scan ends, or the service has no
            such tokenizer.
    """
    finished = await _activate_and_keep(services, tenant_id, request, spoken)
    conversation = finished.response.conversation
    if occasion is not None and conversation is not None:
        occasion = replace(occasion, conversation_id=conversation.conversation_id)
    kept_id = await _keep_turn(services, tenant_id, finished)
    ledger = LedgerRef.of("sillytavern", tenant_id, kept_id)
    if not finished.turn.dry_run:
        make = partial(of_activation, finished.response, finished.books)
        services.publish_live(tenant_id, occasion, make, ledger)
    return ActivatedTurn(finished.response, ledger, finished.hear)


async def _keep_turn(services: Services, tenant_id: str, finished: _FinishedTurn) -> str | None:
    """Keep a turn of stored books; return its id, a hash of everything that it depends on."""
    pinned = finished.pinned
    if pinned is None or not services.keeper.is_on:
        return None
    response = finished.response

    def make() -> tuple[str, KeptActivation]:
        written = pinned.model_dump_json()
        kept_id = hashlib.sha256(written.encode()).hexdigest()
        kept = KeptActivation(pinned, response.vectors, response.conversation, chars=len(written))
        return kept_id, kept

    kept_id, kept = await services.computing.finish(tenant_id, make)
    services.keeper.keep(tenant_id, kept_id, kept)
    return kept_id


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
    response = (await _activate(services, tenant_id, request, None)).response
    return replace(response, vectors=kept.vectors, conversation=kept.conversation)


class _FinishedTurn(NamedTuple):
    """A turn with its starting timed state, its answer, and the books it used.

    Attributes:
        pinned: the turn with fixed revisions and entries found by vector search; None if a book is
            not stored or has unsaved changes.
    """

    turn: ActivateRequest
    response: SillyTavernResponse
    books: Sequence[NamedBook]
    pinned: ActivateRequest | None
    begun: StartingState | None
    hear: Hear | None = None
    explanation: Explanation | None = None


async def _activate_and_keep(
    services: Services,
    tenant_id: str,
    request: ActivateRequest,
    spoken: SpokenChat | None = None,
) -> _FinishedTurn:
    request = await _with_settings(services, tenant_id, request)
    chat = await hash_chat(
        services,
        tenant_id,
        request,
        spoken=None if spoken is None else spoken.lines,
        scope=None if spoken is None else spoken.scope,
        keeps=not request.dry_run,
    )
    seed = None if spoken is None else spoken.seed
    finished = await _activate(services, tenant_id, request, chat, seed)
    if chat is not None and finished.begun is not None and not request.dry_run:
        state = CarriedState.after(finished.response)
        await keep_turn(services, tenant_id, chat, finished.begun, state)
        hear = partial(keep_reply, services, tenant_id, chat, finished.begun)
        return finished._replace(hear=hear)
    return finished


async def _with_settings(services: Services, tenant_id: str, request: Asked) -> Asked:
    """Return a turn with the settings of its prompt where it gives no value of its own."""
    settings = await settings_of(services, tenant_id, request.prompt_id)
    filled = with_sillytavern(request, settings.sillytavern)
    return with_default(filled, settings.scene, "sillytavern")


async def preview_turn(
    services: Services, tenant_id: str, request: ActivatePreview
) -> SillyTavernResponse:
    """Run a turn as `activate_turn` does, with books that may be changed or not stored.

    It gives the same bytes for the same books, and stores nothing.

    Raises:
        LorewellError: as `activate_turn`.
        ValidationFailedError: a change does not fit its book.
    """
    request = await _with_settings(services, tenant_id, request)
    chat = await hash_chat(services, tenant_id, request, keeps=False)
    return (await _activate(services, tenant_id, request, chat)).response


async def explain_activation(
    services: Services, tenant_id: str, asked: SillyTavernExplain
) -> Explanation:
    """Explain one entry in the turn that `preview_turn` would run.

    Raises:
        LorewellError: as `preview_turn`.
        ValidationFailedError: the turn has no such entry, or several.
    """
    request = await _with_settings(services, tenant_id, asked.request)
    chat = await hash_chat(services, tenant_id, request, keeps=False)
    finished = await _activate(services, tenant_id, request, chat, asked=asked)
    assert finished.explanation is not None  # noqa: S101  it was asked for
    return finished.explanation


async def _activate(
    services: Services,
    tenant_id: str,
    request: ActivateRequest,
    chat: TurnChat | None,
    seed: Callable[[int], str] | None = None,
    *,
    asked: SillyTavernExplain | None = None,
) -> _FinishedTurn:
    counter = await choose_counter(services, tenant_id, request.tokenizer)
    query = await embed_chat(services, tenant_id, request)

    def load(
        tx: Transaction,
    ) -> tuple[list[LoadedWorld], StartingState | None, VectorMatches | None]:
        loaded = load_worlds(tx, services.cache, tenant_id, request.prompt_id, request.books)
        near = None if query is None else find_near(tx, tenant_id, loaded, query)
        return loaded, find_beginning(tx, tenant_id, request, chat), near

    def answer(
        turn: ComputeTurn,
        loaded: Sequence[LoadedWorld],
        beginning: StartingState | None,
        near: VectorMatches | None,
    ) -> _FinishedTurn:
        started = request if beginning is None else beginning.of(request)
        if seed is not None:
            started = started.model_copy(update={"seed": seed(started.length)})
        scan_request = started
        attached = attach_worlds(services, turn, loaded)
        used = None
        if near is not None and request.vectors is not None:
            used = near.entries([each.world for each in attached], request.vectors)
            scan_request = with_forced(scan_request, used)
        library = make_library(services, loaded, attached)
        response = replace(
            activate(library, scan_request, counter=counter, steps=turn.steps),
            snapshot=snapshot_of(each.row for each in loaded),
            conversation=None if beginning is None else beginning.report,
            vectors=used,
        )
        books = [
            NamedBook(each.world, None if book.row is None else book.row.book_id)
            for each, book in zip(attached, loaded, strict=True)
        ]
        finished = _FinishedTurn(started, response, books, _pinned(scan_request, loaded), beginning)
        if asked is None:
            return finished
        explanation = explain(library, scan_request, asked, counter=counter, steps=turn.steps)
        return finished._replace(explanation=explanation)

    computing = services.computing
    # A preview may contain whole books, which may take longer than a turn.
    make_turn = computing.long_turn if isinstance(request, ActivatePreview) else computing.turn
    async with make_turn(tenant_id) as turn:
        loaded, beginning, near = await services.store.read(load)
        loaded = await compile_stored(services, turn, loaded)
        return await turn.run(lambda: answer(turn, loaded, beginning, near))


def _pinned(request: ActivateRequest, loaded: Sequence[LoadedWorld]) -> ActivateRequest | None:
    books = [
        each.item.model_copy(update={"book_id": each.row.book_id, "revision": each.row.revision})
        for each in loaded
        if each.row is not None and isinstance(each.item, AttachedBook)
    ]
    if len(books) < len(loaded):
        return None
    update = {
        "books": tuple(books),
        "settings": with_release(request.settings),
        **dict.fromkeys(("prompt_id", "conversation_id", "vectors")),
    }
    return request.model_copy(update=update)


async def replay_chat(services: Services, tenant_id: str, request: ReplayRequest) -> ReplayResponse:
    """Run SillyTavern's rules for each turn of a chat, without storing anything.

    A long replay is cut off; the answer names the turn where the rest begins.

    Raises:
        LorewellError: as `activate_turn`.
    """
    request = await _with_settings(services, tenant_id, request)
    counter = await choose_counter(services, tenant_id, request.tokenizer)

    def load(tx: Transaction) -> list[LoadedWorld]:
        return load_worlds(tx, services.cache, tenant_id, request.prompt_id, request.books)

    def answer(turn: ComputeTurn, loaded: Sequence[LoadedWorld]) -> ReplayResponse:
        library = make_library(services, loaded, attach_worlds(services, turn, loaded))
        made = replay(library, request, counter=counter, steps=turn.steps)
        turns = tuple(_bounded(turn, made))
        rest = turns_of(request)[len(turns) :]
        return ReplayResponse(
            turns=turns,
            rest_from=rest[0] if rest else None,
            snapshot=snapshot_of(each.row for each in loaded),
            policy_version=profile_of(request.settings).policy_version,
        )

    async with services.computing.turn(tenant_id) as turn:
        loaded = await compile_stored(services, turn, await services.store.read(load))
        return await turn.run(lambda: answer(turn, loaded))


async def stream_chat(
    services: Services, tenant_id: str, request: ReplayRequest
) -> AsyncGenerator[bytes]:
    """Yield a replay as lines of JSON: first the number of turns, then each turn, then the rest.

    Raises:
        LorewellError: as `activate_turn`.
    """
    request = await _with_settings(services, tenant_id, request)
    counter = await choose_counter(services, tenant_id, request.tokenizer)

    def load(tx: Transaction) -> list[LoadedWorld]:
        return load_worlds(tx, services.cache, tenant_id, request.prompt_id, request.books)

    async with services.computing.long_turn(tenant_id) as turn:
        loaded = await compile_stored(services, turn, await services.store.read(load))
        library = await turn.run(
            lambda: make_library(services, loaded, attach_worlds(services, turn, loaded))
        )
        numbers = turns_of(request)
        yield orjson.dumps({"policy": "sillytavern", "turns": len(numbers)}) + b"\n"
        made = _bounded(turn, replay(library, request, counter=counter, steps=turn.steps))
        count = 0
        while piece := await turn.run(lambda: next_turns(made)):
            count += len(piece)
            yield b"".join(each.to_json() + b"\n" for each in piece)
        rest = ReplayResponse(
            turns=(),
            rest_from=numbers[count] if count < len(numbers) else None,
            snapshot=snapshot_of(each.row for each in loaded),
            policy_version=profile_of(request.settings).policy_version,
        )
        yield rest.to_json() + b"\n"


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
