"""Entries of SillyTavern_replica, taken and changed: what is given is there, and no more."""

from __future__ import annotations

import copy

from hypothesis import assume, given

from lorewell.errors import LorewellError
from lorewell.formats.replica_entries import change_entry, parse_entry, show_entry
from lorewell.model import Entry
from lorewell.model.parse import parse_model
from property.strategies import entry_lists
from property.test_replica_books import RAW
from support import Document


def taken(raw: Document) -> Entry:
    try:
        return parse_entry(raw)
    except LorewellError:
        assume(False)  # noqa: FBT003  hypothesis' way; a drawn text can't be stored
        raise


@given(RAW)
def test_an_entry_is_shown_as_it_was_given(raw: Document) -> None:
    named = {**raw, "uid": "灯"}
    before = copy.deepcopy(named)
    assert show_entry(taken(named)) == before == named


@given(RAW, RAW)
def test_a_change_is_what_taking_the_whole_would_give(raw: Document, given_: Document) -> None:
    entry = taken({**raw, "uid": "灯"})
    whole = {**raw, **given_, "uid": "灯"}
    changed = taken(whole)
    assert change_entry(entry, given_) == changed
    assert show_entry(changed) == whole


@given(entry_lists(max_size=2))
def test_a_change_keeps_what_the_form_can_not_say(listed: list[Document]) -> None:
    """Of native entries too."""
    for document in listed:
        entry = parse_model(Entry, document)
        assert change_entry(entry, {}) == entry
        changed = change_entry(entry, {"comment": "灯", "theirs": 1})
        assert changed == entry.model_copy(update={"title": "灯"})
