"""Bindings: the books that a prompt uses (docs/rules/native.md §6, Binding item)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from lorewell.model.base import Contract
from lorewell.model.book import BookCreate
from lorewell.model.entry import Level
from lorewell.model.select import BookId, BookRef
from lorewell.model.text import Flag, Integer, fault, pointer

Policy = Literal["native", "sillytavern", "replica"]
PolicyChoice = Literal["auto", "native", "sillytavern", "replica"]
MAX_BINDINGS = 20

_SILLYTAVERN_FORMATS = frozenset({"st_world", "character_book", "lorebook_v3"})
_CARD = "chara_card_v"  # of any version
_REPLICA_FORMAT = "replica"


class Binding(Contract):
    """A book that a prompt uses.

    Attributes:
        book_id: the book.
        revision: the pinned revision; null follows the latest one.
        position: bindings are ordered by this number, lower first.
        enabled: whether the binding is used.
    """

    book_id: BookId
    revision: Annotated[Integer, Field(ge=1)] | None = None
    position: Level = 0
    enabled: Flag = True


class BindingsPut(Contract):
    """A prompt's bindings. They replace all earlier ones.

    Attributes:
        bindings: at most 20, each book once; an empty list removes all bindings.
        policy: the rules that select lore for the prompt; `auto` chooses by the books' formats.
    """

    bindings: Annotated[tuple[Binding, ...], Field(max_length=MAX_BINDINGS)]
    policy: PolicyChoice = "auto"

    @field_validator("bindings", mode="after")
    @classmethod
    def _check_books(cls, bindings: tuple[Binding, ...]) -> tuple[Binding, ...]:
        seen: set[str] = set()
        for index, binding in enumerate(bindings):
            if binding.book_id in seen:
                raise fault(pointer(index, "book_id"), "is bound twice")
            seen.add(binding.book_id)
        return bindings


class BindingSet(Contract):
    """A prompt's bindings as stored.

    Attributes:
        tenant_id: the tenant.
        prompt_id: the prompt.
        policy: the stored policy, which may be `auto`.
        bindings: in stored order, disabled ones included.
    """

    tenant_id: str
    prompt_id: str
    policy: PolicyChoice
    bindings: tuple[Binding, ...]


class ResolvedBindings(Contract):
    """The revisions that a prompt uses now.

    Attributes:
        tenant_id: the tenant.
        prompt_id: the prompt.
        policy: the policy that applies; never `auto`.
        books: revisions of the enabled bindings, in order.
    """

    tenant_id: str
    prompt_id: str
    policy: Policy
    books: tuple[BookRef, ...]


def original_policy(book: BookCreate) -> Policy:
    """Return the policy that a book was written for, by the formats its entries came from."""
    named = (entry.source.get("format") for entry in book.entries)
    formats = {each for each in named if isinstance(each, str)}
    if formats & _SILLYTAVERN_FORMATS or any(each.startswith(_CARD) for each in formats):
        return "sillytavern"
    return "replica" if _REPLICA_FORMAT in formats else "native"
