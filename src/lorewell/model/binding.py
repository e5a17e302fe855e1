"""Bindings: the books that a prompt uses (docs/rules/native.md §6, Binding item)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator

from lorewell.model.activate import BookSource
from lorewell.model.base import Contract
from lorewell.model.book import BookCreate
from lorewell.model.entry import Level
from lorewell.model.prompt_settings import NO_SETTINGS, PromptSettings
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
        source: what the book counts as under the policies `sillytavern` and `replica`. The latter
            knows only `global` and, for one book, `character`; all others count as global there.
    """

    book_id: BookId
    revision: Annotated[Integer, Field(ge=1)] | None = None
    position: Level = 0
    enabled: Flag = True
    source: BookSource = "global"


class BindingsPut(Contract):
    """A prompt's bindings. They replace all earlier ones.

    Attributes:
        bindings: at most 20, each book once; an empty list removes all bindings.
        policy: the rules that select lore for the prompt; `auto` chooses by the books' formats.
        settings: how the prompt's turns use the books; those not given follow the service.
    """

    bindings: Annotated[tuple[Binding, ...], Field(max_length=MAX_BINDINGS)]
    policy: PolicyChoice = "auto"
    settings: PromptSettings = NO_SETTINGS

    if TYPE_CHECKING:  # what callers may pass: fields are tuples, arguments any sequences

        def __init__(
            self,
            *,
            bindings: Sequence[Binding | Mapping[str, Any]],
            policy: PolicyChoice = ...,
            settings: PromptSettings | Mapping[str, Any] = ...,
        ) -> None: ...

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
        settings: how the prompt's turns use the books.
    """

    tenant_id: str
    prompt_id: str
    policy: PolicyChoice
    bindings: tuple[Binding, ...]
    settings: PromptSettings = NO_SETTINGS


class PromptInfo(Contract):
    """A prompt that uses books.

    Attributes:
        prompt_id: its name.
        policy: the stored policy, which may be `auto`.
        book_count: number of its enabled bindings.
    """

    prompt_id: str
    policy: PolicyChoice
    book_count: int


class PromptPage(Contract):
    """A page of prompts.

    Attributes:
        prompts: by name.
        next_cursor: `cursor` of the next page; null on the last page.
    """

    prompts: tuple[PromptInfo, ...]
    next_cursor: str | None


class BoundBook(BookRef):
    """A revision that a prompt uses.

    Attributes:
        source: what the book counts as.
    """

    model_config = ConfigDict(from_attributes=True)  # a plain `BookRef` is a global book

    source: BookSource = "global"


class ResolvedBindings(Contract):
    """The revisions that a prompt uses now.

    Attributes:
        tenant_id: the tenant.
        prompt_id: the prompt.
        policy: the policy that applies; never `auto`.
        books: revisions of the enabled bindings, in order.
        settings: how the prompt's turns use the books.
    """

    tenant_id: str
    prompt_id: str
    policy: Policy
    books: tuple[BoundBook, ...]
    settings: PromptSettings = NO_SETTINGS


def source_of(book: BookRef) -> BookSource:
    """Return what a book of a prompt counts as."""
    return book.source if isinstance(book, BoundBook) else "global"


def character_book(books: Iterable[BookRef]) -> BookRef | None:
    """Return the first book that counts as the character's, the only one under `replica`."""
    return next((book for book in books if source_of(book) == "character"), None)


def original_policy(book: BookCreate) -> Policy:
    """Return the policy that a book was written for, by the formats its entries came from."""
    named = (entry.source.get("format") for entry in book.entries)
    formats = {each for each in named if isinstance(each, str)}
    if formats & _SILLYTAVERN_FORMATS or any(each.startswith(_CARD) for each in formats):
        return "sillytavern"
    return "replica" if _REPLICA_FORMAT in formats else "native"
