"""The diagnostics of a compiled book, each of which is a kind of finding too."""

from __future__ import annotations

from itertools import chain

from lorewell.engine.matching.keys import RegexKey
from lorewell.engine.native.compiled import CompiledBook, CompiledEntry, Diagnostic
from lorewell.jsregex import Look, RegexGuard

_ANY_TEXT = " "


def diagnostics(book: CompiledBook) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of a book, in stored order of the entries.

    These are the diagnostics of `compile_book`, and the regex keys that can't be compiled and so
    never match.

    >>> from lorewell import BookCreate, Entry, compile_book
    >>> lamp = Entry(id="lamp", content="It burns.", keys=["/lamp(/", " "])
    >>> [
    ...     (found.entry_id, found.code)
    ...     for found in diagnostics(compile_book(BookCreate(name="B", entries=[lamp])))
    ... ]
    [('lamp', 'blank_key'), ('lamp', 'regex_invalid')]
    """
    places = {entry.spec.id: entry.index for entry in book.entries}
    found = chain(book.diagnostics, _broken_regex_keys(book))
    return tuple(sorted(found, key=lambda diagnostic: places[diagnostic.entry_id]))


def _broken_regex_keys(book: CompiledBook) -> list[Diagnostic]:
    entries = [book.entries[index] for index in book.with_regex]
    looks = [
        Look(
            parts=((0, len(_ANY_TEXT)),),
            primary=(),
            fallback=True,
            secondary=tuple(k.pattern for k in _regex_keys(entry)),
        )
        for entry in entries
    ]
    if not looks:
        return []
    results = RegexGuard().search(_ANY_TEXT, looks)
    return [
        Diagnostic(
            entry.spec.id, "regex_invalid", f"{key.text} is not a valid regex: it never matches"
        )
        for entry, result in zip(entries, results, strict=True)
        for key, outcome in zip(_regex_keys(entry), result.secondary, strict=True)
        if outcome.verdict == "invalid"
    ]


def _regex_keys(entry: CompiledEntry) -> list[RegexKey]:
    return [key for key in (*entry.primary, *entry.secondary) if isinstance(key, RegexKey)]
