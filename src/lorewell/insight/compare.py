"""Compares a chat on two sides: two revisions, files, settings, budgets or policies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from lorewell.engine.steps import Steps
from lorewell.insight.chats import ChatSide
from lorewell.model.chat_replay import (
    EntryChange,
    EntryKey,
    ReplayDiff,
    ReplayStep,
    TurnChange,
)

_NAMED: Final = 3  # entries in the summary


def compare_steps(
    first: Sequence[ReplayStep], second: Sequence[ReplayStep], titles: Mapping[EntryKey, str]
) -> ReplayDiff:
    """Return how the turns of two replays of one chat differ.

    Args:
        first: the turns of one side.
        second: those of the other side, after the same numbers of messages.
        titles: the titles of the entries; those of the second side count.

    Raises:
        ValueError: the sides have different turns.
    """
    changed = []
    joined: Counter[EntryKey] = Counter()
    dropped: Counter[EntryKey] = Counter()
    edited: Counter[EntryKey] = Counter()
    for old, new in zip(first, second, strict=True):
        if old.messages != new.messages:
            message = "The sides have different turns."
            raise ValueError(message)
        change = _turn(old, new)
        joined.update(change.joined)
        dropped.update(change.dropped)
        edited.update(change.edited)
        is_same = old.failed == new.failed and not change.tokens
        if change.joined or change.dropped or change.edited or not is_same:
            changed.append(change)
    keys = sorted(
        {*joined, *dropped, *edited},
        key=lambda key: (-(joined[key] + dropped[key]), -edited[key], key),
    )
    entries = tuple(
        EntryChange(
            book=key.book,
            entry_id=key.entry_id,
            title=titles.get(key, ""),
            joined=joined[key],
            dropped=dropped[key],
            edited=edited[key],
        )
        for key in keys
    )
    tokens = sum(change.tokens for change in changed)
    return ReplayDiff(
        turns=len(first),
        changed=tuple(changed),
        entries=entries,
        tokens=tokens,
        summary=_summary(len(first), len(changed), entries, tokens),
    )


def compare_sides(
    first: ChatSide, second: ChatSide, turns: Sequence[int], *, budget: Steps | None = None
) -> ReplayDiff:
    """Return how the turns of a chat differ between two sides.

    Args:
        first: one side.
        second: the other side.
        turns: number of messages at each turn, ascending.
        budget: the step budget of both sides together; by default each turn has its own.

    Raises:
        TooExpensiveError: the turns need more than `budget`.
    """
    old, new = (tuple(side.steps(turns, budget)) for side in (first, second))
    return compare_steps(old, new, {**first.titles, **second.titles})


def _turn(old: ReplayStep, new: ReplayStep) -> TurnChange:
    before, after = old.texts, new.texts
    return TurnChange(
        messages=new.messages,
        joined=tuple(key for key in after if key not in before),
        dropped=tuple(key for key in before if key not in after),
        edited=tuple(key for key in after if key in before and after[key] != before[key]),
        tokens=new.tokens - old.tokens,
    )


def _summary(turns: int, changed: int, entries: Sequence[EntryChange], tokens: int) -> str:
    if not changed:
        return f"0 of {turns} turns change"
    parts = [f"{changed} of {turns} turns change"]
    parts += [_about(entry) for entry in entries[:_NAMED]]
    if len(entries) > _NAMED:
        parts.append(f"{len(entries) - _NAMED} more entries change")
    if tokens:
        parts.append(f"{tokens:+} tokens")
    return "; ".join(parts)


def _about(entry: EntryChange) -> str:
    name = entry.title or entry.entry_id
    parts = []
    if entry.dropped:
        parts.append(f"no longer fires in {entry.dropped}")
    if entry.joined:
        parts.append(f"newly fires in {entry.joined}")
    if entry.edited:
        parts.append(f"has another text in {entry.edited}")
    return f"{name} {', '.join(parts)}"
