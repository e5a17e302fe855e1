"""Import reports (docs/rules/native.md §11.3)."""

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
    """An entry that is kept but never selected: it needs features of the program it comes from.

    Attributes:
        entry_id: the entry's id.
        title: its title.
        requirements: the features that it needs.
    """

    entry_id: Text
    title: Text
    requirements: tuple[Text, ...]


class ImportNotice(Contract):
    """A warning about an oddity or a repair.

    Attributes:
        entry_id: the entry; null for the file or the whole book.
        code: the stable, machine-readable name of the warning.
        message: the warning for people.
    """

    entry_id: Text | None = None
    code: Text
    message: Text


class SourceFile(Contract):
    """The imported file.

    Attributes:
        name: its name as given.
        sha256: SHA-256 of its bytes, in lowercase hex.
        size: number of its bytes.
    """

    name: Text
    sha256: Text
    size: Count


class Loss(Contract):
    """A value that was changed, dropped, or has no effect after an import or export.

    Attributes:
        pointer: JSON pointer to the value, in the imported file or the exported book.
        field: name of the field.
        kind: JSON type of the value.
        why: in an import: `unsupported`: kept in `source.raw` or `metadata.raw`, without effect.
            `wrong_type`: replaced by the default. `clamped`, `cut`: changed to fit a bound.
            `duplicate_id`, `odd_id`: the entry got another id. `blocked`: dynamic content, so the
            entry is never selected. `no_entry`: not an entry, so left out. `not_taken`: not part
            of the lorebook, so not kept. In an export: `unsupported`: left out.
            `moved_to_extensions`: kept, but other programs ignore it.
    """

    pointer: Text
    field: Text
    kind: Literal["null", "boolean", "number", "string", "array", "object"]
    why: LossReason


class Quarantined(Contract):
    """A suspicious part of an entry's text, to review before a model reads it.

    Attributes:
        entry_id: the entry.
        pointer: JSON pointer to the text in the file, or to its container where names are very
            long.
        what: kind of the finding. Lorewell never runs, fetches or follows it.
        span: half-open, in code points of the text.
        text: the first 80 characters of the part.
    """

    entry_id: Text
    pointer: Text
    what: Suspicion
    span: tuple[Count, Count]
    text: Text


class EntryMacros(Contract):
    """The macros of an entry's keys and content.

    Attributes:
        entry_id: the entry.
        macros: their names in lower case, at most 100, in the order of their first use; `.` and
            `$` stand for variables in short form, `//` for comments.
        unknown: those that the policy of the book's format lacks: they stay as written, unless a
            request has texts for them.
    """

    entry_id: Text
    macros: tuple[Text, ...]
    unknown: tuple[Text, ...]


class ImportReport(Contract):
    """The report of an import. Lists are in the order of the file.

    Of each warning code, each `why` of a loss and each `what` in quarantine at most 5,000 items
    are listed; a warning counts the rest.

    Attributes:
        format: the format, as detected from the content.
        entry_count: number of imported entries.
        enabled_count: number of enabled entries.
        runtime_blocked_count: number of entries that are never selected, since they need features
            of another program.
        blocked: these entries.
        warnings: oddities and repairs.
        losses: values that were changed, dropped, or have no effect.
        quarantine: suspicious parts of texts.
        source_file: the file.
        macros: the macros that entries need, for at most 5,000 entries.
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
    macros: tuple[EntryMacros, ...] = ()
