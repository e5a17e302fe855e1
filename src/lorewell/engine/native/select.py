"""The native policy: selects the entries of a snapshot for one turn, with a reason for each.

Source: docs/rules/native.md §8.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lorewell.engine.native.activation import NO_TRACE, ActivationResult, activate
from lorewell.engine.native.bounds import with_bounds
from lorewell.engine.native.compiled import CompiledBook, CompiledEntry
from lorewell.engine.native.context import SEPARATOR, Wrapping, wrap
from lorewell.engine.native.costs import EntryCost
from lorewell.engine.native.eligibility import Eligibility
from lorewell.engine.native.keywords import NOTHING
from lorewell.engine.native.packing import (
    NO_FIGURES,
    PackageFigures,
    PackedEntry,
    Packing,
    Rejection,
    pack,
)
from lorewell.engine.native.recall import NO_RANKS, NO_VECTORS, Recall, VectorScores, rank
from lorewell.engine.native.snapshot import USUAL_LIMITS, SnapshotLimits, take_snapshot
from lorewell.engine.steps import Steps
from lorewell.engine.tokens import adds_up
from lorewell.errors import (
    RequiredPlacementUnsupportedError,
    SelectionError,
)
from lorewell.model import (
    POSITIONS,
    Block,
    Decision,
    Facts,
    Reason,
    SelectRequest,
    SelectResponse,
)
from lorewell.model.decision import NO_FACTS, Recalled, decision_members
from lorewell.model.scene_fields import unused_members, with_scene
from lorewell.model.text import canonical_json
from lorewell.model.warning import MAX_WARNINGS, TurnWarning, missing_name, unused_warnings

POLICY_VERSION = "lorewell-select/1"
EVIDENCE_VERSION = "lorewell-select/2"  # under `recall_floor: "auto"`
_ROWS_PER_STEP, _TOKENS_PER_STEP = 1, 4
# The request fields of the first contract (§8.10). A later field is part of the fingerprint only if
# it differs from its default, so that new fields never change old fingerprints.
_FIRST_FIELDS = frozenset(
    [
        *("query", "history", "state", "audience", "strategy", "scan_depth", "token_budget"),
        *("constant_budget_ratio", "max_entries", "max_recursion_rounds", "seed"),
        *("template_vars", "placement_capabilities"),
    ]
)
# Not in the fingerprint: `snapshot` replaces `books`, and `explain` does not change a selection.
_NO_INPUT = frozenset(["books", "explain"])
_PLACE = {position: place for place, position in enumerate(POSITIONS)}


def select(
    books: Sequence[CompiledBook],
    request: SelectRequest,
    *,
    vectors: VectorScores = NO_VECTORS,
    limits: SnapshotLimits = USUAL_LIMITS,
    steps: Steps | None = None,
) -> SelectResponse:
    """Select the entries for this turn's prompt, with a reason for every entry.

    Args:
        books: compiled revisions; the request names those to use. If it names no revision of a
            book, the highest one given is used.
        request: the turn.
        vectors: similarities of the entries to the query, for the strategy `hybrid`; without them
            entries are ranked by words alone, and `degraded` says so.
        limits: limits for the requested books together.
        steps: the step budget of the turn; `Steps()` by default.

    Raises:
        BookNotFoundError, RevisionNotFoundError: a requested book is not among `books`.
        SnapshotTooLargeError: the requested books exceed `limits`.
        SelectionError: a required entry does not fit. `details` has its id and the decisions so
            far.
        TooExpensiveError: the turn needs more than `steps`.
        ValidationFailedError: the books were compiled for different tokenizers, or the numbers of
            similarities and entries of a book differ.

    >>> from lorewell import BookCreate, Entry, SelectRequest, compile_book
    >>> lamp = Entry(id="lamp", content="The lamp burns whale oil.", keys=["lamp"])
    >>> book = compile_book(BookCreate(name="Harbour", entries=[lamp]))
    >>> response = select([book], SelectRequest(books=[book.ref], query="Who lit the lamp?"))
    >>> [(block.entry_id, block.reason) for block in response.blocks]
    [('lamp', 'keyword')]
    """
    turn, packing, failure = decide(books, request, vectors=vectors, limits=limits, steps=steps)
    if failure is not None:
        raise failure
    return turn.respond(packing)


def decide(
    books: Sequence[CompiledBook],
    request: SelectRequest,
    *,
    vectors: VectorScores = NO_VECTORS,
    limits: SnapshotLimits = USUAL_LIMITS,
    steps: Steps | None = None,
) -> DecidedTurn:
    """Return all that was decided in a turn, before it is an answer.

    Arguments and errors are those of `select`, but a required entry that does not fit is a value.
    """
    steps = steps or Steps()
    unused = unused_members(request.scene, "native")
    request = with_scene(request, request.scene, "native")
    is_hybrid = request.strategy == "hybrid"
    vectors = vectors if is_hybrid else VectorScores()  # unused, so not in the fingerprint
    # The steps of §8.1.
    snapshot = take_snapshot(books, request, limits)
    request = with_bounds(snapshot, request, vectors)  # §9.3.1
    eligible = Eligibility(request, steps)  # §8.2; an entry is filtered when first asked about
    cost = EntryCost(eligible, Wrapping(snapshot, request.wrapper), steps)
    recall = rank(snapshot, request, vectors, eligible, steps) if is_hybrid else Recall()
    activation = activate(snapshot, request, eligible, recall, cost)
    turn = NativeTurn(snapshot, request, eligible, activation, vectors, cost, steps, unused)
    failure = turn.find_unplaceable()
    if failure is not None:
        return DecidedTurn(turn, turn.nothing_packed(), failure)
    packing = pack(request, eligible, activation, turn.cost, steps)
    if packing.failure is not None:
        failed, error, message, details = packing.failure
        failure = turn.error(error, failed, message, packing=packing, **details)
    return DecidedTurn(turn, packing, failure)


class DecidedTurn(NamedTuple):
    """A turn whose entries are packed, and the error if a required entry does not fit."""

    turn: NativeTurn
    packing: Packing
    failure: SelectionError | None


@dataclass(frozen=True, slots=True)
class NativeTurn:
    """One request while its answer is built."""

    snapshot: tuple[CompiledBook, ...]
    request: SelectRequest
    eligible: Eligibility
    activation: ActivationResult
    vectors: VectorScores
    cost: EntryCost
    steps: Steps
    unused: tuple[str, ...]

    @property
    def version(self) -> str:
        """The version of the rules in force."""
        return POLICY_VERSION if self.request.recall_bounds is None else EVIDENCE_VERSION

    @property
    def degraded(self) -> tuple[str, ...]:
        """Why hybrid recall was incomplete, sorted."""
        bounds = self.request.recall_bounds
        if bounds is None or self.vectors.degraded:
            return self.vectors.causes
        unmeasured = {
            f"index_not_measured:{book.book_id}:{book.revision}"
            for book, scales in zip(self.snapshot, bounds.books, strict=True)
            if scales.vectors is None
        }
        return tuple(sorted({*self.vectors.causes, *unmeasured}))

    def nothing_packed(self) -> Packing:
        """Return the budget before the first candidate."""
        return Packing(self.request, self.eligible, self.activation, self.cost, self.steps)

    def find_unplaceable(self) -> SelectionError | None:
        """Return the error for the first required entry that only fails its placement."""
        for book in self.snapshot:
            for entry in (book.entries[index] for index in book.always):
                if not entry.spec.required:
                    continue
                refusal = self.eligible.refusal(entry)
                if refusal is not None and refusal.reason == "placement_unsupported":
                    message = f"The host has no place for the required entry {entry.spec.id!r}."
                    return self.error(RequiredPlacementUnsupportedError, entry, message)
        return None

    def error(
        self,
        error: type[SelectionError],
        entry: CompiledEntry,
        message: str,
        *,
        packing: Packing | None = None,
        **details: object,
    ) -> SelectionError:
        """Return the error with the entry's ids and the decisions so far."""
        so_far = packing or self.nothing_packed()
        decided = so_far.chosen.keys() | so_far.dropped.keys()
        decisions = [
            decision_members(decision)
            for decision in self._decisions(so_far)
            if decision.id in decided
        ]
        failed = error(message, entry_id=entry.spec.id, id=entry.full_id, decisions=decisions)
        failed.details.update(details)
        return failed

    def respond(self, packing: Packing) -> SelectResponse:
        """Return the answer: blocks in print order, the context, and the ledger."""
        blocks = tuple(self._block(full_id, packing) for full_id in _print_order(packing))
        self.steps.spend("output", len(blocks) + packing.total_tokens // _TOKENS_PER_STEP)
        context = SEPARATOR.join(
            wrap(self.cost.wrapping.tag(packing.chosen[block.id].entry), block.content)
            for block in blocks
        )
        counter = self.snapshot[0].counter
        warnings = self._warnings()  # before a full ledger asks about every entry
        prompt_hash = hashlib.sha256(context.encode()).hexdigest()
        return SelectResponse(
            blocks=blocks,
            context=context,
            decisions=tuple(self._decisions(packing)),
            snapshot=tuple(book.snapshot for book in self.snapshot),
            token_count=packing.total_tokens
            if self.cost.wrapping.adds_up and adds_up(counter)
            else counter.count(context),
            token_budget=self.request.token_budget,
            tokenizer=counter.name,
            degraded=self.degraded,
            warnings=warnings,
            policy_version=self.version,
            recall_bounds=self.request.recall_bounds,
            prompt_hash=prompt_hash,
            selection_fingerprint=self._fingerprint(blocks, prompt_hash, counter.name),
        )

    def _warnings(self) -> tuple[TurnWarning, ...]:
        """Return the unused members of the scene, and the entries that lack a name."""
        nameless = sorted(self.eligible.nameless.items())
        entries = [
            TurnWarning("value_missing", missing_name(expression), entry=full_id)
            for full_id, expression in nameless[:MAX_WARNINGS]
        ]
        if len(nameless) > MAX_WARNINGS:
            message = f"{len(nameless) - MAX_WARNINGS} more entries lack a name."
            entries.append(TurnWarning("value_missing", message))
        return (*unused_warnings(self.unused, "native"), *entries)

    def _block(self, full_id: str, packing: Packing) -> Block:
        book, entry, _, _ = packing.chosen[full_id]
        spec = entry.spec
        active = self.activation.active.get(full_id)
        return Block(
            id=full_id,
            book_id=book.book_id,
            revision=book.revision,
            entry_id=spec.id,
            title=spec.title,
            content=self.eligible.content(entry),
            position=spec.position,
            depth=spec.depth,
            role=spec.role,
            order=spec.order,
            outlet_name=spec.outlet_name,
            reason=active.why if active else "dependency",
            wrapper=self.cost.wrapping.of(entry),
        )

    def _decisions(self, packing: Packing) -> list[Decision]:
        """Return the requested decisions, in request order, then stored order."""
        match self.request.explain:
            case "none":
                return []
            case "selected":
                wanted = [
                    (book, entry)
                    for book in self.snapshot
                    for entry in sorted(
                        (c.entry for c in packing.chosen.values() if c.book is book),
                        key=lambda entry: entry.index,
                    )
                ]
            case "full":
                wanted = [(book, entry) for book in self.snapshot for entry in book.entries]
                self._count_ledger()
        return [self.decide(book, entry, packing) for book, entry in wanted]

    def _count_ledger(self) -> None:
        """Spend the steps of a full ledger: first the costs of entries, then a row for each.

        One kind of work follows the other, so that the figures don't depend on the order of
        entries.
        """
        is_full = self.cost.wrapping.is_full
        counted = [
            (book, book.entries[index])
            for book in self.snapshot
            for index in (book.ungated if is_full else range(book.entry_count))
        ]
        eligible = [each for each in counted if self.eligible.refusal(each[1]) is None]
        for _, entry in eligible:
            self.eligible.content(entry)
        for book, entry in eligible:
            self.cost(book, entry)
        rows = sum(book.entry_count for book in self.snapshot)
        self.steps.spend("ledger", rows // _ROWS_PER_STEP)

    def decide(self, book: CompiledBook, entry: CompiledEntry, packing: Packing) -> Decision:
        """Return the decision on one entry."""
        full_id = entry.full_id
        chosen = packing.chosen.get(full_id)
        if chosen is not None:
            return self._select(chosen)
        refusal = self.eligible.refusal(entry)
        if refusal is not None:
            return Decision(
                id=full_id,
                book_id=book.book_id,
                revision=book.revision,
                entry_id=entry.spec.id,
                selected=False,
                reason=refusal.reason,
                detail=refusal.detail,
                facts=refusal.facts,
            )
        active = self.activation.active.get(full_id)
        idle = (
            active is None and full_id not in self.activation.checked and self.cost.wrapping.is_full
        )
        if idle and entry.idle is not None and full_id not in self.activation.recall.considered:
            return entry.idle
        verdict = packing.dropped.get(full_id) or self._untriggered(full_id)
        return Decision(
            id=full_id,
            book_id=book.book_id,
            revision=book.revision,
            entry_id=entry.spec.id,
            selected=False,
            reason=verdict.reason,
            detail=verdict.detail,
            direct_keyword_hit=active is not None and active.direct,
            hybrid_score=self.activation.recall.kept.get(full_id),
            round=active.round if active else None,
            cost=self.cost(book, entry),
            facts=self._facts(entry, verdict.figures, verdict.reason),
        )

    def _select(self, chosen: PackedEntry) -> Decision:
        book, entry, root, figures = chosen
        full_id = entry.full_id
        active = self.activation.active.get(full_id)
        return Decision(
            id=full_id,
            book_id=book.book_id,
            revision=book.revision,
            entry_id=entry.spec.id,
            selected=True,
            reason=active.why if active else "dependency",
            direct_keyword_hit=active is not None and active.direct,
            hybrid_score=self.activation.recall.kept.get(full_id),
            round=active.round if active else None,
            cost=self.cost(book, entry),
            included_by=root,
            facts=self._facts(entry, figures, None),
        )

    def _untriggered(self, full_id: str) -> Rejection:
        """Return why an eligible entry is not activated."""
        match = self.activation.checked.get(full_id, NOTHING)
        gate = self.activation.recall.gated.get(full_id)
        return Rejection(match.problem or "not_triggered", match.detail or gate)

    def _facts(self, entry: CompiledEntry, figures: PackageFigures, lost: Reason | None) -> Facts:
        """Return the facts of a decision: hit, roll, figures of the package, and ranks.

        Args:
            entry: an eligible entry.
            figures: the figures of its package.
            lost: the reason why it is not selected; None if it is.
        """
        trace = self.activation.trace(entry.full_id)
        chance = self.eligible.chance(entry)
        ranks = self.activation.recall.ranks(entry.full_id)
        if ranks is NO_RANKS:
            if trace is NO_TRACE and chance is NO_FACTS and figures is NO_FIGURES:
                return NO_FACTS
        elif ranks.recall is None:
            ranks = ranks._replace(recall=self._recall_outcome(entry.full_id, lost))
        return Facts(
            trace.key,
            trace.message,
            trace.span,
            chance.roll,
            chance.threshold,
            figures.tokens,
            figures.room,
            figures.beaten_by,
            trace.woken_by,
            *ranks,
        )

    def _recall_outcome(self, full_id: str, lost: Reason | None) -> Recalled:
        """Return the outcome for a recalled entry."""
        if self.activation.active[full_id].why != "hybrid":
            return "keyed"
        match lost:
            case None:
                return "kept"
            case "conflict":
                return "lost_conflict"
            case "dependency_unavailable":
                return "dependency_unavailable"
            case _:
                return "no_room"

    def _fingerprint(self, blocks: Sequence[Block], prompt_hash: str, tokenizer: str) -> str:
        """Return the fingerprint: equal for two selections exactly if they are the same (§8.10)."""
        later = SelectRequest.model_fields.keys() - _FIRST_FIELDS - _NO_INPUT
        defaults = {name for name in later if _is_default(self.request, name)}
        members = self.request.model_dump(mode="json", exclude={*_NO_INPUT, *defaults})
        document = {
            **members,
            "policy_version": self.version,
            "tokenizer": tokenizer,
            "snapshot": [
                {
                    "book_id": book.book_id,
                    "revision": book.revision,
                    "content_hash": book.content_hash,
                    "entry_count": book.entry_count,
                }
                for book in self.snapshot
            ],
            "embedding_version": self.vectors.embedding_version,
            "degraded": list(self.degraded),
            "selected": [[block.id, block.reason] for block in blocks],
            "prompt_hash": prompt_hash,
        }
        numbers = ("state", "constant_budget_ratio", "recall_floor", "recall_bounds")
        free = [members.get(name) for name in numbers]
        return hashlib.sha256(canonical_json(document, free=free)).hexdigest()


def _is_default(request: SelectRequest, name: str) -> bool:
    return bool(getattr(request, name) == SelectRequest.model_fields[name].get_default())


def _print_order(packing: Packing) -> list[str]:
    """Return the full ids of the selected entries in print order (§8.9)."""

    def key(full_id: str) -> tuple[int, int, int, str]:
        spec = packing.chosen[full_id].entry.spec
        return _PLACE[spec.position], -spec.depth, spec.order, full_id

    return sorted(packing.chosen, key=key)
