"""The long form of tests/property/test_import_scaling.py: each field alone, and larger sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from hostile_files import (
    FILES,
    TEXTS,
    VALUES,
    dumped,
    fields_of,
    grows_too_fast,
    hostile_entry,
    many_entries,
    many_members,
)
from lorewell.formats.detect import FileKind
from lorewell.formats.registry import READERS

TEXT_CHARS: Final = 50_000
ITEMS: Final = 2_500
FILE_BYTES: Final = 1_000_000


def slow(kind: FileKind, make: Callable[[int], object], n: int) -> list[str]:
    small, large = make(n), make(4 * n)
    found = [
        grows_too_fast(
            dumped(hostile_entry(kind, small, name)), dumped(hostile_entry(kind, large, name)), name
        )
        for name in fields_of(kind)
    ]
    return [each for each in found if each]


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("shape", TEXTS)
def test_text_in_a_field(kind: FileKind, shape: str) -> None:
    assert slow(kind, TEXTS[shape], TEXT_CHARS) == []


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("shape", VALUES)
def test_value_in_a_field(kind: FileKind, shape: str) -> None:
    assert slow(kind, VALUES[shape], ITEMS) == []


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("many", [many_entries, many_members])
def test_many_entries_and_members(kind: FileKind, many: Callable[[FileKind, int], object]) -> None:
    small, large = dumped(many(kind, 1_000)), dumped(many(kind, 4_000))
    assert grows_too_fast(small, large, kind) is None


@pytest.mark.parametrize("name", FILES)
def test_file(name: str) -> None:
    make = FILES[name]
    assert grows_too_fast(make(FILE_BYTES), make(4 * FILE_BYTES), name) is None
