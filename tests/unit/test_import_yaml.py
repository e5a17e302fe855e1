"""YAML cards: what JSON could say is read as from JSON, all else is refused in words."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from time import process_time

import pytest
import yaml

from lorewell import BookCreate, ImportedBook, import_file, load_book
from lorewell.errors import ImportInvalidError, UnsupportedMediaTypeError
from lorewell.formats import yaml_text
from lorewell.formats.export import put_into_card
from lorewell.formats.notes import ImportNotes
from lorewell.formats.yaml_text import read_yaml
from other_programs import warnings_of

CARD = """\
# 渡しの町
name: โอดะ
first_mes: "สวัสดี \\U0001F3EE"
character_book:
  name: 雾隐渡
  entries:
    - keys: [灯塔, "фонарь", '🏮']
      insertion_order: 7
      enabled: true
      content: |-
        # 灯塔
          由哑女看守。

        ประภาคาร: 🏮
"""
CONTENT = "# 灯塔\n  由哑女看守。\n\nประภาคาร: 🏮"


@pytest.fixture(params=["libyaml", "python"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run every test with both parsers of PyYAML: which one there is depends on the machine."""
    if request.param == "python":
        monkeypatch.setattr(yaml_text, "_LOADER", yaml.BaseLoader)
    return str(request.param)


def read(text: str | bytes, name: str = "oda.yaml") -> ImportedBook:
    return import_file(text if isinstance(text, bytes) else text.encode(), name=name)


def value_of(text: str) -> object:
    return read_yaml(text, ImportNotes()).value


@pytest.mark.parametrize("name", ["oda.yaml", "Oda.YML", "灯.yml"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_card_gives_its_book(name: str, encoding: str) -> None:
    found = read(CARD.encode(encoding), name)
    assert (found.report.format, found.book.name) == ("card_v1_json", "雾隐渡")
    assert warnings_of(found) == ([(None, "utf16")] if encoding == "utf-16" else [])
    (entry,) = found.book.entries
    assert entry.keys == ("灯塔", "фонарь", "🏮")
    assert (entry.order, entry.enabled, entry.content) == (7, True, CONTENT)
    assert entry.source["raw"] == yaml.safe_load(CARD)["character_book"]["entries"][0]


def test_character_of_textgen_holds_no_book() -> None:
    found = read("name: Oda\ncontext: |-\n  Oda's Persona: a pilot.\ngreeting: Hello.\n")
    assert (found.report.format, found.book.name) == ("pygmalion", "Oda")
    assert not found.holds_book


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("entries:\n  '7': {uid: 7, key: [lamp], content: A lamp.}", "st_world"),
        ("entries:\n- keys: [lamp]\n  content: A lamp.", "character_book"),
        ("- {id: 1, keys: 'lamp, oil', entry: A lamp.}", "aidungeon_wi"),
    ],
)
def test_book_of_any_kind_is_read(text: str, kind: str) -> None:
    found = read(text)
    assert (found.report.format, found.report.entry_count) == (kind, 1)
    assert found == import_file(text.encode(), name="oda.yaml")


def test_json_under_the_name_of_yaml_stays_json() -> None:
    text = '{"entries": [{"keys": ["灯"],\t"content": "A\tlamp. \\ud83c\\udfee"},]} // by hand'
    found = read(text)
    same = import_file(text.encode(), name="oda.json")
    assert (found.book, found.report.warnings) == (same.book, same.report.warnings)
    assert read("{entries: [{keys: [灯]}]}").book.entries[0].keys == ("灯",)


def test_yaml_under_another_name_is_of_no_known_kind() -> None:
    with pytest.raises(UnsupportedMediaTypeError):
        read(CARD, "oda.txt")


def test_file_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "oda.yaml"
    path.write_text(CARD, encoding="utf-8")
    assert load_book(path).name == "雾隐渡"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[null, Null, NULL, ~, {a: }]", [None, None, None, None, {"a": None}]),
        ("[true, True, TRUE, false, False, FALSE]", [True, True, True, False, False, False]),
        ("[0, -1, +7, 1.5, .5, 2., 1e3, -1.5E-2]", [0, -1, 7, 1.5, 0.5, 2.0, 1000.0, -0.015]),
        ("[yes, No, on, off, y, n]", ["yes", "No", "on", "off", "y", "n"]),
        ("[007, 0o17, 0x1F, 1_000, 12:30]", ["007", "0o17", "0x1F", "1_000", "12:30"]),
        ("[2001-01-01, NaN, Infinity, -]", ["2001-01-01", "NaN", "Infinity", "-"]),
        ("['1', \"~\", '']", ["1", "~", ""]),
        ("- <<\n- =\n- {a: 'b: c'}", ["<<", "=", {"a": "b: c"}]),
        ("a: |\n  x\n   y\n\nb: >-\n  x\n  y", {"a": "x\n y\n", "b": "x y"}),
        ("a: |+\n  灯\n\nb: |-\n\n  1\n", {"a": "灯\n\n", "b": "\n1"}),
        ("%YAML 1.1\n---\n!!map {!!str 1: !!str 2, a: !!seq [3]}\n...\n", {"1": "2", "a": [3]}),
        ("# nothing else", None),
        ("", None),
    ],
)
def test_values_are_those_of_json(text: str, value: object) -> None:
    found = value_of(text)
    assert found == value
    assert json.dumps(found) == json.dumps(value), "1, 1.0 and true are not the same"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "The file is empty."),
        ("# nothing", "the top level is null"),
        ("灯塔", "the top level is a text"),
        ("<!DOCTYPE html>", "This is a web page (HTML)"),
        ("a: &x [1]\nb: 2", "anchors and aliases are not supported at line 1, column 4"),
        ("a: *x", "anchors and aliases are not supported"),
        ("&a a: 1", "anchors and aliases are not supported"),
        ("{<<: *x}", "anchors and aliases are not supported"),
        ("a: !!python/object/apply:os.system [id]", "tag:yaml.org,2002:python/object/apply:o…"),
        ("a: !!binary aGk=", "the tag tag:yaml.org,2002:binary is not supported"),
        ("a: !!int '3'", "the tag tag:yaml.org,2002:int is not supported"),
        ("a: !!str [3]", "the tag tag:yaml.org,2002:str is not supported"),
        ("a: !x 3", "the tag !x is not supported"),
        ("a: ! 3", "the tag ! is not supported"),
        ("%TAG ! tag:yaml.org,2002:\n--- !str a", "defines its own tags (%TAG)"),
        ("a: 1\n---\nb: 2", "it holds several documents at line 2, column 1"),
        ("1: a", "the name of a member must be a text; put it in quotes at line 1, column 1"),
        ("~: a", "the name of a member must be a text"),
        ("? # nothing\n: a", "the name of a member must be a text"),
        ("true: a", "the name of a member must be a text"),
        ("? [a]\n: b", "the name of a member must be a text"),
        ("? {a: 1}\n: b", "the name of a member must be a text"),
        ("a: .nan", ".nan is not a JSON number at line 1, column 4"),
        ("a: -.INF", "-.INF is not a JSON number"),
        ("a: " + "9" * 5000, "a number of 5,000 digits is too large at line 1, column 4"),
        ("a: [", "Invalid YAML: "),
        ("a: [1\nb: 2", "Invalid YAML: "),
        ("\ta: 1", "cannot start any token at line 1, column 1"),
        ("%灯", "Invalid YAML: "),
        ("a: b: c", "mapping values are not allowed"),
        ("a: \x01", "(U+0001)."),
        ("a: \x00", "(U+0000)."),
        ("a: \ufffe", "(U+FFFE)."),
        ('a: "\\UFFFFFFFF"', "Invalid YAML: "),
        ("- " * 101, "it nests deeper than 100 levels at line 1, column 201"),
        ("[" * 101, "nests deeper than 100"),
        ("[" * 100_000, "nest"),
        ("{a: " * 101, "nests deeper than 100"),
    ],
)
def test_what_json_could_not_say_is_refused(text: str, says: str) -> None:
    with pytest.raises(ImportInvalidError) as caught:
        read(text)
    assert caught.value.code == "import_invalid"
    assert str(caught.value).startswith("oda.yaml can't be imported: ")
    assert says in str(caught.value)
    assert caught.value.details == {"file": "oda.yaml"}


def test_nesting_of_100_is_read() -> None:
    document = read_yaml("- " * 100 + "灯", ImportNotes())
    assert document.nesting == 100
    assert value_of("a: [1, {b: [2]}]") == {"a": [1, {"b": [2]}]}
    assert read_yaml("a: [1, {b: [2]}]\nc: []", ImportNotes()).nesting == 4


@pytest.mark.parametrize(
    ("text", "value", "notices"),
    [
        ("{a: 1, b: 2, a: 3}", {"a": 3, "b": 2}, ["name_repeated"]),
        (
            "entries:\n  '0': 1\n  '0': 2\n  '0-2': 3",
            {"entries": {"0": 1, "0-3": 2, "0-2": 3}},
            ["name_repeated"],
        ),
        (r'["a\0", "灯"]', ["a�", "灯"], ["unfit_text"]),
        (r'{"a\0": "\x00", b: 1}', {"a�": "�", "b": 1}, ["unfit_text"] * 2),
        ("[1e999, -1.5e999, 2]", [None, None, 2], ["number_out_of_range"] * 2),
    ],
)
def test_document_is_mended_as_json_is(text: str, value: object, notices: list[str]) -> None:
    notes = ImportNotes()
    assert read_yaml(text, notes).value == value
    assert [notice.code for notice in notes.warnings()] == notices


def test_half_a_surrogate_pair_is_refused_or_replaced(parser: str) -> None:
    halves = r'["\ud83d", "\udc00 灯"]'
    if parser == "python":
        assert value_of(halves) == ["�", "� 灯"]
        return
    with pytest.raises(ImportInvalidError, match="invalid Unicode character escape code"):
        value_of(halves)


def test_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_text, "MAX_VALUES", 1_000)
    assert len(str(value_of("- 1\n" * 999))) > 999
    with pytest.raises(ImportInvalidError, match=r"it holds more than 1,000 values at line 1000"):
        value_of("- 1\n" * 1000)


LIMIT_S = 20  # measured: under 1 s each; what is not linear takes hours


@pytest.mark.parametrize(
    "hostile",
    [
        "".join(f"%TAG !a{n}! x\n" for n in range(80_000)) + "--- a",
        "a\n...\n" + "".join(f"%TAG !a{n}! x\n" for n in range(80_000)) + "--- a",
        "[" + "? a, " * 50_000,
        "[" * 99 + "a\n," * 50_000,
        "a: &a [" * 100_000,
        "- " * 500_000,
        "a: |\n" + "  灯\n" * 100_000,
        'a: "' + "\\n" * 200_000 + '"',
        "{" + "a: 1, " * 30_000 + "}",
    ],
)
def test_hostile_text_takes_time_in_proportion(hostile: str) -> None:
    start = process_time()
    with suppress(ImportInvalidError):
        read(hostile)
    elapsed_s = process_time() - start
    print(f"{hostile[:12]!r} of {len(hostile)}: {elapsed_s:.2f} s")
    assert elapsed_s < LIMIT_S


def test_no_book_is_put_into_a_yaml_card() -> None:
    book = BookCreate(name="灯", entries=[])
    with pytest.raises(ImportInvalidError) as caught:
        put_into_card(book, CARD.encode())
    assert "a card that is JSON or a PNG" in str(caught.value)
