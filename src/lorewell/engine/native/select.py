"""The native policy: which entries of a snapshot go into this turn, and why.

Source: docs/rules/native.md §8.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from lorewell.engine.native.activation import NO_TRACE, ActivationResult, activate
from lorewell.engine.native.compile import cost_of
from lorewell.engine.native.compiled import CompiledBook, CompiledEntry
from lorewell.engine.native.eligibility import EligibilityFilters
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
from lorewell.engine.render import SEPARATOR, escaping_chars, wrap
from lorewell.engine.steps import Steps
from lorewell.engine.tokens import CHARS_PER_STEP, adds_up
from lorewell.errors import (
    BookNotFoundError,
    Fault,
    RequiredPlacementUnsupportedError,
    RevisionNotFoundError,
    SelectionError,
    SnapshotTooLargeError,
    ValidationFailedError,
)
from lorewell.model import (
    POSITIONS,
    Block,
    BookRef,
    Decision,
    Facts,
    Reason,
    SelectRequest,
    SelectResponse,
)
from lorewell.model.decision import NO_FACTS, Recalled, decision_members
from lorewell.model.text import canonical_json

POLICY_VERSION = "lorewell-select/1"
_ROWS_PER_STEP, _TOKENS_PER_STEP = 1, 4
# The request fields of the first contract (§8.10). Any other field counts in the fingerprint only
# while it holds something else than its default, so that a later field never changes an old one.
_FIRST_FIELDS = frozenset(
    [
        *("query", "history", "state", "audience", "strategy", "scan_depth", "token_budget"),
        *("constant_budget_ratio", "max_entries", "max_recursion_rounds", "seed"),
        *("template_vars", "placement_capabilities"),
    ]
)
_NO_INPUT = frozenset(["books", "explain"])  # the snapshot is there, and `explain` changes nothing
_PLACE = {position: place for place, position in enumerate(POSITIONS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLimits:
    """How much the books of one request may hold together (§4)."""

    entries: int = 10_000
    content_chars: int = 10_000_000


def select(
    books: Sequence[CompiledBook],
    request: SelectRequest,
    *,
    vectors: VectorScores = NO_VECTORS,
    limits: SnapshotLimits = SnapshotLimits(),
    steps: Steps | None = None,
) -> SelectResponse:
    """Return the entries that belong into this turn's prompt, and a reason for every entry.

    Args:
        books: compiled revisions to choose from; the request names which of them to use. Where it
            names no revision, the highest one given counts.
        request: the turn.
        vectors: how near the entries are to the query, under the strategy `hybrid`; without them
            the answer ranks by words alone and says so in `degraded`.
        limits: how much the requested books may hold together.
        steps: what the turn may cost; `Steps()` if not given.

    Raises:
        BookNotFoundError, RevisionNotFoundError: the request names a book that is not given.
        SnapshotTooLargeError: the requested books hold more than `limits`.
        SelectionError: a required entry can't go in. `details` name it, and hold the decisions so
            far.
        TooExpensiveError: the turn needs more than `steps`.
        ValidationFailedError: the books were compiled for different tokenizers, or `vectors` hold
            another number of similarities than a book has entries.

    >>> from lorewell import BookCreate, Entry, SelectRequest, compile_book
    >>> lamp = Entry(id="lamp", content="The lamp burns whale oil.", keys=["lamp"])
    >>> book = compile_book(BookCreate(name="Harbour", entries=[lamp]))
    >>> response = select([book], SelectRequest(books=[book.ref], query="Who lit the lamp?"))
    >>> [(block.entry_id, block.reason) for block in response.blocks]
    [('lamp', 'keyword')]
    """
    steps = steps or Steps()
    snapshot = _take_snapshot(books, request, limits)
    activation = ActivationResult(EligibilityFilters(request, steps))
    if request.strategy == "rules":
        vectors, recall = VectorScores(), Recall()
    else:
        recall = rank(snapshot, request, vectors, activation.refusal, steps)
    activate(snapshot, request, activation, recall, steps)
    turn = _Turn(snapshot, request, activation, vectors, recall, steps)
    turn.refuse_unplaceable()
    packing = pack(request, turn.activation, recall.kept, turn.cost, steps)
    if packing.failure is not None:
        failed, error, message, details = packing.failure
        raise turn.error(error, failed, message, packing=packing, **details)
    return turn.respond(packing)


def _take_snapshot(
    books: Sequence[CompiledBook], request: SelectRequest, limits: SnapshotLimits
) -> tuple[CompiledBook, ...]:
    snapshot = tuple(_find(books, ref) for ref in request.books)
    entries = sum(book.entry_count for book in snapshot)
    characters = sum(book.content_chars for book in snapshot)
    if entries > limits.entries or characters > limits.content_chars:
        message = (
            f"The requested books hold {entries} entries and {characters} characters;"
            f" at most {limits.entries} and {limits.content_chars} are allowed."
        )
        raise SnapshotTooLargeError(message, entries=entries, content_chars=characters)
    names = sorted({book.counter.name for book in snapshot})
    if len(names) > 1:
        reason = f"the books count tokens in different ways: {', '.join(names)}"
        raise ValidationFailedError.at(Fault("/books", reason))
    return snapshot


def _find(books: Sequence[CompiledBook], ref: BookRef) -> CompiledBook:
    revisions = {book.revision: book for book in books if book.book_id == ref.book_id}
    if not revisions:
        message = f"There is no book {ref.book_id}."
        raise BookNotFoundError(message, book_id=ref.book_id)
    revision = max(revisions) if ref.revision is None else ref.revision
    if revision not in revisions:
        message = f"The book {ref.book_id} has no revision {revision}."
        raise RevisionNotFoundError(message, book_id=ref.book_id, revision=revision)
    return revisions[revision]


@dataclass(frozen=True, slots=True)
class _Turn:
    """One request on its way to an answer."""

    snapshot: tuple[CompiledBook, ...]
    request: SelectRequest
    activation: ActivationResult
    vectors: VectorScores
    recall: Recall
    steps: Steps
    costs: dict[str, int] = field(default_factory=dict)

    def cost(self, book: CompiledBook, entry: CompiledEntry) -> int:
        """Return the tokens of an eligible entry with this turn's values in it."""
        if entry.cost is not None:
            return entry.cost
        cost = self.costs.get(entry.full_id)
        if cost is None:
            content = self.activation.filters.content(entry)
            self.steps.write("escaping", escaping_chars(content))
            self.steps.spend("tokens", 1 + len(content) // CHARS_PER_STEP)
            cost = self.costs[entry.full_id] = cost_of(entry.tag, content, book.counter)
        return cost

    def refuse_unplaceable(self) -> None:
        """Raise for the first required entry, in snapshot order, that lacks only its place."""
        for book in self.snapshot:
            for entry in (book.entries[index] for index in book.always):
                if not entry.spec.required:
                    continue
                refusal = self.activation.refusal(entry)
                if refusal is not None and refusal.reason == "placement_unsupported":
                    message = f"The host has no place for the required entry {entry.spec.id!r}."
                    raise self.error(RequiredPlacementUnsupportedError, entry, message)

    def error(
        self,
        error: type[SelectionError],
        entry: CompiledEntry,
        message: str,
        *,
        packing: Packing | None = None,
        **details: object,
    ) -> SelectionError:
        """Return the error with the entry's names and what was decided so far."""
        so_far = packing or Packing(self.request, self.activation, self.cost, self.steps)
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
            wrap(packing.chosen[block.id].entry.tag, block.content) for block in blocks
        )
        counter = self.snapshot[0].counter
        prompt_hash = hashlib.sha256(context.encode()).hexdigest()
        return SelectResponse(
            blocks=blocks,
            context=context,
            decisions=tuple(self._decisions(packing)),
            snapshot=tuple(book.snapshot for book in self.snapshot),
            token_count=packing.total_tokens if adds_up(counter) else counter.count(context),
            token_budget=self.request.token_budget,
            tokenizer=counter.name,
            degraded=tuple(sorted(self.vectors.degraded)),
            policy_version=POLICY_VERSION,
            prompt_hash=prompt_hash,
            selection_fingerprint=self._fingerprint(blocks, prompt_hash, counter.name),
        )

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
            content=self.activation.filters.content(entry),
            position=spec.position,
            depth=spec.depth,
            role=spec.role,
            order=spec.order,
            outlet_name=spec.outlet_name,
            reason=active.why if active else "dependency",
        )

    def _decisions(self, packing: Packing) -> list[Decision]:
        """Return the decisions asked for, in request order, then stored order."""
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
        return [self._decide(book, entry, packing) for book, entry in wanted]

    def _count_ledger(self) -> None:
        """Count a row for every entry, and find out first what takes more than a row.

        One kind of work after the other, so that the order of entries has no part in the figures.
        """
        unclear = [(book, book.entries[index]) for book in self.snapshot for index in book.ungated]
        eligible = [each for each in unclear if self.activation.refusal(each[1]) is None]
        for _, entry in eligible:
            self.activation.filters.content(entry)
        for book, entry in eligible:
            self.cost(book, entry)
        rows = sum(book.entry_count for book in self.snapshot)
        self.steps.spend("ledger", rows // _ROWS_PER_STEP)

    def _decide(self, book: CompiledBook, entry: CompiledEntry, packing: Packing) -> Decision:
        full_id = entry.full_id
        chosen = packing.chosen.get(full_id)
        if chosen is not None:
            return self._select(chosen)
        refusal = self.activation.refusal(entry)
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
        idle = active is None and full_id not in self.activation.looked
        if idle and entry.idle is not None and full_id not in self.recall.noted:
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
            hybrid_score=self.recall.kept.get(full_id),
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
            hybrid_score=self.recall.kept.get(full_id),
            round=active.round if active else None,
            cost=self.cost(book, entry),
            included_by=root,
            facts=self._facts(entry, figures, None),
        )

    def _untriggered(self, full_id: str) -> Rejection:
        """Return why an eligible entry that competed for no room stays out."""
        found = self.activation.looked.get(full_id, NOTHING)
        gate = self.recall.gated.get(full_id)
        return Rejection(found.problem or "not_triggered", found.detail or gate)

    def _facts(self, entry: CompiledEntry, figures: PackageFigures, lost: Reason | None) -> Facts:
        """Return where the key hit, what was rolled, figures of the package, and the ranks.

        Args:
            entry: an eligible one.
            figures: of its package.
            lost: why it is not in; None if it is.
        """
        trace = self.activation.trace(entry.full_id)
        chance = self.activation.filters.chance(entry)
        ranks = self.recall.ranks(entry.full_id)
        if ranks is NO_RANKS:
            if trace is NO_TRACE and chance is NO_FACTS and figures is NO_FIGURES:
                return NO_FACTS
        elif ranks.recall is None:
            ranks = ranks._replace(recall=self._fate(entry.full_id, lost))
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

    def _fate(self, full_id: str, lost: Reason | None) -> Recalled:
        """Return what became of an entry that was recalled."""
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
        """Return what two selections share exactly when they are the same (§8.10)."""
        later = SelectRequest.model_fields.keys() - _FIRST_FIELDS - _NO_INPUT
        usual = {name for name in later if _is_default(self.request, name)}
        asked = self.request.model_dump(mode="json", exclude={*_NO_INPUT, *usual})
        document = {
            **asked,
            "policy_version": POLICY_VERSION,
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
            "degraded": sorted(self.vectors.degraded),
            "selected": [[block.id, block.reason] for block in blocks],
            "prompt_hash": prompt_hash,
        }
        free = [asked["state"], asked["constant_budget_ratio"], asked.get("recall_floor")]
        return hashlib.sha256(canonical_json(document, free=free)).hexdigest()


def _is_default(request: SelectRequest, name: str) -> bool:
    return bool(getattr(request, name) == SelectRequest.model_fields[name].get_default())


def _print_order(packing: Packing) -> list[str]:
    """Return the full ids of what goes in, as they are printed (§8.9)."""

    def key(full_id: str) -> tuple[int, int, int, str]:
        spec = packing.chosen[full_id].entry.spec
        return _PLACE[spec.position], -spec.depth, spec.order, full_id

    return sorted(packing.chosen, key=key)
