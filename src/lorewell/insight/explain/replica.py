"""Explains an entry under the policy `replica`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lorewell.engine.replica.activate import NO_SCORES, activate
from lorewell.engine.replica.rag import RagScores
from lorewell.engine.replica.world import ReplicaWorld, compile_world, with_entry
from lorewell.engine.steps import Steps
from lorewell.insight.explain.edits import Change, Edit, EntryPlace, has, put, put_member, step_of
from lorewell.insight.explain.naming import find_entry
from lorewell.insight.explain.near import find_near
from lorewell.insight.explain.replica_changes import replica_changes
from lorewell.insight.explain.replica_view import ReplicaView, replica_gates
from lorewell.insight.explain.search import TrialResult, search
from lorewell.model.explained import EditStep, ExplainOptions, Explanation, NearMiss
from lorewell.model.replica import DynamicTable, ReplicaRequest, ReplicaResponse
from lorewell.model.scene_fields import with_scene

_ALIASES = {
    name: field.alias
    for model in (ReplicaRequest, DynamicTable)
    for name, field in model.model_fields.items()
    if field.alias is not None
}


def explain_replica(
    books: Mapping[str, ReplicaWorld],
    request: ReplicaRequest,
    asked: ExplainOptions,
    *,
    scores: RagScores = NO_SCORES,
    steps: Steps | None = None,
) -> Explanation:
    """Return why an entry is active in a turn or not, and the smallest changes that flip it.

    Args:
        books: compiled books by their name in the request, as for `activate`.
        request: the turn.
        asked: the entry, by its uid if only one book has it, or by book and uid; and the budget of
            the search for changes.
        scores: similarities of entries to the turn, as for `activate`.
        steps: the step budget of the turn itself; `Steps()` by default.

    Raises:
        ValidationFailedError: there is no such entry, or several.
        TooExpensiveError: the turn needs more than `steps`.
    """
    steps = steps or Steps()
    request = with_scene(request, request.scene, "replica")
    inline = {
        name: compile_world(document, book_id=name, steps=steps)
        for name, document in request.books.items()
    }
    named = [ref.key for ref in request.world_book_data.global_books]
    named.append(request.world_book_data.character_book_id or "")
    known = {**books, **inline}
    used = {name: known[name] for name in dict.fromkeys(named) if name in known}
    request = request.model_copy(update={"books": {}, "explain": "full"})
    found = find_entry(
        (
            (world.book_id, entry.spec.uid, (name, entry.index))
            for name, world in used.items()
            for entry in world.entries
        ),
        asked.entry,
    )
    trials = ReplicaTrials(used, request, *found, scores)
    trials.steps = steps
    view = trials.view(())
    near: tuple[NearMiss, ...] = ()
    if view.decisive() == "trigger":
        near = find_near(view.near_keys(), view.texts(), steps)
    trials.steps = Steps(asked.budget, watch=steps.watch)
    result = search(trials, view.id, _result(view.response))
    decision = view.decision()
    return Explanation(
        policy="replica",
        id=view.id,
        book_id=view.book_id,
        entry_id=decision.uid,
        title=view.entry.spec.comment,
        selected=decision.active,
        reason=decision.reason,
        detail=decision.detail,
        gate=view.decisive(),
        gates=replica_gates(view),
        near=near,
        changes=result.changes,
        tried=result.tried,
        complete=result.complete,
    )


def _result(response: ReplicaResponse) -> TrialResult:
    return TrialResult(frozenset(f"{each.book_id}.{each.uid}" for each in response.entries), 0)


class ReplicaTrials:
    """The turns that can be tried for one entry; a `Trials`. The policy counts no tokens."""

    def __init__(
        self,
        books: Mapping[str, ReplicaWorld],
        request: ReplicaRequest,
        book: str,
        index: int,
        scores: RagScores = NO_SCORES,
    ) -> None:
        """Take the inputs of the turn, and the place of the entry."""
        self._books = books
        self._names = [*books]
        self._request = request
        self._book = book
        self._index = index
        self._scores = scores
        self._places = {
            f"{world.book_id}.{entry.spec.uid}": EntryPlace(number, entry.index)
            for number, world in enumerate(books.values())
            for entry in reversed(world.entries)  # the first of equal uids counts
        }
        own = f"{books[book].book_id}.{books[book].entries[index].spec.uid}"
        self._places[own] = EntryPlace(self._names.index(book), index)
        self.steps = Steps()

    def run(self, edits: Sequence[Edit]) -> TrialResult:
        """Run the turn with these edits."""
        books, request = self._edited(edits)
        request = request.model_copy(update={"explain": "none"})
        return _result(self._activate(books, request))

    def gate(self, edits: Sequence[Edit]) -> str | None:
        """Return the gate that keeps the entry out after these edits."""
        return self.view(edits).decisive()

    def changes(self, edits: Sequence[Edit]) -> Sequence[Change]:
        """Return the changes to try after these edits."""
        return replica_changes(self.view(edits), self._places)

    def view(self, edits: Sequence[Edit]) -> ReplicaView:
        """Run the turn with these edits, and return the entry in it."""
        books, request = self._edited(edits)
        return ReplicaView(
            books=books,
            request=request,
            response=self._activate(books, request),
            book=self._book,
            index=self._index,
            steps=self.steps,
        )

    def _activate(
        self, books: Mapping[str, ReplicaWorld], request: ReplicaRequest
    ) -> ReplicaResponse:
        self.steps.begin_turn()
        return activate(books, request, scores=self._scores, steps=self.steps)

    def _edited(self, edits: Sequence[Edit]) -> tuple[Mapping[str, ReplicaWorld], ReplicaRequest]:
        """Return the books and the request with these edits."""
        request, books = self._request, {**self._books}
        changed: dict[EntryPlace, Mapping[str, object]] = {}
        for edit in edits:
            if edit.entry is None:
                request = put_member(request, edit.path, edit.value)
            else:
                raw = changed.get(edit.entry) or self._members(edit.entry)
                edited = put(raw, edit.path, edit.value)
                assert isinstance(edited, dict)  # noqa: S101  as `put` returns for an object
                changed[edit.entry] = edited
        for place, raw in changed.items():
            name = self._names[place.book]
            self.steps.spend("compile", 1 + len(books[name].entries) // 100)
            books[name] = with_entry(books[name], place.entry, raw)
        return books, request

    def _members(self, place: EntryPlace) -> Mapping[str, object]:
        return self._books[self._names[place.book]].entries[place.entry].spec.members()

    def steps_of(self, edits: Sequence[Edit]) -> tuple[EditStep, ...]:
        """Return edits in the form of the contract, under the names of the JSON."""
        steps = []
        for edit in edits:
            if edit.entry is None:
                known = has(self._request, edit.path)
                path = tuple(_ALIASES.get(str(part), part) for part in edit.path[:2])
                named = Edit(path=(*path, *edit.path[2:]), value=edit.value)
                steps.append(step_of(named, book_id=None, entry_id=None, known=known))
                continue
            members = self._members(edit.entry)
            book = self._books[self._names[edit.entry.book]].book_id
            known = has(members, edit.path)
            steps.append(step_of(edit, book_id=book, entry_id=str(members["uid"]), known=known))
        return tuple(steps)
