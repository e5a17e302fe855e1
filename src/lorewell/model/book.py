"""Books as callers send them, and the hash of their content.

Source: docs/rules/native.md §3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, get_args

from pydantic import AfterValidator, Field, field_validator

from lorewell.model.base import Contract
from lorewell.model.entry import THREE_VALUED, Entry
from lorewell.model.sillytavern import DEFAULT_BLOCK, Inherited, SillyTavernBlock
from lorewell.model.text import SourceObject, Text, canonical_json, fault, is_blank, pointer

MAX_ENTRIES = 5_000

# The entry fields of the first contract. Any other field counts in `content_hash` only if it
# differs from its default, so that a new field never changes an old hash (§3.5).
_FIRST_FIELDS = frozenset(
    [
        "id",
        "title",
        "content",
        "enabled",
        "constant",
        "required",
        "keys",
        "secondary_keys",
        "selective",
        "logic",
        "case_sensitive",
        "match_whole_words",
        "probability",
        "scan_depth",
        "conditions",
        "requires",
        "priority",
        "order",
        "conflict_key",
        "audience",
        "kind",
        "position",
        "depth",
        "role",
        "outlet_name",
        "exclude_recursion",
        "prevent_recursion",
        "runtime_requirements",
        "metadata",
        "source",
    ]
)


def _check_name(name: str) -> str:
    if is_blank(name):
        raise fault("", "must not be blank")
    return name


class BookCreate(Contract):
    """A whole book: the content of one revision.

    After validation every entry has an id.

    Attributes:
        name: the book's name; not blank.
        description: for people; never part of a context.
        entries: in the author's order; ids are unique.
        metadata: free-form, at most 64 KiB as JSON; the member `raw`, which imports fill, does not
            count. Never part of a context.
    """

    name: Annotated[Text, Field(min_length=1, max_length=300), AfterValidator(_check_name)]
    description: Annotated[Text, Field(max_length=10_000)] = ""
    entries: Annotated[tuple[Entry, ...], Field(max_length=MAX_ENTRIES)] = ()
    metadata: SourceObject = Field(default_factory=dict)

    if TYPE_CHECKING:  # what callers may pass: fields are tuples, arguments any sequences

        def __init__(
            self,
            *,
            name: str,
            description: str = ...,
            entries: Sequence[Entry | Mapping[str, Any]] = ...,
            metadata: Mapping[str, Any] = ...,
        ) -> None: ...

    @field_validator("entries", mode="after")
    @classmethod
    def _name_entries(cls, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        named = tuple(
            entry if entry.id else entry.model_copy(update={"id": f"entry-{index}"})
            for index, entry in enumerate(entries)
        )
        seen: dict[str, int] = {}
        for index, entry in enumerate(named):
            if entry.id in seen:
                where = f"is already the id of entry {seen[entry.id]}"
                raise fault(pointer(index, "id"), f"{entry.id!r} {where}")
            seen[entry.id] = index
        return named


def _two_valued(entry: Entry) -> Entry:
    """Return the entry as imports made it when flags had no null; the block listed them instead.

    Its hash is that of books which were stored so.
    """
    block = entry.sillytavern or SillyTavernBlock()
    unset = tuple(name for name in get_args(Inherited) if getattr(entry, name) is None)
    block = block.model_copy(update={"inherit": unset})
    update: dict[str, Any] = dict.fromkeys(unset, False)
    update["sillytavern"] = None if block == DEFAULT_BLOCK else block
    source = {name: value for name, value in entry.source.items() if name != THREE_VALUED}
    return entry.model_copy(update={**update, "source": source})


def _hashed_entry(entry: Entry) -> dict[str, Any]:
    if THREE_VALUED in entry.source:
        entry = _two_valued(entry)
    dumped = entry.model_dump(mode="json")
    if entry.sillytavern is not None:  # a later member of the block changes no old hash either
        dumped["sillytavern"] = entry.sillytavern.model_dump(mode="json", exclude_defaults=True)
    return {
        name: value
        for name, value in dumped.items()
        if name in _FIRST_FIELDS
        or getattr(entry, name) != Entry.model_fields[name].get_default(call_default_factory=True)
    }


def content_hash(book: BookCreate, *, watch: Callable[[], None] | None = None) -> str:
    """Return the lowercase hex SHA-256 of the book's canonical JSON (docs/rules/native.md §3.5).

    Entries are hashed one by one: encoding a large book at once would block all other threads.
    `watch` is called before each; what it raises passes through.
    """
    description, metadata, name = map(canonical_json, (book.description, book.metadata, book.name))
    digest = hashlib.sha256(b'{"description":' + description + b',"entries":[')
    for index, entry in enumerate(book.entries):
        if watch is not None:
            watch()
        digest.update(b"," if index else b"")
        digest.update(canonical_json(_hashed_entry(entry)))
    digest.update(b'],"metadata":' + metadata + b',"name":' + name + b"}")
    return digest.hexdigest()
