"""Whole chats through stored, changed or given books: replays, differences and plans."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import orjson

from lorewell.app.bindings import find_bound, find_bound_under
from lorewell.app.changes import apply_changes
from lorewell.app.computing.pieces import next_turns
from lorewell.app.computing.pool import ComputeTurn
from lorewell.app.documents import load_model
from lorewell.app.loaded import (
    LoadedRevision,
    check_size,
    find_rows,
    get_compiled,
    load_book,
    snapshot_of,
)
from lorewell.app.ports import Transaction
from lorewell.app.rows import RevisionRow
from lorewell.app.services import Services
from lorewell.app.tokens import choose_counter
from lorewell.engine.native.compile import compile_book
from lorewell.engine.native.compiled import CompiledBook
from lorewell.engine.replica import compile_world
from lorewell.engine.sillytavern.sources import Attached, Library
from lorewell.engine.sillytavern.world import compile_stored as compile_native
from lorewell.engine.steps import NO_LIMIT
from lorewell.engine.tokens import TokenCounter
from lorewell.errors import Fault, TooExpensiveError, ValidationFailedError
from lorewell.formats.export.replica import replica_document
from lorewell.host.usage import sillytavern_use
from lorewell.insight.chats import (
    ChatSide,
    NativeSide,
    ReplicaSide,
    SillyTavernSide,
    turns_after,
)
from lorewell.insight.compare import compare_sides
from lorewell.insight.plan import plan_side
from lorewell.insight.stories import sum_up
from lorewell.model import BookCreate, BookRef, InlineBook, Policy, ReplicaRequest, SelectRequest
from lorewell.model.activate import BookSource, SillyTavernRequest, SillyTavernSettings
from lorewell.model.binding import original_policy
from lorewell.model.chat_replay import (
    BudgetPlan,
    ChatReplay,
    ReplayDiff,
    ReplayStep,
    SpokenLine,
)
from lorewell.model.parse import parse_model
from lorewell.model.preview import ChangedBook
from lorewell.model.prompt_settings import (
    NO_SETTINGS,
    PROMPT_DEFAULTS,
    PROMPT_TOKEN_BUDGET,
    PromptSettings,
)
from lorewell.model.replay_request import (
    ChatReplayRequest,
    ReplayBooks,
    ReplayDiffRequest,
    ReplayPlanRequest,
    ReplaySide,
    ReplayTurns,
)
from lorewell.model.scene_fields import for_request

MAX_REPLAY_TURNS: Final = 2_000
_RESERVED_SECONDS: Final = 1.0


class _Item(NamedTuple):
    """A book of a side: as requested, and its revision if it is stored."""

    given: BookRef | InlineBook | ChangedBook
    source: BookSource
    loaded: LoadedRevision | None
    content: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoadedSide:
    policy: Policy
    items: Sequence[_Item]
    settings: PromptSettings

    @property
    def rows(self) -> Sequence[RevisionRow | None]:
        return [None if item.loaded is None else item.loaded.row for item in self.items]


async def replay_books(
    services: Services, tenant_id: str, request: ChatReplayRequest, policy: Policy
) -> ChatReplay:
    """Run a chat through books, turn by turn, without storing anything.

    A long replay is cut off; the answer names the turn where the rest begins.

    Raises:
        BindingInvalidError: a binding of the prompt names a missing book or revision.
        PolicyMismatchError: the prompt's books run under another policy.
        BookNotFoundError, RevisionNotFoundError: a book or revision is missing.
        SnapshotTooLargeError: the books are too large in total.
        ValidationFailedError: there is no book or no turn, or a change does not fit its book.
    """
    turns = _turns(request)
    async with services.computing.long_turn(tenant_id) as turn:
        (side,), loaded = await _open(services, tenant_id, turn, request, ((request, policy),))
        steps = await turn.run(lambda: tuple(_bounded(turn, side.steps(turns, turn.steps))))
        made = await turn.run(lambda: sum_up(side, steps))
    return _completed(made, turns, loaded)


async def stream_replay(
    services: Services, tenant_id: str, request: ChatReplayRequest, policy: Policy
) -> AsyncGenerator[bytes]:
    """Yield a replay as lines of JSON: first `policy` and `turns`, then each turn, then the rest.

    Raises:
        LorewellError: as `replay_books`.
    """
    turns = _turns(request)
    async with services.computing.long_turn(tenant_id) as turn:
        (side,), loaded = await _open(services, tenant_id, turn, request, ((request, policy),))
        yield orjson.dumps({"policy": policy, "turns": len(turns)}) + b"\n"
        steps: list[ReplayStep] = []
        running = _bounded(turn, side.steps(turns, turn.steps))
        while piece := await turn.run(lambda: next_turns(running)):
            steps += piece
            yield b"".join(step.to_json() + b"\n" for step in piece)
        made = await turn.run(lambda: sum_up(side, steps))
        rest = _completed(made, turns, loaded)
        yield replace(rest, steps=()).to_json() + b"\n"


async def compare_replays(
    services: Services, tenant_id: str, request: ReplayDiffRequest
) -> ReplayDiff:
    """Run a chat on two sides, and return which turns and entries differ.

    Raises:
        LorewellError: as `replay_books`.
        TooExpensiveError: both sides together need too many steps.
    """
    turns = _turns(request)
    wanted = ((request.first, request.first.policy), (request.second, request.second.policy))
    async with services.computing.long_turn(tenant_id) as turn:
        (first, second), _ = await _open(services, tenant_id, turn, request, wanted)
        return await turn.run(lambda: compare_sides(first, second, turns, budget=turn.steps))


async def plan_replay(services: Services, tenant_id: str, request: ReplayPlanRequest) -> BudgetPlan:
    """Return what each entry costs over a chat, and what other budgets would change.

    Raises:
        LorewellError: as `replay_books`.
        TooExpensiveError: the turns need too many steps.
    """
    turns = _turns(request)
    async with services.computing.long_turn(tenant_id) as turn:
        wanted = ((request, request.policy),)
        (side,), _ = await _open(services, tenant_id, turn, request, wanted)
        return await turn.run(lambda: plan_side(side, turns, budget=turn.steps))


def _turns(request: ReplayTurns) -> list[int]:
    turns = [
        number
        for number in turns_after(_lines(request), request.turns_after)
        if number >= request.from_messages
    ]
    if not turns:
        raise ValidationFailedError.at(Fault("/chat", "has no turn"))
    return turns[:MAX_REPLAY_TURNS]


def _lines(request: ReplayTurns) -> tuple[SpokenLine, ...]:
    return tuple(SpokenLine(line.role, line.name or "", line.content) for line in request.chat)


def _completed(made: ChatReplay, turns: Sequence[int], loaded: Sequence[_LoadedSide]) -> ChatReplay:
    rest = turns[len(made.steps) :]
    return replace(made, rest_from=rest[0] if rest else None, snapshot=snapshot_of(loaded[0].rows))


def _bounded(turn: ComputeTurn, steps: Iterator[ReplayStep]) -> Iterator[ReplayStep]:
    """Yield turns until the steps or the time of the request are nearly used, at least one."""
    count = 0
    try:
        for step in steps:
            yield step
            count += 1
            if turn.seconds_left() < _RESERVED_SECONDS:
                return
    except TooExpensiveError:
        if not count:
            raise


async def _open(
    services: Services,
    tenant_id: str,
    turn: ComputeTurn,
    request: ReplayTurns,
    wanted: Sequence[tuple[ReplayBooks, str]],
) -> tuple[list[ChatSide], list[_LoadedSide]]:
    """Return the sides, from one snapshot of the database, with their books compiled."""

    def load(tx: Transaction) -> list[_LoadedSide]:
        return [_load(tx, services, tenant_id, books, policy) for books, policy in wanted]

    loaded = await services.store.read(load)
    sides: list[ChatSide] = []
    for each in loaded:
        stored: dict[int, CompiledBook] = {}
        for number, item in enumerate(each.items):
            is_plain = isinstance(item.given, BookRef) and item.loaded is not None
            if each.policy == "native" and is_plain and item.loaded is not None:
                stored[number] = await get_compiled(services, turn, item.loaded)
        sides.append(await _make_side(services, tenant_id, turn, request, each, stored))
    return sides, loaded


def _load(
    tx: Transaction, services: Services, tenant_id: str, books: ReplayBooks, policy: str
) -> _LoadedSide:
    settings, found = NO_SETTINGS, books.books
    sources: list[BookSource] = ["global"] * len(found)
    chosen = None if policy == "auto" else policy
    if books.prompt_id is not None:
        bound = (
            find_bound(tx, tenant_id, books.prompt_id)
            if chosen is None or isinstance(books, ReplaySide)
            else find_bound_under(tx, tenant_id, books.prompt_id, _policy(chosen))
        )
        settings, chosen = bound.settings, chosen or bound.policy
        if not found:
            found, sources = bound.books, [*bound.sources]
    if not found:
        raise ValidationFailedError.at(Fault("/books", "there is no book"))
    stored = [
        BookRef(book_id=each.book_id, revision=each.revision)
        for each in found
        if not isinstance(each, InlineBook)
    ]
    rows = iter(find_rows(tx, tenant_id, stored))
    items = []
    for given, source in zip(found, sources, strict=True):
        loaded = content = None
        if not isinstance(given, InlineBook):
            row = next(rows)
            loaded = load_book(tx, services.cache, row)
            is_used = chosen == "native" and isinstance(given, BookRef)
            content = None if is_used else tx.get_content(tenant_id, row.content_hash)
        items.append(_Item(given, source, loaded, content))
    return _LoadedSide(
        policy=_policy(chosen or _origin(items)),
        items=items,
        settings=_merged(settings, books.settings),
    )


def _policy(name: str) -> Policy:
    policies: Mapping[str, Policy] = {"sillytavern": "sillytavern", "replica": "replica"}
    return policies.get(name, "native")


def _origin(items: Sequence[_Item]) -> Policy:
    """Return the policy that the books were written for."""
    for item in items:
        if item.loaded is not None and item.loaded.row.origin == "sillytavern":
            return "sillytavern"
        if isinstance(item.given, InlineBook):
            return original_policy(item.given.book)
    return "native"


def _merged(prompt: PromptSettings, own: PromptSettings) -> PromptSettings:
    members = {**prompt.given(), **own.given()}
    for name in ("native", "sillytavern"):
        given = {**getattr(prompt, name).given(), **getattr(own, name).given()}
        members[name] = type(getattr(own, name))(**given)
    return PromptSettings(**members)


async def _make_side(
    services: Services,
    tenant_id: str,
    turn: ComputeTurn,
    request: ReplayTurns,
    loaded: _LoadedSide,
    stored: Mapping[int, CompiledBook],
) -> ChatSide:
    """Return the side with its books compiled; `stored` holds those that are compiled already."""
    counter = await choose_counter(services, tenant_id, None)
    if loaded.policy == "native":
        return await turn.run(lambda: _native_side(services, turn, request, loaded, stored))
    make = _sillytavern_side if loaded.policy == "sillytavern" else _replica_side

    def made() -> ChatSide:
        books = [_book(turn, item, number) for number, item in enumerate(loaded.items)]
        check_size(
            services.limits,
            entries=sum(len(book.entries) for book in books),
            chars=sum(len(entry.content) for book in books for entry in book.entries),
        )
        return make(turn, request, loaded, books, counter)

    return await turn.run(made)


def _book(turn: ComputeTurn, item: _Item, number: int) -> BookCreate:
    if isinstance(item.given, InlineBook):
        return item.given.book
    book = load_model(item.content or b"", watch=turn.pause)
    if isinstance(item.given, ChangedBook):
        return apply_changes(book, item.given, "books", number)
    return book


def _native_side(
    services: Services,
    turn: ComputeTurn,
    request: ReplayTurns,
    loaded: _LoadedSide,
    stored: Mapping[int, CompiledBook],
) -> ChatSide:
    books = []
    for number, item in enumerate(loaded.items):
        inline = item.given if isinstance(item.given, InlineBook) else None
        identity = inline if item.loaded is None else item.loaded.row
        books.append(
            stored.get(number)
            or compile_book(
                _book(turn, item, number),
                book_id=None if identity is None else identity.book_id,
                revision=1 if identity is None else identity.revision,
                counter=services.counter,
                steps=turn.new_steps(NO_LIMIT),
            )
        )
    return NativeSide(
        books=books,
        request=_native_request(request, books, loaded.settings),
        chat=_lines(request),
        limits=services.limits,
    )


def _sillytavern_side(
    turn: ComputeTurn,
    request: ReplayTurns,
    loaded: _LoadedSide,
    books: Sequence[BookCreate],
    counter: TokenCounter,
) -> ChatSide:
    attached = [
        Attached(item.source, compile_native(book, name=None, steps=turn.new_steps(NO_LIMIT)))
        for item, book in zip(loaded.items, books, strict=True)
    ]
    return SillyTavernSide(
        library=Library(attached),
        request=_sillytavern_request(request, _lines(request), loaded.settings),
        counter=counter,
    )


def _replica_side(
    turn: ComputeTurn,
    request: ReplayTurns,
    loaded: _LoadedSide,
    books: Sequence[BookCreate],
    counter: TokenCounter,
) -> ChatSide:
    worlds = {
        str(number): compile_world(
            replica_document(book), book_id=str(number), steps=turn.new_steps(NO_LIMIT)
        )
        for number, book in enumerate(books)
    }
    return ReplicaSide(
        worlds=worlds,
        request=_replica_request(request, loaded.items, loaded.settings),
        chat=_lines(request),
        counter=counter,
    )


def _native_request(
    request: ReplayTurns, books: Sequence[CompiledBook], settings: PromptSettings
) -> SelectRequest:
    members: dict[str, object] = {
        **PROMPT_DEFAULTS.given(),
        **settings.native.given(),
        "books": tuple(book.ref for book in books),
        "query": " ",
        "seed": request.seed,
    }
    return parse_model(SelectRequest, for_request(members, settings.scene, "native"))


def _sillytavern_request(
    request: ReplayTurns, lines: Sequence[SpokenLine], settings: PromptSettings
) -> SillyTavernRequest:
    own = settings.sillytavern
    use = sillytavern_use(own, token_budget=PROMPT_TOKEN_BUDGET, context_window=None)
    names = {line.role: line.name for line in lines if line.name}
    others = {
        name: value
        for name, value in own.given().items()
        if name not in SillyTavernSettings.model_fields
        and name not in ("vectors", "context_tokens")
    }
    members: dict[str, object] = {
        **others,
        "settings": use.settings,
        "context_tokens": use.context_tokens,
        "chat": tuple({"name": line.name or None, "content": line.content} for line in lines),
        "macros": {"user": names.get("user", ""), "char": names.get("assistant", "")},
        "seed": request.seed,
    }
    return parse_model(SillyTavernRequest, for_request(members, settings.scene, "sillytavern"))


def _replica_request(
    request: ReplayTurns, items: Sequence[_Item], settings: PromptSettings
) -> ReplicaRequest:
    character = next((n for n, item in enumerate(items) if item.source == "character"), None)
    others = [{"id": str(n)} for n in range(len(items)) if n != character]
    data: dict[str, object] = {"globalBooks": others}
    if character is not None:
        data["characterBookId"] = str(character)
    members: dict[str, object] = {"worldBookData": data, "seed": request.seed}
    return parse_model(ReplicaRequest, for_request(members, settings.scene, "replica"))
