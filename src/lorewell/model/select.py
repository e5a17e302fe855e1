"""Selection requests (docs/rules/native.md §4)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from lorewell.model.base import Contract
from lorewell.model.entry import Distinct, OutletName, Position, Role
from lorewell.model.scene import Audience, Scene, Seed
from lorewell.model.scene_fields import check_scene
from lorewell.model.text import Integer, Number, StateObject, Text, fault, pointer

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

Strategy = Literal["rules", "hybrid"]
Explain = Literal["full", "selected", "none"]
RecallGate = Literal["loose", "strict"]
RecallQuery = Literal["query", "recent"]
RecallFloor = Annotated[Number, Field(ge=-1, le=1)] | Literal["auto", "off"] | None
Wrapper = Literal["full", "short", "plain"]


def is_uuid(text: str) -> bool:
    """Return whether the text is a UUID in its usual form, in either case."""
    return _UUID.fullmatch(text) is not None


def lower_uuid(text: str) -> str:
    """Return a UUID in lower case, and any other text as it is."""
    return text.lower() if is_uuid(text) else text


# A text that is not a UUID is accepted: it is the id of no book, which is a "not found".
BookId = Annotated[Text, Field(max_length=200), AfterValidator(lower_uuid)]


class BookRef(Contract):
    """A stored book.

    Attributes:
        book_id: a UUID.
        revision: a revision; null means the latest one when the request starts.
    """

    book_id: BookId
    revision: Annotated[Integer, Field(ge=1)] | None = None


class Message(Contract):
    """A chat message.

    Attributes:
        role: who wrote it.
        content: its text.
    """

    role: Role
    content: Annotated[Text, Field(max_length=16_000)]


class PlacementCapabilities(Contract):
    """The positions that the host can place content at.

    This replaces the default set: `before_character`, `after_character` and `at_depth`.

    Attributes:
        positions: the supported positions.
        outlets: names of the host's outlets; usable only if `positions` holds `outlet`.
    """

    positions: Annotated[tuple[Position, ...], Field(max_length=8), Distinct] = ()
    outlets: Annotated[tuple[OutletName, ...], Field(max_length=50), Distinct] = ()

    if TYPE_CHECKING:  # what callers may pass: fields are tuples, arguments any sequences

        def __init__(
            self,
            *,
            positions: Sequence[Position] = ...,
            outlets: Sequence[str] = ...,
        ) -> None: ...


def check_distinct_books(books: tuple[BookRef, ...]) -> tuple[BookRef, ...]:
    """Return the books; a book that is named twice is a fault."""
    seen: set[str] = set()
    for index, book in enumerate(books):
        if book.book_id in seen:
            raise fault(pointer(index, "book_id"), "is requested twice")
        seen.add(book.book_id)
    return books


class SelectOptions(Contract):
    """How a selection uses its books, whatever the turn says.

    Attributes:
        strategy: `rules` uses triggers only; `hybrid` also recalls entries by word rank and vector
            similarity.
        scan_depth: number of newest messages to scan, the query included.
        token_budget: most tokens of the context.
        constant_budget_ratio: share of the budget that optional constants may use.
        max_entries: most selected entries, dependencies included.
        max_recursion_rounds: rounds in which activated content may trigger more entries.
        recall_floor: for `hybrid`: lowest cosine similarity that is recalled. `auto` recalls by
            evidence: what words and similarity say, compared with what texts that need no lore
            reach in the same book. `off` and null mean no bound.
        recall_limit: for `hybrid`: most recalled entries; null means 8 under `auto`, else 30.
        recall_tokens: for `hybrid`: most tokens of all recalled entries; null means half of the
            budget under `auto`, else no bound.
        recall_gate: for `hybrid`: `strict` recalls only entries whose secondary keys satisfy their
            `logic`.
        recall_query: for `hybrid`: `recent` ranks by the ends of the newest two messages of
            `history` and the query, `query` by the query alone.
        wrapper: what surrounds an entry's text: `full` names its book, revision and id, `short`
            only its id, unless two requested books have an entry of that id; `plain` adds nothing.
    """

    strategy: Strategy = "rules"
    scan_depth: Annotated[Integer, Field(ge=0, le=100)] = 4
    token_budget: Annotated[Integer, Field(ge=0, le=32_000)] = 1500
    constant_budget_ratio: Annotated[Number, Field(ge=0, le=1)] = 0.35
    max_entries: Annotated[Integer, Field(ge=1, le=200)] = 50
    max_recursion_rounds: Annotated[Integer, Field(ge=0, le=5)] = 2
    recall_floor: RecallFloor = None
    recall_limit: Annotated[Integer, Field(ge=0, le=100)] | None = None
    recall_tokens: Annotated[Integer, Field(ge=0, le=32_000)] | None = None
    recall_gate: RecallGate = "loose"
    recall_query: RecallQuery = "query"
    wrapper: Wrapper = "full"


class RecallScale(Contract):
    """What texts that need no lore reach at most in a book, for a query's script.

    Attributes:
        mean: their mean.
        deviation: their standard deviation.
    """

    mean: Annotated[Number, Field(ge=-10, le=10)]
    deviation: Annotated[Number, Field(gt=0, le=10)]


class RecallBook(Contract):
    """The scales of one book.

    Attributes:
        book_id: the book.
        words: of the strength of words.
        vectors: of cosine similarities; null if its similarities can't be used.
    """

    book_id: BookId
    words: RecallScale
    vectors: RecallScale | None = None


class RecallBounds(Contract):
    """The numbers that `recall_floor: "auto"` stands for in one turn.

    Attributes:
        floor: lowest evidence that is recalled.
        limit: most recalled entries.
        tokens: most tokens of all recalled entries.
        books: the scales of the requested books, in their order.
    """

    floor: Annotated[Number, Field(ge=0, le=1)]
    limit: Annotated[Integer, Field(ge=0, le=100)]
    tokens: Annotated[Integer, Field(ge=0, le=32_000)]
    books: Annotated[tuple[RecallBook, ...], Field(max_length=20)]


class SelectRequest(SelectOptions):
    """A turn to select lore for, under the policy `native`.

    Attributes:
        books: the books to select from, in order; no book twice.
        query: the current user input.
        history: earlier messages, oldest first, without the current input.
        state: values that conditions test; at most 256 KiB as JSON.
        audience: only entries with this audience are selected. It is not an access control.
        seed: seed of the probability rolls; the same seed gives the same rolls.
        template_vars: values of `{{char}}` and `{{user}}`.
        placement_capabilities: what the host can place; null means the three default positions.
        explain: which decisions to return: `full` all, `selected` those of selected entries,
            `none` none. It changes nothing else.
        recall_bounds: for `recall_floor: "auto"`: the numbers of an earlier answer, which give the
            same selection again; null measures them.
        scene: the turn in the form that all policies share. No value may be given here and in its
            own field.
    """

    books: Annotated[tuple[BookRef, ...], Field(min_length=1, max_length=20)]
    query: Annotated[Text, Field(min_length=1, max_length=8_000)]
    history: Annotated[tuple[Message, ...], Field(max_length=100)] = ()
    state: StateObject = Field(default_factory=dict)
    audience: Audience = "actor"
    seed: Seed = "0"
    template_vars: Annotated[
        dict[Literal["char", "user"], Annotated[Text, Field(max_length=500)]], Field(max_length=2)
    ] = Field(default_factory=dict)
    placement_capabilities: PlacementCapabilities | None = None
    explain: Explain = "full"
    recall_bounds: RecallBounds | None = None
    scene: Scene | None = None

    if TYPE_CHECKING:  # what callers may pass: fields are tuples, arguments any sequences

        def __init__(  # noqa: PLR0913  a field is a parameter
            self,
            *,
            books: Sequence[BookRef | Mapping[str, Any]],
            query: str,
            history: Sequence[Message | Mapping[str, Any]] = ...,
            state: Mapping[str, Any] = ...,
            audience: str = ...,
            seed: str = ...,
            template_vars: Mapping[Literal["char", "user"], str] = ...,
            placement_capabilities: PlacementCapabilities | Mapping[str, Any] | None = ...,
            explain: Explain = ...,
            scene: Scene | Mapping[str, Any] | None = ...,
            strategy: Strategy = ...,
            scan_depth: int = ...,
            token_budget: int = ...,
            constant_budget_ratio: float = ...,
            max_entries: int = ...,
            max_recursion_rounds: int = ...,
            recall_floor: float | Literal["auto", "off"] | None = ...,
            recall_limit: int | None = ...,
            recall_tokens: int | None = ...,
            recall_gate: RecallGate = ...,
            recall_query: RecallQuery = ...,
            recall_bounds: RecallBounds | Mapping[str, Any] | None = ...,
            wrapper: Wrapper = ...,
        ) -> None: ...

    @field_validator("books", mode="after")
    @classmethod
    def _check_books(cls, books: tuple[BookRef, ...]) -> tuple[BookRef, ...]:
        return check_distinct_books(books)

    @model_validator(mode="after")
    def _check_scene(self) -> Self:
        check_scene(self, self.scene, "native")
        return self
