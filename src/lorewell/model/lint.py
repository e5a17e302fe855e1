"""Lint: requests for it, its findings and their fixes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from lorewell.model.base import Contract
from lorewell.model.binding import Policy, PolicyChoice
from lorewell.model.preview import PreviewBook
from lorewell.model.text import Integer, StateObject, Text

Severity = Literal["error", "warning", "info"]
Figure = int | float | str


class FixOperation(Contract):
    """One operation of a JSON patch (RFC 6902) of the book.

    Attributes:
        op: what to do.
        path: JSON pointer to the value, from the book.
        value: the new value; null for `remove`.
    """

    op: Literal["add", "replace", "remove"]
    path: Text
    value: Any = None


class LintFix(Contract):
    """A change that removes a finding and keeps everything else.

    Attributes:
        label: what the change does.
        patch: the operations, to be applied in order.
    """

    label: Text
    patch: tuple[FixOperation, ...]


class Finding(Contract):
    """A mistake in a book, or something that its author should know of.

    Attributes:
        code: the stable code, such as `LW003`.
        name: the code's name, such as `key-separator`.
        severity: `error`: something in the book never works. `warning`: it probably does not work
            as meant. `info`: it works, at a cost or without an effect.
        entry_id: the entry, if there is one; else null.
        entries: ids of all entries that the finding is about, at most 1,000.
        pointer: JSON pointer to the value, from the book; "" for the whole book.
        span: the part of that text that the finding is about, half-open, in code points; null for
            the whole value.
        text: the finding as a sentence. Hidden characters are escapes.
        figures: the figures behind it, by name.
        fixes: safe fixes; any one of them removes the finding.
    """

    code: Text
    name: Text
    severity: Severity
    entry_id: Text | None
    entries: tuple[Text, ...]
    pointer: Text
    span: tuple[Integer, Integer] | None = None
    text: Text
    figures: dict[str, Figure] = Field(default_factory=dict)
    fixes: tuple[LintFix, ...] = ()


class LintRequest(Contract):
    """A book to lint.

    Attributes:
        book: a stored book, a book sent whole, or a stored book with unsaved changes.
        policy: the policy that the book is used with; `auto` chooses by the book's format.
        with: a request of that policy; in Python the field is `request`. Its settings, state and
            budget replace the usual ones, and its other stored books are compared with this one.
        select: codes, names, or beginnings of codes; only these are reported. Empty means all.
    """

    model_config = ConfigDict(populate_by_name=True)

    book: PreviewBook
    policy: PolicyChoice = "auto"
    request: StateObject | None = Field(default=None, alias="with")
    select: Annotated[
        tuple[Annotated[Text, Field(min_length=1, max_length=50)], ...], Field(max_length=100)
    ] = ()


class LintAnswer(Contract):
    """The findings of a book.

    Attributes:
        policy: the policy under which the book was judged.
        findings: in the order of the codes, then of the entries.
    """

    policy: Policy
    findings: tuple[Finding, ...]
