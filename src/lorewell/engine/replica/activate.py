"""The policy `replica`: which entries of the books are active in this turn, and why.

Reads from top to bottom as docs/rules/replica.md §3 does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lorewell.engine.chance import roll
from lorewell.engine.conditions import counting, in_table
from lorewell.engine.replica.checks import TriggerChecks, TriggerResult
from lorewell.engine.replica.conflicts import Candidate, ConflictOutcome, resolve
from lorewell.engine.replica.entries import CERTAIN
from lorewell.engine.replica.macros import fill_names
from lorewell.engine.replica.positions import OUTLET, POSITIONS
from lorewell.engine.replica.rag import RagScores, rank
from lorewell.engine.replica.search import KeywordSearch, TurnTexts
from lorewell.engine.replica.statistics import count
from lorewell.engine.replica.world import ReplicaEntry, ReplicaWorld, compile_world
from lorewell.engine.steps import Steps
from lorewell.model.replica import (
    NO_REPLICA_FACTS,
    LoadedBook,
    ReplicaActive,
    ReplicaDecision,
    ReplicaFacts,
    ReplicaReason,
    ReplicaRequest,
    ReplicaResponse,
    ReplicaWarning,
    Source,
    Suppressed,
    Trigger,
)

_STEPS_PER_ENTRY, _PLACES_PER_STEP, _CHARS_PER_STEP = 4, 10, 50
_ENTRIES_PER_WATCH: Final = 200
NO_SCORES: Final = RagScores(degraded=("vector_disabled",))


class CollectedBook(NamedTuple):
    """A book of the turn, for whom it is, and how many entries come before its own."""

    world: ReplicaWorld
    source: Source
    offset: int


def activate(
    books: Mapping[str, ReplicaWorld],
    request: ReplicaRequest,
    *,
    scores: RagScores = NO_SCORES,
    steps: Steps | None = None,
) -> ReplicaResponse:
    """Return the active entries of this turn, sorted, with a reason for every entry of the books.

    Pure: no clock, no I/O; chance comes from the request's seed.

    Args:
        books: compiled books by what the request calls them; those in the request itself win.
        request: the turn.
        scores: how near entries are to the turn, for those that are brought in by likeness.
        steps: what the turn may cost, books inside the request included; `Steps()` if not given.

    Raises:
        TooExpensiveError: the turn needs more than `steps`.

    Source: docs/rules/replica.md §3.

    >>> tower = {"uid": "tower", "key": ["灯塔"], "content": "灯塔由哑女看守。"}
    >>> world = compile_world({"name": "雾隐渡", "entries": [tower]}, book_id="b")
    >>> turn = {"worldBookData": {"globalBooks": [{"id": "b"}]}, "mes": "去灯塔看看"}
    >>> response = activate({"b": world}, ReplicaRequest.model_validate(turn))
    >>> response.entries[0].content, response.decisions[0].facts.keys
    ('灯塔由哑女看守。', ('灯塔',))
    """
    steps = steps or Steps()
    warnings: list[ReplicaWarning] = []
    collected = collect(books, request, warnings, steps)
    turn = _Turn(collected, request, warnings, steps)
    turn.trigger(scores)
    turn.require()
    active = sorted(turn.active.values(), key=lambda each: each.place)
    return turn.answer(resolve(active, steps))


def collect(
    books: Mapping[str, ReplicaWorld],
    request: ReplicaRequest,
    warnings: list[ReplicaWarning],
    steps: Steps,
) -> tuple[CollectedBook, ...]:
    """Return the books of a turn: the global ones, then the character's, each at its first place.

    What can't be had, or is no book, is left out with a warning.
    """
    asked: dict[str, Source] = {}
    for ref in request.world_book_data.global_books:
        asked.setdefault(ref.key, "global")
    if request.world_book_data.character_book_id:
        asked.setdefault(request.world_book_data.character_book_id, "character")
    collected: list[CollectedBook] = []
    offset = 0
    for name, source in asked.items():
        if name in request.books:
            world = compile_world(request.books[name], book_id=name, steps=steps)
        elif name in books:
            world = books[name]
        else:
            warnings.append(ReplicaWarning("book_not_found", "There is no such book.", name))
            continue
        if world.flaw is not None:
            message = f"It can't be read as a book: {world.flaw}."
            warnings.append(ReplicaWarning("book_broken", message, name))
            continue
        warnings.extend(world.warnings)
        collected.append(CollectedBook(world, source, offset))
        offset += len(world.entries)
    return tuple(collected)


@dataclass(slots=True)
class _Turn:
    """One request on its way to an answer. Mappings go by place in the order of collection."""

    collected: Sequence[CollectedBook]
    request: ReplicaRequest
    warnings: list[ReplicaWarning]
    steps: Steps
    active: dict[int, Candidate] = field(default_factory=dict)
    out: dict[int, ReplicaDecision] = field(default_factory=dict)

    def trigger(self, scores: RagScores) -> None:
        """Find the entries of which a trigger fires and whose roll is low enough (§4, §7.1)."""
        texts = TurnTexts(self.request.mes, self.request.chat_history, self.steps)
        table = counting(in_table(self.request.dynamic_table_data.current_values), self.steps)
        for book in self.collected:
            world = book.world
            search = KeywordSearch(world, texts)
            near = rank(world, self.request, scores, self.steps)
            if None in near.values():
                self._warn_of_vectors(scores)
            checks = TriggerChecks(table, search, near)
            indexes = sorted(search.awake.union(world.alert))
            keys = (world.entries[index].key_count for index in indexes)
            self.steps.spend("scan", _STEPS_PER_ENTRY * len(indexes))
            self.steps.spend("keys", sum(keys))
            for number, index in enumerate(indexes):
                if number % _ENTRIES_PER_WATCH == 0:
                    self.steps.watch()
                lore = world.entries[index]
                if lore.entry.disable:
                    self._leave_out(book, lore, "disabled")
                else:
                    self._judge(book, lore, checks.check(lore))

    def _warn_of_vectors(self, scores: RagScores) -> None:
        if not any(warning.code == "rag_unavailable" for warning in self.warnings):
            why = ", ".join(scores.degraded) or "some entries have no vector"
            message = f"Entries were not brought in by likeness: {why}."
            self.warnings.append(ReplicaWarning("rag_unavailable", message))

    def _judge(self, book: CollectedBook, lore: ReplicaEntry, verdict: TriggerResult) -> None:
        entry, facts = lore.entry, verdict.facts
        if verdict.trigger is None:
            self._leave_out(book, lore, "not_triggered", verdict.detail, facts)
            return
        if entry.probability < CERTAIN:
            thrown = roll(self.request.seed, entry.uid)
            facts = facts._replace(roll=thrown, needed=entry.probability)
            if thrown >= entry.probability:
                self._leave_out(book, lore, "probability", verdict.trigger, facts)
                return
        self._let_in(book, lore, verdict.trigger, facts)

    def _let_in(
        self, book: CollectedBook, lore: ReplicaEntry, trigger: Trigger, facts: ReplicaFacts
    ) -> None:
        place = book.offset + lore.index
        self.out.pop(place, None)
        self.active[place] = Candidate(
            place=place,
            book_id=book.world.book_id,
            source=book.source,
            lore=lore,
            trigger=trigger,
            facts=facts,
            needs=frozenset(book.offset + index for index in lore.needs.places),
        )

    def _leave_out(
        self,
        book: CollectedBook,
        lore: ReplicaEntry,
        reason: ReplicaReason,
        detail: str | None = None,
        facts: ReplicaFacts = NO_REPLICA_FACTS,
    ) -> None:
        self.out[book.offset + lore.index] = ReplicaDecision(
            book_id=book.world.book_id,
            uid=lore.entry.uid,
            active=False,
            reason=reason,
            detail=detail,
            facts=facts,
        )

    def require(self) -> None:
        """Bring in what active entries require, or leave those out that can't have it (§7.7)."""
        for book in self.collected:
            self.steps.spend("packing", 1 + len(self.active) // _PLACES_PER_STEP)
            end = book.offset + len(book.world.entries)
            for place in sorted(p for p in self.active if book.offset <= p < end):
                root = self.active[place]
                needs = root.lore.needs
                self.steps.spend("packing", 1 + len(needs.places))
                if needs.missing is not None:
                    del self.active[place]
                    self._leave_unmet(book, root, needs.missing)
                    continue
                for index in needs.places:
                    if book.offset + index not in self.active:
                        self.steps.spend("packing", len(root.uid) // _CHARS_PER_STEP)
                        facts = ReplicaFacts(required_by=root.uid)
                        self._let_in(book, book.world.entries[index], "dependency", facts)

    def _leave_unmet(self, book: CollectedBook, root: Candidate, missing: str) -> None:
        facts = root.facts._replace(missing=missing)
        detail = f"it requires {missing}, which can't come"
        self._leave_out(book, root.lore, "dependency_unavailable", detail, facts)
        message = f"It is left out: {detail}."
        warning = ReplicaWarning("dependency_unavailable", message, root.book_id, root.uid)
        self.warnings.append(warning)

    def answer(self, outcome: ConflictOutcome) -> ReplicaResponse:
        """Return what stays, sorted by position, then order, then place (§3)."""
        for loss in outcome.lost.values():
            self.steps.spend("output", 1 + len(loss.winner.uid) // _CHARS_PER_STEP)
        ranked = sorted(
            outcome.kept,
            key=lambda each: (each.lore.entry.position, each.lore.entry.order, each.place),
        )
        entries = tuple(map(self._activated, ranked))
        lost = sorted(outcome.lost.items())
        return ReplicaResponse(
            entries=entries,
            stats=count(entries),
            warnings=tuple(self.warnings),
            suppressed=tuple(
                Suppressed(
                    self.active[place].uid,
                    loss.winner.uid,
                    loss.label,
                    self.active[place].book_id,
                )
                for place, loss in lost
            ),
            unplaced=tuple(entry.uid for entry in entries if entry.position == OUTLET),
            books=tuple(
                LoadedBook(
                    book.world.book_id, book.world.name, book.source, len(book.world.entries)
                )
                for book in self.collected
            ),
            decisions=self._decisions(outcome),
        )

    def _activated(self, candidate: Candidate) -> ReplicaActive:
        entry = candidate.lore.entry
        names = {"char": self.request.char, "user": self.request.user}
        self.steps.spend("output", _STEPS_PER_ENTRY)
        content, unknown = fill_names(entry.content, names, self.steps)
        if unknown:
            message = f"It is left as it is: {', '.join(unknown)}."
            warning = ReplicaWarning("macro_unknown", message, candidate.book_id, entry.uid)
            self.warnings.append(warning)
        return ReplicaActive(
            uid=entry.uid,
            content=content,
            position=entry.position,
            order=entry.order,
            trigger_config=entry.config,
            comment=entry.comment,
            disable=entry.disable,
            probability=entry.probability,
            depth=entry.depth,
            role=entry.role,
            group=entry.group or None,
            group_weight=entry.group_weight,
            requires=entry.requires,
            trigger_type=candidate.trigger,
            position_label=POSITIONS[entry.position].label,
            book_id=candidate.book_id,
            source=candidate.source,
        )

    def _decisions(self, outcome: ConflictOutcome) -> tuple[ReplicaDecision, ...]:
        """Return the decisions asked for, in the order of collection."""
        if self.request.explain == "none":
            return ()
        decided: dict[int, ReplicaDecision] = {}
        if self.request.explain == "full":
            rows = sum(len(book.world.entries) for book in self.collected)
            self.steps.spend("ledger", rows)
            decided = {**self._idle(), **self.out, **self._gone(outcome)}
        for each in outcome.kept:
            decided[each.place] = _decision(each, each.trigger, facts=each.facts, active=True)
        return tuple(decided[place] for place in sorted(decided))

    def _idle(self) -> dict[int, ReplicaDecision]:
        """Return the decisions on those of whom nothing happened, as far as that alone counts."""
        return {
            book.offset + lore.index: lore.idle
            for book in self.collected
            for lore in book.world.entries
            if lore.idle is not None
        }

    def _gone(self, outcome: ConflictOutcome) -> dict[int, ReplicaDecision]:
        """Return the decisions on those who were active until the conflicts were settled."""
        gone: dict[int, ReplicaDecision] = {}
        for place, loss in outcome.lost.items():
            each = self.active[place]
            self.steps.spend("ledger", len(loss.winner.uid) // _CHARS_PER_STEP)
            facts = each.facts._replace(winner=loss.winner.uid, label=loss.label)
            gone[place] = _decision(each, "conflict", f"it lost to {loss.winner.uid}", facts)
        for place, missing in outcome.broken.items():
            each = self.active[place]
            self.steps.spend("ledger", len(missing.uid) // _CHARS_PER_STEP)
            facts = each.facts._replace(missing=missing.uid)
            detail = f"it requires {missing.uid}, which lost its place"
            gone[place] = _decision(each, "dependency_unavailable", detail, facts)
        for place in outcome.orphans:
            each = self.active[place]
            detail = "whoever required it lost its place"
            gone[place] = _decision(each, "not_triggered", detail, each.facts)
        return gone


def _decision(
    candidate: Candidate,
    reason: ReplicaReason,
    detail: str | None = None,
    facts: ReplicaFacts = NO_REPLICA_FACTS,
    *,
    active: bool = False,
) -> ReplicaDecision:
    return ReplicaDecision(
        book_id=candidate.book_id,
        uid=candidate.uid,
        active=active,
        reason=reason,
        detail=detail,
        facts=facts,
    )
