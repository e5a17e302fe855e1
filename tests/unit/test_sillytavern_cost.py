"""What a scan costs: in proportion to the texts and to what is found in them."""

from __future__ import annotations

import pytest

from lorewell.engine.sillytavern import budget
from lorewell.engine.sillytavern.activate import activate
from lorewell.engine.sillytavern.checks import EntryChecks
from lorewell.engine.tokens import counter
from world_info import library, names, request, scan


class Words:
    """Counts words, and the characters that it was shown."""

    name = "words"

    def __init__(self) -> None:
        self.shown_chars = 0

    def count(self, text: str) -> int:
        self.shown_chars += len(text)
        return len(text.split())


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the ids of the entries that are checked, as they are."""
    seen: list[str] = []
    check = EntryChecks.check

    def watched(self, lore, state, *, forced):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        seen.append(lore.id)
        return check(self, lore, state, forced=forced)

    monkeypatch.setattr(EntryChecks, "check", watched)
    return seen


def test_only_entries_with_a_key_in_sight_are_checked(checked: list[str]) -> None:
    entries = {str(uid): {"key": [f"key{uid}"], "disable": uid % 2 == 1} for uid in range(500)}
    assert names(scan(entries, ["key8 key9 key10"], explain="selected")) == ["8", "10"]
    assert checked == ["b.8", "b.9", "b.10", "b.9"]


def test_part_of_a_word_wakes_nobody_who_wants_words(checked: list[str]) -> None:
    entries = {
        "word": {"key": ["lamp"]},
        "part": {"key": ["lamp"], "matchWholeWords": False},
        "both": {"key": ["lamp", "amp"], "matchWholeWords": True},
    }
    assert names(scan(entries, ["lamps"], explain="none")) == ["part"]
    assert set(checked) == {"b.part"}


def test_full_ledger_checks_those_too_that_a_check_may_keep_out(checked: list[str]) -> None:
    entries = {"off": {"key": ["x"], "disable": True}, "idle": {"key": ["x"]}}
    scan(entries, ["y"])
    assert checked == ["b.off"]


def test_each_content_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {str(uid): {"constant": True, "content": f"{uid} " * 50} for uid in range(100)}
    book, asked, counter = library(entries), request([]), Words()
    whole = activate(book, asked, counter=counter)
    monkeypatch.setattr(budget, "adds_up", lambda _: True)
    once = Words()
    pieces = activate(book, asked, counter=once)
    assert pieces == whole
    contents = sum(len(entry.content) + 1 for entry in pieces.activated)
    assert once.shown_chars == contents
    assert counter.shown_chars > 40 * contents


def test_a_prefix_of_blanks_does_not_make_it_count_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "adds_up", lambda _: True)
    entries = {str(uid): {"constant": True, "content": "\n  word" * 9} for uid in range(99)}
    counter = Words()
    answer = activate(library(entries), request([]), counter=counter)
    assert answer.budget.used == 99 * 9
    assert counter.shown_chars < 500


def test_texts_are_counted_once_for_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    tokens = counter()
    count = tokens.count

    def watched(text: str) -> int:
        counted.append(text)
        return count(text)

    monkeypatch.setattr(tokens, "count", watched)
    entries = {str(uid): {"key": ["灯塔"], "content": f"鲸油 {uid}。"} for uid in range(20)}
    entries["long"] = {"key": ["灯塔"], "content": "雾" * 3_000}
    books, turn = library(entries), request(["灯塔"], context_tokens=100_000)
    first = activate(books, turn, counter=tokens)
    assert len(counted) >= 21
    counted.clear()
    again = activate(books, turn, counter=tokens)
    assert again.to_json() == first.to_json()
    assert not [text for text in counted if "鲸油" in text and "雾" not in text]
    assert activate(library(entries), turn, counter=tokens).to_json() == first.to_json()


def test_what_is_remembered_of_counted_texts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_MAX_CACHED", 7)
    entries = {str(uid): {"key": ["x"], "content": f"{{{{user}}}} {uid}"} for uid in range(30)}
    books, tokens = library(entries), counter()
    plain = activate(books, request(["x"]), counter=tokens).to_json()
    known = books.cached_counts(tokens)
    assert known is not None
    assert 0 < len(known) <= 7
    assert activate(books, request(["x"]), counter=tokens).to_json() == plain
    assert books.cached_counts(Words()) is None
