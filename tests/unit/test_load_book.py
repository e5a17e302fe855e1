"""Native book files: what is accepted, and what every kind of broken file answers."""

import json
from pathlib import Path

import pytest

from lorewell import BookCreate, compile_book, load_book
from lorewell.errors import (
    Fault,
    FileTooLargeError,
    ImportInvalidError,
    InvalidDependencyError,
    InvalidInputError,
    ValidationFailedError,
)
from lorewell.formats import files
from lorewell.formats.faults import MAX_NAMED_FAULTS, naming

ROOT = Path(__file__).resolve().parents[2]
BOOK = {"name": "Kiln Row", "entries": [{"id": "kiln", "content": "窑火不熄。", "keys": ["窑"]}]}
UUID = "6a0b8f0e-57b2-4c0e-9a51-2f3a4c5d6e7f"


def write(folder: Path, data: bytes | object) -> Path:
    path = folder / "book.json"
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    return path


def test_file_gives_the_same_book_as_its_document(tmp_path: Path) -> None:
    loaded = load_book(write(tmp_path, BOOK))
    compiled = compile_book(BookCreate.model_validate(BOOK))
    assert (loaded.name, loaded.entry_count) == ("Kiln Row", 1)
    assert (loaded.ref, loaded.content_hash) == (compiled.ref, compiled.content_hash)


def test_path_may_be_text(tmp_path: Path) -> None:
    assert load_book(str(write(tmp_path, BOOK))).name == "Kiln Row"


def test_identity_can_be_given(tmp_path: Path) -> None:
    book = load_book(write(tmp_path, BOOK), book_id=UUID, revision=7)
    assert (book.book_id, book.revision) == (UUID, 7)


def test_byte_order_mark_changes_nothing(tmp_path: Path) -> None:
    bare = load_book(write(tmp_path, BOOK))
    marked = load_book(write(tmp_path, b"\xef\xbb\xbf" + json.dumps(BOOK).encode()))
    assert marked.content_hash == bare.content_hash


def test_sample_book_has_no_oddities() -> None:
    book = load_book(ROOT / "examples" / "harbour.json")
    assert book.entry_count > 0
    assert book.diagnostics == ()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf \r\n", "is empty"),
        (b"\n<!DOCTYPE html><html></html>", "web page"),
        (b'\xef\xbb\xbf<?xml version="1.0"?>', "web page"),
        (json.dumps(BOOK).encode()[:-2], "Invalid JSON"),
        (json.dumps(BOOK).encode()[:20], "Invalid JSON"),
        (b'{"name": NaN}', "NaN"),
        (b'{"name": -Infinity}', "Infinity"),
        (b'{"name": 1e999}', "too large"),
        (b'{"name": ' + b"9" * 5000 + b"}", "Invalid JSON"),
        (b"[" * 101 + b"]" * 101, "nests deeper than 100"),
        (b"[" * 200_000, "nests deeper than 100"),
        ("书".encode("gbk"), "Invalid UTF-8"),
        (b"\xef\xbb\xbf{\xff}", "Invalid UTF-8 at byte 4"),
        ('{"name": "书"}'.encode("utf-16"), "Invalid UTF-8"),
        (b"name: Kiln Row", "Invalid JSON"),
        (b"[]", "No book found"),
        (b"null", "No book found"),
        (b'"book"', "No book found"),
    ],
)
def test_broken_file_is_named(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(ImportInvalidError) as caught:
        load_book(write(tmp_path, data))
    assert str(caught.value).startswith("book.json ")
    assert says in str(caught.value)
    assert caught.value.details == {"file": "book.json"}


def book_with(**fields: object) -> dict[str, object]:
    """Return a book whose third entry has the fields."""
    odd = {"content": "An odd one.", **fields}
    return {"name": "Kiln Row", "entries": [{"content": "One."}, {"content": "Two."}, odd]}


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        (book_with(keys="kiln"), "/entries/2/keys"),
        (book_with(keys=["kiln", 4]), "/entries/2/keys/1"),
        (book_with(constant="true"), "/entries/2/constant"),
        (book_with(order=1.0), "/entries/2/order"),
        (book_with(colour="red"), "/entries/2/colour"),
        (book_with(**{"a/b~c": 1}), "/entries/2/a~1b~0c"),
        (book_with(probability=101), "/entries/2/probability"),
        (book_with(position="outlet"), "/entries/2/outlet_name"),
        (book_with(conditions=[{"path": "a", "op": "in"}]), "/entries/2/conditions/0/value"),
        ({"name": "Kiln Row", "tenant_id": "t"}, "/tenant_id"),
        ({"name": " "}, "/name"),
        ({}, "/name"),
        ({"name": "Kiln Row", "entries": {}}, "/entries"),
    ],
)
def test_fault_is_named_by_its_place(tmp_path: Path, document: object, pointer: str) -> None:
    with pytest.raises(ValidationFailedError) as caught:
        load_book(write(tmp_path, document))
    assert [fault.pointer for fault in caught.value.faults] == [pointer]
    assert str(caught.value).startswith(f"book.json is not a valid book (at {pointer}: ")
    assert caught.value.details == {"file": "book.json"}


def test_sentence_names_some_faults_and_the_error_all(tmp_path: Path) -> None:
    entries = [{"content": 1} for _ in range(MAX_NAMED_FAULTS + 3)]
    with pytest.raises(ValidationFailedError) as caught:
        load_book(write(tmp_path, {"name": "Kiln Row", "entries": entries}))
    assert len(caught.value.faults) == MAX_NAMED_FAULTS + 3
    assert str(caught.value).endswith("; and 3 more)")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("requires", "pointer"),
    [(["nobody"], "/entries/2/requires/0"), (["odd"], "/entries/2/requires/0")],
)
def test_dependency_that_cannot_be_met(tmp_path: Path, requires: list[str], pointer: str) -> None:
    with pytest.raises(InvalidDependencyError) as caught:
        load_book(write(tmp_path, book_with(id="odd", requires=requires)))
    assert [fault.pointer for fault in caught.value.faults] == [pointer]
    assert "book.json" in str(caught.value)


def test_wrong_identity_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    with pytest.raises(ValidationFailedError) as caught:
        load_book(write(tmp_path, BOOK), book_id="kiln", revision=0)
    assert [fault.pointer for fault in caught.value.faults] == ["/book_id", "/revision"]
    assert caught.value.details == {}


def test_file_may_be_exactly_16_mib(tmp_path: Path) -> None:
    data = json.dumps(BOOK).encode()
    path = write(tmp_path, data + b" " * (16 * 1024 * 1024 - len(data)))
    assert load_book(path).name == "Kiln Row"


def test_one_byte_more_is_too_large(tmp_path: Path) -> None:
    data = json.dumps(BOOK).encode()
    path = write(tmp_path, data + b" " * (16 * 1024 * 1024 + 1 - len(data)))
    with pytest.raises(FileTooLargeError, match=r"book\.json is larger than 16 MiB") as caught:
        load_book(path)
    assert caught.value.details == {"file": "book.json", "limit_bytes": files.MAX_FILE_BYTES}


def test_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_book(tmp_path / "none.json")


def test_naming_an_error_without_faults_keeps_its_sentence() -> None:

    named = naming(InvalidInputError("It is odd.", figure=1), "a.json", file="a.json")
    assert str(named) == "a.json: It is odd."
    assert named.faults == ()
    assert named.details == {"figure": 1, "file": "a.json"}
    named = naming(InvalidInputError("x", faults=(Fault("", "is odd"),)), "a.json")
    assert str(named) == "a.json (at /: is odd)"
