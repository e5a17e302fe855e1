"""Sums up the turns of a chat: when each entry was in, what it cost, why it never was."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

from lorewell.engine.steps import Steps
from lorewell.insight.chats import ChatSide
from lorewell.model.chat_replay import ChatReplay, EntryKey, EntryStory, ReplayStep


def replay_side(side: ChatSide, turns: Sequence[int], *, budget: Steps | None = None) -> ChatReplay:
    """Return a chat turn by turn, with the story of every entry.

    Args:
        side: books, settings and chat.
        turns: number of messages at each turn, ascending.
        budget: the step budget of all turns together; by default each turn has its own.

    Raises:
        TooExpensiveError: the turns need more than `budget`.
    """
    return sum_up(side, tuple(side.steps(turns, budget)))


def sum_up(side: ChatSide, steps: Sequence[ReplayStep]) -> ChatReplay:
    """Return the turns of a chat with the story of every entry."""
    return ChatReplay(
        policy=side.policy,
        steps=tuple(steps),
        entries=tell(side, steps),
        warnings=dict(Counter(code for step in steps for code in step.warnings)),
    )


def tell(side: ChatSide, steps: Sequence[ReplayStep]) -> tuple[EntryStory, ...]:
    """Return the story of every entry, in the order of the books."""
    seen: dict[EntryKey, list[int]] = defaultdict(list)
    tokens: Counter[EntryKey] = Counter()
    found: Counter[EntryKey] = Counter()
    refused: dict[EntryKey, Counter[str]] = defaultdict(Counter)
    for place, step in enumerate(steps):
        for use in step.used:
            seen[use.key].append(place)
            tokens[use.key] += use.tokens
            found[use.key] += use.found
        for each in step.refused:
            refused[each.key][each.reason] += 1
    last = steps[-1].why if steps else {}
    stories = []
    for key, title in side.titles.items():
        places = seen.get(key, [])
        reasons = refused.get(key, Counter())
        why = None
        if not places:
            why = max(sorted(reasons), key=reasons.__getitem__) if reasons else last.get(key)
        stories.append(
            EntryStory(
                book=key.book,
                entry_id=key.entry_id,
                title=title,
                turns=len(places),
                first=steps[places[0]].messages if places else None,
                longest_silence=_longest_gap(places),
                tokens=tokens[key],
                found=found[key],
                refused=sum(reasons.values()),
                why=why,
            )
        )
    return tuple(stories)


def _longest_gap(places: Sequence[int]) -> int:
    return max((after - before - 1 for before, after in pairwise(places)), default=0)
