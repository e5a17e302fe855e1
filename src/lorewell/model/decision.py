"""Selection responses: blocks to place, and a decision on every entry.

Slotted dataclasses, not pydantic models: a full ledger holds thousands of them.

Source: docs/rules/native.md §5.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

import orjson

from lorewell.model.entry import Position, Role
from lorewell.model.select import RecallBounds, Wrapper
from lorewell.model.warning import TurnWarning

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
    """The facts behind a decision. Facts that do not apply are None, and left out of the JSON.

    Attributes:
        key: the key that matched, as the author wrote it.
        message: index into `history` of the message that matched; the length of `history` means
            the query.
        span: the match, half-open, in code points of that message or of the waking content.
        roll: the entry's probability roll in percent.
        threshold: the value that the roll had to stay below.
        tokens: tokens that the entry's package (the entry and what it requires) adds.
        room: tokens that were left.
        beaten_by: full id of the entry that holds the conflict key.
        woken_by: full id of the entry whose content triggered this one.
        lexical_rank: rank among the 100 best by words, from 1.
        vector_rank: rank among the 100 best by vector similarity, from 1.
        similarity: cosine similarity to the query, -1 to 1, to 6 digits.
        recall: outcome of hybrid recall. `kept`: recalled and selected. `keyed`: recalled, but
            already activated by a flag or a key. `lost_conflict`, `no_room` (tokens or entries) or
            `dependency_unavailable`: recalled, but not selected. `below_floor`: its similarity,
            or under `auto` its evidence, is below the floor. `gated`: its secondary logic does not
            hold. `outranked`: others fill the number of recalled entries, or their tokens.
        evidence: under `recall_floor: "auto"`, how strongly words and similarity say that the entry
            is needed, 0 to 1.
        words_above: how far its words are above what texts that need no lore reach in the book, in
            standard deviations.
        similarity_above: the same for its similarity.
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
    evidence: float | None = None
    words_above: float | None = None
    similarity_above: float | None = None


NO_FACTS = Facts()
_EMPTY: dict[str, object] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A selected entry, for the host to place.

    Attributes:
        id: full id of the entry, `{book_id}:{revision}:{entry_id}`.
        book_id: the entry's book.
        revision: the book's revision.
        entry_id: the entry's id in its book.
        title: the entry's title.
        content: the author's text with template variables filled in; not escaped.
        position: where to place it.
        depth: for the position `at_depth`: number of chat messages that follow it.
        role: role of the message that holds it.
        order: the entry's order; lower is printed first.
        outlet_name: name of the outlet; null unless the position is `outlet`.
        reason: why the entry was selected.
        wrapper: what surrounds its text in the context: `full`, `short` or `plain`.
    """

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
    wrapper: Wrapper = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The decision on one entry.

    Attributes:
        id: full id of the entry, `{book_id}:{revision}:{entry_id}`.
        book_id: the entry's book.
        revision: the book's revision.
        entry_id: the entry's id in its book.
        selected: whether the entry was selected.
        reason: why it was selected, or why not.
        detail: the reason in more detail, for people.
        direct_keyword_hit: whether a key matched a message of the chat.
        hybrid_score: fused score of hybrid recall.
        round: recursion round that activated the entry, from 0.
        cost: tokens of the wrapped entry.
        included_by: full id of the candidate whose package brought the entry in.
        facts: the facts behind the decision.
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
    """A book revision that was used.

    Attributes:
        book_id: the book.
        revision: the revision.
        content_hash: SHA-256 of the content's canonical JSON, in lowercase hex.
        entry_count: number of entries.
    """

    book_id: str
    revision: int
    content_hash: str
    entry_count: int


def _encode(value: object) -> dict[str, object]:
    if value is NO_FACTS:
        return _EMPTY
    if isinstance(value, Facts | TurnWarning):
        named = zip(value._fields, value, strict=True)
        return {name: fact for name, fact in named if fact is not None}
    if isinstance(value, RecallBounds):
        return value.model_dump(mode="json")
    raise TypeError


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectResponse:
    """The response to a SelectRequest.

    Attributes:
        blocks: the selected entries in print order, for the host to place.
        context: the blocks, escaped and wrapped, as one text; empty without blocks.
        decisions: in the order of the requested books, then in stored order; `explain` limits
            them.
        snapshot: the revisions that were used, in the order of the request.
        token_count: tokens of `context`, wrappers and separators included.
        token_budget: the requested budget.
        tokenizer: the tokenizer that counted.
        token_scope: always `worldbook_context`: the count does not cover the rest of the prompt.
        degraded: why hybrid recall was incomplete, sorted; empty if it was not.
        warnings: what the caller may not expect; at most 100 about entries.
        policy_version: version of the selection rules; it changes when the rules change results.
        prompt_hash: SHA-256 of `context` in UTF-8, in hex.
        selection_fingerprint: SHA-256 over everything that determines the selection, in hex.
        duration_ms: time in the service; not part of any hash.
        recall_bounds: the numbers that `recall_floor: "auto"` stood for; left out without it.
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
    warnings: tuple[TurnWarning, ...] = ()
    policy_version: str
    prompt_hash: str
    selection_fingerprint: str
    duration_ms: float = 0.0
    recall_bounds: RecallBounds | None = None

    def to_json(self) -> bytes:
        """Return the response as compact JSON in UTF-8, fields in the order of the contract."""
        members = {each.name: getattr(self, each.name) for each in fields(self)}
        if self.recall_bounds is None:  # so that the bytes of other answers are those of before
            del members["recall_bounds"]
        return orjson.dumps(members, default=_encode)


def decision_members(decision: Decision) -> dict[str, object]:
    """Return the decision as a JSON-safe object, for the details of an error."""
    members: dict[str, object] = orjson.loads(orjson.dumps(decision, default=_encode))
    return members
