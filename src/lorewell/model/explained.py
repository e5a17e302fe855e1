"""Explanations: why an entry was selected or not, and the smallest changes that flip it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from lorewell.model.base import Contract
from lorewell.model.conversation import ActivatePreview
from lorewell.model.preview import PreviewRequest
from lorewell.model.replica import ReplicaPreview
from lorewell.model.text import Integer, Text

GateStatus = Literal["passed", "failed", "not_reached"]
NearKind = Literal[
    "outside_window",
    "inside_word",
    "case",
    "form",
    "typo",
    "secondary_missing",
    "other_text",
    "not_waking",
    "round_limit",
    "excluded",
]
WhatIfKind = Literal["entry", "request", "text", "seed", "pair"]
MAX_BUDGET = 2_000_000

_Name = Annotated[Text, Field(min_length=1, max_length=500)]


class EntryName(Contract):
    """An entry of a book of the request.

    Attributes:
        book_id: the book, as its decisions name it.
        entry_id: the entry's id in that book.
    """

    book_id: _Name
    entry_id: _Name


class ExplainOptions(Contract):
    """The question about one entry.

    Attributes:
        entry: the entry's id if only one book of the request has it, else `book_id` and `entry_id`.
        budget: most steps of the search for changes; the turn itself is not counted.
    """

    entry: _Name | EntryName
    budget: Annotated[Integer, Field(ge=0, le=MAX_BUDGET)] = MAX_BUDGET


class ContextExplain(ExplainOptions):
    """A question about an entry under the policy `native`.

    Attributes:
        request: the turn; its books may be stored, stored with changes, or sent whole.
    """

    request: PreviewRequest


class SillyTavernExplain(ExplainOptions):
    """A question about an entry under the policy `sillytavern`.

    The entry is named by its `book.uid` as well; `book_id` is the book's name, `entry_id` the uid.

    Attributes:
        request: the turn; its books may be stored, stored with changes, or sent whole.
    """

    request: ActivatePreview


class ReplicaExplain(ExplainOptions):
    """A question about an entry under the policy `replica`.

    Attributes:
        request: the turn; its books may be stored, stored with changes, or sent whole.
    """

    request: ReplicaPreview


class ExplainedGate(Contract):
    """One gate on an entry's way into the prompt.

    Attributes:
        gate: its name.
        status: `passed`, `failed`, or `not_reached` if an earlier gate decided.
        facts: its figures, by name; empty if it was not reached.
    """

    gate: str
    status: GateStatus
    facts: dict[str, Any] = Field(default_factory=dict)


class NearMiss(Contract):
    """A place where a key of the entry nearly matched.

    Attributes:
        kind: `outside_window` in a message that is not scanned; `inside_word` inside a longer word;
            `case` in another case; `form` in another width or normal form, or with invisible
            characters; `typo` one edit away; `secondary_missing` a key matched, this secondary one
            did not; `other_text` in a text that the entry does not scan; `not_waking` in an entry
            that may not wake others; `round_limit` in an entry that is found too late; `excluded`
            in an entry, but this one is never woken by entries.
        key: the key, as written.
        found: the text at that place; empty if there is none.
        text: `query`, `message`, `entry`, or the name of another text.
        message: index of the message; null for other texts.
        entry: id of the entry whose text it is; null for other texts.
        span: half-open, in code points of that text; null if there is no place.
    """

    kind: NearKind
    key: str
    found: str = ""
    text: str
    message: int | None = None
    entry: str | None = None
    span: tuple[int, int] | None = None


class EditStep(Contract):
    """One edit, as in a JSON Patch (RFC 6902), of the request or of an entry.

    Attributes:
        target: what it edits. Members of a `scene` are edited in the request's own fields.
        book_id: the entry's book; null for the request.
        entry_id: the entry; null for the request.
        op: `add`, `replace` or `remove`.
        path: JSON pointer into the target.
        value: the new value; null for `remove`.
    """

    target: Literal["request", "entry"]
    book_id: str | None = None
    entry_id: str | None = None
    op: Literal["add", "replace", "remove"]
    path: str
    value: Any = None


class WhatIf(Contract):
    """A change that flips the verdict. The turn was run with it.

    Attributes:
        kind: what it changes: an `entry`, the `request`, its `text` or its `seed`; `pair` for two
            changes that only work together.
        edits: the edits, to apply in order.
        others: number of other entries that come or go.
        joins: ids of other entries that come; at most 50.
        leaves: ids of other entries that go; at most 50.
        tokens: change of the tokens that the selected entries take.
    """

    kind: WhatIfKind
    edits: tuple[EditStep, ...]
    others: int
    joins: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    tokens: int


class Explanation(Contract):
    """Why an entry was selected or not.

    Attributes:
        policy: the policy of the turn.
        id: the entry's id in the ledger of this policy.
        book_id: its book.
        entry_id: its id in the book.
        title: its title.
        selected: whether it is selected.
        reason: the reason in the ledger.
        detail: the reason in more detail, for people.
        gate: the gate that kept it out; null if it is selected.
        cause: a cause that the reason does not tell: `round_limit`, `not_waking` or `excluded`.
        gates: all gates in order.
        near: where keys nearly matched, nearest first; at most 20.
        changes: single changes that flip the verdict, or pairs if there are none; those that move
            the fewest other entries first; at most 20.
        tried: number of changes that were tried.
        complete: whether the search ended before its budget.
    """

    policy: Literal["native", "sillytavern", "replica"]
    id: str
    book_id: str
    entry_id: str
    title: str
    selected: bool
    reason: str
    detail: str | None = None
    gate: str | None = None
    cause: str | None = None
    gates: tuple[ExplainedGate, ...]
    near: tuple[NearMiss, ...] = ()
    changes: tuple[WhatIf, ...] = ()
    tried: int = 0
    complete: bool = True
