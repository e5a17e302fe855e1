"""Applies the fixes of findings to a book."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from lorewell.model import BookCreate
from lorewell.model.lint import Finding

MAX_PASSES = 10  # one fix can make room for another


def fix(
    book: BookCreate, find: Callable[[BookCreate], Sequence[Finding]]
) -> tuple[BookCreate, Sequence[Finding]]:
    """Return a book with all fixes applied, and the findings that are left.

    Args:
        book: the book; it is not changed.
        find: lints a book; only the fixes of its findings are applied.
    """
    findings = find(book)
    for _ in range(MAX_PASSES):
        changed = apply_fixes(book, findings)
        if changed is book:
            break
        book, findings = changed, find(changed)
    return book, findings


def apply_fixes(book: BookCreate, findings: Iterable[Finding]) -> BookCreate:
    """Return the book with the first fix of each finding; of two for one value the first counts.

    The book itself if there is nothing to apply.
    """
    changes: dict[int, dict[str, object]] = defaultdict(dict)
    for finding in findings:
        for operation in finding.fixes[0].patch if finding.fixes else ():
            _, _, index, field = operation.path.split("/")
            value = operation.value
            changes[int(index)].setdefault(
                field, tuple(value) if isinstance(value, list) else value
            )
    if not changes:
        return book
    entries = tuple(
        entry.model_copy(update=changes[index]) if index in changes else entry
        for index, entry in enumerate(book.entries)
    )
    return book.model_copy(update={"entries": entries})
