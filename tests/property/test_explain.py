"""Changes that an explanation offers, applied to the documents and run from scratch."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings, strategies as st

from lorewell import CompiledBook, SelectRequest, SelectResponse
from lorewell.engine.native.compile import with_entries
from lorewell.errors import SelectionError, ValidationFailedError
from lorewell.insight.explain import explain_context
from lorewell.insight.explain.native import NativeTrials
from lorewell.model.explained import EditStep, EntryName, ExplainOptions
from property.strategies import request_fields, snapshots
from property.test_selection import in_bytes
from support import Document, ask, compiled

Snapshot = list[tuple[str, list[Document]]]

relaxed = settings(suppress_health_check=[HealthCheck.too_slow], max_examples=40)


class Outcome(NamedTuple):
    """What a turn selects; nothing if a required entry fails it."""

    ids: frozenset[str]
    tokens: int


def run(snapshot: Snapshot, fields: Document) -> Outcome:
    """Compile the books and select."""
    try:
        response = ask([compiled(entries, book_id=name) for name, entries in snapshot], **fields)
    except SelectionError:
        return Outcome(frozenset(), 0)
    assert isinstance(response, SelectResponse)
    return Outcome(frozenset(block.id for block in response.blocks), response.token_count)


def patch(document: Any, step: EditStep) -> None:
    """Make one edit of a JSON Patch in a document."""
    *parents, last = [
        part.replace("~1", "/").replace("~0", "~") for part in step.path.split("/")[1:]
    ]
    for part in parents:
        document = document[int(part)] if isinstance(document, list) else document[part]
    if isinstance(document, list):
        if last == "-":
            document.append(step.value)
        elif step.op == "remove":
            del document[int(last)]
        else:
            document[int(last)] = step.value
    elif step.op == "remove":
        del document[last]
    else:
        document[last] = step.value


def edited(
    snapshot: Snapshot, request: SelectRequest, steps: Sequence[EditStep]
) -> tuple[Snapshot, Document]:
    """Return the documents with the edits made."""
    books: list[tuple[str, list[Document]]] = [
        (name, [each.spec.model_dump(mode="json") for each in compiled(entries).entries])
        for name, entries in copy.deepcopy(snapshot)
    ]
    fields = request.model_dump(mode="json", exclude={"books"})
    for step in steps:
        target: Any = fields
        if step.target == "entry":
            entries = next(entries for name, entries in books if name == step.book_id)
            target = next(each for each in entries if each["id"] == step.entry_id)
        plain = EditStep.model_validate_json(step.model_dump_json())
        patch(target, plain)
    return books, fields


def request_of(books: Sequence[CompiledBook], fields: Document) -> SelectRequest:
    """Return the request of these fields."""
    refs = [book.ref for book in books]
    return SelectRequest.model_validate({"books": refs, "query": "?", **fields})


def answer_of(book: CompiledBook, fields: Document) -> SelectResponse | SelectionError:
    """Return the response without its fingerprint, or the error."""
    try:
        response = ask([book], **fields)
    except SelectionError as error:
        return error
    return dataclasses.replace(response, selection_fingerprint="", snapshot=())


@relaxed
@given(snapshots(), request_fields(), st.data())
def test_every_offered_change_flips_the_verdict(
    snapshot: Snapshot, fields: Document, data: st.DataObject
) -> None:
    books = [compiled(entries, book_id=name) for name, entries in snapshot]
    request = request_of(books, fields)
    known = [(book, entry) for book in books for entry in book.entries]
    if not known:
        return
    book, entry = data.draw(st.sampled_from(known))
    name = EntryName(book_id=book.book_id, entry_id=entry.spec.id)
    explanation = explain_context(books, request, ExplainOptions(entry=name))
    before = run(snapshot, fields)
    assert explanation.complete
    assert explanation.selected == (entry.full_id in before.ids)
    for change in explanation.changes:
        after = run(*edited(snapshot, request, change.edits))
        assert (entry.full_id in after.ids) != explanation.selected
        others = (before.ids ^ after.ids) - {entry.full_id}
        assert change.others == len(others)
        assert set(change.joins) | set(change.leaves) == others
        assert change.tokens == after.tokens - before.tokens


@relaxed
@given(snapshots(), request_fields(), st.data())
def test_brute_force_finds_no_single_change_where_none_is_offered(
    snapshot: Snapshot, fields: Document, data: st.DataObject
) -> None:
    books = [compiled(entries, book_id=name) for name, entries in snapshot]
    request = request_of(books, fields)
    known = [(number, entry) for number, book in enumerate(books) for entry in book.entries]
    if not known:
        return
    number, entry = data.draw(st.sampled_from(known))
    name = EntryName(book_id=books[number].book_id, entry_id=entry.spec.id)
    explanation = explain_context(books, request, ExplainOptions(entry=name))
    trials = NativeTrials(books, request, number, entry)
    flips = 0
    for change in trials.changes(()):
        try:
            after = run(*edited(snapshot, request, trials.steps_of(change.edits)))
        except ValidationFailedError:
            continue
        flips += (entry.full_id in after.ids) != explanation.selected
    singles = [change for change in explanation.changes if change.kind != "pair"]
    assert bool(singles) == bool(flips)


@relaxed
@given(snapshots(), request_fields(), st.data())
def test_a_book_with_changed_entries_selects_as_if_compiled_anew(
    snapshot: Snapshot, fields: Document, data: st.DataObject
) -> None:
    names = [(name, entries) for name, entries in snapshot if entries]
    if not names:
        return
    name, entries = data.draw(st.sampled_from(names))
    index = data.draw(st.integers(0, len(entries) - 1))
    donor = data.draw(st.sampled_from([each for _, many in names for each in many]))
    kept = ("id", "content", "requires")
    mixed = {
        **{key: value for key, value in donor.items() if key not in kept},
        **{key: value for key, value in entries[index].items() if key in kept},
    }
    changed = [*entries[:index], mixed, *entries[index + 1 :]]
    anew = compiled(changed, book_id=name)
    quick = with_entries(compiled(entries, book_id=name), {index: anew.entries[index].spec})
    assert in_bytes(answer_of(anew, fields)) == in_bytes(answer_of(quick, fields))
