"""Explains an entry under the policy `sillytavern`."""

from __future__ import annotations

from collections.abc import Sequence

from lorewell.engine.sillytavern.activate import activate
from lorewell.engine.sillytavern.javascript import MISSING, as_text
from lorewell.engine.sillytavern.scan_entry import Object
from lorewell.engine.sillytavern.sources import Library
from lorewell.engine.sillytavern.world import with_entry
from lorewell.engine.steps import Steps
from lorewell.engine.tokens import TokenCounter
from lorewell.insight.explain.edits import Change, Edit, has, put, put_member, step_of
from lorewell.insight.explain.naming import find_entry
from lorewell.insight.explain.near import find_near
from lorewell.insight.explain.search import TrialResult, search
from lorewell.insight.explain.sillytavern_changes import sillytavern_changes
from lorewell.insight.explain.sillytavern_view import SillyTavernView, sillytavern_gates
from lorewell.model.activate import SillyTavernRequest
from lorewell.model.activated import SillyTavernResponse
from lorewell.model.explained import EditStep, ExplainOptions, Explanation, NearMiss
from lorewell.model.scene_fields import with_scene


def explain_activation(
    library: Library,
    request: SillyTavernRequest,
    asked: ExplainOptions,
    *,
    counter: TokenCounter | None = None,
    steps: Steps | None = None,
) -> Explanation:
    """Return why an entry is active in a turn or not, and the smallest changes that flip it.

    Args:
        library: all books of the turn.
        request: the turn; its `books` are already in the library.
        asked: the entry, by its `book.uid`, by its uid if only one book has it, or by the book's
            name and the uid; and the budget of the search for changes.
        counter: the token counter; by default that of the request, or `cl100k_base`.
        steps: the step budget of the turn itself; `Steps()` by default.

    Raises:
        ValidationFailedError: there is no such entry, or several.
        LorewellError: as `activate`.
    """
    steps = steps or Steps()
    request = with_scene(request, request.scene, "sillytavern")
    request = request.model_copy(update={"explain": "full", "books": ()})
    number, index = _find(library, asked)
    trials = SillyTavernTrials(library, request, number, index, counter)
    trials.steps = steps
    view = trials.view(())
    gates, cause = sillytavern_gates(view)
    near: tuple[NearMiss, ...] = ()
    if view.decisive() in ("keys", "secondary", "recursion"):
        near = find_near(view.near_keys(), view.texts(), steps)
    trials.steps = Steps(asked.budget, watch=steps.watch)
    result = search(trials, view.entry.id, _result(view.response))
    return Explanation(
        policy="sillytavern",
        id=view.entry.id,
        book_id=library.books[number].world.name,
        entry_id=as_text(view.entry.fields.get("uid", MISSING)),
        title=as_text(view.entry.fields.get("comment", "")),
        selected=view.selected,
        reason=view.verdict().reason,
        gate=view.decisive(),
        cause=cause,
        gates=gates,
        near=near,
        changes=result.changes,
        tried=result.tried,
        complete=result.complete,
    )


def _find(library: Library, asked: ExplainOptions) -> tuple[int, int]:
    """Return the number of the entry's book, and its index there."""
    entry = asked.entry
    for number, book in enumerate(library.books):
        if isinstance(entry, str) and entry in book.world.by_id:
            return number, book.world.by_id[entry][0]
    known = (
        (book.world.name, as_text(each.fields.get("uid", MISSING)), (number, index))
        for number, book in enumerate(library.books)
        for index, each in enumerate(book.world.entries)
    )
    return find_entry(known, entry)


def _result(response: SillyTavernResponse) -> TrialResult:
    return TrialResult(frozenset(each.id for each in response.activated), response.budget.used)


class SillyTavernTrials:
    """The turns that can be tried for one entry; a `Trials`."""

    def __init__(
        self,
        library: Library,
        request: SillyTavernRequest,
        book: int,
        index: int,
        counter: TokenCounter | None = None,
    ) -> None:
        """Take the inputs of the turn, and the place of the entry."""
        self._library = library
        self._request = request
        self._book = book
        self._index = index
        self._counter = counter
        self.steps = Steps()

    def run(self, edits: Sequence[Edit]) -> TrialResult:
        """Run the turn with these edits."""
        library, request = self._edited(edits)
        request = request.model_copy(update={"explain": "none"})
        return _result(self._activate(library, request))

    def gate(self, edits: Sequence[Edit]) -> str | None:
        """Return the gate that keeps the entry out after these edits."""
        return self.view(edits).decisive()

    def changes(self, edits: Sequence[Edit]) -> Sequence[Change]:
        """Return the changes to try after these edits."""
        return sillytavern_changes(self.view(edits))

    def view(self, edits: Sequence[Edit]) -> SillyTavernView:
        """Run the turn with these edits, and return the entry in it."""
        library, request = self._edited(edits)
        return SillyTavernView(
            library=library,
            request=request,
            response=self._activate(library, request),
            book=self._book,
            index=self._index,
            steps=self.steps,
        )

    def _activate(self, library: Library, request: SillyTavernRequest) -> SillyTavernResponse:
        self.steps.begin_turn()
        return activate(library, request, counter=self._counter, steps=self.steps)

    def _edited(self, edits: Sequence[Edit]) -> tuple[Library, SillyTavernRequest]:
        """Return the books and the request with these edits."""
        request, library = self._request, self._library
        changed: dict[tuple[int, int], Object] = {}
        for edit in edits:
            if edit.entry is None:
                request = put_member(request, edit.path, edit.value)
            else:
                place = (edit.entry.book, edit.entry.entry)
                fields = changed.get(place) or self._object(*place)
                edited = put(fields, edit.path, edit.value)
                assert isinstance(edited, dict)  # noqa: S101  as `put` returns for an object
                changed[place] = edited
        for (book, index), fields in changed.items():
            world = library.books[book].world
            self.steps.spend("compile", 1 + len(world.entries) // 100)
            library = library.with_world(book, with_entry(world, index, fields), index)
        return library, request

    def _object(self, book: int, index: int) -> Object:
        """Return an entry's object with its decorators in its content again."""
        fields = dict(self._library.books[book].world.entries[index].fields)
        decorators = fields.pop("decorators", ())
        content = fields.get("content")
        text = content if isinstance(content, str) else ""
        return {**fields, "content": "\n".join([*map(str, decorators), text])}

    def steps_of(self, edits: Sequence[Edit]) -> tuple[EditStep, ...]:
        """Return edits in the form of the contract."""
        steps = []
        for edit in edits:
            if edit.entry is None:
                known = has(self._request, edit.path)
                steps.append(step_of(edit, book_id=None, entry_id=None, known=known))
                continue
            world = self._library.books[edit.entry.book].world
            fields = world.entries[edit.entry.entry].fields
            uid = as_text(fields.get("uid", MISSING))
            known = has(fields, edit.path) and edit.path[-1] != "-"
            steps.append(step_of(edit, book_id=world.name, entry_id=uid, known=known))
        return tuple(steps)
