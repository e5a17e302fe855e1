"""What a selection is asked with (docs/rules/native.md §4)."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from lorewell.model.base import Contract
from lorewell.model.entry import Distinct, OutletName, Position, Role
from lorewell.model.text import Integer, Number, StateObject, Text, fault, pointer

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

Strategy = Literal["rules", "hybrid"]
Explain = Literal["full", "selected", "none"]
RecallGate = Literal["loose", "strict"]


def is_uuid(text: str) -> bool:
    """Return whether the text is a UUID in its usual form, in either case."""
    return _UUID.fullmatch(text) is not None


def lower_uuid(text: str) -> str:
    """Return a UUID in lower case, and any other text as it is."""
    return text.lower() if is_uuid(text) else text


# Any other text than a UUID is one that no book has.
BookId = Annotated[Text, Field(max_length=200), AfterValidator(lower_uuid)]


class BookRef(Contract):
    """A book to select from; without `revision` its latest one."""

    book_id: BookId
    revision: Annotated[Integer, Field(ge=1)] | None = None


class Message(Contract):
    """One message of the chat."""

    role: Role
    content: Annotated[Text, Field(max_length=16_000)]


class PlacementCapabilities(Contract):
    """The places that the host really has. Replaces the default set entirely."""

    positions: Annotated[tuple[Position, ...], Field(max_length=8), Distinct] = ()
    outlets: Annotated[tuple[OutletName, ...], Field(max_length=50), Distinct] = ()


def check_distinct_books(books: tuple[BookRef, ...]) -> tuple[BookRef, ...]:
    """Return the books, none of which may be named twice."""
    seen: set[str] = set()
    for index, book in enumerate(books):
        if book.book_id in seen:
            raise fault(pointer(index, "book_id"), "is requested twice")
        seen.add(book.book_id)
    return books


class SelectRequest(Contract):
    """One turn: what was said, what is known, and how much may go in.

    `history` is oldest first and does not hold the current input, which is `query`. The three
    `recall_` fields matter under the strategy `hybrid` alone.
    """

    books: Annotated[tuple[BookRef, ...], Field(min_length=1, max_length=20)]
    query: Annotated[Text, Field(min_length=1, max_length=8_000)]
    history: Annotated[tuple[Message, ...], Field(max_length=100)] = ()
    state: StateObject = Field(default_factory=dict)
    audience: Annotated[Text, Field(min_length=1, max_length=64)] = "actor"
    strategy: Strategy = "rules"
    scan_depth: Annotated[Integer, Field(ge=0, le=100)] = 4
    token_budget: Annotated[Integer, Field(ge=0, le=32_000)] = 1500
    constant_budget_ratio: Annotated[Number, Field(ge=0, le=1)] = 0.35
    max_entries: Annotated[Integer, Field(ge=1, le=200)] = 50
    max_recursion_rounds: Annotated[Integer, Field(ge=0, le=5)] = 2
    seed: Annotated[Text, Field(max_length=200)] = "0"
    template_vars: Annotated[
        dict[Literal["char", "user"], Annotated[Text, Field(max_length=500)]], Field(max_length=2)
    ] = Field(default_factory=dict)
    placement_capabilities: PlacementCapabilities | None = None
    explain: Explain = "full"
    recall_floor: Annotated[Number, Field(ge=-1, le=1)] | None = None
    recall_limit: Annotated[Integer, Field(ge=0, le=100)] | None = None
    recall_gate: RecallGate = "loose"

    @field_validator("books", mode="after")
    @classmethod
    def _check_books(cls, books: tuple[BookRef, ...]) -> tuple[BookRef, ...]:
        return check_distinct_books(books)
