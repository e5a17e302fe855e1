"""What is odd in a book, told before it goes wrong in a chat."""

from __future__ import annotations

from itertools import chain

from lorewell.engine.matching.keys import RegexKey
from lorewell.engine.native.compiled import CompiledBook, CompiledEntry, Diagnostic
from lorewell.jsregex import Look, RegexGuard

_ANY_TEXT = " "


def lint(book: CompiledBook) -> tuple[Diagnostic, ...]:
    """Return what its author should know of the book, in stored order of the entries.

    Beside what compiling found, the regex keys that never match because they can't be compiled.

    >>> from lorewell import BookCreate, Entry, compile_book
    >>> lamp = Entry(id="lamp", content="It burns.", keys=["/lamp(/", " "])
    >>> [
    ...     (found.entry_id, found.code)
    ...     for found in lint(compile_book(BookCreate(name="B", entries=[lamp])))
    ... ]
    [('lamp', 'blank_key'), ('lamp', 'regex_invalid')]
    """
    places = {entry.spec.id: entry.index for entry in book.entries}
    found = chain(book.diagnostics, _broken_regexes(book))
    return tuple(sorted(found, key=lambda diagnostic: places[diagnostic.entry_id]))


def _broken_regexes(book: CompiledBook) -> list[Diagnostic]:
    entries = [book.entries[index] for index in book.with_regex]
    looks = [
        Look(
            parts=((0, len(_ANY_TEXT)),),
            primary=(),
            fallback=True,
            secondary=tuple(k.pattern for k in _regexes(entry)),
        )
        for entry in entries
    ]
    if not looks:
        return []
    answers = RegexGuard().search(_ANY_TEXT, looks)
    return [
        Diagnostic(
            entry.spec.id, "regex_invalid", f"{key.text} is no valid regex: it never matches"
        )
        for entry, seen in zip(entries, answers, strict=True)
        for key, outcome in zip(_regexes(entry), seen.secondary, strict=True)
        if outcome.verdict == "invalid"
    ]


def _regexes(entry: CompiledEntry) -> list[RegexKey]:
    return [key for key in (*entry.primary, *entry.secondary) if isinstance(key, RegexKey)]
