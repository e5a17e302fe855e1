"""Rules for keys and contents that several books have."""

from __future__ import annotations

from collections.abc import Sequence

from lorewell.insight.lint.judged import JudgedBook, JudgedEntry
from lorewell.insight.lint.report import Report, shown
from lorewell.model.text import is_blank


def check_other_books(book: JudgedBook, others: Sequence[JudgedBook], report: Report) -> None:
    """Report keys and contents of a book that other books have too."""
    for other in others:
        keys = {
            key.wanted.casefold(): entry
            for entry in other.entries
            for key in entry.plain_keys
            if _is_free(entry)
        }
        contents = {_normal(entry): entry for entry in other.entries}
        name = shown(other.book.name)
        for entry in book.entries:
            book.steps.spend("lint", 1 + len(entry.keys))
            twin = contents.get(_normal(entry))
            if twin is not None and not is_blank(entry.content):
                text = f"The book {name} has an entry with the same content: {_named(twin)}."
                report.add("content-repeated", text, entry, at="content")
                continue
            shared = [
                (key, keys[key.wanted.casefold()])
                for key in entry.plain_keys
                if _is_free(entry) and key.wanted.casefold() in keys
            ]
            for key, owner in shared[:1]:
                text = f"The key {shown(key.text)} triggers {_named(owner)} of the book {name} too."
                report.add("key-shared", text, entry, at=key.at)


def _named(entry: JudgedEntry) -> str:
    return shown(entry.spec.title or entry.id)


def _normal(entry: JudgedEntry) -> str:
    return " ".join(entry.content.split()).casefold()


def _is_free(entry: JudgedEntry) -> bool:
    return not (entry.always or entry.limited or entry.secondary or entry.blocked)
