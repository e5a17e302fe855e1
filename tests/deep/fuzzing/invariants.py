"""What holds for any file whatsoever: it is refused in words, or its book is whole."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

from lorewell import BookCreate, ImportedBook, ImportReport, import_file, load_book
from lorewell.errors import (
    FileTooLargeError,
    ImportInvalidError,
    InvalidDependencyError,
    LorewellError,
    UnsupportedMediaTypeError,
    ValidationFailedError,
)
from lorewell.formats import open_book
from lorewell.formats.decode import decode
from lorewell.formats.detect import CARDS, FileKind
from lorewell.formats.export import EXPORTS, export_book, put_into_card
from lorewell.formats.export.book import origin_of
from lorewell.formats.export.entries import says_use_regex
from lorewell.formats.export.replica import came_from_replica
from lorewell.formats.inspection import MAX_PARTS, inspect_bytes
from lorewell.formats.losses import json_type
from lorewell.formats.notes import ImportNotes
from lorewell.model.book import content_hash
from lorewell.model.imports import ExportFormat
from lorewell.model.parse import parse_model

REFUSALS: Final = frozenset(
    [ImportInvalidError, UnsupportedMediaTypeError, ValidationFailedError, FileTooLargeError]
)
NAME: Final = "港 harbour.json"
_JSON_CARDS: Final = frozenset(kind.value for kind in CARDS)
_LAMP: Final = BookCreate(name="灯", entries=({"id": "0", "keys": ["灯"], "content": "🏮"},))
_LONG_NAME, _LONG_POINTER = 190, 400  # places are quoted up to about this many characters
_ORIGINS: Final[dict[str | None, tuple[ExportFormat, ...]]] = {
    "world_info": ("st_world",),
    "card": ("character_book", "lorebook_v3"),
    "replica": ("replica",),
}


class Check(Protocol):
    """Reads a file and asserts what holds for any."""

    def __call__(self, data: bytes, *, with_exports: bool = True) -> str | None: ...


def check(data: bytes, *, name: str = NAME, with_exports: bool = True) -> str | None:
    """Return the format of a file's report, or None where it was refused; assert what holds.

    Args:
        data: the file.
        name: its name.
        with_exports: whether the book is written, too, which takes most of the time.
    """
    try:
        found = import_file(data, name=name)
    except LorewellError as error:
        _check_refusal(error, name)
        if error.faults:
            document = decode(data, name=name, notes=ImportNotes()).document.value
            for fault in error.faults:  # the member itself may be what is missing
                _at(document, fault.pointer.rpartition("/")[0])
        found = None
    if with_exports:
        _check_putting_into(data)
        _check_inspection(data, name)
    if found is None:
        return None
    _check_book(found, data)
    _check_places(found, decode(data, name=name, notes=ImportNotes()).document.value)
    if with_exports:
        assert import_file(data, name=name) == found
        for each in EXPORTS:
            _check_left_alone(found.book, each, _check_export(found.book, each))
        if found.report.format in _JSON_CARDS and name == NAME:  # a card in YAML takes no book
            _check_card(found, data, name)
    return found.report.format


def check_opening(data: bytes, *, with_exports: bool = True) -> str | None:
    """Do the same for a file that is opened: a book of ours is taken as it is, or refused."""
    with TemporaryDirectory() as folder:
        path = Path(folder, NAME)
        path.write_bytes(data)
        try:
            found = open_book(path)
        except LorewellError as error:
            _check_refusal(error, NAME)
            return None
        _check_book(found, data)
        try:
            load_book(path)
        except InvalidDependencyError:
            assert any(entry.requires for entry in found.book.entries)
        except LorewellError as error:
            _check_refusal(error, NAME)
            assert not found.holds_book
    if with_exports:
        assert len(content_hash(found.book)) == 64
        for each in EXPORTS:
            _check_export(found.book, each)
    return found.report.format


def _plain(value: object) -> bytes:
    return json.dumps(value, allow_nan=False, ensure_ascii=False).encode()


def _check_refusal(error: LorewellError, name: str) -> None:
    assert type(error) in REFUSALS, f"{type(error).__name__} left: {error}"
    assert str(error).encode()
    assert _plain(error.details)
    assert error.details["file"] == name
    for fault in error.faults:
        assert not fault.pointer or fault.pointer.startswith("/")
        assert (fault.pointer + fault.detail).encode()


def _check_book(found: ImportedBook, data: bytes) -> None:
    book, report = found.book, found.report
    assert BookCreate.model_validate_json(book.model_dump_json()) == book
    assert ImportReport.model_validate_json(report.model_dump_json()) == report
    ids = {entry.id for entry in book.entries}
    blocked = {entry.id for entry in book.entries if entry.runtime_requirements}
    assert len(ids) == len(book.entries) == report.entry_count
    assert report.enabled_count == sum(entry.enabled for entry in book.entries)
    assert report.runtime_blocked_count == len(blocked) == len(report.blocked)
    assert {entry.entry_id for entry in report.blocked} == blocked
    assert {notice.entry_id for notice in report.warnings} <= ids | {None}
    assert {suspect.entry_id for suspect in report.quarantine} <= ids
    assert report.source_file.sha256 == hashlib.sha256(data).hexdigest()
    assert report.source_file.size == len(data)


def _check_places(found: ImportedBook, document: object) -> None:
    """Check that every loss and suspicion names a place of the file, and what stands there."""
    for loss in found.report.losses:
        assert json_type(_at(document, loss.pointer)) == loss.kind, loss
        assert loss.field == _steps(loss.pointer)[-1]
    for suspect in found.report.quarantine:
        text = _at(document, suspect.pointer)
        if isinstance(text, str):
            stretch = text[slice(*suspect.span)]
            assert stretch, suspect
            assert stretch.startswith(suspect.text), suspect
        else:  # what holds the text: names are too long to say them all
            assert len(suspect.pointer) > _LONG_POINTER or _has_long_name(text), suspect


def _steps(pointer: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")]


def _at(document: Any, pointer: str) -> Any:
    for step in _steps(pointer)[1:]:
        document = document[int(step) if isinstance(document, list) else step]
    return document


def _has_long_name(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_has_long_name, value))
    below = value if isinstance(value, dict) else {}
    return any(len(name) > _LONG_NAME or _has_long_name(each) for name, each in below.items())


def _check_inspection(data: bytes, name: str) -> None:
    seen = inspect_bytes(data, name=name)
    assert len(seen.parts) <= min(seen.part_count, MAX_PARTS)
    assert _plain([seen.card_name, *seen.parts])


def _check_export(book: BookCreate, format_: ExportFormat) -> list[Any]:
    """Check that a book can be written; return its entries as they are written."""
    document: Any = json.loads(_plain(export_book(book, format_).document))
    if format_ == "native":
        assert parse_model(BookCreate, document) == book
    inside = document["data"] if format_ == "lorebook_v3" else document
    entries = inside["entries"]
    assert len(entries) == len(book.entries)
    return list(entries.values()) if isinstance(entries, dict) else entries


def _check_left_alone(book: BookCreate, format_: ExportFormat, shown: list[Any]) -> None:
    """Check that entries that go back to a file of their own form are what they were."""
    theirs = any(map(came_from_replica, book.entries))
    if format_ not in _ORIGINS.get("replica" if theirs else origin_of(book), ()):
        return
    for entry, back in zip(book.entries, shown, strict=True):
        if format_ == "character_book" and says_use_regex(entry):
            continue  # a card V2 gets fields for the decorators of V3
        raw = json.loads(_plain(entry.source["raw"]))
        if theirs and "key" in entry.source:  # in its map it had a name, and may have had no uid
            back = {name: back[name] for name in back if name != "uid" or name in raw}  # noqa: PLW2901
            raw = {name: back[name] if name == "uid" else raw[name] for name in raw}
        assert {**back, **raw} == back, "a member is lost"
        assert format_ == "lorebook_v3" or _plain(back) == _plain(raw), "it was not left alone"


def _check_card(found: ImportedBook, data: bytes, name: str) -> None:
    """Check that the book goes back into its own card, and comes out of it again."""
    again = import_file(put_into_card(found.book, data), name=name)
    expected_formats = {found.report.format}
    if found.report.format == FileKind.CARD_V1:
        expected_formats.add(FileKind.CARD_V2)
    assert again.report.format in expected_formats
    assert [entry.id for entry in again.book.entries] == [entry.id for entry in found.book.entries]


def _check_putting_into(data: bytes) -> None:
    """Check that any file takes another book, or is refused."""
    try:
        made = put_into_card(_LAMP, data)
    except ImportInvalidError:
        return
    assert import_file(made, name=NAME).book.entries[0].content == _LAMP.entries[0].content


def expected(name: str) -> str | None:
    """Return the format that the seeds of a target have; None where they have several or none."""
    several = {"png", "risum", "text", "yaml"}
    words = {"webp": "card_webp", "charx": "charx", "jpeg": "charx"}
    return None if name in several else words.get(name, name)
