"""Mini-tests from bug reports on other lorebook programs, for the native policy as a library.

B and S numbers are those of the project's list of reports. Entries are called A, B, C; content is
`C-<id>` unless it matters.
"""

from __future__ import annotations

import itertools
import random
import time
from typing import Any

import pytest

from lorewell import BookCreate, SelectRequest, compile_book, select
from lorewell.errors import RequiredPlacementUnsupportedError, ValidationFailedError
from lorewell.model.parse import parse_model
from support import (
    BOOK_ID,
    OTHER_BOOK_ID,
    Document,
    ask,
    chosen,
    compiled,
    cost_of,
    count_tokens,
    decision_of,
    entry,
    reasons,
    said,
)

OPEN: Document = {"exclude_recursion": False, "prevent_recursion": False}
AMPLE: Document = {"token_budget": 32_000, "constant_budget_ratio": 1, "max_entries": 200}


def whole(key: str) -> Document:
    return entry("A", key, match_whole_words=True)


MATCHES = [
    ("B01 魔法 within a sentence", whole("魔法"), "她的魔法很强", True),
    ("B01 another word", whole("魔法"), "她会武术", False),
    ("B02 AI inside of words", whole("AI"), "ain't it? Maine is a state", False),
    ("B02 AI alone", whole("AI"), "the AI spoke", True),
    ("B02 AI before a Chinese stop", whole("AI"), "AI。你好", True),
    ("B03 #hello between blanks", whole("#hello"), "say #hello now", True),
    ("B03 #hello in brackets", whole("#hello"), "(#hello)", True),
    ("B03 #helloween", whole("#hello"), "#helloween", False),
    ("B04 Орра before a comma", whole("Орра"), "Орра, иди сюда", True),
    ("B04 Орра in quotes", whole("Орра"), "«Орра»", True),
    ("B04 Орраторий", whole("Орра"), "Орраторий", False),
    ("B11 elf inside of myself", whole("elf"), "myself", False),
    ("B11 elf before a stop", whole("elf"), "an elf.", True),
    ("B11 精灵 inside of 小精灵", whole("精灵"), "小精灵来了", True),
    ("S01 blanks are not deleted", entry("A", "therapist"), "the rapist", False),
    ("S02 comma ends a word", whole("dragon"), "A dragon, then.", True),
    ("S10 é is a letter", whole("caf"), "café", False),
    ("S10 é is a letter, decomposed", whole("caf"), "cafe\u0301", False),
    ("S10 Cyrillic letters are letters", whole("Орра"), "Орраторий", False),
    ("S11 nothing is taken out of keys", entry("A", "foo_bar"), "foo_bar", True),
    ("S11 the underscore is needed", entry("A", "foo_bar"), "foobar", False),
]


@pytest.mark.parametrize(
    ("document", "query", "hit"), [pytest.param(*row[1:], id=row[0]) for row in MATCHES]
)
def test_key_in_text(document: Document, query: str, hit: bool) -> None:  # noqa: FBT001  a column
    response = ask(compiled([document]), query)
    assert chosen(response) == (["A"] if hit else [])
    assert decision_of(response, "A").direct_keyword_hit is hit


def test_b06_blank_keys_are_as_if_absent() -> None:
    book = compiled([entry("A", "", "   "), entry("B", "", "fox")])
    assert chosen(ask(book, "a fox")) == ["B"]
    assert chosen(ask(book, "a hen")) == []


def test_b07_the_deciding_secondary_key_is_named() -> None:
    secondary = "进入调制模式"
    book = compiled(
        [
            entry(
                "A", "我", "你", selective=True, logic="not_any", secondary_keys=["别的", secondary]
            )
        ]
    )
    assert chosen(ask(book, "我来了")) == ["A"]
    response = ask(book, "我想进入调制模式")
    assert chosen(response) == []
    decision = decision_of(response, "A")
    assert decision.reason == "not_triggered"
    assert secondary in (decision.detail or "")


def test_b09_only_the_current_turn_is_scanned() -> None:
    history = [{"role": "assistant", "content": "inn, tower, harbour"}]
    book = compiled([entry("A", "inn"), entry("B", "tower")])
    response = ask(book, "the tower please", history=history, scan_depth=1)
    assert chosen(response) == ["B"]


@pytest.mark.parametrize("prevent", [True, False])
def test_b13_an_index_wakes_only_when_it_may(prevent: bool) -> None:  # noqa: FBT001  both flags
    index = entry("Index", "roster", content="Ann, Bob, Cid", prevent_recursion=prevent)
    book = compiled([index, entry("Full_Ann", "Ann", **OPEN), entry("Full_Bob", "Bob", **OPEN)])
    response = ask(book, "show the roster")
    if prevent:
        assert chosen(response) == ["Index"]
    else:
        assert chosen(response) == ["Full_Ann", "Full_Bob", "Index"]
        for name in ("Full_Ann", "Full_Bob"):
            assert decision_of(response, name).facts.woken_by == f"{BOOK_ID}:1:Index"


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_b14_s09_rounds_are_counted_whatever_the_order_in_the_file(rounds: int) -> None:
    chain = [
        entry("A", "alice", content="knows bobby", **OPEN),
        entry("B", "bobby", content="knows toby", **OPEN),
        entry("C", "toby", **OPEN),
    ]
    for order in itertools.permutations(chain):
        response = ask(compiled(order), "alice", max_recursion_rounds=rounds)
        assert chosen(response) == ["A", "B", "C"][: rounds + 1]


def test_b16_recursion_crosses_books() -> None:
    books = [
        compiled([entry("A", "gate", content="the warden", **OPEN)]),
        compiled([entry("B", "warden", **OPEN)], book_id=OTHER_BOOK_ID),
    ]
    assert chosen(ask(books, "gate")) == ["A", "B"]
    assert chosen(ask(books[::-1], "gate")) == ["A", "B"]


def test_b17_an_entry_dropped_for_budget_has_still_woken_others() -> None:
    """The native rule: recursion ends before any budget decision (docs/rules/native.md §8.1)."""
    long = entry("A", "gate", content="the warden " + "filler " * 500, **OPEN)
    response = ask(compiled([long, entry("B", "warden", **OPEN)]), "gate", token_budget=50)
    assert reasons(response) == {"A": "budget_dropped", "B": "recursion"}


def test_b19_constants_do_not_escape_the_budget() -> None:
    entries = [entry(f"E{i}", content="word " * 40 + ".", constant=True) for i in range(5)]
    response = ask(compiled(entries), "now", token_budget=1)
    assert response.blocks == ()
    assert response.token_count <= 1
    assert set(reasons(response).values()) == {"budget_dropped"}


def test_b20_a_larger_budget_adds_nothing_that_is_not_triggered() -> None:
    entries = [entry(f"E{i}", "lamp" if i < 3 else f"other{i}") for i in range(10)]
    need = sum(map(cost_of, entries[:3]))
    for budget in (need, 192, 800, 8000):
        assert chosen(ask(compiled(entries), "a lamp", token_budget=budget)) == ["E0", "E1", "E2"]


def test_b21_the_same_three_fit_every_time() -> None:
    entries = [entry(f"E{i}", constant=True) for i in range(6)]
    budget = sum(map(cost_of, entries[:3]))
    for run in range(10):
        shuffled = random.Random(run).sample(entries, 6)
        response = ask(compiled(shuffled), "now", token_budget=budget, constant_budget_ratio=1)
        assert chosen(response) == ["E0", "E1", "E2"]
        assert {reasons(response)[f"E{i}"] for i in (3, 4, 5)} == {"budget_dropped"}


def test_b23_s12_a_dropped_entry_shows_its_figures() -> None:
    big = entry("A", "lamp", content="A lamp that burns all night. " * 20 + ".", priority=1)
    small, silent = entry("B", "lamp"), entry("C", "absent")
    response = ask(compiled([big, small, silent]), "the Lamp", token_budget=100)
    dropped = decision_of(response, "A")
    assert (dropped.reason, dropped.cost) == ("budget_dropped", cost_of(big))
    facts = dropped.facts
    assert (facts.key, facts.message, facts.span) == ("lamp", 0, (4, 8))
    assert (facts.tokens, facts.room) == (cost_of(big), 100)
    assert chosen(response) == ["B"]  # the first overflow does not end the selection
    quiet = decision_of(response, "C")
    assert quiet.reason == "not_triggered"
    assert not quiet.facts or not any(value is not None for value in quiet.facts)


@pytest.mark.parametrize(
    "why", [{"constant": True}, {"keys": ["lamp"]}, {"keys": ["bell"], **OPEN}], ids=str
)
def test_b24_blocks_and_decisions_agree_on_a_dropped_entry(why: Document) -> None:
    waker = entry("W", "lamp", content="bell", priority=9, **OPEN)
    big = entry("A", **{"content": "word " * 100 + ".", **why})
    response = ask(compiled([waker, big]), "lamp", token_budget=cost_of(waker) + 10)
    assert chosen(response) == ["W"]
    assert not decision_of(response, "A").selected
    assert "word word" not in response.context


LIMITS: list[tuple[str, int | None, int | None]] = [
    # field, value, number of blocks; None = refused
    ("token_budget", None, None),
    ("token_budget", -1, None),
    ("token_budget", 0, 0),
    ("token_budget", 5, 0),
    ("max_entries", None, None),
    ("max_entries", -1, None),
    ("max_entries", 0, None),
    ("max_entries", 5, 5),
    ("scan_depth", None, None),
    ("scan_depth", -1, None),
    ("scan_depth", 0, 0),
    ("scan_depth", 5, 8),
]


@pytest.mark.parametrize(("field", "value", "blocks"), LIMITS)
def test_b25_null_zero_negative_and_small_limits_differ(
    field: str, value: int | None, blocks: int | None
) -> None:
    book = compiled([entry(f"E{i}", "lamp") for i in range(8)])
    if blocks is None:
        with pytest.raises(ValidationFailedError) as caught:
            ask(book, "lamp", **{field: value})
        assert caught.value.faults[0].pointer == f"/{field}"
    else:
        assert len(ask(book, "lamp", **{field: value}).blocks) == blocks


def test_b36_nothing_stays_from_an_earlier_turn() -> None:
    book = compiled([entry("A", "movie", position="at_depth", depth=1)])
    first = ask(book, "movie")
    assert [(block.entry_id, block.depth) for block in first.blocks] == [("A", 1)]
    later = ask(book, "and now?", history=said("movie", "yes", "no", "well", "hm"))
    assert later.blocks == ()
    other = compiled([entry("B", "now")], book_id=OTHER_BOOK_ID)
    assert "C-A" not in ask(other, "and now?").context


POSITIONS = [
    *("before_character", "after_character", "before_examples", "after_examples"),
    *("author_note_top", "author_note_bottom", "at_depth", "outlet"),
]


def placed(position: str, **fields: object) -> Document:
    outlet = "slot" if position == "outlet" else None
    return entry(position, constant=True, position=position, outlet_name=outlet, **fields)


def test_b37_every_position_is_placed_or_refused_aloud() -> None:
    book = compiled([placed(position) for position in POSITIONS])
    everything = {"positions": POSITIONS, "outlets": ["slot"]}
    response = ask(book, "now", placement_capabilities=everything, **AMPLE)
    assert chosen(response) == POSITIONS
    notes = ["author_note_top", "author_note_bottom"]
    without = {**everything, "positions": [each for each in POSITIONS if each not in notes]}
    response = ask(book, "now", placement_capabilities=without, **AMPLE)
    assert len(response.blocks) == 6
    assert [reasons(response)[note] for note in notes] == ["placement_unsupported"] * 2
    demanding = compiled([placed("author_note_top", required=True)])
    with pytest.raises(RequiredPlacementUnsupportedError) as caught:
        ask(demanding, "now", placement_capabilities=without, **AMPLE)
    assert caught.value.details["entry_id"] == "author_note_top"


def test_b38_equal_depth_and_order_end_with_the_id() -> None:
    deep: Document = {"constant": True, "position": "at_depth", "depth": 2}
    entries = [entry("b", order=20, **deep), entry("a", order=10, **deep)]
    book = compiled([*entries, entry("c", order=10, **deep)])
    for _ in range(50):
        assert chosen(ask(book, "now")) == ["a", "c", "b"]


def test_b42_two_books_of_one_name_stay_two() -> None:
    books = [
        compiled([entry("A", "lamp")], name="Test"),
        compiled([entry("B", "lamp"), entry("C", "lamp")], name="Test", book_id=OTHER_BOOK_ID),
    ]
    response = ask(books, "lamp")
    assert chosen(response) == ["A", "B", "C"]
    assert [item.entry_count for item in response.snapshot] == [1, 2]


def test_b43_the_fault_names_the_third_entry() -> None:
    bad: Any = {**entry("C"), "keys": 7}
    with pytest.raises(ValidationFailedError) as caught:
        parse_model(BookCreate, {"name": "Book", "entries": [entry("A"), entry("B"), bad]})
    assert [fault.pointer for fault in caught.value.faults] == ["/entries/2/keys"]


def test_b44_constant_without_keys_is_selected() -> None:
    assert chosen(ask(compiled([entry("A", constant=True)]), "now")) == ["A"]


def test_b54_a_large_book_and_a_long_chat_are_quick() -> None:
    """Reported for 150 ms; ten times that is the margin for a busy machine."""
    entries = [entry(f"E{i}", *(f"name{i}x{j}" for j in range(5))) for i in range(500)]
    wanted = range(0, 500, 9)
    lines = [" ".join(f"filler{i}" for i in range(60)) for _ in range(100)]
    for index in wanted:
        lines[index % 100] += f" name{index}x{index % 5}"
    book = compiled(entries)
    start = time.perf_counter()
    response = ask(book, "now", history=said(*lines), scan_depth=100, **AMPLE)
    elapsed_ms = (time.perf_counter() - start) * 1000
    # The query is one of the 100 messages, so the oldest line is not read.
    assert set(chosen(response)) == {f"E{i}" for i in wanted if i % 100 != 0}
    assert elapsed_ms < 1500


def test_s03_exclusion_looks_at_the_window_as_one_text() -> None:
    rule = entry("A", "k", selective=True, logic="not_any", secondary_keys=["x", "y"])
    assert chosen(ask(compiled([rule]), "k", history=said("x", "y"))) == []
    assert chosen(ask(compiled([rule]), "k", history=said("n", "n"))) == ["A"]


def test_s06_one_percent_fires_about_once_in_a_hundred() -> None:
    entries = [{"content": "x", "keys": ["k"], "probability": 1} for _ in range(2_000)]
    book = compiled(entries)
    fired = 0
    for seed in range(10):
        response = ask(book, "k", seed=f"seed-{seed}", token_budget=0)
        fired += sum(each.reason != "probability" for each in response.decisions)
    assert 130 <= fired <= 270


def test_s07_texts_come_whole_or_not_at_all() -> None:
    texts = ["word " * 30 + f"end{i}." for i in range(6)]
    entries = [entry(f"E{i}", content=text, constant=True) for i, text in enumerate(texts)]
    response = ask(compiled(entries), "now", token_budget=250, constant_budget_ratio=1)
    assert 0 < len(response.blocks) < len(texts)
    assert {block.content for block in response.blocks} <= set(texts)
    assert count_tokens(response.context) <= 250


def test_s08_two_books_may_use_one_entry_id() -> None:
    books = [compiled([entry("0", "fox")]), compiled([entry("0", "owl")], book_id=OTHER_BOOK_ID)]
    response = ask(books, "fox and owl")
    assert [block.id for block in response.blocks] == [f"{BOOK_ID}:1:0", f"{OTHER_BOOK_ID}:1:0"]


def test_requests_are_read_strictly() -> None:
    """A whole number in decimal form is no integer (docs/rules/native.md §3)."""
    with pytest.raises(ValidationFailedError):
        parse_model(
            SelectRequest, {"books": [{"book_id": BOOK_ID}], "query": "q", "token_budget": 1.0}
        )


def test_the_entry_that_is_named_does_not_depend_on_file_order() -> None:
    root = {"id": "r", "content": "r", "constant": True, "requires": ["a", "b"]}
    members = [{"id": name, "content": name, "enabled": False} for name in ("a", "b")]
    details = set()
    for entries in ([root, *members], [*reversed(members), root]):
        book = compile_book(BookCreate.model_validate({"name": "B", "entries": entries}))
        answer = select([book], SelectRequest(books=[book.ref], query="x"))
        details.add(next(d.detail for d in answer.decisions if d.entry_id == "r"))
    assert details == {"a: disabled"}
