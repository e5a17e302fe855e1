"""Reading a file takes time in proportion to its size, whatever is in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hostile_files import (
    FILES,
    TEXTS,
    VALUES,
    different_readers,
    dumped,
    fields_of,
    grows_too_fast,
    hostile_documents,
    many_entries,
    many_members,
)
from lorewell.formats.detect import FileKind
from lorewell.formats.registry import READERS

TEXT_CHARS = 600  # as in deep/test_import_scaling.py, but small
ITEMS = 20
ENTRIES = 30
MEMBERS = 300
FILE_BYTES = 20_000


def test_fields_are_those_that_readers_ask_for() -> None:
    assert [kind for kind in READERS if not fields_of(kind)] == [FileKind.PYGMALION]
    assert len(different_readers()) >= 9
    assert {"keysecondary", "comment", "group", "extensions"} <= {*fields_of(FileKind.ST_WORLD)}
    assert {"keyanti", "manual_text"} <= {*fields_of(FileKind.KOBOLD)}


@pytest.mark.parametrize("shape", TEXTS)
def test_text_in_every_field_of_every_reader(shape: str) -> None:
    assert slow(TEXTS[shape], TEXT_CHARS) == []


@pytest.mark.parametrize("shape", VALUES)
def test_value_in_every_field_of_every_reader(shape: str) -> None:
    assert slow(VALUES[shape], ITEMS) == []


def slow(make: Callable[[int], object], n: int) -> list[str]:
    found = [
        grows_too_fast(dumped(small), dumped(large), name)
        for kind in different_readers()
        for name, small, large in hostile_documents(kind, make, n)
    ]
    return [each for each in found if each]


@pytest.mark.parametrize("kind", READERS)
def test_many_entries_and_members(kind: FileKind) -> None:
    for many, n in ((many_entries, ENTRIES), (many_members, MEMBERS)):
        small, large = dumped(many(kind, n)), dumped(many(kind, 4 * n))
        assert grows_too_fast(small, large, kind) is None


@pytest.mark.parametrize("name", FILES)
def test_file(name: str) -> None:
    make = FILES[name]
    assert grows_too_fast(make(FILE_BYTES), make(4 * FILE_BYTES), name) is None
