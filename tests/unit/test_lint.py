"""Lint: folding, selection, ignores, fixes, requests and other formats of its findings."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as some
from tests.lint_books import PLANTED

from lorewell import BookCreate, Entry, SelectRequest, compile_book, import_file, lint
from lorewell.engine.steps import Steps
from lorewell.errors import TooExpensiveError, ValidationFailedError
from lorewell.formats.export import export_book
from lorewell.formats.loading import open_bytes
from lorewell.formats.rewriting import rewrite
from lorewell.insight.lint import TABLE, diagnostics
from lorewell.insight.lint.codes import BY_NAME, matching
from lorewell.insight.lint.fixing import fix
from lorewell.insight.lint.linting import read_request
from lorewell.insight.lint.sarif import to_sarif
from lorewell.model.parse import parse_model
from lorewell.model.plain import plain

CODES = {row.code for row in TABLE}


def book(*entries: dict[str, object], **fields: object) -> BookCreate:
    usual = {"content": "The keeper never sleeps."}
    return parse_model(
        BookCreate, {"name": "B", "entries": [{**usual, **each} for each in entries], **fields}
    )


def names(found: BookCreate, **options: object) -> list[str]:
    return [each.name for each in lint(found, **options)]  # type: ignore[arg-type]  mixed options


def test_codes_and_names_are_unique_and_in_order() -> None:
    assert [row.code for row in TABLE] == sorted(CODES)
    assert len({row.name for row in TABLE}) == len(TABLE)


def test_every_diagnostic_is_a_code() -> None:
    odd = Entry(
        id="odd",
        content="A lamp.",
        keys=(" ", "/lamp(/"),
        key_expression="lamp and",
        conditions_text=("tb.x >",),
    )
    both = BookCreate(name="B", entries=(odd,))
    found = {each.code.replace("_", "-") for each in diagnostics(compile_book(both))}
    assert found == {
        "blank-key",
        "regex-invalid",
        "key-expression-unreadable",
        "condition-unreadable",
    }
    assert found <= set(names(both)) <= BY_NAME.keys()


def test_repeated_findings_fold() -> None:
    many = book(*({"id": f"e{n}", "keys": [" "], "content": f"Text {n}."} for n in range(60)))
    blank = [each for each in lint(many) if each.name == "blank-key"]
    assert len(blank) == 20
    assert sum(len(each.entries) for each in blank) == 60
    assert blank[-1].figures["count"] == 41


def test_a_finding_says_where_it_is() -> None:
    (found,) = lint(book({"id": "a", "keys": ["tower"]}, {"id": "b", "keys": ["灯塔，灯室"]}))[:1]
    assert found.pointer == "/entries/1/keys/0"
    assert (found.entry_id, found.entries, found.span) == ("b", ("b",), (2, 3))


@pytest.mark.parametrize("wanted", ["LW003", "lw003", "key-separator", "LW00"])
def test_select_takes_codes_names_and_beginnings(wanted: str) -> None:
    odd = book({"id": "a", "keys": ["灯塔，灯室"], "probability": 0})
    assert names(odd, select=[wanted]) == ["key-separator"]
    assert "LW003" in matching(wanted)


def test_an_unknown_code_is_refused() -> None:
    with pytest.raises(ValidationFailedError, match="no code"):
        lint(book(), select=["LX1"])


@pytest.mark.parametrize("word", ["LW501", "probability-zero", "LW5"])
def test_ignores_of_an_entry_and_of_a_book(word: str) -> None:
    zero = {"id": "a", "keys": ["tower"], "probability": 0}
    ignore = {"lint": {"ignore": [word]}}
    assert names(book(zero)) == ["probability-zero"]
    assert names(book({**zero, "metadata": ignore})) == []
    assert names(book(zero, metadata=ignore)) == []


@pytest.mark.parametrize("form", ["st_world", "character_book", "lorebook_v3", "native"])
@pytest.mark.parametrize("of_entry", [True, False])
def test_ignores_survive_an_export(form: str, *, of_entry: bool) -> None:
    ignore = {"lint": {"ignore": ["LW501"]}}
    zero = {"id": "1", "keys": ["tower"], "probability": 0}
    kept = book({**zero, "metadata": ignore}) if of_entry else book(zero, metadata=ignore)
    document = export_book(kept, form).document  # type: ignore[arg-type]  one of its words
    text = json.dumps(document).encode()
    again = (
        parse_model(BookCreate, document)
        if form == "native"
        else import_file(text, name="b.json").book
    )
    assert "probability-zero" not in names(again)


@pytest.mark.parametrize("planted", PLANTED, ids=range(len(PLANTED)))
def test_nothing_fixable_is_left_after_a_fix(planted: object) -> None:
    fixed, left = fix(planted.book(clean=False), lint)  # type: ignore[attr-defined]
    assert not any(each.fixes for each in left)
    assert not any(each.fixes for each in lint(fixed))


def test_a_fix_changes_the_keys_alone() -> None:
    odd = book(
        {"id": "a", "keys": [" tower", "灯塔，灯室", "light\u200bhouse", "/x/g", "tower"]},
        {"id": "b", "keys": ["mill"], "content": "Wheel\u202e."},
    )
    fixed, _ = fix(odd, lint)
    assert fixed.entries[0].keys == ("灯塔", "灯室", "lighthouse", "/x/", "tower")
    assert fixed.entries[1].content == "Wheel."
    same = [
        before.model_copy(update={"keys": after.keys, "content": after.content}) == after
        for before, after in zip(odd.entries, fixed.entries, strict=True)
    ]
    assert all(same)


def _order(value: object) -> object:
    """Return a JSON value with its members as pairs, so that their order counts."""
    if isinstance(value, dict):
        return [(name, _order(each)) for name, each in value.items()]
    return [_order(each) for each in value] if isinstance(value, list) else value


FILES = {
    "st_world": {
        "zeta": 1,
        "entries": {
            "9": {"uid": 9, "key": ["灯塔，灯室"], "odd": {"b": 1, "a": 2}, "content": "灯。",
                  "position": 0, "order": 7},
            "2": {"uid": 2, "content": "Mill.", "key": ["mill"], "position": 0},
        },
        "alpha": [1],
    },
    "character_book": {
        "extensions": {"q": 1},
        "entries": [
            {"keys": ["灯塔，灯室"], "z": 1, "content": "灯。", "extensions": {"x": 5},
             "enabled": True, "insertion_order": 3},
        ],
    },
    "native": {
        "entries": [{"keys": ["灯塔，灯室"], "order": 4, "content": "灯。", "id": "a"}],
        "name": "B",
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_a_rewritten_file_keeps_values_and_order(kind: str) -> None:
    data = json.dumps(FILES[kind], ensure_ascii=False).encode()
    found = open_bytes(data, name="book.json")
    fixed, left = fix(found.book, lint)
    assert not any(each.fixes for each in left)
    written = rewrite(found, fixed, data).decode()
    wanted = json.dumps(FILES[kind], ensure_ascii=False).replace("灯塔，灯室", '灯塔", "灯室')
    assert _order(json.loads(written)) == _order(json.loads(wanted))


def test_findings_follow_the_policy() -> None:
    odd = book({"id": "a", "keys": ["/lamp(/"]})
    assert names(odd, policy="native") == ["regex-invalid"]
    assert names(odd, policy="sillytavern") == ["regex-as-text"]
    assert names(odd, policy="replica") == ["regex-as-text"]


def test_a_request_replaces_the_usual_values() -> None:
    path = {"path": "hour", "op": "eq", "value": 3}
    odd = book({"id": "a", "keys": ["tower"], "conditions": [path], "content": "{{user}}"})
    request = {"state": {"day": 1}, "template_vars": {"char": "A"}, "token_budget": 20}
    assert names(odd) == []
    found = names(odd, request=read_request("native", request))
    assert found == ["path-unset", "macro-without-value", "entry-over-budget"]


def test_a_request_of_another_policy_is_refused() -> None:
    request = read_request("native", None)
    assert isinstance(request, SelectRequest)
    with pytest.raises(ValidationFailedError, match="policy replica"):
        lint(book(), policy="replica", request=request)


def test_other_books_are_compared() -> None:
    one = book({"id": "a", "keys": ["tower"], "content": "One."})
    two = book({"id": "b", "keys": ["tower"], "content": "Two."})
    same = book({"id": "c", "keys": ["mill"], "content": "one."})
    assert names(one, others=[two]) == ["key-shared"]
    assert names(one, others=[same]) == ["content-repeated"]


@hypothesis_settings(max_examples=60, deadline=None)
@given(
    some.lists(
        some.tuples(some.text(max_size=12), some.text(max_size=12), some.text(max_size=40)),
        max_size=5,
    ),
    some.sampled_from(["native", "sillytavern", "replica"]),
)
def test_any_book_can_be_linted_fixed_and_shown(
    texts: list[tuple[str, str, str]], policy: str
) -> None:
    entries = [
        {"id": f"e{n}", "keys": [one, other], "content": text}
        for n, (one, other, text) in enumerate(texts)
    ]
    try:
        odd = book(*entries)  # type: ignore[arg-type]  plain values
    except ValidationFailedError:
        return  # text that can't be stored
    fixed, left = fix(odd, lambda each: lint(each, policy=policy))  # type: ignore[arg-type]
    assert not any(each.fixes for each in left)
    assert [entry.id for entry in fixed.entries] == [entry.id for entry in odd.entries]
    for each in lint(odd, policy=policy):  # type: ignore[arg-type]
        assert each.text == plain(each.text)
        assert each.code in CODES
        assert each.entries or each.entry_id is None


def test_work_is_counted() -> None:
    with pytest.raises(TooExpensiveError):
        lint(book(*({"id": f"e{n}", "keys": [f"key {n}"]} for n in range(50))), steps=Steps(500))


def test_sarif_has_what_its_schema_requires() -> None:
    findings = lint(book({"id": "a", "keys": ["灯塔，灯室", " x"], "probability": 0}))
    log = json.loads(json.dumps(to_sarif([("folder/a book.json", findings)], version="1.0")))
    assert set(log) == {"$schema", "version", "runs"}
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [row.code for row in TABLE]
    assert len(run["results"]) == len(findings)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert result["message"]["text"]
        (location,) = result["locations"]
        assert location["physicalLocation"]["artifactLocation"]["uri"] == "folder/a%20book.json"
        assert location["logicalLocations"][0]["fullyQualifiedName"].startswith("/entries")
