"""What came of reading a foreign file (docs/rules/native.md §11.3)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lorewell.model.base import Contract
from lorewell.model.text import Integer, Text

ExportFormat = Literal["native", "st_world", "character_book", "lorebook_v3", "replica"]
LossReason = Literal[
    "unsupported",
    "wrong_type",
    "clamped",
    "cut",
    "duplicate_id",
    "odd_id",
    "blocked",
    "no_entry",
    "not_taken",
    "moved_to_extensions",
]
Suspicion = Literal[
    "ejs",
    "mvu",
    "charinfo",
    "script",
    "macro",
    "decorators",
    "link",
    "hidden_characters",
    "bidirectional",
    "prompt_override",
    "expensive_regex",
]
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


class Loss(Contract):
    """Something that could not be held as it was, or has no effect here or there.

    `pointer` says where: in the file that was imported, or in our book that was exported; `kind`
    is the JSON type of the value.

    `why`, of an import: `unsupported` (nothing here acts on it; `source.raw` or `metadata.raw`
    holds it), `wrong_type` (it can't stand there; the default counts), `clamped` and `cut` (to a
    bound), `duplicate_id` and `odd_id` (the entry has another one now), `blocked` (dynamic content,
    for which the entry is never selected), `no_entry` (left out of the entries), `not_taken` (no
    part of the lorebook; not kept at all). Of an export: `unsupported` (left out),
    `moved_to_extensions` (kept there, but other programs do not act on it).
    """

    pointer: Text
    field: Text
    kind: Literal["null", "boolean", "number", "string", "array", "object"]
    why: LossReason


class Quarantined(Contract):
    """A stretch of an entry's text that a person should look at before it meets a model.

    Attributes:
        entry_id: whose.
        pointer: to the text, in the file; to what holds it where names are very long.
        what: what is there. Nothing of it is run, fetched or obeyed here.
        span: half-open, in code points of the text.
        text: what stands there, its first 80 characters.
    """

    entry_id: Text
    pointer: Text
    what: Suspicion
    span: tuple[Count, Count]
    text: Text


class ImportReport(Contract):
    """What a file held and what became of it.

    `format` is the kind that the content showed, whatever the file's name says. All lists are in
    the order of the file; of each warning's code, each loss's `why` and each `what` in quarantine
    there are at most 5,000, and a warning says how many more were found.
    """

    format: Text
    entry_count: Count
    enabled_count: Count
    runtime_blocked_count: Count
    blocked: tuple[BlockedEntry, ...] = ()
    warnings: tuple[ImportNotice, ...] = ()
    losses: tuple[Loss, ...] = ()
    quarantine: tuple[Quarantined, ...] = ()
    source_file: SourceFile
