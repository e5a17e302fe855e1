"""Books of SillyTavern_replica, stored as ours: they come back, and do what their files do."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import assume, given, strategies as st

from lorewell import BookCreate, import_file
from lorewell.engine.replica import RagScores, activate, compile_world
from lorewell.errors import LorewellError
from lorewell.formats.export import export_book
from lorewell.formats.export.replica import rebuild, replica_document
from lorewell.model import Entry
from lorewell.model.parse import parse_model
from lorewell.model.replica import ReplicaRequest, ReplicaResponse
from property.foreign import core_changes
from property.strategies import ANY_TEXT
from property.test_replica import CONFIGS, ENTRIES, ODD, SIMILARITIES, WORDS, turns
from support import Document

UIDS = st.one_of(st.sampled_from(["a", "b", "灯", 7, "7", 1.5, 3.0, "", None, True]), ANY_TEXT)
CONDITIONS = st.sampled_from(
    ["tb.力量 > 10", "tb.态度 包括 “友”", "力量", "not tb.力量 = 9", "tb.x=a 或 b"]
)
ALONE = st.lists(CONDITIONS.map(lambda text: {"text": text}), max_size=2).map(
    lambda listed: {"triggers": {"condition": [True, {"conditions": listed}]}}
)
TRIPLE = {"variable_a": "力量", "operator": "不小于", "variable_b": 15}
OLD = st.just({"triggers": {"condition": [True, TRIPLE], "keyword": [True, {"key": []}]}})
ODD_MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "uid": UIDS,
        "disable": st.sampled_from(["true", "false", "yes", 1, 0, 2, None]),
        "position": st.sampled_from(["after_char", "system_prompt", "4", 9, None, 5, 7]),
        "order": st.sampled_from(["20", 2.5, 10**7, -(10**20), None]),
        "probability": st.sampled_from([0, 100.0, "50", 120, -1, None]),
        "depth": st.sampled_from([0, -1, "3", 20_000, []]),
        "role": st.sampled_from([0, 2, "user", 9, "x"]),
        "comment": st.one_of(ANY_TEXT, ODD),
        "trigger_config": st.one_of(ALONE, OLD, CONFIGS, CONFIGS),
        "constant": st.sampled_from([True, False, "true", 1]),
        "keysecondary": st.lists(WORDS, max_size=2),
        "requires": st.one_of(st.sampled_from(["a", 7]), ODD, st.lists(ODD, max_size=2)),
        "extensions": ODD,
        "未知": ODD,
        "createdAt": st.just(1.5),
    },
)
RAW = st.builds(lambda usual, odd: {**usual, **odd}, ENTRIES, ODD_MEMBERS)
MARK: Document = {"uid": "mark", "trigger_config": None}  # whose file it is
MEMBERS = st.fixed_dictionaries(
    {"name": st.sampled_from(["雾隐渡", "harbour"])},
    optional={
        "id": st.just("b1"),
        "description": ANY_TEXT,
        "version": st.just(1),
        "createdAt": st.just(1700000000),
        "未知": ODD,
    },
)


@st.composite
def files(draw: st.DrawFn) -> Document:
    """Draw a world file in the internal form."""
    listed = draw(st.lists(st.one_of(RAW, RAW, RAW, st.just({})), max_size=4))
    return {**draw(MEMBERS), "entries": [*listed, MARK]}


def imported(document: Document) -> BookCreate:
    try:
        found = import_file(json.dumps(document).encode(), name="book.json")
    except LorewellError:
        assume(False)  # noqa: FBT003  hypothesis' way; a drawn text can't be stored
        raise
    assert found.report.format == "replica"
    return found.book


@given(files())
def test_export_then_import_loses_nothing(document: Document) -> None:
    """Case 39."""
    text = json.dumps(document)
    book = imported(document)
    before = book.model_dump_json()
    exported = export_book(book, "replica")
    assert exported.document == json.loads(text)
    assert exported.losses == ()
    assert imported(exported.document) == book
    assert book.model_dump_json() == before


def run(turn: Document, books: dict[str, Document], similarities: list[float]) -> ReplicaResponse:
    worlds = {name: compile_world(book, book_id=name) for name, book in books.items()}
    request = parse_model(ReplicaRequest, {**turn, "books": {}})
    scores = RagScores(similarities={(name, request.mes): similarities for name in worlds})
    return activate(worlds, request, scores=scores)


@given(files(), files(), turns(), SIMILARITIES)
def test_a_stored_book_does_what_its_file_does(
    first: Document, second: Document, turn: Document, similarities: list[float]
) -> None:
    books = {"g": first, "c": second}
    stored = {name: replica_document(imported(book)) for name, book in books.items()}
    answer = run(turn, stored, similarities)
    assert answer.to_json() == run(turn, books, similarities).to_json()


@given(st.dictionaries(ANY_TEXT, RAW, max_size=4), turns(), SIMILARITIES)
def test_so_does_one_from_a_map(
    entries: dict[str, Document], turn: Document, similarities: list[float]
) -> None:
    book = {"name": "港", "entries": {**entries, "mark": MARK}}
    stored = {"g": replica_document(imported(book))}
    answer = run(turn, stored, similarities)
    assert answer.to_json() == run(turn, {"g": book}, similarities).to_json()


WORLD_ENTRY = st.fixed_dictionaries(
    {
        "key": st.lists(WORDS, max_size=2),
        "content": WORDS,
        "position": st.integers(0, 6),
        "order": st.integers(-2, 2),
        "selective": st.booleans(),
    },
    optional={
        "keysecondary": st.lists(WORDS, min_size=1, max_size=2),
        "selectiveLogic": st.integers(0, 3),
        "constant": st.booleans(),
        "disable": st.booleans(),
        "probability": st.sampled_from([0, 50, 100]),
        "useProbability": st.booleans(),
        "caseSensitive": st.booleans(),
        "matchWholeWords": st.sampled_from([None, True, False]),
        "depth": st.integers(0, 5),
        "group": st.sampled_from(["", "g", "g, h"]),
        "groupWeight": st.sampled_from([100, 50, 300]),
    },
)


@given(st.lists(WORLD_ENTRY, max_size=4), turns())
def test_sillytavern_s_world_does_there_what_its_file_does(
    entries: list[Document], turn: Document
) -> None:
    numbered = {str(at): {"uid": at, **raw} for at, raw in enumerate(entries)}
    book = {"name": "港", "entries": numbered}
    stored = import_file(json.dumps(book).encode(), name="港.json").book
    answer = run(turn, {"g": replica_document(stored)}, [])
    wanted = run(turn, {"g": book}, [])
    assert [(e.uid, e.position, e.trigger_type) for e in answer.entries] == [
        (e.uid, e.position, e.trigger_type) for e in wanted.entries
    ]
    assert answer.suppressed == wanted.suppressed


OWN = {"id", "source", "sillytavern", "outlet_name", "replica", "kind", "runtime_requirements"}
CORE = sorted(set(Entry.model_fields) - OWN)
TRIGGERS = {"constant", "conditions_text", "keys", "secondary_keys", "selective", "logic"}
TRIGGERS |= {"case_sensitive", "match_whole_words"}


@given(RAW, core_changes(CORE))
def test_a_change_is_shown_or_told_and_nothing_else_is_touched(
    raw: Document, change: tuple[str, Any]
) -> None:
    before = copy.deepcopy(raw)
    old = imported({"name": "n", "entries": [raw, MARK]}).entries[0]
    name, value = change
    if name in {"case_sensitive", "match_whole_words"}:
        value = bool(value)  # null is false in this format
    fields = old.model_dump() | {name: value}
    if name == "position":
        fields["outlet_name"] = old.id[:100] if value == "outlet" else None
    new = parse_model(Entry, fields)
    own, lost = rebuild(new)
    assert raw == before
    if getattr(new, name) == getattr(old, name):
        assert own == json.loads(json.dumps(raw))
        return
    again = imported({"name": "n", "entries": [own, MARK]}).entries[0]
    assert set(lost) <= {name} | (TRIGGERS if name in TRIGGERS else set())
    for field in set(CORE) - {*lost, "requires"}:
        if field not in TRIGGERS or new.keys:
            assert getattr(again, field) == getattr(new, field)
    assert all(uid in own["requires"] for uid in new.requires)
    for member in ("未知", "createdAt", "activationType", "logicExpression"):
        if member in raw and name not in TRIGGERS:
            assert own[member] == raw[member]
