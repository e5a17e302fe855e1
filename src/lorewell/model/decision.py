"""What a selection answers: blocks to place and a decision on every entry.

Source: docs/rules/native.md §5.

These are slotted dataclasses, not pydantic models: a full ledger holds thousands of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import orjson

from lorewell.model.entry import Position, Role

Reason = Literal[
    "required",
    "constant",
    "keyword",
    "hybrid",
    "recursion",
    "dependency",
    "disabled",
    "audience_mismatch",
    "condition_failed",
    "runtime_unsupported",
    "probability",
    "template_missing",
    "empty_content",
    "placement_unsupported",
    "regex_invalid",
    "regex_timeout",
    "regex_unsupported",
    "not_triggered",
    "dependency_unavailable",
    "conflict",
    "max_entries",
    "budget_dropped",
    "constant_budget_dropped",
]

# What became of an entry that came up for recall.
Recalled = Literal[
    "kept",
    "keyed",
    "lost_conflict",
    "no_room",
    "dependency_unavailable",
    "below_floor",
    "gated",
    "outranked",
]


class Facts(NamedTuple):
    """The figures behind a verdict; what does not apply is None, and left out of the JSON.

    Attributes:
        key: the key that hit, as the author wrote it.
        message: where it hit: an index into `history`; its length means the query.
        span: the hit, half-open, in code points of that message, or of the waker's content.
        roll: the entry's roll in percent.
        threshold: what the roll had to stay below.
        tokens: what the package adds, in tokens.
        room: tokens that were left for it.
        beaten_by: full id of the entry that holds the conflict key.
        woken_by: full id of the entry whose text triggered this one.
        lexical_rank: its place among the words' best hundred, from 1.
        vector_rank: its place among the nearest hundred, from 1.
        similarity: how near it is to the query, -1 to 1, to 6 digits.
        recall: what became of it in recall, if it came up for one of the two lists: `kept`
            (recalled, and in), `keyed` (recalled, but a flag or a key had activated it already),
            `lost_conflict`, `no_room` (tokens or entries) or `dependency_unavailable` (recalled,
            but not in), `below_floor` (so it has no place in a list), `gated` (its secondary
            logic does not hold), `outranked` (others fill the number that is recalled).
    """

    key: str | None = None
    message: int | None = None
    span: tuple[int, int] | None = None
    roll: float | None = None
    threshold: float | None = None
    tokens: int | None = None
    room: int | None = None
    beaten_by: str | None = None
    woken_by: str | None = None
    lexical_rank: int | None = None
    vector_rank: int | None = None
    similarity: float | None = None
    recall: Recalled | None = None


NO_FACTS = Facts()
_EMPTY: dict[str, object] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A selected entry. `content` is the author's text after substitution, not escaped."""

    id: str
    book_id: str
    revision: int
    entry_id: str
    title: str
    content: str
    position: Position
    depth: int
    role: Role
    order: int
    outlet_name: str | None
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The verdict on one entry.

    `round` is the round that activated it, `cost` its tokens, `included_by` the full id of the
    root of the package that brought it in.
    """

    id: str
    book_id: str
    revision: int
    entry_id: str
    selected: bool
    reason: Reason
    detail: str | None = None
    direct_keyword_hit: bool = False
    hybrid_score: float | None = None
    round: int | None = None
    cost: int | None = None
    included_by: str | None = None
    facts: Facts = NO_FACTS


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotItem:
    """One exact book version that was used."""

    book_id: str
    revision: int
    content_hash: str
    entry_count: int


def _encode_facts(value: object) -> dict[str, object]:
    if value is NO_FACTS:
        return _EMPTY
    if isinstance(value, Facts):
        named = zip(Facts._fields, value, strict=True)
        return {name: fact for name, fact in named if fact is not None}
    raise TypeError


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectResponse:
    """The answer to a SelectRequest.

    `blocks` are in print order, `decisions` in request order, then stored order.
    """

    blocks: tuple[Block, ...]
    context: str
    decisions: tuple[Decision, ...]
    snapshot: tuple[SnapshotItem, ...]
    token_count: int
    token_budget: int
    tokenizer: str
    token_scope: Literal["worldbook_context"] = "worldbook_context"  # noqa: S105  no password
    degraded: tuple[str, ...]
    policy_version: str
    prompt_hash: str
    selection_fingerprint: str
    duration_ms: float = 0.0

    def to_json(self) -> bytes:
        """Return the response as compact JSON in UTF-8, fields in the order of the contract."""
        return orjson.dumps(self, default=_encode_facts)


def decision_members(decision: Decision) -> dict[str, object]:
    """Return the decision as JSON-safe members, for the details of an error."""
    members: dict[str, object] = orjson.loads(orjson.dumps(decision, default=_encode_facts))
    return members
