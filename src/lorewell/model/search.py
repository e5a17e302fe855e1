"""Searching books, and counting tokens (docs/rules/native.md §9.4, §6)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from lorewell.model.base import Contract
from lorewell.model.select import BookRef, check_distinct_books
from lorewell.model.text import Flag, Integer, Name, Text, WholeText

SearchMode = Literal["lexical", "vector", "hybrid"]


class SearchRequest(Contract):
    """What to look for. No filter of a selection applies; disabled entries are found too.

    Without `books` all books of the tenant are searched, in their latest revisions.
    """

    books: Annotated[tuple[BookRef, ...], Field(min_length=1, max_length=20)] | None = None
    query: Annotated[Text, Field(min_length=1, max_length=8_000)]
    mode: SearchMode = "lexical"
    limit: Annotated[Integer, Field(ge=1, le=100)] = 20
    include_disabled: Flag = True

    @field_validator("books", mode="after")
    @classmethod
    def _check_books(cls, books: tuple[BookRef, ...] | None) -> tuple[BookRef, ...] | None:
        return None if books is None else check_distinct_books(books)


class SearchResult(Contract):
    """An entry that was found; `excerpt` is the author's text, at most 600 characters."""

    id: str
    book_id: str
    revision: int
    entry_id: str
    title: str
    excerpt: str
    enabled: bool
    score: float
    lexical_score: float | None
    vector_score: float | None


class SearchResponse(Contract):
    """Results, best first."""

    results: tuple[SearchResult, ...]
    mode: SearchMode
    degraded: tuple[str, ...]
    embedding_version: str | None


class TokenCountRequest(Contract):
    """Texts to be counted, in a bundled encoding."""

    texts: Annotated[tuple[WholeText, ...], Field(min_length=1, max_length=1_000)]
    tokenizer: Name | None = None


class TokenCounts(Contract):
    """The tokens of each text, in their order."""

    tokenizer: str
    counts: tuple[int, ...]
