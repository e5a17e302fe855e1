"""Search in books, and token counts (docs/rules/native.md §9.4, §6)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from lorewell.model.base import Contract
from lorewell.model.select import BookRef, check_distinct_books
from lorewell.model.text import Flag, Integer, Name, Text, WholeText

SearchMode = Literal["lexical", "vector", "hybrid"]


class SearchRequest(Contract):
    """A search. The filters of a selection do not apply.

    Attributes:
        books: the books to search; null searches the latest revisions of all books of the tenant.
        query: the words or sentence to search for.
        mode: `lexical` ranks by words, `vector` by similarity, `hybrid` fuses both.
        limit: most results.
        include_disabled: whether disabled entries are found.
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
    """A found entry.

    Attributes:
        id: full id of the entry, `{book_id}:{revision}:{entry_id}`.
        book_id: the entry's book.
        revision: the book's revision.
        entry_id: the entry's id in its book.
        title: the entry's title.
        excerpt: at most 600 characters of the content, around the match.
        enabled: whether the entry can be selected.
        score: score of the search mode; higher is better.
        lexical_score: BM25 score; null if words did not rank the entry.
        vector_score: cosine similarity; null if vectors did not rank the entry.
    """

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
    """The results of a search.

    Attributes:
        results: best first.
        mode: the mode that was used.
        degraded: why the search was incomplete; empty if it was not.
        embedding_version: the embedding model that was used; null without vectors.
    """

    results: tuple[SearchResult, ...]
    mode: SearchMode
    degraded: tuple[str, ...]
    embedding_version: str | None


class TokenCountRequest(Contract):
    """Texts whose tokens to count.

    Attributes:
        texts: 1 to 1,000 texts.
        tokenizer: a tokenizer, or a model for its tokenizer; null means the service's own.
    """

    texts: Annotated[tuple[WholeText, ...], Field(min_length=1, max_length=1_000)]
    tokenizer: Name | None = None


class TokenCounts(Contract):
    """The token counts of texts.

    Attributes:
        tokenizer: the tokenizer that counted.
        counts: one for each text, in their order.
    """

    tokenizer: str
    counts: tuple[int, ...]
