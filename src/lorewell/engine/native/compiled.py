"""The compiled form of a revision: slotted, indexed, immutable values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lorewell.engine.conditions import Expression, Flaw
from lorewell.engine.matching.keys import Key, LiteralKey
from lorewell.engine.matching.literal import LiteralIndex
from lorewell.engine.template import Template
from lorewell.engine.tokens import TokenCounter
from lorewell.model import BookRef, Decision, Entry, Position, SnapshotItem
from lorewell.model.entry import Kind
from lorewell.model.select import Wrapper
from lorewell.retrieval.bm25 import LexicalIndex
from lorewell.retrieval.evidence import QuietScale


class Diagnostic(NamedTuple):
    """A problem in a book that its author should know of. It never makes the book fail."""

    entry_id: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionText:
    """One of an entry's `conditions_text`.

    Attributes:
        text: as written.
        parsed: the condition, or its syntax error.
    """

    text: str
    parsed: Expression | Flaw


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyExpression:
    """Keys joined by and, or and not. It never holds if none of its keys is found.

    Attributes:
        text: as written.
        parsed: the parsed expression.
        keys: the literal key of each word.
        wanted: the words under an even number of `not`, from left to right.
    """

    text: str
    parsed: Expression
    keys: Mapping[str, LiteralKey]
    wanted: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Closure:
    """An entry with all entries that it requires, directly or not.

    Attributes:
        members: indexes of the entries including the root, sorted by entry id; cut one above the
            maximum size of a package.
        edges: length of the longest chain of `requires`.
    """

    members: tuple[int, ...]
    edges: int


class Gate(NamedTuple):
    """The values that decide eligibility for entries without other filters (§8.2)."""

    audience: tuple[str, ...]
    kind: Kind
    position: Position
    outlet_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledEntry:
    """One compiled entry.

    Attributes:
        index: its place in the book.
        full_id: `book_id:revision:entry_id`.
        spec: the entry as the author wrote it.
        primary: keys that are not blank, in order.
        secondary: keys for the secondary logic; empty if the entry is not selective.
        expression: an alternative to the primary keys; None if missing or invalid.
        has_regex: whether any of these keys is a regex.
        texts: its `conditions_text`.
        template: the expressions in its content, None if there are none.
        tag: the opening tag of its block.
        cost: tokens in the context; None if it depends on substituted values.
        gate: the only filters of the entry, shared by all entries with equal ones; None if a
            condition, chance, its state or its text is filtered as well.
        closure: the package of the entry.
        idle: the decision if the entry is eligible and not triggered; None if that depends on the
            turn. A full ledger of a large book holds thousands of them.
    """

    index: int
    full_id: str
    spec: Entry
    primary: tuple[Key, ...]
    secondary: tuple[Key, ...]
    expression: KeyExpression | None
    has_regex: bool
    texts: tuple[ConditionText, ...]
    template: Template | None
    tag: str
    cost: int | None
    gate: Gate | None
    closure: Closure
    idle: Decision | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledBook:
    """A compiled revision. Immutable; safe to share between threads.

    Attributes:
        entries: in stored order.
        folded, exact: the literal keys matched without case, and with case.
        snapshot: the item for this revision in a SelectResponse.
        always: indexes of the entries that need no keyword (required or constant).
        with_regex: indexes of the entries with a regex key.
        ungated: indexes of the entries without a gate.
        key_steps: by entry, the steps for matching its keys, without those for finding them.
        depths: the scan depths that entries set for themselves.
        lexical: returns the index for ranking, built on the first call.
        quiet_words: returns, by language, what texts that need no lore reach by words; measured on
            the first call.
        scripts: returns the main script of each entry, found on the first call.
        cost_in: returns the tokens of an entry without expressions in another wrapper than the
            full one, counted on the first call.
        content_chars: code points of all contents.
    """

    book_id: str
    revision: int
    name: str
    content_hash: str
    counter: TokenCounter
    entries: tuple[CompiledEntry, ...]
    by_id: Mapping[str, CompiledEntry]
    folded: LiteralIndex
    exact: LiteralIndex
    snapshot: SnapshotItem
    always: tuple[int, ...]
    with_regex: tuple[int, ...]
    ungated: tuple[int, ...]
    key_steps: tuple[int, ...]
    depths: frozenset[int]
    lexical: Callable[[], LexicalIndex]
    quiet_words: Callable[[], Mapping[str, QuietScale]]
    scripts: Callable[[], Sequence[str]]
    cost_in: Callable[[Wrapper, int], int]
    content_chars: int
    diagnostics: tuple[Diagnostic, ...]

    @property
    def ref(self) -> BookRef:
        """The reference to this revision in a SelectRequest."""
        return BookRef(book_id=self.book_id, revision=self.revision)

    @property
    def entry_count(self) -> int:
        """The number of entries."""
        return len(self.entries)

    def find(self, full_id: str) -> CompiledEntry | None:
        """Return the entry with a full id, None if this revision has none."""
        prefix = f"{self.book_id}:{self.revision}:"
        found = self.by_id.get(full_id.removeprefix(prefix))
        return found if found is not None and found.full_id == full_id else None
