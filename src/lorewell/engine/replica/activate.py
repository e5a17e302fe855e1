"""The policy `replica`: activates the entries of the books in one turn, with reasons.

The order of the code follows docs/rules/replica.md §3.
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
from lorewell.engine.template import is_variable
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
    WorldBookData,
)
from lorewell.model.scene_fields import unused_members, with_scene
from lorewell.model.warning import missing_name, unused_warnings

_STEPS_PER_ENTRY, _PLACES_PER_STEP, _CHARS_PER_STEP = 4, 10, 50
_ENTRIES_PER_WATCH: Final = 200
NO_SCORES: Final = RagScores(degraded=("vector_disabled",))


class CollectedBook(NamedTuple):
    """A book of the turn, its source, and the number of entries in the books before it."""

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
        books: compiled books by their name in the request; inline books of the request override
            them.
        request: the turn.
        scores: similarities of entries to the turn, for the rag trigger.
        steps: the step budget of the turn, inline books included; `Steps()` by default.

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
    warnings = [
        ReplicaWarning("scene_unused", each.message)
        for each in unused_warnings(unused_members(request.scene, "replica"), "replica")
    ]
    request = with_scene(request, request.scene, "replica")
    if request.scene is not None:
        request = request.model_copy(update={"world_book_data": WorldBookData()})
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
    """Return the books of a turn: the global ones, then the character's; repeats are dropped.

    Missing and invalid books are left out with a warning.
    """
    requested: dict[str, Source] = {}
    for ref in request.world_book_data.global_books:
        requested.setdefault(ref.key, "global")
    if request.world_book_data.character_book_id:
        requested.setdefault(request.world_book_data.character_book_id, "character")
    collected: list[CollectedBook] = []
    offset = 0
    for name, source in requested.items():
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
    """One request while its answer is built. Mappings are by place in the order of collection."""

    collected: Sequence[CollectedBook]
    request: ReplicaRequest
    warnings: list[ReplicaWarning]
    steps: Steps
    active: dict[int, Candidate] = field(default_factory=dict)
    rejected: dict[int, ReplicaDecision] = field(default_factory=dict)

    def trigger(self, scores: RagScores) -> None:
        """Activate the entries with a trigger that fires and a roll low enough (§4, §7.1)."""
        texts = TurnTexts(self.request.mes, self.request.chat_history, self.steps)
        table = counting(in_table(self.request.dynamic_table_data.current_values), self.steps)
        for book in self.collected:
            world = book.world
            search = KeywordSearch(world, texts)
            rag_matches = rank(world, self.request, scores, self.steps)
            if None in rag_matches.values():
                self._warn_of_vectors(scores)
            checks = TriggerChecks(table, search, rag_matches)
            indexes = sorted(search.woken.union(world.always))
            keys = (world.entries[index].key_count for index in indexes)
            self.steps.spend("scan", _STEPS_PER_ENTRY * len(indexes))
            self.steps.spend("keys", sum(keys))
            for number, index in enumerate(indexes):
                if number % _ENTRIES_PER_WATCH == 0:
                    self.steps.watch()
                entry = world.entries[index]
                if entry.spec.disable:
                    self._reject(book, entry, "disabled")
                else:
                    self._decide(book, entry, checks.check(entry))

    def _warn_of_vectors(self, scores: RagScores) -> None:
        if not any(warning.code == "rag_unavailable" for warning in self.warnings):
            why = ", ".join(scores.degraded) or "some entries have no vector"
            message = f"Entries were not brought in by similarity: {why}."
            self.warnings.append(ReplicaWarning("rag_unavailable", message))

    def _decide(self, book: CollectedBook, entry: ReplicaEntry, result: TriggerResult) -> None:
        spec, facts = entry.spec, result.facts
        if result.trigger is None:
            self._reject(book, entry, "not_triggered", result.detail, facts)
            return
        if spec.probability < CERTAIN:
            rolled = roll(self.request.seed, spec.uid)
            facts = facts._replace(roll=rolled, needed=spec.probability)
            if rolled >= spec.probability:
                self._reject(book, entry, "probability", result.trigger, facts)
                return
        self._activate(book, entry, result.trigger, facts)

    def _activate(
        self, book: CollectedBook, entry: ReplicaEntry, trigger: Trigger, facts: ReplicaFacts
    ) -> None:
        place = book.offset + entry.index
        self.rejected.pop(place, None)
        self.active[place] = Candidate(
            place=place,
            book_id=book.world.book_id,
            source=book.source,
            entry=entry,
            trigger=trigger,
            facts=facts,
            needs=frozenset(book.offset + index for index in entry.needs.places),
        )

    def _reject(
        self,
        book: CollectedBook,
        entry: ReplicaEntry,
        reason: ReplicaReason,
        detail: str | None = None,
        facts: ReplicaFacts = NO_REPLICA_FACTS,
    ) -> None:
        self.rejected[book.offset + entry.index] = ReplicaDecision(
            book_id=book.world.book_id,
            uid=entry.spec.uid,
            active=False,
            reason=reason,
            detail=detail,
            facts=facts,
        )

    def require(self) -> None:
        """Activate the requirements of active entries; reject entries with unmet ones (§7.7)."""
        for book in self.collected:
            self.steps.spend("packing", 1 + len(self.active) // _PLACES_PER_STEP)
            end = book.offset + len(book.world.entries)
            for place in sorted(p for p in self.active if book.offset <= p < end):
                root = self.active[place]
                needs = root.entry.needs
                self.steps.spend("packing", 1 + len(needs.places))
                if needs.missing is not None:
                    del self.active[place]
                    self._reject_unmet(book, root, needs.missing)
                    continue
                for index in needs.places:
                    if book.offset + index not in self.active:
                        self.steps.spend("packing", len(root.uid) // _CHARS_PER_STEP)
                        facts = ReplicaFacts(required_by=root.uid)
                        self._activate(book, book.world.entries[index], "dependency", facts)

    def _reject_unmet(self, book: CollectedBook, root: Candidate, missing: str) -> None:
        facts = root.facts._replace(missing=missing)
        detail = f"it requires {missing}, which can't come"
        self._reject(book, root.entry, "dependency_unavailable", detail, facts)
        message = f"It is left out: {detail}."
        warning = ReplicaWarning("dependency_unavailable", message, root.book_id, root.uid)
        self.warnings.append(warning)

    def answer(self, outcome: ConflictOutcome) -> ReplicaResponse:
        """Return the answer; entries are sorted by position, then order, then place (§3)."""
        for loss in outcome.lost.values():
            self.steps.spend("output", 1 + len(loss.winner.uid) // _CHARS_PER_STEP)
        ranked = sorted(
            outcome.kept,
            key=lambda each: (each.entry.spec.position, each.entry.spec.order, each.place),
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
        spec = candidate.entry.spec
        names = {"char": self.request.char, "user": self.request.user}
        self.steps.spend("output", _STEPS_PER_ENTRY)
        content, unknown = fill_names(spec.content, names, self.steps)
        if unknown:
            message = f"It is left as it is: {', '.join(unknown)}."
            warning = ReplicaWarning("macro_unknown", message, candidate.book_id, spec.uid)
            self.warnings.append(warning)
        for expression in unknown:
            if is_variable(expression[2:-2]):
                warning = ReplicaWarning(
                    "value_missing", missing_name(expression), candidate.book_id, spec.uid
                )
                self.warnings.append(warning)
        return ReplicaActive(
            uid=spec.uid,
            content=content,
            position=spec.position,
            order=spec.order,
            trigger_config=spec.config,
            comment=spec.comment,
            disable=spec.disable,
            probability=spec.probability,
            depth=spec.depth,
            role=spec.role,
            group=spec.group or None,
            group_weight=spec.group_weight,
            requires=spec.requires,
            trigger_type=candidate.trigger,
            position_label=POSITIONS[spec.position].label,
            book_id=candidate.book_id,
            source=candidate.source,
        )

    def _decisions(self, outcome: ConflictOutcome) -> tuple[ReplicaDecision, ...]:
        """Return the requested decisions, in the order of collection."""
        if self.request.explain == "none":
            return ()
        decided: dict[int, ReplicaDecision] = {}
        if self.request.explain == "full":
            rows = sum(len(book.world.entries) for book in self.collected)
            self.steps.spend("ledger", rows)
            decided = {**self._idle(), **self.rejected, **self._removed(outcome)}
        for each in outcome.kept:
            decided[each.place] = _decision(each, each.trigger, facts=each.facts, active=True)
        return tuple(decided[place] for place in sorted(decided))

    def _idle(self) -> dict[int, ReplicaDecision]:
        """Return the decisions on entries that only a key can trigger, as if none was found."""
        return {
            book.offset + entry.index: entry.idle
            for book in self.collected
            for entry in book.world.entries
            if entry.idle is not None
        }

    def _removed(self, outcome: ConflictOutcome) -> dict[int, ReplicaDecision]:
        """Return the decisions on entries that the conflicts removed."""
        removed: dict[int, ReplicaDecision] = {}
        for place, loss in outcome.lost.items():
            each = self.active[place]
            self.steps.spend("ledger", len(loss.winner.uid) // _CHARS_PER_STEP)
            facts = each.facts._replace(winner=loss.winner.uid, label=loss.label)
            removed[place] = _decision(each, "conflict", f"it lost to {loss.winner.uid}", facts)
        for place, missing in outcome.broken.items():
            each = self.active[place]
            self.steps.spend("ledger", len(missing.uid) // _CHARS_PER_STEP)
            facts = each.facts._replace(missing=missing.uid)
            detail = f"it requires {missing.uid}, which lost its place"
            removed[place] = _decision(each, "dependency_unavailable", detail, facts)
        for place in outcome.orphans:
            each = self.active[place]
            detail = "whoever required it lost its place"
            removed[place] = _decision(each, "not_triggered", detail, each.facts)
        return removed


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
