"""What came of reading a foreign file (spec/native.md §11.3)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lorewell.model.base import Contract
from lorewell.model.text import Integer, Text

ExportFormat = Literal["native", "st_world", "character_book", "lorebook_v3"]
Count = Annotated[Integer, Field(ge=0)]


class BlockedEntry(Contract):
    """An entry that is kept but never selected: it needs what only its own program has."""

    entry_id: Text
    title: Text
    requirements: tuple[Text, ...]


class ImportNotice(Contract):
    """Something odd or repaired. Without `entry_id` it is about the file or the whole book."""

    entry_id: Text | None = None
    code: Text
    message: Text


class SourceFile(Contract):
    """The file that was read: its name as it was given, the hash and number of its bytes."""

    name: Text
    sha256: Text
    size: Count


class ImportReport(Contract):
    """What a file held and what became of it.

    `format` is the kind that the content showed, whatever the file's name says. `blocked` and
    `warnings` are in the order of the file.
    """

    format: Text
    entry_count: Count
    enabled_count: Count
    runtime_blocked_count: Count
    blocked: tuple[BlockedEntry, ...] = ()
    warnings: tuple[ImportNotice, ...] = ()
    source_file: SourceFile


class Loss(Contract):
    """Something of a book that the format of an export has no place for.

    `pointer` says where it is in our book; `kind` is the JSON type of its value. What was moved to
    `extensions` is kept there, but other programs do not act on it.
    """

    pointer: Text
    field: Text
    kind: Literal["null", "boolean", "number", "string", "array", "object"]
    why: Literal["unsupported", "moved_to_extensions"]
