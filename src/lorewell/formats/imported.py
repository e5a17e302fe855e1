"""The result of an import: a native book and the report."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from lorewell.formats.json_text import storable
from lorewell.formats.lorebook import NO_BOOK
from lorewell.formats.macros import entry_macros
from lorewell.formats.notes import ImportNotes
from lorewell.model import BookCreate, ImportReport
from lorewell.model.imports import BlockedEntry, SourceFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedBook:
    """A book out of a file, with its report.

    Attributes:
        book: the book; importing stores nothing.
        report: format, counts, blocked entries, warnings and losses.
    """

    book: BookCreate
    report: ImportReport

    @property
    def holds_book(self) -> bool:
        """Whether the file has a lorebook; false for a card without one."""
        return all(warning.code != NO_BOOK for warning in self.report.warnings)


def imported(
    book: BookCreate, *, format_word: str, notes: ImportNotes, data: bytes, file_name: str
) -> ImportedBook:
    """Return the book with its report.

    Source: docs/rules/native.md §11.3.
    """
    blocked = tuple(
        BlockedEntry(entry_id=entry.id, title=entry.title, requirements=entry.runtime_requirements)
        for entry in book.entries
        if entry.runtime_requirements
    )
    report = ImportReport(
        format=format_word,
        entry_count=len(book.entries),
        enabled_count=sum(entry.enabled for entry in book.entries),
        runtime_blocked_count=len(blocked),
        blocked=blocked,
        warnings=notes.warnings(),
        losses=notes.losses(),
        quarantine=notes.quarantined(),
        macros=entry_macros(book, notes.steps),
        source_file=SourceFile(
            name=storable(file_name), sha256=hashlib.sha256(data).hexdigest(), size=len(data)
        ),
    )
    return ImportedBook(book=book, report=report)
