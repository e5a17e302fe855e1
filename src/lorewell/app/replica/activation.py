"""Turns under the policy `replica`: a turn, a preview, and the ledger of an earlier turn."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeVar

import structlog
from structlog.typing import FilteringBoundLogger

from lorewell.app.bindings import settings_of
from lorewell.app.computing.pool import ComputeTurn
from lorewell.app.ledgers import LedgerRef
from lorewell.app.live.events import of_replica
from lorewell.app.loaded import check_size, find_rows, snapshot_of
from lorewell.app.ports import Transaction
from lorewell.app.replica.near import TurnVectors, embed_turn, queries_of, read_scores
from lorewell.app.replica.worlds import (
    ReplicaBook,
    compile_books,
    compile_stored,
    find_books,
    load_books,
    with_books,
)
from lorewell.app.services import Services
from lorewell.engine.replica import RagScores, activate, log_lines
from lorewell.engine.replica.statistics import CHECK
from lorewell.engine.steps import Steps
from lorewell.errors import NotFoundError
from lorewell.insight.explain import explain_replica as explain
from lorewell.model import BookRef, ChangedBook
from lorewell.model.explained import Explanation, ReplicaExplain
from lorewell.model.live import Occasion
from lorewell.model.parse import parse_model
from lorewell.model.replica import ReplicaPreview, ReplicaRequest, ReplicaResponse, Source
from lorewell.model.scene_fields import with_default, with_scene
from lorewell.model.text import canonical_json

# Members that a turn does not depend on, or that its pinned revisions replace.
Turn = TypeVar("Turn", bound=ReplicaRequest)

_UNPINNED = {"world_book_data", "books", "prompt_id", "explain", "changed"}

MAX_KEPT_CHARS: Final = 1_000_000
"""Characters of messages in a turn that is kept; bodies may be far larger."""

log: FilteringBoundLogger = structlog.get_logger("lorewell.replica")


class PinnedRevision(NamedTuple):
    """A book of a turn with its revision; None if the book was missing."""

    key: str
    source: Source
    ref: BookRef | None


@dataclass(frozen=True, slots=True)
class KeptReplica:
    """A turn of stored books with the revisions and vectors that it used."""

    kind: ClassVar[str] = "replica"
    noun: ClassVar[str] = "activation"

    request: ReplicaRequest
    pins: tuple[PinnedRevision, ...]
    vectors: TurnVectors

    @property
    def chars(self) -> int:
        """Its approximate size in characters."""
        return len(self.request.mes) + sum(map(len, self.request.chat_history))

    def to_members(self) -> dict[str, Any]:
        """Return it as JSON-safe members."""
        return {
            # Not the defaults: a field that is set conflicts with the scene.
            "request": self.request.model_dump(mode="json", exclude=_UNPINNED, exclude_unset=True),
            "pins": [
                [pin.key, pin.source, None if pin.ref is None else pin.ref.model_dump()]
                for pin in self.pins
            ],
            "vectors": self.vectors.to_members(),
        }

    @classmethod
    def from_members(cls, members: Mapping[str, Any]) -> Self:
        """Return what `to_members` wrote."""
        return cls(
            request=parse_model(ReplicaRequest, members["request"]),
            pins=tuple(
                PinnedRevision(key, source, None if ref is None else parse_model(BookRef, ref))
                for key, source, ref in members["pins"]
            ),
            vectors=TurnVectors.from_members(members["vectors"]),
        )


async def activate_replica(
    services: Services,
    tenant_id: str,
    request: ReplicaRequest,
    occasion: Occasion | None = None,
) -> ReplicaResponse:
    """Run one turn under SillyTavern_replica's rules.

    A turn of stored books is kept for a while under its `activation_id`, so that its ledger can be
    opened. A missing book only causes a warning. Subscribers to the prompt of the occasion get a
    live event.

    Raises:
        BindingInvalidError: a binding of the prompt names a missing book or revision.
        PolicyMismatchError: the prompt's books run under another policy.
        SnapshotTooLargeError: the books are too large in total.
    """
    request = await _with_settings(services, tenant_id, request)
    turn, response, vectors = await _find_and_activate(services, tenant_id, request)
    if response.activation_id is not None:
        kept = KeptReplica(request, turn.pins, vectors)
        services.keeper.keep(tenant_id, response.activation_id, kept)
    stored = {each.key: each.row.book_id for each in turn.named if each.row is not None}
    ledger = LedgerRef.of("replica", tenant_id, response.activation_id)
    services.publish_live(tenant_id, occasion, partial(of_replica, response, stored), ledger)
    # Without configuration, structlog would print every line.
    if structlog.is_configured() and log.is_enabled_for(logging.INFO):
        await services.computing.finish(tenant_id, lambda: _log(response))
    return response


async def _with_settings(services: Services, tenant_id: str, request: Turn) -> Turn:
    """Return a turn with the scene of its prompt where it gives no value of its own."""
    settings = await settings_of(services, tenant_id, request.prompt_id)
    return with_default(request, settings.scene, "replica")


def _log(response: ReplicaResponse) -> None:
    """Log the activated entries; lines on checked entries quote keys, so they need level debug."""
    for line in log_lines(response, checks=log.is_enabled_for(logging.DEBUG)):
        (log.debug if line.startswith(CHECK) else log.info)(line)


async def preview_replica(
    services: Services, tenant_id: str, request: ReplicaPreview
) -> ReplicaResponse:
    """Run a turn as `activate_replica` does, with changes to some entries.

    It gives the same bytes for the same books, and stores nothing.

    Raises:
        BookNotFoundError, RevisionNotFoundError: a changed book or revision is missing.
        ValidationFailedError: a change does not fit its book, or the turn has no such book.
        LorewellError: as `activate_replica`.
    """
    request = await _with_settings(services, tenant_id, request)
    return (await _find_and_activate(services, tenant_id, request, request.changed))[1]


async def explain_replica(services: Services, tenant_id: str, asked: ReplicaExplain) -> Explanation:
    """Explain one entry in the turn that `preview_replica` would run.

    Raises:
        LorewellError: as `preview_replica`.
        ValidationFailedError: the turn has no such entry, or several.
    """
    request = await _with_settings(services, tenant_id, asked.request)
    turn, _, vectors = await _find_and_activate(services, tenant_id, request, request.changed)
    async with services.computing.turn(tenant_id) as computing:
        scores = RagScores()
        if turn.queries:
            scores = await services.store.read(
                lambda tx: read_scores(tx, tenant_id, turn.books, turn.queries, vectors)
            )
        return await computing.run(lambda: turn.explain(asked, scores, computing.steps))


async def open_replica(services: Services, tenant_id: str, activation_id: str) -> ReplicaResponse:
    """Return an earlier turn with its full ledger, computed now.

    Raises:
        NotFoundError: there was no such turn, it is no longer kept, or its vectors were deleted.
        BookNotFoundError: a book was deleted since.
    """
    kept = await services.keeper.get(tenant_id, activation_id, KeptReplica)
    request, pins = kept.request.model_copy(update={"explain": "full"}), kept.pins

    def load(tx: Transaction) -> tuple[ReplicaBook, ...]:
        rows = iter(find_rows(tx, tenant_id, [pin.ref for pin in pins if pin.ref is not None]))
        found = [
            ReplicaBook(key=key, source=source, row=None if ref is None else next(rows))
            for key, source, ref in pins
        ]
        return load_books(tx, services.cache, found)

    async with services.computing.turn(tenant_id) as computing:
        books = await compile_stored(services, computing, await services.store.read(load))
        turn = await computing.run(lambda: _Turn.of(services, computing, request, books))
    response = await _answer(services, tenant_id, turn, kept.vectors)
    if response.activation_id != activation_id:
        raise NotFoundError("The vectors of this turn were deleted.")
    return response


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """A turn whose books are compiled.

    Attributes:
        named: all its books, including missing ones.
        books: the existing books.
        queries: by book, the texts to compare its entries with.
        may_be_kept: whether everything it depends on is stored.
    """

    request: ReplicaRequest
    named: Sequence[ReplicaBook]
    books: Sequence[ReplicaBook]
    queries: Mapping[str, tuple[str, ...]]
    may_be_kept: bool

    @classmethod
    def of(
        cls,
        services: Services,
        computing: ComputeTurn,
        request: ReplicaRequest,
        found: Sequence[ReplicaBook],
    ) -> Self:
        """Compile the books of a turn.

        Raises:
            SnapshotTooLargeError: they are too large in total.
            ValidationFailedError: a change does not fit its book.
        """
        books = compile_books(services.cache, computing, found, request)
        worlds = [book.world for book in books if book.world is not None]
        check_size(
            services.limits,
            entries=sum(len(world.entries) for world in worlds),
            chars=sum(world.content_chars for world in worlds),
        )
        as_stored = (book.changes is None and book.key not in request.books for book in found)
        return cls(
            request=request,
            named=found,
            books=books,
            queries=queries_of(books, request, computing.new_steps()),
            may_be_kept=services.keeper.is_on and all(as_stored) and _is_short(request),
        )

    @property
    def pins(self) -> tuple[PinnedRevision, ...]:
        """The books with their pinned revisions."""
        return tuple(PinnedRevision(book.key, book.source, book.pin) for book in self.named)

    def answer(self, scores: RagScores, steps: Steps) -> ReplicaResponse:
        """Return the active entries."""
        worlds = {book.key: book.world for book in self.books if book.world is not None}
        made = activate(worlds, with_books(self.request, self.named), scores=scores, steps=steps)
        return replace(
            made,
            snapshot=snapshot_of(book.row for book in self.books),
            activation_id=self._id(made),
        )

    def explain(self, asked: ReplicaExplain, scores: RagScores, steps: Steps) -> Explanation:
        """Explain one entry."""
        worlds = {book.key: book.world for book in self.books if book.world is not None}
        request = with_books(self.request, self.named)
        return explain(worlds, request, asked, scores=scores, steps=steps)

    def _id(self, response: ReplicaResponse) -> str | None:
        """Return the id of the turn, a hash of its inputs and result; None if it is not kept."""
        if not self.may_be_kept:
            return None
        plain = with_scene(self.request, self.request.scene, "replica")
        no_input = _UNPINNED if plain.scene is not None else {*_UNPINNED, "scene"}
        request = plain.model_dump(mode="json", exclude=no_input)
        pins = [[key, source, ref and ref.model_dump()] for key, source, ref in self.pins]
        active = [[entry.book_id, entry.uid, entry.trigger_type] for entry in response.entries]
        return hashlib.sha256(canonical_json([request, pins, active])).hexdigest()


def _is_short(request: ReplicaRequest) -> bool:
    """Return whether a turn is small enough to be kept."""
    return len(request.mes) + sum(map(len, request.chat_history)) <= MAX_KEPT_CHARS


async def _find_and_activate(
    services: Services,
    tenant_id: str,
    request: ReplicaRequest,
    changes: Sequence[ChangedBook] = (),
) -> tuple[_Turn, ReplicaResponse, TurnVectors]:
    """Return the turn, its answer, and the vectors that it used."""

    def load(tx: Transaction) -> tuple[ReplicaBook, ...]:
        return load_books(tx, services.cache, find_books(tx, tenant_id, request, changes))

    def begin(
        computing: ComputeTurn, found: tuple[ReplicaBook, ...]
    ) -> tuple[_Turn, ReplicaResponse | None]:
        turn = _Turn.of(services, computing, request, found)
        return turn, None if turn.queries else turn.answer(RagScores(), computing.steps)

    async with services.computing.turn(tenant_id) as computing:
        books = await compile_stored(services, computing, await services.store.read(load))
        turn, response = await computing.run(lambda: begin(computing, books))
    if response is not None:
        return turn, response, TurnVectors()
    vectors = await embed_turn(services, tenant_id, turn.books, turn.queries)
    return turn, await _answer(services, tenant_id, turn, vectors), vectors


async def _answer(
    services: Services, tenant_id: str, turn: _Turn, vectors: TurnVectors
) -> ReplicaResponse:
    async with services.computing.turn(tenant_id) as computing:
        scores = await services.store.read(
            lambda tx: read_scores(tx, tenant_id, turn.books, turn.queries, vectors)
        )
        return await computing.run(lambda: turn.answer(scores, computing.steps))
