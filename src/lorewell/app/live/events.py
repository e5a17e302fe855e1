"""Events of the live channel, made from the answers of each policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, cast

from lorewell.engine.sillytavern.javascript import sort_descending
from lorewell.engine.sillytavern.scan_entry import ScanEntry
from lorewell.engine.sillytavern.world import SillyTavernWorld
from lorewell.model import (
    POSITIONS,
    Block,
    Policy,
    SelectResponse,
    SillyTavernResponse,
)
from lorewell.model.activated import ActivatedEntry
from lorewell.model.entry import Role
from lorewell.model.live import (
    MAX_LISTED,
    NAME_CHARS,
    PREVIEW_CHARS,
    LiveEntry,
    LiveGroup,
    LivePosition,
    LiveSelection,
    LiveStats,
    SelectionContext,
)
from lorewell.model.replica import ReplicaActive, ReplicaResponse

NOWHERE: Final = "nowhere"
_LABELS: Final[Mapping[str | int, str]] = {
    "before_character": "before the character",
    "after_character": "after the character",
    "before_examples": "before the examples",
    "after_examples": "after the examples",
    "author_note_top": "above the author's note",
    "author_note_bottom": "below the author's note",
    "at_depth": "in the history",
    "outlet": "in an outlet",
    NOWHERE: "nowhere",
}
# By SillyTavern's numbers, 0 to 7.
_SILLYTAVERN: Final = (
    *("before_character", "after_character", "author_note_top", "author_note_bottom"),
    *("at_depth", "before_examples", "after_examples", "outlet"),
)
_PROMPT_ORDER: Final = (*POSITIONS, NOWHERE)
# The positions of replica in the order of the prompt (docs/rules/replica.md §5).
_REPLICA_ORDER: Final = (5, 1, 0, 2, 3, 6, 4, 7)
_REPLICA_DEPTH: Final = 6
_ROLES: Final[Mapping[object, Role]] = {0: "system", 1: "user", 2: "assistant"}
_DEFAULT_DEPTH: Final = 4


class NamedBook(NamedTuple):
    """A book used under SillyTavern's rules, with its id if it is stored."""

    world: SillyTavernWorld
    book_id: str | None


class _Place(NamedTuple):
    position: str | int
    depth: float | None = None
    role: Role | None = None
    outlet_name: str | None = None


_Placed = tuple[_Place, LiveEntry]


class _Figures(NamedTuple):
    tokens: int | None
    token_budget: int | None


def of_selection(answer: SelectResponse, context: SelectionContext) -> LiveSelection:
    """Return the event of a native selection."""
    decided = {each.id: each for each in answer.decisions if each.selected}

    def entries() -> Iterator[_Placed]:
        for block in answer.blocks:
            decision = decided.get(block.id)
            key = None if decision is None else decision.facts.key
            yield (
                _native_place(block),
                LiveEntry(
                    book_id=block.book_id,
                    entry_id=block.entry_id,
                    title=block.title[:NAME_CHARS],
                    reason=block.reason,
                    key=None if key is None else key[:NAME_CHARS],
                    tokens=None if decision is None else decision.cost,
                    preview=block.content[:PREVIEW_CHARS],
                ),
            )

    figures = _Figures(answer.token_count, answer.token_budget)
    return _event(context, "native", entries(), figures)


def _native_place(block: Block) -> _Place:
    match block.position:
        case "at_depth":
            return _Place("at_depth", depth=block.depth, role=block.role)
        case "outlet":
            return _Place("outlet", outlet_name=block.outlet_name)
        case position:
            return _Place(position)


def of_activation(
    answer: SillyTavernResponse,
    books: Sequence[NamedBook],
    context: SelectionContext,
) -> LiveSelection:
    """Return the event of a turn under the policy `sillytavern`.

    Args:
        answer: of the turn.
        books: all that the turn used.
        context: the rest of the event.
    """
    # In the order of the prompt: a greater `order` comes later (docs/rules/sillytavern.md §12).
    ascending = sort_descending(
        answer.activated, lambda each: float("nan") if each.order is None else each.order
    )[::-1]
    placed = [_activated(each, books) for each in ascending]
    placed.sort(key=lambda each: _in_prompt(each[0]))
    figures = _Figures(answer.budget.used, answer.budget.limit)
    event = _event(context, "sillytavern", placed, figures)
    begun = answer.conversation
    return event if begun is None else replace(event, continued=begun.state)


def _activated(entry: ActivatedEntry, books: Sequence[NamedBook]) -> _Placed:
    found = _find_entry(entry, books)
    source, book_id = (None, None) if found is None else found
    comment = None if source is None else source.fields.get("comment")
    return (
        _sillytavern_place(entry, source),
        LiveEntry(
            book_id=book_id,
            book=None if book_id else entry.book[:NAME_CHARS],
            entry_id=entry.id.removeprefix(f"{entry.book}."),
            title=comment[:NAME_CHARS] if isinstance(comment, str) else "",
            reason=entry.reason,
            key=None if entry.key is None else entry.key[:NAME_CHARS],
            preview=entry.content[:PREVIEW_CHARS],
        ),
    )


def _find_entry(
    entry: ActivatedEntry, books: Sequence[NamedBook]
) -> tuple[ScanEntry, str | None] | None:
    for world, book_id in books:
        for index in world.by_id.get(entry.id, ()):
            return world.entries[index], book_id
    return None


def _sillytavern_place(entry: ActivatedEntry, source: ScanEntry | None) -> _Place:
    if entry.position is None or not entry.content:
        return _Place(NOWHERE)
    position = _SILLYTAVERN[entry.position]
    if source is None:
        return _Place(position)
    match position:
        case "at_depth":
            depth = source.depth if isinstance(source.depth, int | float) else _DEFAULT_DEPTH
            role = source.role if isinstance(source.role, int | float) else 0
            return _Place(position, depth=depth, role=_ROLES.get(role, "system"))
        case "outlet":
            return _Place(position, outlet_name=source.outlet) if source.outlet else _Place(NOWHERE)
        case _:
            return _Place(position)


def _in_prompt(place: _Place) -> tuple[int, float]:
    """Return the sort key of a place in the prompt; greater depths come first."""
    return _PROMPT_ORDER.index(cast("str", place.position)), -(place.depth or 0)


def of_replica(
    answer: ReplicaResponse, stored: Mapping[str, str], context: SelectionContext
) -> LiveSelection:
    """Return the event of a turn under the policy `replica`, with that policy's labels.

    Args:
        answer: of the turn.
        stored: the ids of its stored books, by the keys of the turn.
        context: the rest of the event.
    """
    keys = {(each.book_id, each.uid): each.facts.keys for each in answer.decisions}
    placed = sorted(
        (
            (
                _replica_place(each),
                _replica_entry(each, stored, keys.get((each.book_id, each.uid)) or ()),
            )
            for each in answer.entries
        ),
        key=lambda each: _REPLICA_ORDER.index(cast("int", each[0].position)),
    )
    labels: dict[str | int, str] = {each.position: each.position_label for each in answer.entries}
    return _event(context, "replica", placed, _Figures(None, None), labels)


def _replica_place(entry: ReplicaActive) -> _Place:
    if entry.position != _REPLICA_DEPTH:
        return _Place(entry.position)
    return _Place(entry.position, depth=entry.depth, role=_ROLES.get(entry.role, "system"))


def _replica_entry(
    entry: ReplicaActive, stored: Mapping[str, str], keys: Sequence[str]
) -> LiveEntry:
    book_id = stored.get(entry.book_id)
    return LiveEntry(
        book_id=book_id,
        book=None if book_id else entry.book_id[:NAME_CHARS],
        entry_id=entry.uid,
        title=entry.comment[:NAME_CHARS],
        reason=entry.trigger_type,
        key=keys[0][:NAME_CHARS] if keys else None,
        preview=entry.content[:PREVIEW_CHARS],
    )


def _event(
    context: SelectionContext,
    policy: Policy,
    placed: Iterable[_Placed],
    figures: _Figures,
    labels: Mapping[str | int, str] | None = None,
) -> LiveSelection:
    names = _LABELS if labels is None else labels
    groups: dict[_Place, list[LiveEntry]] = {}
    positions: Counter[str | int] = Counter()
    reasons: Counter[str] = Counter()
    total = 0
    for place, entry in placed:
        total += 1
        positions[place.position] += 1
        reasons[entry.reason] += 1
        if total <= MAX_LISTED:
            groups.setdefault(place, []).append(entry)
    counted = positions.items() if labels is None else sorted(positions.items())
    occasion = context.occasion
    return LiveSelection(
        tenant_id=context.tenant_id,
        prompt_id=occasion.prompt_id,
        policy=policy,
        source=occasion.source,
        conversation_id=occasion.conversation_id,
        at=context.at,
        ledger=context.ledger,
        groups=tuple(
            LiveGroup(
                position=place.position,
                label=names[place.position],
                depth=place.depth,
                role=place.role,
                outlet_name=place.outlet_name,
                entries=tuple(entries),
            )
            for place, entries in groups.items()
        ),
        stats=LiveStats(
            total=total,
            by_position=tuple(
                LivePosition(position=position, label=names[position], count=count)
                for position, count in counted
            ),
            by_reason=dict(reasons),
            tokens=figures.tokens,
            token_budget=figures.token_budget,
            unlisted=max(0, total - MAX_LISTED),
        ),
    )
