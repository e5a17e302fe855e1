"""From bytes to a document: encodings, what is no JSON, and what is mended in the open."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from time import perf_counter

import pytest

from lorewell import ImportedBook, import_file
from lorewell.errors import (
    FileTooLargeError,
    ImportInvalidError,
    InvalidInputError,
    MalformedJsonError,
    UnsupportedMediaTypeError,
    ValidationFailedError,
)
from lorewell.formats.json_text import read_json
from lorewell.formats.notes import MAX_NOTICES_A_CODE, ImportNotes
from lorewell.model.parse import nesting, parse_json

WORLD = {"entries": {"0": {"uid": 0, "key": ["灯"], "content": "A lamp.", "order": 7}}}
PLAIN = json.dumps(WORLD, ensure_ascii=False)


def read(data: bytes) -> ImportedBook:
    return import_file(data, name="harbour.json")


def codes(found: ImportedBook) -> list[str]:
    return [warning.code for warning in found.report.warnings]


def mended(text: str) -> tuple[object, list[str]]:
    notes = ImportNotes()
    value = read_json(text, notes).value
    return value, [f"{notice.code} {notice.message}" for notice in notes.warnings()]


@pytest.mark.parametrize(
    ("data", "warned"),
    [
        (PLAIN.encode(), []),
        (json.dumps(WORLD).encode(), []),
        (b"\xef\xbb\xbf" + PLAIN.encode(), []),
        (b"\xff\xfe" + PLAIN.encode("utf-16-le"), ["utf16"]),
        (b"\xfe\xff" + PLAIN.encode("utf-16-be"), ["utf16"]),
        (b"// by hand\n" + PLAIN.encode(), ["json_comments"]),
        (PLAIN.replace("}}}", "},}}").encode(), ["json_trailing_commas"]),
        (PLAIN.replace("lamp.", "\tlamp.").encode(), ["json_control_characters"]),
        (PLAIN.replace("7", "7 /* of\n9 */").encode(), ["json_comments"]),
    ],
)
def test_text_is_read_in_its_encoding(data: bytes, warned: list[str]) -> None:
    found = read(data)
    assert codes(found) == warned
    entry = found.book.entries[0]
    assert (entry.keys, entry.order, entry.content.strip("A \t")) == (("灯",), 7, "lamp.")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "The file is empty."),
        (b" \n\t", "The file is empty."),
        (b"\xef\xbb\xbf", "The file is empty."),
        (b"// nothing", "The file is empty."),
        (b"\xff\xfe", "The file is empty."),
        (b"<!DOCTYPE html>", "This is a web page (HTML)"),
        (b" \r\n<html>\xff", "Invalid UTF-8 at byte 9"),
        (PLAIN.encode()[:-1], "line 1, column"),
        (PLAIN.encode("latin-1", errors="replace")[:20] + b"\xe9", "Invalid UTF-8 at byte 20"),
        (b"\xef\xbb\xbf{\xff}", "Invalid UTF-8 at byte 4"),
        (b"\xff\xfe{\x00\x00\xd8", "Invalid UTF-16-LE at byte 4"),
        (b'{"entries": NaN}', "NaN is not a JSON number"),
        (b'{"entries": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"entries": ' + b"9" * 5000 + b"}", "a number of 5,000 digits is too large"),
        (b'{"entries": {}} {}', "Extra data"),
        (b'{"a": "\\x"}', "Invalid \\escape"),
        (b"[" * 101 + b"]" * 101, "nests deeper than 100"),
        (b"[" * 100_000, "nests deeper than 100"),
        (b"//\n" + b"[" * 100_000, "nests deeper than 100"),
        (b'{"a":' * 100_000, "nests deeper than 100"),
        (b"42", "the top level is a number"),
        (b"true", "the top level is true or false"),
        (b"null", "the top level is null"),
        (b'"entries"', "the top level is a text"),
        (b"[]", "the top level is a list"),
        (b'[1, {"hello": 2}]', "the top level is a list"),
        (b'{"hello": "world"}', "expected spec"),
    ],
)
def test_broken_text_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(ImportInvalidError) as caught:
        read(data)
    assert caught.value.code == "import_invalid"
    assert str(caught.value).startswith("harbour.json can't be imported: ")
    assert says in str(caught.value)
    assert caught.value.details == {"file": "harbour.json"}


@pytest.mark.parametrize("data", [b"name: Kiln Row", b"# Lore\n", b"\xca\xe9", b"\x00\x01", b"1."])
def test_text_that_does_not_begin_like_json_is_of_no_known_kind(data: bytes) -> None:
    with pytest.raises(UnsupportedMediaTypeError) as caught:
        read(data)
    assert caught.value.code == "unsupported_media_type"
    assert caught.value.details == {"file": "harbour.json"}


@pytest.mark.parametrize(
    ("data", "name", "says"),
    [
        (b"\xff\xd8\xff\xe0", "a", "JPEG"),
        (b"RIFF\0\0\0\0WEBP", "a", "WEBP"),
        (b"PK\x03\x04", "a", "zip"),
        (b"PK\x05\x06", "a", "zip archive is empty"),
        (b"o\0\xff\xff\xff\xff", "a", "RisuAI module"),
        (b'{"type": "risuModule"}', "a", "risu_module"),
    ],
)
def test_known_kind_that_is_not_read_is_named(data: bytes, name: str, says: str) -> None:
    with pytest.raises(ImportInvalidError) as caught:
        import_file(data, name=name)
    assert caught.value.code == "import_invalid"
    assert says in str(caught.value)


def test_file_of_exactly_16_mib_is_read_and_one_byte_more_is_not() -> None:
    full = PLAIN.encode() + b" " * (16 * 2**20 - len(PLAIN.encode()))
    assert read(full).report.entry_count == 1
    assert read(full).report.source_file.size == 16 * 2**20
    with pytest.raises(FileTooLargeError, match=r"harbour\.json is larger than 16 MiB"):
        read(full + b" ")


@pytest.mark.parametrize(
    ("text", "value", "repairs"),
    [
        ('{"a": "//, ]", "b": "/*"}', {"a": "//, ]", "b": "/*"}, []),
        ('["a,]", ]', ["a,]"], ["json_trailing_commas"]),
        (r'["\",]" ,/**/ ]', ['",]'], ["json_comments", "json_trailing_commas"]),
        ("[1 // one\n,2]", [1, 2], ["json_comments"]),
        ("[1,/* , ] */2]", [1, 2], ["json_comments"]),
        ("[1]/* open", [1], ["json_comments"]),
        ('["a\x01b"]', ["a\x01b"], ["json_control_characters"]),
        ("[1e999, 2]", [None, 2], ["number_out_of_range"]),
        ('{"a": [{"b": -1e999}]}', {"a": [{"b": None}]}, ["number_out_of_range"]),
        (r'["\ud83d\ude00"]', ["😀"], []),
        (r'["\ud83d", "x\udc00\udc00"]', ["�", "x��"], ["unfit_text", "unfit_text"]),
        (r'{"a\u0000": 1, "b": true}', {"a�": 1, "b": True}, ["unfit_text"]),
        (
            r'{"a\u0000": 1, "a\ud800": 2}',
            {"a�": 2},
            ["unfit_text", "unfit_text", "name_repeated"],
        ),
        ('{"a": 1, "b": 2, "a": 3}', {"a": 3, "b": 2}, ["name_repeated"]),
        (
            '{"entries": {"0": 1, "0": 2, "0": 3}}',
            {"entries": {"0": 1, "0-2": 2, "0-3": 3}},
            ["name_repeated"],
        ),
        (
            '{"entries": {"0": 1, "0": 2, "0-2": 3, "0": 4}}',
            {"entries": {"0": 1, "0-3": 2, "0-2": 3, "0-4": 4}},
            ["name_repeated"],
        ),
    ],
)
def test_document_is_mended_in_the_open(text: str, value: object, repairs: list[str]) -> None:
    found, notices = mended(text)
    assert found == value
    assert [notice.split()[0] for notice in notices] == repairs


def test_notice_names_the_place() -> None:
    _, notices = mended('{"entries": {"a/b": [{"x": "\\u0000"}, 1e400]}}')
    assert notices == [
        "unfit_text /entries/a~1b/0/x: 1 of U+0000 or half a surrogate pair replaced by U+FFFD",
        "number_out_of_range /entries/a~1b/1: the number 1e400 is too large; read as null",
    ]
    _, notices = mended('{"entries": {"0": {"a": 1, "a": 2}}}')
    assert notices == [
        "name_repeated /entries/0: the name 'a' occurs 2 times; the last one is kept"
    ]


def test_long_names_and_numbers_are_cut_in_notices() -> None:
    _, notices = mended('{"' + "n" * 10_000 + '": 1' + "0" * 9_000 + ".0}")
    assert len(notices[0]) < 300


def test_notices_of_one_code_are_counted_when_there_are_too_many() -> None:
    many = MAX_NOTICES_A_CODE + 3
    _, notices = mended("[" + "1e999," * many + "1]")
    assert len(notices) == MAX_NOTICES_A_CODE + 1
    assert notices[-1] == "number_out_of_range and 3 more"


LIMIT_S = 10  # measured: under 0.5 s each; what is not linear takes hours


@pytest.mark.parametrize(
    "hostile",
    [
        '"' + '\\"' * 500_000,
        "[" + "/*" * 500_000,
        "[" + '"a",' * 250_000,
        "[" + ", " * 500_000,
        "[" + "// \n" * 250_000,
        "/" * 1_000_000,
        "/**/" * 250_000,
        "[]" * 500_000,
        " " * 1_000_000,
        '{"entries": {' + '"0":1,' * 150_000 + '"0":1}}',
        '{"entries": {' + "".join(f'"0":1,"0-{n}":1,' for n in range(40_000)) + '"a":1}}',
    ],
)
def test_hostile_text_takes_time_in_proportion(hostile: str) -> None:
    start = perf_counter()
    with suppress(InvalidInputError):
        read_json(hostile, ImportNotes())
    with pytest.raises(InvalidInputError):
        read(hostile.encode())
    elapsed_s = perf_counter() - start
    print(f"{hostile[:12]!r} of {len(hostile)}: {elapsed_s:.2f} s")
    assert elapsed_s < LIMIT_S


def slow_nesting(text: str) -> int:
    """Return how deep brackets nest, a character at a time; quotes are escaped anywhere."""
    deepest = depth = 0
    in_string = escaped = False
    for character in text:
        if escaped and character in '"\\':
            escaped = False
            continue
        escaped = character == "\\"
        if character == '"':
            in_string = not in_string
        elif not in_string:
            depth += (character in "[{") - (character in "]}")
            deepest = max(deepest, depth)
    return deepest


def test_nesting_is_what_counting_by_hand_says() -> None:
    chance = random.Random(7)
    for _ in range(20_000):
        text = "".join(chance.choice('[]{}"\\a\n') for _ in range(chance.randrange(14)))
        assert nesting(text) == slow_nesting(text)


def test_long_integer_is_told_in_words() -> None:
    with pytest.raises(MalformedJsonError, match=r"a number of 4,301 digits is too large"):
        parse_json(b"9" * 4301)
    assert parse_json(b"9" * 4300) > 0


@pytest.mark.parametrize(("lists", "fits"), [(95, True), (96, False), (97, False), (98, None)])
def test_nesting_counts_in_the_file_and_in_the_book(lists: int, *, fits: bool | None) -> None:
    value = "[" * lists + "]" * lists
    data = f'{{"entries": {{"0": {{"uid": 0, "content": "x", "extra": {value}}}}}}}'.encode()
    if fits:
        book = read(data).book.model_dump_json()
        assert nesting(book) == 100
        assert parse_json(book.encode())["name"] == "harbour"
    elif fits is None:
        with pytest.raises(ImportInvalidError, match="nests deeper than 100"):
            read(data)
    else:
        with pytest.raises(ValidationFailedError, match=r"Kept in a book, .* deeper than 100"):
            read(data)
