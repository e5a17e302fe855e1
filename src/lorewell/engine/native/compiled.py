"""What a revision becomes: slotted, indexed, immutable values that a selection reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lorewell.engine.conditions import Expression, Flaw
from lorewell.engine.matching.keys import Key, LiteralKey
from lorewell.engine.matching.literal import LiteralIndex
from lorewell.engine.template import Template
from lorewell.engine.tokens import TokenCounter
from lorewell.model import BookRef, Decision, Entry, Position, SnapshotItem
from lorewell.model.entry import Kind
from lorewell.retrieval.bm25 import LexicalIndex


class Diagnostic(NamedTuple):
    """Something odd in a book that its author should know. It never makes the book fail."""

    entry_id: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionText:
    """A condition in words: as written, and as read.

    Attributes:
        parsed: what it says; if it can't be read, what is wrong with it.
    """

    text: str
    parsed: Expression | Flaw


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyExpression:
    """Keys joined by and, or and not. It never holds where none of its keys is found.

    Attributes:
        text: as written.
        parsed: what it says.
        keys: by the words of it.
        wanted: the words that are under no `not`, or under an even number, from left to right.
    """

    text: str
    parsed: Expression
    keys: Mapping[str, LiteralKey]
    wanted: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Closure:
    """An entry with all that it requires.

    Attributes:
        members: indexes of the entries, the root among them, by entry id; of too many only as many
            as show that.
        edges: length of the longest chain of `requires`, counted in steps.
    """

    members: tuple[int, ...]
    edges: int


class Gate(NamedTuple):
    """What entries may have in common that have nothing else which could keep them out (§8.2)."""

    audience: tuple[str, ...]
    kind: Kind
    position: Position
    outlet_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledEntry:
    """One entry, made ready.

    Attributes:
        index: its place in the book.
        full_id: `book_id:revision:entry_id`.
        spec: what the author wrote.
        primary: keys that are not blank, in order.
        secondary: keys that the logic looks at; empty when the entry is not selective.
        expression: what stands beside the primary keys as one more; None if there is none, or
            none that can be read.
        has_regex: whether any of these keys is a regex.
        texts: its conditions in words.
        template: what its content asks to be substituted.
        tag: what its block begins with.
        cost: tokens in the context; None when that depends on the substituted values.
        gate: what decides alone whether it is eligible, one value for all entries that share it;
            None if a condition, chance, its state or its text has a say too.
        closure: the package that the entry brings along.
        idle: the decision on it when it is eligible and nothing triggers it; None when that
            holds figures of the turn. A large book has thousands of these in every full ledger.
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
    """A book revision, ready to select from. Immutable; safe to share between threads.

    Attributes:
        entries: in stored order.
        folded, exact: the literal keys for which case does not count, and does.
        snapshot: what a SelectResponse says of this revision.
        always: indexes of the entries that need no keyword (required or constant).
        with_regex: indexes of the entries that have a regex key.
        ungated: indexes of the entries that have no gate.
        looks: steps that it takes to look at the keys of each entry, without those to find them.
        depths: the scan depths that entries set for themselves.
        lexical: gives the index for ranking; it is built when first asked for.
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
    looks: tuple[int, ...]
    depths: frozenset[int]
    lexical: Callable[[], LexicalIndex]
    content_chars: int
    diagnostics: tuple[Diagnostic, ...]

    @property
    def ref(self) -> BookRef:
        """What a SelectRequest calls this revision."""
        return BookRef(book_id=self.book_id, revision=self.revision)

    @property
    def entry_count(self) -> int:
        """How many entries the revision holds."""
        return len(self.entries)

    def find(self, full_id: str) -> CompiledEntry | None:
        """Return the entry of this revision with that full id, None if it has none."""
        prefix = f"{self.book_id}:{self.revision}:"
        found = self.by_id.get(full_id.removeprefix(prefix))
        return found if found is not None and found.full_id == full_id else None
