"""Runs all turns of a chat under each policy: the policies themselves decide, one turn at a time.

A turn of the policies `native` and `replica` is made as a host makes it (docs/rules/host.md §5):
the last message is the input, the messages before it are the history.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Protocol

from lorewell.engine.native.compiled import CompiledBook, CompiledEntry
from lorewell.engine.native.packing import Packing
from lorewell.engine.native.recall import NO_VECTORS
from lorewell.engine.native.select import DecidedTurn, decide
from lorewell.engine.native.snapshot import SnapshotLimits
from lorewell.engine.replica import ReplicaWorld, activate as activate_replica
from lorewell.engine.sillytavern.sources import Library
from lorewell.engine.sillytavern.turns import replay as sillytavern_answers, seed_of
from lorewell.engine.steps import Steps
from lorewell.engine.tokens import TokenCounter, counter as token_counter, shipped_counter
from lorewell.model import Message, Policy, ReplicaRequest, ReplicaResponse, SelectRequest
from lorewell.model.activate import SillyTavernRequest
from lorewell.model.activated import SillyTavernResponse
from lorewell.model.chat_replay import (
    EntryKey,
    EntryUse,
    RefusedEntry,
    ReplayStep,
    SpokenLine,
)
from lorewell.model.text import is_blank

TurnsAfter = Literal["every_message", "user_messages"]

_MAX_QUERY_CHARS: Final = 8_000
_MAX_MESSAGE_CHARS: Final = 16_000
_HISTORY: Final = 20
_SPEAKERS: Final = frozenset({"user", "assistant"})
_STEPS_PER_TURN: Final = 100


class ChatSide(Protocol):
    """The books of one side of a comparison under their policy, ready for a chat."""

    @property
    def policy(self) -> Policy:
        """The policy."""

    @property
    def titles(self) -> Mapping[EntryKey, str]:
        """The titles of all entries, in the order of the books."""

    @property
    def keyed(self) -> frozenset[EntryKey]:
        """The entries that have keys."""

    def steps(self, turns: Sequence[int], budget: Steps | None = None) -> Iterator[ReplayStep]:
        """Yield the turns after so many messages, ascending.

        Raises:
            TooExpensiveError: they need more than `budget`; without one each turn has its own.
        """


def turns_after(chat: Sequence[SpokenLine], after: TurnsAfter) -> list[int]:
    """Return the number of messages at each turn.

    >>> from lorewell.model.chat_replay import SpokenLine
    >>> chat = [SpokenLine("assistant", "阿黛", "你醒了？"), SpokenLine("user", "旅人", "这是哪？")]
    >>> turns_after(chat, "user_messages"), turns_after(chat, "every_message")
    ([2], [1, 2])
    """
    every = after == "every_message"
    return [number for number, line in enumerate(chat, 1) if every or line.role == "user"]


class _NativeHistory:
    """The messages that count for a turn: those of user and assistant that are not blank."""

    def __init__(self, chat: Sequence[SpokenLine]) -> None:
        self._chat = chat
        self._places = [
            place
            for place, line in enumerate(chat)
            if line.role in _SPEAKERS and not is_blank(line.content)
        ]
        self._messages = [
            Message.model_construct(
                role=chat[place].role, content=chat[place].content[:_MAX_MESSAGE_CHARS]
            )
            for place in self._places
        ]

    def turn(self, request: SelectRequest, number: int) -> SelectRequest:
        """Return the request of the turn after so many messages."""
        query = self._chat[number - 1].content[:_MAX_QUERY_CHARS]
        end = bisect_left(self._places, number - 1)
        most = max(_HISTORY, request.scan_depth)
        update: dict[str, object] = {
            "query": query,
            "history": tuple(self._messages[max(0, end - most) : end]),
            "seed": seed_of(request.seed, number),
        }
        if is_blank(query):  # as in a host: it recalls nothing
            update |= {"query": query or " ", "strategy": "rules"}
        return request.model_copy(update=update)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeSide:
    """A chat under the policy `native`.

    Attributes:
        books: compiled books, in the order of the request.
        request: the settings of all turns; its query, history and seed are those of each turn, the
            seed `{seed}:{number of messages}`.
        chat: the chat.
        limits: limits for the books together.
    """

    books: Sequence[CompiledBook]
    request: SelectRequest
    chat: Sequence[SpokenLine]
    limits: SnapshotLimits = field(default_factory=SnapshotLimits)
    policy: Policy = field(default="native", init=False)

    @property
    def titles(self) -> Mapping[EntryKey, str]:
        """The titles of all entries."""
        return {key: entry.spec.title for key, (_, entry) in self._entries()}

    @property
    def keyed(self) -> frozenset[EntryKey]:
        """The entries that have keys."""
        return frozenset(
            key
            for key, (_, entry) in self._entries()
            if entry.primary or entry.expression is not None
        )

    def _entries(self) -> Iterator[tuple[EntryKey, tuple[CompiledBook, CompiledEntry]]]:
        for number, book in enumerate(self.books):
            for entry in book.entries:
                yield EntryKey(number, entry.spec.id), (book, entry)

    def decided(
        self, turns: Sequence[int], budget: Steps | None = None
    ) -> Iterator[tuple[int, DecidedTurn]]:
        """Yield each turn as the engine decides it.

        Raises:
            TooExpensiveError: the turns need more than `budget`.
        """
        history = _NativeHistory(self.chat)
        for number in turns:
            steps = budget or Steps()
            steps.begin_turn()
            steps.spend("turns", _STEPS_PER_TURN)
            request = history.turn(self.request, number)
            yield (
                number,
                decide(self.books, request, vectors=NO_VECTORS, limits=self.limits, steps=steps),
            )

    def key_of(self, full_id: str) -> EntryKey:
        """Return the entry with a full id."""
        book_id, revision, entry_id = full_id.split(":", 2)
        names = [(book.book_id, str(book.revision)) for book in self.books]
        return EntryKey(names.index((book_id, revision)), entry_id)

    def used(self, turn: DecidedTurn, packing: Packing) -> tuple[EntryUse, ...]:
        """Return the entries of a packing, in the order in which they got their place."""
        uses = []
        for full_id, (book, entry, _, _) in packing.chosen.items():
            decision = turn.turn.decide(book, entry, packing)
            cost = turn.turn.cost(book, entry)
            key = self.key_of(full_id)
            uses.append(EntryUse(*key, decision.reason, cost, decision.direct_keyword_hit))
        return tuple(uses)

    def steps(self, turns: Sequence[int], budget: Steps | None = None) -> Iterator[ReplayStep]:
        """Yield the turns after so many messages, ascending."""
        return _linked(self._steps(turns, budget))

    def _steps(self, turns: Sequence[int], budget: Steps | None) -> Iterator[ReplayStep]:
        for number, decided in self.decided(turns, budget):
            turn, packing, failure = decided
            refused = tuple(
                RefusedEntry(
                    *self.key_of(full_id),
                    verdict.reason,
                    verdict.figures.tokens,
                    verdict.figures.room,
                )
                for full_id, verdict in packing.dropped.items()
            )
            why = {}
            if number == turns[-1]:
                why = {
                    key: turn.decide(book, entry, packing).reason
                    for key, (book, entry) in self._entries()
                    if entry.full_id not in packing.chosen
                }
            names = [*turn.eligible.nameless]
            tokens = 0 if failure is not None else packing.total_tokens
            chosen = {} if failure is not None else packing.chosen
            yield ReplayStep(
                messages=number,
                seed=turn.request.seed,
                used=() if failure is not None else self.used(decided, packing),
                refused=refused,
                tokens=tokens,
                limit=self.request.token_budget,
                room=self.request.token_budget - tokens,
                failed=None if failure is None else failure.code,
                warnings=("value_missing",) if names else (),
                texts={
                    self.key_of(full_id): turn.eligible.content(entry)
                    for full_id, (_, entry, _, _) in chosen.items()
                },
                why=why,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SillyTavernSide:
    """A chat under SillyTavern's rules. The state of each turn is that of the one before.

    Attributes:
        library: the books.
        request: its `chat` is the whole chat.
        counter: counts tokens; by default that of the request, or `cl100k_base`.
    """

    library: Library
    request: SillyTavernRequest
    counter: TokenCounter | None = None
    policy: Policy = field(default="sillytavern", init=False)

    @property
    def titles(self) -> Mapping[EntryKey, str]:
        """The titles of all entries."""
        return {
            EntryKey(number, entry.id.removeprefix(f"{book.world.name}.")): _comment(
                entry.fields.get("comment")
            )
            for number, book in enumerate(self.library.books)
            for entry in book.world.entries
        }

    @property
    def keyed(self) -> frozenset[EntryKey]:
        """The entries that have keys."""
        return frozenset(
            self._keys[entry.id]
            for book in self.library.books
            for entry in book.world.entries
            if entry.keys
        )

    @property
    def _keys(self) -> Mapping[str, EntryKey]:
        keys: dict[str, EntryKey] = {}
        for number, book in enumerate(self.library.books):
            for entry in book.world.entries:
                name = entry.id.removeprefix(f"{book.world.name}.")
                keys.setdefault(entry.id, EntryKey(number, name))
        return keys

    def steps(self, turns: Sequence[int], budget: Steps | None = None) -> Iterator[ReplayStep]:
        """Yield the turns after so many messages, ascending."""
        return _linked(self._steps(turns, budget))

    def _steps(self, turns: Sequence[int], budget: Steps | None) -> Iterator[ReplayStep]:
        keys, costs = self._keys, _Costs(self.counter or shipped_counter(self.request.tokenizer))
        request = self.request.model_copy(update={"explain": "none"})
        answers = sillytavern_answers(
            self.library,
            request,
            turns=turns,
            counter=self.counter,
            steps=budget,
            explain_last="full",
        )
        for number, answer in zip(turns, answers, strict=True):
            yield ReplayStep(
                messages=number,
                seed=seed_of(request.seed, number),
                used=tuple(
                    EntryUse(
                        *keys[each.id],
                        each.reason,
                        costs.of(each.content, budget),
                        each.key is not None,
                    )
                    for each in answer.activated
                ),
                tokens=answer.budget.used,
                limit=answer.budget.limit,
                room=None
                if answer.budget.limit is None
                else answer.budget.limit - answer.budget.used,
                warnings=_codes(answer),
                texts={keys[each.id]: each.content for each in answer.activated},
                why={keys[v.id]: v.reason for v in answer.verdicts if not v.activated},
            )


def _codes(answer: SillyTavernResponse | ReplicaResponse) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.code for each in answer.warnings))


def _comment(value: object) -> str:
    return value if isinstance(value, str) else ""


class _Costs:
    """The tokens of texts, each counted once."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._known: dict[str, int] = {}

    def of(self, text: str, steps: Steps | None) -> int:
        if text not in self._known:
            if steps is not None:
                steps.watch()
            self._known[text] = self._counter.count(text)
        return self._known[text]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSide:
    """A chat under SillyTavern_replica's rules, which have no budget.

    Attributes:
        worlds: compiled books by their name in the request.
        request: the settings of all turns; its `mes`, history and seed are those of each turn, the
            seed `{seed}:{number of messages}`.
        chat: the chat.
        counter: counts tokens; `cl100k_base` by default.
    """

    worlds: Mapping[str, ReplicaWorld]
    request: ReplicaRequest
    chat: Sequence[SpokenLine]
    counter: TokenCounter | None = None
    policy: Policy = field(default="replica", init=False)

    @property
    def titles(self) -> Mapping[EntryKey, str]:
        """The titles of all entries."""
        return {
            EntryKey(number, entry.spec.uid): entry.spec.comment
            for number, world in enumerate(self.worlds.values())
            for entry in world.entries
        }

    @property
    def keyed(self) -> frozenset[EntryKey]:
        """The entries that have keys."""
        return frozenset(
            EntryKey(number, entry.spec.uid)
            for number, world in enumerate(self.worlds.values())
            for entry in world.entries
            if entry.primary
        )

    def steps(self, turns: Sequence[int], budget: Steps | None = None) -> Iterator[ReplayStep]:
        """Yield the turns after so many messages, ascending."""
        return _linked(self._steps(turns, budget))

    def _steps(self, turns: Sequence[int], budget: Steps | None) -> Iterator[ReplayStep]:
        numbers = {world.book_id: place for place, world in enumerate(self.worlds.values())}
        costs = _Costs(self.counter or token_counter())
        spoken = [line.role in _SPEAKERS and not is_blank(line.content) for line in self.chat]
        for number in turns:
            steps = budget or Steps()
            steps.begin_turn()
            steps.spend("turns", _STEPS_PER_TURN)
            before = zip(self.chat[: number - 1], spoken, strict=False)
            update = {
                "mes": self.chat[number - 1].content,
                "chat_history": tuple(line.content for line, counts in before if counts),
                "seed": seed_of(self.request.seed, number),
                "explain": "full" if number == turns[-1] else "selected",
            }
            answer = activate_replica(
                self.worlds, self.request.model_copy(update=update), steps=steps
            )
            used = tuple(
                EntryUse(
                    numbers[each.book_id],
                    each.uid,
                    each.trigger_type,
                    costs.of(each.content, budget),
                    each.trigger_type == "keyword",
                )
                for each in answer.entries
            )
            yield ReplayStep(
                messages=number,
                seed=seed_of(self.request.seed, number),
                used=used,
                tokens=sum(each.tokens for each in used),
                limit=None,
                room=None,
                warnings=_codes(answer),
                texts={
                    EntryKey(numbers[each.book_id], each.uid): each.content
                    for each in answer.entries
                },
                why={
                    EntryKey(numbers[each.book_id], each.uid): each.reason
                    for each in answer.decisions
                    if not each.active
                },
            )


def _linked(steps: Iterable[ReplayStep]) -> Iterator[ReplayStep]:
    """Yield the turns with the entries that came and went since the turn before."""
    before: dict[EntryKey, None] = {}
    for step in steps:
        now = dict.fromkeys(each.key for each in step.used)
        yield replace(
            step,
            entered=tuple(key for key in now if key not in before),
            left=tuple(key for key in before if key not in now),
        )
        before = now
