"""Explains an entry under the policy `native`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lorewell.engine.native import NO_VECTORS, SnapshotLimits, VectorScores
from lorewell.engine.native.compile import with_entries
from lorewell.engine.native.compiled import CompiledBook, CompiledEntry
from lorewell.engine.native.select import DecidedTurn, decide
from lorewell.engine.steps import Steps
from lorewell.insight.explain.edits import Change, Edit, has, put_member, step_of
from lorewell.insight.explain.naming import find_entry
from lorewell.insight.explain.native_changes import native_changes
from lorewell.insight.explain.native_gates import NativeView, native_gates
from lorewell.insight.explain.near import MAX_NEAR, find_key, find_near
from lorewell.insight.explain.search import TrialResult, search
from lorewell.model import Entry, SelectRequest
from lorewell.model.explained import EditStep, EntryName, ExplainOptions, Explanation, NearMiss
from lorewell.model.scene_fields import with_scene

NO_LIMITS = SnapshotLimits()


def explain_context(
    books: Sequence[CompiledBook],
    request: SelectRequest,
    asked: ExplainOptions,
    *,
    vectors: VectorScores = NO_VECTORS,
    limits: SnapshotLimits = NO_LIMITS,
    steps: Steps | None = None,
) -> Explanation:
    """Return why an entry is selected or not, and the smallest changes that flip it.

    Args:
        books: compiled revisions, as for `select`.
        request: the turn.
        asked: the entry, and the budget of the search for changes.
        vectors: similarities of the entries to the query, as for `select`. With them, no other
            texts and keys are tried: their vectors are not known.
        limits: limits for the requested books together.
        steps: the step budget of the turn itself; `Steps()` by default.

    Raises:
        ValidationFailedError: there is no such entry, or several.
        BookNotFoundError, RevisionNotFoundError, SnapshotTooLargeError, TooExpensiveError: as
            `select`.
    """
    steps = steps or Steps()
    request = with_scene(request, request.scene, "native")
    decided = decide(books, request, vectors=vectors, limits=limits, steps=steps)
    snapshot = decided.turn.snapshot
    known = (
        (book.book_id, each.spec.id, (number, each))
        for number, book in enumerate(snapshot)
        for each in _named(book, asked.entry)
    )
    number, found = find_entry(known, asked.entry)
    request = request.model_copy(update={"books": tuple(book.ref for book in snapshot)})
    trials = NativeTrials(snapshot, request, number, found, vectors, limits)
    view = NativeView(decided=decided, number=number, entry=found)
    gates, cause = native_gates(view)
    trials.steps = Steps(asked.budget, watch=steps.watch)
    result = search(trials, found.full_id, _result(view))
    decision = decided.turn.decide(view.book, found, decided.packing)
    return Explanation(
        policy="native",
        id=found.full_id,
        book_id=view.book.book_id,
        entry_id=found.spec.id,
        title=found.spec.title,
        selected=view.selected,
        reason=view.reason(),
        detail=decision.detail,
        gate=view.decisive(),
        cause=cause,
        gates=gates,
        near=_near(view),
        changes=result.changes,
        tried=result.tried,
        complete=result.complete,
    )


def _named(book: CompiledBook, entry: str | EntryName) -> Iterator[CompiledEntry]:
    found = book.by_id.get(entry if isinstance(entry, str) else entry.entry_id)
    if found is not None:
        yield found


def _near(view: NativeView) -> tuple[NearMiss, ...]:
    """Return where keys nearly matched, if keys decided."""
    decisive = view.decisive()
    steps = view.decided.turn.steps
    if decisive == "keys":
        return find_near(view.near_keys(), view.texts(), steps)
    if decisive == "secondary" and view.entry.spec.logic in ("and_any", "and_all"):
        seen = [text for text in view.texts() if text.unseen is None]
        return tuple(
            NearMiss(kind="secondary_missing", key=key.text, text="query")
            for key in view.near_keys(secondary=True)
            if all(find_key(text.text, key, steps) is None for text in seen)
        )[:MAX_NEAR]
    return ()


def _result(view: NativeView) -> TrialResult:
    _, packing, failure = view.decided
    if failure is not None:
        return TrialResult(frozenset(), 0)
    return TrialResult(frozenset(packing.chosen), packing.total_tokens)


class NativeTrials:
    """The turns that can be tried for one entry; a `Trials`."""

    def __init__(
        self,
        books: Sequence[CompiledBook],
        request: SelectRequest,
        number: int,
        entry: CompiledEntry,
        vectors: VectorScores = NO_VECTORS,
        limits: SnapshotLimits = NO_LIMITS,
    ) -> None:
        """Take the inputs of the turn, and the number of the entry's book."""
        self._books = books
        self._request = request
        self._vectors = vectors
        self._limits = limits
        self._number = number
        self._index = entry.index
        self.steps = Steps()

    def run(self, edits: Sequence[Edit]) -> TrialResult:
        """Run the turn with these edits."""
        return _result(self._view(edits))

    def gate(self, edits: Sequence[Edit]) -> str | None:
        """Return the gate that keeps the entry out after these edits."""
        return self._view(edits).decisive()

    def changes(self, edits: Sequence[Edit]) -> Sequence[Change]:
        """Return the changes to try after these edits."""
        has_vectors = bool(self._vectors.similarities) and self._request.strategy == "hybrid"
        return native_changes(self._view(edits), fixed_text=has_vectors)

    def _view(self, edits: Sequence[Edit]) -> NativeView:
        decided = self._decide(edits)
        entry = decided.turn.snapshot[self._number].entries[self._index]
        return NativeView(decided=decided, number=self._number, entry=entry)

    def _decide(self, edits: Sequence[Edit]) -> DecidedTurn:
        request = self._request
        changed: dict[int, dict[int, Entry]] = {}
        for edit in edits:
            if edit.entry is None:
                request = put_member(request, edit.path, edit.value)
            else:
                book, index = edit.entry
                specs = changed.setdefault(book, {})
                spec = specs.get(index) or self._books[book].entries[index].spec
                specs[index] = put_member(spec, edit.path, edit.value)
        books = list(self._books)
        for number, specs in changed.items():
            self.steps.spend("compile", 1 + len(books[number].entries) // 100)
            books[number] = with_entries(books[number], specs)
        self.steps.begin_turn()
        return decide(books, request, vectors=self._vectors, limits=self._limits, steps=self.steps)

    def steps_of(self, edits: Sequence[Edit]) -> tuple[EditStep, ...]:
        """Return edits in the form of the contract."""
        steps = []
        for edit in edits:
            if edit.entry is None:
                known = has(self._request, edit.path)
                steps.append(step_of(edit, book_id=None, entry_id=None, known=known))
                continue
            book = self._books[edit.entry.book]
            spec = book.entries[edit.entry.entry].spec
            known = edit.path[-1] != "-"
            steps.append(step_of(edit, book_id=book.book_id, entry_id=spec.id, known=known))
        return tuple(steps)
