"""The acceptance cases of docs/rules/native.md §16 that need the library alone.

The number of the case leads every test id. Every expectation is the text of the case, or of the
section that it points to. Case 71 is every case of spec14.json. In other modules: 45, 46, 108
(unit/test_regex_keys.py), 49, 78-83, 109 (test_acceptance_recall.py), 93, 97-100, 106
(unit/test_import_books.py, unit/test_png.py); in the service's: 17-34, 76, 84-96, 101-105, 110.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from typing import Any

import pytest

from golden.cases import HERE, Case, as_params, compare, load_cases
from lorewell import BookCreate, SelectRequest, compile_book
from lorewell.errors import InvalidDependencyError, SelectionError, ValidationFailedError
from lorewell.model.parse import parse_model
from support import (
    BOOK_ID,
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

# --- 1-16: the model ---------------------------------------------------------------------------

EXACT = 1_000_000


def a_book(*entries: Document, **fields: object) -> Document:
    return {"name": "Book", "entries": list(entries), **fields}


def one(**fields: object) -> Document:
    return a_book(entry("a", **fields))


def names(count: int) -> list[str]:
    return [f"n{index}" for index in range(count)]


def needing(count: int) -> Document:
    return a_book(entry("a", requires=names(count)), *map(entry, names(count)))


TRUE = {"path": "x", "op": "exists"}

GOOD_BOOKS = [
    ("1 name of 300", a_book(name="灯" * 300)),
    ("2 description of 10,000", a_book(description="d" * 10_000)),
    ("3 entries: 5,000", a_book(*({"content": ""} for _ in range(5_000)))),
    ("4 id of 150", a_book(entry("i" * 150))),
    ("4 title of 500", one(title="t" * 500)),
    ("4 content of 200,000", one(content="c" * 200_000)),
    ("5 keys: 200", a_book(entry("a", *names(200)))),
    ("5 key of 500", a_book(entry("a", "k" * 500))),
    ("5 secondary keys: 200", one(secondary_keys=names(200))),
    ("5 secondary key of 500", one(secondary_keys=["k" * 500])),
    ("6 conditions: 20", one(conditions=[TRUE] * 20)),
    ("6 requires: 20", needing(20)),
    ("7 priority highest", one(priority=EXACT)),
    ("7 priority lowest", one(priority=-EXACT)),
    ("7 order highest", one(order=EXACT)),
    ("7 order lowest", one(order=-EXACT)),
    ("8 probability 0", one(probability=0)),
    ("8 probability 100", one(probability=100)),
    ("8 probability 12.5", one(probability=12.5)),
    ("9 scan_depth 100", one(scan_depth=100)),
    ("9 scan_depth null", one(scan_depth=None)),
    ("16 outlet with a name", one(position="outlet", outlet_name="slot")),
]

BAD_BOOKS = [
    ("1 name of 301", a_book(name="灯" * 301), "/name"),
    ("2 description of 10,001", a_book(description="d" * 10_001), "/description"),
    ("3 entries: 5,001", a_book(*({"content": ""} for _ in range(5_001))), "/entries"),
    ("4 id of 151", a_book(entry("i" * 151)), "/entries/0/id"),
    ("4 title of 501", one(title="t" * 501), "/entries/0/title"),
    ("4 content of 200,001", one(content="c" * 200_001), "/entries/0/content"),
    ("5 keys: 201", a_book(entry("a", *names(201))), "/entries/0/keys"),
    ("5 key of 501", a_book(entry("a", "k" * 501)), "/entries/0/keys/0"),
    ("5 secondary keys: 201", one(secondary_keys=names(201)), "/entries/0/secondary_keys"),
    ("5 secondary key of 501", one(secondary_keys=["k" * 501]), "/entries/0/secondary_keys/0"),
    ("6 conditions: 21", one(conditions=[TRUE] * 21), "/entries/0/conditions"),
    ("6 requires: 21", needing(21), "/entries/0/requires"),
    ("7 priority too high", one(priority=EXACT + 1), "/entries/0/priority"),
    ("7 priority too low", one(priority=-EXACT - 1), "/entries/0/priority"),
    ("7 order too high", one(order=EXACT + 1), "/entries/0/order"),
    ("7 order too low", one(order=-EXACT - 1), "/entries/0/order"),
    ("8 probability -1", one(probability=-1), "/entries/0/probability"),
    ("8 probability 101", one(probability=101), "/entries/0/probability"),
    ("9 scan_depth 101", one(scan_depth=101), "/entries/0/scan_depth"),
    ("10 unknown field in the book", a_book(nope=1), "/nope"),
    ("10 unknown field in an entry", one(nope=1), "/entries/0/nope"),
    (
        "10 unknown field in a condition",
        one(conditions=[{**TRUE, "nope": 1}]),
        "/entries/0/conditions/0/nope",
    ),
    ("11 tenant_id in the body", a_book(tenant_id="t"), "/tenant_id"),
    ("13 duplicate ids", a_book(entry("a"), entry("a")), "/entries/1/id"),
    (
        "13 generated id equals an explicit one",
        a_book({"content": "x"}, entry("entry-0")),
        "/entries/1/id",
    ),
    ("16 outlet without a name", one(position="outlet"), "/entries/0/outlet_name"),
    ("16 name without an outlet", one(outlet_name="slot"), "/entries/0/outlet_name"),
]


def table(rows: list[Any]) -> list[Any]:
    """Turn rows whose first member is the case's name into pytest parameters."""
    return [pytest.param(*row[1:], id=row[0]) for row in rows]


@pytest.mark.parametrize("document", table(GOOD_BOOKS))
def test_book_at_its_bounds_is_taken(document: Document) -> None:
    book = compile_book(parse_model(BookCreate, document), book_id=BOOK_ID)
    assert book.entry_count == len(document["entries"])


@pytest.mark.parametrize(("document", "pointer"), table(BAD_BOOKS))
def test_book_beyond_its_bounds_is_refused_at_the_place(document: Document, pointer: str) -> None:
    with pytest.raises(ValidationFailedError) as caught:
        parse_model(BookCreate, document)
    assert caught.value.code == "validation_error"
    assert pointer in {fault.pointer for fault in caught.value.faults}


def test_12_entries_without_ids_are_named_by_their_place() -> None:
    book = parse_model(BookCreate, a_book({"content": "x"}, {"content": "y"}))
    assert [each.id for each in book.entries] == ["entry-0", "entry-1"]


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([entry("a", requires=["b"])], id="14 missing"),
        pytest.param([entry("a", requires=["a"])], id="14 self"),
        pytest.param([entry("a", requires=["b"]), entry("b", requires=["a"])], id="14 circle"),
    ],
)
def test_broken_requires_is_refused(entries: list[Document]) -> None:
    with pytest.raises(InvalidDependencyError) as caught:
        compiled(entries)
    assert caught.value.code == "invalid_dependency"


# docs/rules/native.md §3.2, the column of defaults; of later fields no default is hashed.
MATERIALISED = {
    "id": "entry-0",
    "title": "",
    "content": "Lamp.",
    "enabled": True,
    "constant": False,
    "required": False,
    "keys": [],
    "secondary_keys": [],
    "selective": False,
    "logic": "and_any",
    "case_sensitive": False,
    "match_whole_words": False,
    "probability": 100,
    "scan_depth": None,
    "conditions": [],
    "requires": [],
    "priority": 0,
    "order": 0,
    "conflict_key": None,
    "audience": ["actor"],
    "kind": "lore",
    "position": "before_character",
    "depth": 0,
    "role": "system",
    "outlet_name": None,
    "exclude_recursion": True,
    "prevent_recursion": True,
    "runtime_requirements": [],
    "metadata": {},
    "source": {},
}


def test_15_every_default_is_materialised() -> None:
    """The stored form and the content hash (§3.5) both hold every default."""
    book = parse_model(BookCreate, {"name": "Bücher", "entries": [{"content": "Lamp."}]})
    (stored,) = book.model_dump(mode="json")["entries"]
    later = {
        "key_expression": None,
        "conditions_text": [],
        "recall": True,
        "sillytavern": None,
        "replica": None,
    }
    assert stored == {**MATERIALISED, **later}
    whole = {"name": "Bücher", "description": "", "metadata": {}, "entries": [MATERIALISED]}
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    expected = hashlib.sha256(text.encode()).hexdigest()
    assert compile_book(book, book_id=BOOK_ID).content_hash == expected


# --- 75 and the requests of 10 -----------------------------------------------------------------


def a_request(**fields: object) -> Document:
    return {"books": [{"book_id": BOOK_ID}], "query": "q", **fields}


def refs(count: int) -> list[Document]:
    return [{"book_id": f"00000000-0000-4000-8000-{index:012}"} for index in range(count)]


GOOD_REQUESTS = [
    ("75 books: 20", a_request(books=refs(20))),
    ("75 query of 8,000", a_request(query="q" * 8_000)),
    ("75 history: 100", a_request(history=said(*names(100)))),
    ("75 history item of 16,000", a_request(history=said("h" * 16_000))),
]
BAD_REQUESTS = [
    ("10 unknown field in the request", a_request(nope=1), "/nope"),
    ("75 books: 21", a_request(books=refs(21)), "/books"),
    ("75 the same book twice", a_request(books=refs(1) * 2), "/books/1/book_id"),
    ("75 query of 8,001", a_request(query="q" * 8_001), "/query"),
    ("75 history: 101", a_request(history=said(*names(101))), "/history"),
    (
        "75 history item of 16,001",
        a_request(history=said("ok", "h" * 16_001)),
        "/history/1/content",
    ),
]


@pytest.mark.parametrize("document", table(GOOD_REQUESTS))
def test_request_at_its_bounds_is_taken(document: Document) -> None:
    parse_model(SelectRequest, document)


@pytest.mark.parametrize(("document", "pointer"), table(BAD_REQUESTS))
def test_request_beyond_its_bounds_is_refused(document: Document, pointer: str) -> None:
    with pytest.raises(ValidationFailedError) as caught:
        parse_model(SelectRequest, document)
    assert pointer in {fault.pointer for fault in caught.value.faults}


# --- 35-70: one table of entries, request and the reason of every entry, or the error's code ------

Outcome = dict[str, str] | str
Row = tuple[str, list[Document], Document, Outcome]

ALWAYS: Document = {"constant": True}
MUST: Document = {"required": True}
NOTE: Document = {"position": "author_note_top"}
OPEN: Document = {"exclude_recursion": False, "prevent_recursion": False}
IN, OUT = "keyword", "not_triggered"


def hit(name: str, key: str, query: str, reason: str, **fields: object) -> Row:
    return (name, [entry("a", key, **fields)], {"query": query}, {"a": reason})


def window(name: str, history: list[Document], expected: str, depth: int, **fields: object) -> Row:
    request = {"history": history, "query": "now", "scan_depth": depth}
    return (name, [entry("a", "lamp", **fields)], request, {"a": expected})


BASIC: list[Row] = [
    ("35 no keys, no flags", [entry("a")], {}, {"a": OUT}),
    ("36 constant needs no keyword", [entry("a", **ALWAYS)], {}, {"a": "constant"}),
    (
        "37 required and constant is required, outside of the cap",
        [entry("a", **MUST, **ALWAYS), entry("b", **ALWAYS)],
        {"constant_budget_ratio": 0},
        {"a": "required", "b": "constant_budget_dropped"},
    ),
    ("38 required but disabled", [entry("a", **MUST, enabled=False)], {}, {"a": "disabled"}),
    (
        "39 required but a condition fails",
        [entry("a", **MUST, conditions=[TRUE])],
        {},
        {"a": "condition_failed"},
    ),
    (
        "40 required at a position that is not offered",
        [entry("a", **MUST, **NOTE)],
        {},
        "required_placement_unsupported",
    ),
    (
        "40 optional at a position that is not offered",
        [entry("a", **ALWAYS, **NOTE)],
        {},
        {"a": "placement_unsupported"},
    ),
    window("42 key in the 4th-last message", said("lamp", "x", "x"), IN, 4),
    window("42 key in the 5th-last message", said("lamp", "x", "x", "x"), OUT, 4),
    window("43 entry depth 6 over 4", said("lamp", *"xxxx"), IN, 4, scan_depth=6),
    ("43 entry depth 0 over 4", [entry("a", "lamp", scan_depth=0)], {"query": "lamp"}, {"a": OUT}),
    window("43 entry depth 2 over 0", said("lamp"), IN, 0, scan_depth=2),
    hit("44 case is folded", "King", "the KING", IN),
    hit("44 case counts", "King", "the KING", OUT, case_sensitive=True),
    hit("44 case counts and agrees", "King", "the King", IN, case_sensitive=True),
    hit("44 king inside of kingdom", "king", "kingdom", IN),
    hit("44 king is no whole word of kingdom", "king", "kingdom", OUT, match_whole_words=True),
    hit("44 king is a whole word", "king", "the king.", IN, match_whole_words=True),
    hit("44 灯塔 is whole in a sentence", "灯塔", "他走进灯塔大门", IN, match_whole_words=True),
    hit("46 /etc/passwd is plain", "/etc/passwd", "cat /etc/passwd now", IN),
    hit("48 selective off", "k", "k", IN, secondary_keys=["absent"], logic="and_all"),
    (
        "50 dependency without a trigger",
        [entry("a", "now", requires=["b"]), entry("b")],
        {},
        {"a": IN, "b": "dependency"},
    ),
    (
        "51 dependency disabled",
        [entry("a", "now", requires=["b"]), entry("b", enabled=False)],
        {},
        {"a": "dependency_unavailable", "b": "disabled"},
    ),
    (
        "51 dependency of a required one disabled",
        [entry("a", **MUST, requires=["b"]), entry("b", enabled=False)],
        {},
        "required_dependency_unavailable",
    ),
    (
        "52 higher priority is kept",
        [entry("a", "now", conflict_key="c"), entry("b", "now", conflict_key="c", priority=1)],
        {},
        {"a": "conflict", "b": IN},
    ),
    (
        "52 clash within one package",
        [entry("a", "now", conflict_key="c", requires=["b"]), entry("b", conflict_key="c")],
        {},
        {"a": "conflict", "b": OUT},
    ),
    (
        "52 clash of required ones",
        [entry("a", **MUST, conflict_key="c"), entry("b", **MUST, conflict_key="c")],
        {},
        "required_conflict",
    ),
    (
        "58 package of two beyond max_entries 1",
        [entry("a", "now", requires=["b"]), entry("b")],
        {"max_entries": 1},
        {"a": "max_entries", "b": OUT},
    ),
    ("59 budget 0", [entry("a", "now")], {"token_budget": 0}, {"a": "budget_dropped"}),
    ("59 budget 0, required", [entry("a", **MUST)], {"token_budget": 0}, "budget_exceeded"),
    (
        "60 ratio 0",
        [entry("a", **ALWAYS)],
        {"constant_budget_ratio": 0},
        {"a": "constant_budget_dropped"},
    ),
    ("60 ratio 1", [entry("a", **ALWAYS)], {"constant_budget_ratio": 1}, {"a": "constant"}),
    (
        "61 native defaults do not recurse",
        [entry("a", "now", content="bell"), entry("b", "bell")],
        {},
        {"a": IN, "b": OUT},
    ),
    (
        "61 the waker alone is open",
        [entry("a", "now", content="bell", prevent_recursion=False), entry("b", "bell")],
        {},
        {"a": IN, "b": OUT},
    ),
    (
        "61 the woken alone is open",
        [entry("a", "now", content="bell"), entry("b", "bell", exclude_recursion=False)],
        {},
        {"a": IN, "b": OUT},
    ),
    (
        "61 both are open",
        [
            entry("a", "now", content="bell", prevent_recursion=False),
            entry("b", "bell", exclude_recursion=False),
        ],
        {},
        {"a": IN, "b": "recursion"},
    ),
    (
        "64 two entries name each other",
        [entry("a", "bell", content="horn", **OPEN), entry("b", "horn", content="bell", **OPEN)],
        {"query": "bell", "max_recursion_rounds": 5},
        {"a": IN, "b": "recursion"},
    ),
    ("65 probability 0", [entry("a", **ALWAYS, probability=0)], {}, {"a": "probability"}),
    ("65 probability 100", [entry("a", **ALWAYS, probability=100)], {}, {"a": "constant"}),
    (
        "66 {{char}} is not given",
        [entry("a", **ALWAYS, content="{{char}} waits")],
        {"template_vars": {"user": "Ash"}},
        {"a": "template_missing"},
    ),
    (
        "107 one fails on position, another on budget",
        [entry("a", **MUST, priority=9), entry("b", **MUST, **NOTE)],
        {"token_budget": 0},
        "required_placement_unsupported",
    ),
]

# The eight filters in the order of §8.2, each as fields that it alone refuses.
FILTERS: dict[str, Document] = {
    "disabled": {"enabled": False},
    "audience_mismatch": {"audience": ["planner"]},
    "condition_failed": {"conditions": [TRUE]},
    "runtime_unsupported": {"kind": "template"},
    "probability": {"probability": 0},
    "template_missing": {"content": "{{char}}{{user}}"},
    "empty_content": {"content": "{{char}} \u3000"},
    "placement_unsupported": NOTE,
}


def filter_row(*which: str) -> Row:
    """An entry that all these filters refuse records the earliest; later fields give way."""
    fields: Document = {}
    for reason in reversed(which):
        fields |= FILTERS[reason]
    request = {"template_vars": {"char": ""}}
    name = f"41 {' and '.join(which)}"
    return (name, [entry("a", **ALWAYS, **fields)], request, {"a": which[0]})


FILTERED = [filter_row(reason) for reason in FILTERS]
FILTERED += [filter_row(*pair) for pair in itertools.combinations(FILTERS, 2)]

SECONDARY_HITS = {"none": "k", "some": "k x", "all": "k x y"}
LOGIC = {  # docs/rules/native.md §3.2: which of none, some, all let the entry in
    "and_any": {"some", "all"},
    "and_all": {"all"},
    "not_any": {"none"},
    "not_all": {"none", "some"},
}
LOGICS: list[Row] = [
    hit(
        f"47 {logic}, {word} of the secondary keys hit",
        "k",
        query,
        IN if word in allowed else OUT,
        selective=True,
        secondary_keys=["x", "y"],
        logic=logic,
    )
    for logic, allowed in LOGIC.items()
    for word, query in SECONDARY_HITS.items()
]
LOGICS += [
    hit(f"47 {logic} without the primary key", "k", "x", OUT, selective=True, logic=logic, **keys)
    for logic in LOGIC
    for keys in ({"secondary_keys": ["x", "y"]}, {"secondary_keys": ["y"]})
]

ROLLS = [  # test vectors of docs/rules/native.md §8.2
    ("0", "entry-0", 83.298553867),
    ("turn-1", "ferry-bell", 38.146606453),
    ("seed", "a", 3.988735518),
    ("种子", "条目", 34.086151803),
]
CHANCES: list[Row] = [
    (
        f"65 roll of {seed}, {entry_id} {word}",
        [entry(entry_id, **ALWAYS, probability=roll + step)],
        {"seed": seed},
        {entry_id: reason},
    )
    for seed, entry_id, roll in ROLLS
    for word, step, reason in [("below", 1e-8, "constant"), ("above", -1e-8, "probability")]
]


def lamps(entry_id: str, tokens: int) -> Document:
    """Return a constant entry that costs exactly this many tokens."""
    bare = cost_of({"id": entry_id, "content": "lamp"})
    made = entry(entry_id, content="lamp" + " lamp" * (tokens - bare), **ALWAYS)
    assert cost_of(made) == tokens
    return made


LONG = entry("long", "now", content="A long line about the bell. " * 9 + ".", priority=1, **OPEN)
SHORT = entry("short", "now", content="Short.")
WOKEN = entry("woken", "bell", content="Short.", **OPEN)
ROOT, SHARED = entry("c1", requires=["h"], **ALWAYS), entry("h")
SECOND = entry("c2", requires=["h"], **ALWAYS)
PACKAGES = [ROOT, SECOND, SHARED]
ALL_THREE = sum(map(cost_of, PACKAGES))

BUDGETS: list[Row] = [
    ("53 exactly equal", [SHORT], {"token_budget": cost_of(SHORT)}, {"short": IN}),
    (
        "53 one less",
        [SHORT],
        {"token_budget": cost_of(SHORT) - 1},
        {"short": "budget_dropped"},
    ),
    (
        "54 the first is too big, a later one fits",
        [LONG, SHORT],
        {"token_budget": cost_of(LONG) - 1},
        {"long": "budget_dropped", "short": IN},
    ),
    (
        "55 the cap of 2400 at 0.35 holds 840",
        [lamps("a", 840)],
        {"token_budget": 2400, "constant_budget_ratio": 0.35},
        {"a": "constant"},
    ),
    (
        "55 the cap of 2400 at 0.35 does not hold 841",
        [lamps("a", 841)],
        {"token_budget": 2400, "constant_budget_ratio": 0.35},
        {"a": "constant_budget_dropped"},
    ),
    (
        "56 a constant over total and cap",
        [lamps("a", 101)],
        {"token_budget": 100},
        {"a": "budget_dropped"},
    ),
    (
        "57 a shared dependency is charged once",
        PACKAGES,
        {"token_budget": ALL_THREE, "constant_budget_ratio": 1},
        {"c1": "constant", "c2": "constant", "h": "dependency"},
    ),
    (
        "57 it is charged",
        PACKAGES,
        {"token_budget": 2 * (ALL_THREE - 1), "constant_budget_ratio": 0.5},
        {"c1": "constant", "c2": "constant_budget_dropped", "h": "dependency"},
    ),
    (
        "57 a required package is never charged",
        [entry("r", requires=["c"], **MUST), entry("c", **ALWAYS)],
        {"constant_budget_ratio": 0},
        {"r": "required", "c": "constant"},
    ),
    (
        "60 ratio 1 leaves the total alone",
        [lamps("a", 100), lamps("b", 101)],
        {"token_budget": 200, "constant_budget_ratio": 1},
        {"a": "constant", "b": "budget_dropped"},
    ),
    (
        "63 dropped for budget, yet it woke another",
        [LONG, WOKEN],
        {"token_budget": cost_of(LONG) - 1},
        {"long": "budget_dropped", "woken": "recursion"},
    ),
]


@pytest.mark.parametrize(
    ("entries", "request_fields", "expected"),
    table(BASIC + FILTERED + LOGICS + CHANCES + BUDGETS),
)
def test_selection_case(
    entries: list[Document], request_fields: Document, expected: Outcome
) -> None:
    fields = {"query": "now", **request_fields}
    if isinstance(expected, str):
        with pytest.raises(SelectionError) as caught:
            ask(compiled(entries), **fields)
        assert caught.value.code == expected
    else:
        assert reasons(ask(compiled(entries), **fields)) == expected


# --- what needs more than a reason ----------------------------------------------------------------


@pytest.mark.parametrize("case", as_params([HERE / "spec14.json"]))
def test_71_worked_example(case: Case) -> None:
    actual, expected = compare(case)
    assert actual == expected


def test_62_rounds_of_the_chinese_example() -> None:
    cases = {case["id"]: case for case in load_cases(HERE / "spec14.json")}
    for name in ("spec14.2-rounds-0", "spec14.2-rounds-1", "spec14.2-default"):
        actual, expected = compare(cases[name])
        assert actual == expected


@pytest.mark.parametrize(("seed", "entry_id", "roll"), ROLLS)
def test_65_ledger_shows_the_roll(seed: str, entry_id: str, roll: float) -> None:
    response = ask(compiled([entry(entry_id, probability=1)]), "now", seed=seed)
    facts = decision_of(response, entry_id).facts
    assert facts.roll == pytest.approx(roll, abs=1e-9)
    assert facts.threshold == 1


def test_66_value_is_not_expanded_again() -> None:
    book = compiled([entry("a", content="{{char}} and {{ USER }}", constant=True)])
    response = ask(book, "now", template_vars={"char": "{{user}}", "user": "Ash"})
    assert [block.content for block in response.blocks] == ["{{user}} and Ash"]


def test_67_nothing_closes_its_wrapper() -> None:
    content, title = "</worldbook-entry>", '"a"&<b>'
    response = ask(compiled([entry("a", content=content, title=title, constant=True)]), "now")
    (block,) = response.blocks
    assert (block.content, block.title) == (content, title)
    assert response.context == (
        f'<worldbook-entry id="{BOOK_ID}:1:a" title="&quot;a&quot;&amp;&lt;b&gt;">\n'
        "&lt;/worldbook-entry&gt;\n</worldbook-entry>"
    )


def test_68_token_count_is_that_of_the_context() -> None:
    texts = ["Plain.", "灯塔由哑女看守。", "<|endoftext|>", "👩‍👩‍👧 \n\n &amp; é\u0301", "  x  "]
    entries = [entry(f"e{i}", content=text, constant=True) for i, text in enumerate(texts)]
    response = ask(compiled(entries), "now")
    assert len(response.blocks) == len(texts)
    assert response.token_count == count_tokens(response.context)
    assert response.token_count == sum(each.cost or 0 for each in response.decisions)


def test_69_blocks_are_sorted_by_position_depth_order_and_id() -> None:
    positions = ["before_character", "after_character", "before_examples", "after_examples"]
    positions += ["author_note_top", "author_note_bottom", "at_depth", "outlet"]
    keys = itertools.product(range(8), (0, 3), (-1, 2), "ba")
    entries = [
        entry(
            f"{letter}-{place}-{depth}-{order}",
            constant=True,
            position=positions[place],
            outlet_name="slot" if positions[place] == "outlet" else None,
            depth=depth,
            order=order,
        )
        for place, depth, order, letter in keys
    ]
    response = ask(
        compiled(entries),
        "now",
        token_budget=32_000,
        constant_budget_ratio=1,
        max_entries=200,
        placement_capabilities={"positions": positions, "outlets": ["slot"]},
    )
    assert chosen(response) == [
        f"{letter}-{place}-{depth}-{order}"
        for place, depth, order, letter in itertools.product(range(8), (3, 0), (-1, 2), "ab")
    ]


def test_70_higher_order_competes_first_and_prints_last() -> None:
    book = compiled([entry("one", "now", order=1), entry("five", "now", order=5)])
    assert chosen(ask(book, "now")) == ["one", "five"]
    assert chosen(ask(book, "now", max_entries=1)) == ["five"]


def test_72_every_entry_is_decided_once() -> None:
    entries = [entry(f"e{i}", "now" if i % 2 else "never") for i in range(30)]
    response = ask(compiled(entries), "now", max_entries=3)
    assert [each.entry_id for each in response.decisions] == [each["id"] for each in entries]


def test_73_fingerprint_ignores_the_order_of_members_and_knows_the_seed() -> None:
    book = compiled([entry("a", "now")])
    state = {"x": 1, "y": {"p": 1, "q": [2]}}
    turned = {"y": {"q": [2], "p": 1}, "x": 1}
    first = ask(book, "now", state=state, template_vars={"char": "A", "user": "B"})
    second = ask(book, "now", template_vars={"user": "B", "char": "A"}, state=turned)
    assert first.selection_fingerprint == second.selection_fingerprint
    assert re.fullmatch(r"[0-9a-f]{64}", first.selection_fingerprint)
    other = ask(book, "now", state=state, template_vars={"char": "A", "user": "B"}, seed="1")
    assert other.selection_fingerprint != first.selection_fingerprint


def test_74_planner_sees_the_secret() -> None:
    """The book of §14.2; entries for the actor alone stay out."""
    (case,) = (c for c in load_cases(HERE / "spec14.json") if c["id"] == "spec14.2-default")
    book = compiled(case["books"][0]["book"]["entries"])
    response = ask(book, case["request"]["query"], audience="planner")
    assert chosen(response) == ["secret"]
    assert reasons(response)["ferryman"] == "audience_mismatch"
