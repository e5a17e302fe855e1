"""A revision as one document, as the store keeps it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lorewell.app.rows import RevisionRow
from lorewell.engine.native.compile import check_requires
from lorewell.model import BookCreate, ImportReport, NativeReport, content_hash
from lorewell.model.binding import written_for
from lorewell.model.parse import parse_json, parse_model
from lorewell.model.text import canonical_json

Report = ImportReport | NativeReport


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedBook:
    """A book ready to be written: everything that takes time is done.

    Attributes:
        content: the canonical JSON of name, description, metadata and entries, all defaults
            written out.
        origin: the policy that its entries were written for.
    """

    name: str
    entry_count: int
    content_hash: str
    content: bytes
    origin: str
    report: Report

    @classmethod
    def again(cls, row: RevisionRow, content: bytes) -> PreparedBook:
        """Return a stored revision, to be written once more."""
        return cls(
            name=row.name,
            entry_count=row.entry_count,
            content_hash=row.content_hash,
            content=content,
            origin=row.origin,
            report=_parse_report(row.import_report),
        )

    def row(self, tenant_id: str, book_id: str, revision: int, now: datetime) -> RevisionRow:
        """Return what the store keeps of it beside the content."""
        return RevisionRow(
            tenant_id=tenant_id,
            book_id=book_id,
            revision=revision,
            name=self.name,
            entry_count=self.entry_count,
            content_hash=self.content_hash,
            origin=self.origin,
            import_report=self.report.model_dump_json().encode(),
            created_at=now,
        )


def prepare(book: BookCreate, report: ImportReport | None = None) -> PreparedBook:
    """Return the book ready to be written.

    Raises:
        InvalidDependencyError: its `requires` can't be met.
    """
    check_requires(book.entries)
    document = {
        "name": book.name,
        "description": book.description,
        "metadata": book.metadata,
        "entries": [entry.model_dump(mode="json") for entry in book.entries],
    }
    return PreparedBook(
        name=book.name,
        entry_count=len(book.entries),
        content_hash=content_hash(book),
        content=canonical_json(document),
        origin=written_for(book),
        report=report or NativeReport(entry_count=len(book.entries)),
    )


def load_document(content: bytes) -> Mapping[str, Any]:
    """Return the document of a revision."""
    # Not the faster decoder of responses: it can't hold integers of over 64 bits.
    document: Mapping[str, Any] = json.loads(content)
    return document


def load_model(content: bytes, *, watch: Callable[[], None] | None = None) -> BookCreate:
    """Return the book of a revision.

    Args:
        content: as it is stored.
        watch: called every few milliseconds; what it raises passes through.
    """
    if watch is None:
        return BookCreate.model_validate(json.loads(content))
    document = parse_json(content, max_values=len(content), watch=watch)
    return parse_model(BookCreate, document, watch=watch)


def _parse_report(report: bytes) -> Report:
    document = json.loads(report)
    kind = ImportReport if "source_file" in document else NativeReport
    return kind.model_validate(document)
