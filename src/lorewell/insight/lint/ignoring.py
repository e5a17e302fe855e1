"""The codes that an author does not want to hear of, as the book keeps them.

An entry or a book names them in its metadata: `{"lint": {"ignore": ["LW005", "key-shared"]}}`. A
file of another program keeps the metadata under `extensions.lorewell.metadata`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lorewell.insight.lint.codes import matching
from lorewell.insight.lint.report import Ignored
from lorewell.model import BookCreate


def ignored_in(book: BookCreate) -> Ignored:
    """Return the codes that a book and its entries ignore."""
    entries = {
        index: codes
        for index, spec in enumerate(book.entries)
        if (codes := _codes(spec.metadata, spec.source.get("raw")))
    }
    return Ignored(_codes(book.metadata, book.metadata.get("raw")), entries)


def _codes(metadata: Mapping[str, object], raw: object) -> frozenset[str]:
    kept = _member(_member(raw, "extensions"), "lorewell")
    places = (metadata, _member(kept, "metadata"), kept)
    return frozenset(
        code for place in places for wanted in _wanted(place) for code in matching(wanted)
    )


def _wanted(place: object) -> Iterator[str]:
    listed = _member(_member(place, "lint"), "ignore")
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, str) and each:
            yield each


def _member(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None
