"""Books without a service: files, or compiled books."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter

from lorewell.engine.native import select
from lorewell.engine.native.compile import compile_book
from lorewell.engine.native.compiled import CompiledBook
from lorewell.engine.replica import ReplicaWorld, activate as activate_replica, compile_world
from lorewell.engine.sillytavern.sources import Attached, Library
from lorewell.engine.sillytavern.turns import activate
from lorewell.engine.tokens import TokenCounter, counter as default_counter
from lorewell.errors import BookNotFoundError, PolicyMismatchError
from lorewell.formats import ImportedBook, load_world
from lorewell.formats.export.replica import replica_document
from lorewell.formats.loading import open_book
from lorewell.host.alignment import (
    Place,
    align,
    extend,
    hash_lines,
    lines_of,
    start_over,
)
from lorewell.host.carried import CarriedState
from lorewell.host.known_lines import KnownLines
from lorewell.model import (
    ActivateRequest,
    BookRef,
    Policy,
    ReplicaRequest,
    ReplicaResponse,
    ResolvedBindings,
    SelectRequest,
    SelectResponse,
    SillyTavernResponse,
)
from lorewell.model.activated import Continued, ContinuedState
from lorewell.model.binding import BoundBook, PolicyChoice, original_policy

GivenBook = str | os.PathLike[str] | CompiledBook | Attached

# By their chains, with the length of the chat; oldest first.
_States = dict[bytes, tuple[int, CarriedState]]

_MAX_STATES = 200
_KEY = b"lorewell"  # the lines stay in memory


class FileLore:
    """A `LoreSource` of local books: every prompt uses all of them, in their order.

    The timed state and the variables of SillyTavern's rules are kept in memory, the newest
    200 states per conversation.
    """

    def __init__(
        self,
        books: Sequence[GivenBook],
        *,
        policy: PolicyChoice = "auto",
        counter: TokenCounter | None = None,
    ) -> None:
        """Read the books.

        Args:
            books: paths, compiled books, or results of `load_world`.
            policy: `auto` is `sillytavern` if any book was written for it, else `native`. The
                policy `replica` needs paths.
            counter: counts tokens; `cl100k_base` if not given.

        Raises:
            LorewellError: a book is invalid, as in `load_book`.
            PolicyMismatchError: a book was compiled for another policy.
            OSError: a file can't be read.
        """
        self._counter = default_counter() if counter is None else counter
        opened = [_open(book) for book in books]
        self.policy: Policy = _policy(opened) if policy == "auto" else policy
        self._compiled: dict[str, CompiledBook] = {}
        self._worlds: dict[str, Attached] = {}
        self._replicas: dict[str, ReplicaWorld] = {}
        for given, book in zip(books, opened, strict=True):
            self._add(given, book)
        self._library = Library(self._worlds.values())
        self._states: dict[str, _States] = {}
        self._known: dict[str, KnownLines] = {}

    def _add(self, given: GivenBook, book: ImportedBook | CompiledBook | Attached) -> None:
        match self.policy, book:
            case "native", CompiledBook():
                self._compiled[book.book_id] = book
            case "native", ImportedBook():
                compiled = compile_book(book.book, counter=self._counter)
                self._compiled[compiled.book_id] = compiled
            case "sillytavern", Attached():
                self._worlds[f"{len(self._worlds)}:{book.world.name}"] = book
            case "sillytavern", ImportedBook() if isinstance(given, str | os.PathLike):
                world = load_world(given)
                self._worlds[f"{len(self._worlds)}:{world.world.name}"] = world
            case "replica", ImportedBook():
                key = f"{len(self._replicas)}:{book.book.name}"
                document = replica_document(book.book)
                self._replicas[key] = compile_world(document, book_id=key)
            case _:
                message = f"A book can't be used under the policy {self.policy}."
                raise PolicyMismatchError(message, policy=self.policy)

    async def resolve_bindings(self, prompt_id: str, /) -> ResolvedBindings:
        """Return all books."""
        refs = [book.ref for book in self._compiled.values()]
        names = (*self._worlds, *self._replicas)
        refs += [BookRef(book_id=name, revision=1) for name in names]
        books = tuple(BoundBook(book_id=ref.book_id, revision=ref.revision) for ref in refs)
        return ResolvedBindings(tenant_id="", prompt_id=prompt_id, policy=self.policy, books=books)

    async def select_for_turn(
        self, request: SelectRequest, /, *, prompt_id: str | None = None
    ) -> SelectResponse:
        """Return which entries of the books go into a turn.

        Raises:
            LorewellError: as `select`.
        """
        del prompt_id  # local books have no subscribers
        return await asyncio.to_thread(self._select, request)

    def _select(self, request: SelectRequest) -> SelectResponse:
        begin = perf_counter()
        answer = select(list(self._compiled.values()), request)
        return replace(answer, duration_ms=(perf_counter() - begin) * 1000)

    async def activate_for_turn(
        self, request: ActivateRequest, /, *, prompt_id: str | None = None
    ) -> SillyTavernResponse:
        """Run a turn under SillyTavern's rules.

        Raises:
            BookNotFoundError: there is no such book.
            LorewellError: as `activate`.
        """
        del prompt_id
        return await asyncio.to_thread(self._activate, request)

    async def activate_replica(
        self, request: ReplicaRequest, /, *, prompt_id: str | None = None
    ) -> ReplicaResponse:
        """Run a turn under SillyTavern_replica's rules."""
        del prompt_id
        return await asyncio.to_thread(activate_replica, self._replicas, request)

    def _activate(self, request: ActivateRequest) -> SillyTavernResponse:
        for book in request.books:
            if book.book_id not in self._worlds:
                message = f"There is no book {book.book_id}."
                raise BookNotFoundError(message, book_id=book.book_id)
        name = request.conversation_id
        turn = request.model_copy(update={"books": ()})
        if name is None:
            return activate(self._library, turn, counter=self._counter)
        states, known = self._states.setdefault(name, {}), self._known.get(name, KnownLines())
        lines = hash_lines(_KEY, lines_of(turn))
        lengths = {chain: length for chain, (length, _) in states.items()}
        found = align(known, lines, kept=lengths)
        begun, how, after = _starting(turn, found, known, states)
        answer = activate(self._library, begun, counter=self._counter)
        place = replace(found or start_over(lines), first=begun.length - len(lines))
        self._known[name] = extend(known, place, lines)
        states.pop(place.end, None)  # so that it becomes the newest
        states[place.end] = (begun.length, CarriedState.after(answer))
        for oldest in list(states)[:-_MAX_STATES]:
            del states[oldest]
        return replace(
            answer, conversation=Continued(conversation_id=name, state=how, kept_after=after)
        )


def _starting(
    turn: ActivateRequest, place: Place | None, known: KnownLines, states: _States
) -> tuple[ActivateRequest, ContinuedState, int | None]:
    """Return the turn with the state and the length that it starts with, and the report of both."""
    chains = () if place is None else place.beginnings(known)
    found = next((states[each] for each in chains if each in states), None)
    after, state = (None, CarriedState(turn.timed_state)) if found is None else found
    length = turn.length if place is None or turn.given_length is not None else place.length
    begun = state.begin(turn).model_copy(update={"chat_length": length})
    if place is None and known.lines:
        return begun, "lost", None
    return begun, "none" if found is None else "kept", after


def _open(book: GivenBook) -> ImportedBook | CompiledBook | Attached:
    return book if isinstance(book, CompiledBook | Attached) else open_book(book)


def _policy(books: Sequence[ImportedBook | CompiledBook | Attached]) -> Policy:
    foreign = (
        isinstance(book, Attached)
        or (isinstance(book, ImportedBook) and original_policy(book.book) == "sillytavern")
        for book in books
    )
    return "sillytavern" if any(foreign) else "native"
