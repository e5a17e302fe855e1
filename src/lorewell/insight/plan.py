"""Plans the token budget of a chat: what each entry costs, and what other budgets would change.

What competes for the budget does not depend on it, so a turn is activated once and then packed at
every budget that changes anything. Between two such budgets every comparison has the same outcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Final, NamedTuple

from lorewell.engine.native.packing import Packing, constant_cap, pack
from lorewell.engine.native.select import DecidedTurn
from lorewell.engine.steps import Steps
from lorewell.insight.chats import ChatSide, NativeSide
from lorewell.insight.stories import tell
from lorewell.model import SelectRequest
from lorewell.model.chat_replay import BudgetPlan, EntryCount, EntryKey, PlanStep

MAX_BUDGET: Final = 32_000
MAX_CURVE: Final = 200
_FLAGS: Final = frozenset({"constant", "required"})


class _Packed(NamedTuple):
    """A turn from a budget on, until the next one."""

    budget: int
    keys: Mapping[EntryKey, int]
    failed: bool

    @property
    def tokens(self) -> int:
        return sum(self.keys.values())


def plan_side(side: ChatSide, turns: Sequence[int], *, budget: Steps | None = None) -> BudgetPlan:
    """Return what each entry costs over a chat, and what other budgets would change.

    Args:
        side: books, settings and chat.
        turns: number of messages at each turn, ascending.
        budget: the step budget of all turns together; by default each turn has its own.

    Raises:
        TooExpensiveError: the turns need more than `budget`.
    """
    steps = tuple(side.steps(turns, budget))
    stories = tell(side, steps)
    keyed = side.keyed
    called = {use.key for step in steps for use in step.used if use.reason not in _FLAGS}
    ranked = sorted(
        (each for each in stories if each.turns or each.refused),
        key=lambda each: (-each.tokens, -each.refused, each.book, each.entry_id),
    )
    idle = tuple(
        EntryCount(book=each.book, entry_id=each.entry_id, title=each.title, turns=each.turns)
        for each in ranked
        if each.tokens and not each.found
        if (key := EntryKey(each.book, each.entry_id)) in keyed and key not in called
    )
    limits = {step.limit for step in steps}
    own = limits.pop() if len(limits) == 1 else None
    curve: list[PlanStep] = []
    if isinstance(side, NativeSide):
        curve = _curve(side, turns, budget)
    kept = _nearest(curve, own or 0)
    return BudgetPlan(
        policy=side.policy,
        turns=len(steps),
        budget=own,
        entries=tuple(ranked),
        idle=idle,
        curve=tuple(kept),
        cut=len(curve) - len(kept),
    )


def _curve(side: NativeSide, turns: Sequence[int], budget: Steps | None) -> list[PlanStep]:
    """Return every budget at which any turn changes, from 0 on, with what changes there."""
    titles = side.titles
    changes: dict[int, list[tuple[_Packed | None, _Packed]]] = {}
    for _, decided in side.decided(turns, budget):
        before = None
        for packed in _packings(side, decided):
            changes.setdefault(packed.budget, []).append((before, packed))
            before = packed
    uses = tokens = failed = 0
    totals: Counter[int] = Counter()  # turns by their tokens, for the fullest one
    made = []
    for at in sorted(changes):
        more: Counter[EntryKey] = Counter()
        for old, new in changes[at]:
            more.update(new.keys.keys())
            uses, tokens, failed = uses + len(new.keys), tokens + new.tokens, failed + new.failed
            totals[new.tokens] += 1
            if old is not None:
                more.subtract(old.keys.keys())
                uses, tokens, failed = (
                    uses - len(old.keys),
                    tokens - old.tokens,
                    failed - old.failed,
                )
                totals[old.tokens] -= 1
        made.append(
            PlanStep(
                budget=at,
                uses=uses,
                tokens=tokens,
                fullest=max((size for size, count in totals.items() if count), default=0),
                failed=failed,
                joined=_counts(more, titles, 1),
                dropped=_counts(more, titles, -1),
            )
        )
    return made


def _counts(
    more: Counter[EntryKey], titles: Mapping[EntryKey, str], sign: int
) -> tuple[EntryCount, ...]:
    changed = sorted((-count * sign, key) for key, count in more.items() if count * sign > 0)
    return tuple(
        EntryCount(book=key.book, entry_id=key.entry_id, title=titles[key], turns=-count)
        for count, key in changed
    )


def _packings(side: NativeSide, decided: DecidedTurn) -> Iterator[_Packed]:
    """Yield the turn at every budget that changes it, from 0 to the largest."""
    turn, _, failure = decided
    if failure is not None and failure.code == "required_placement_unsupported":
        yield _Packed(0, {}, failed=True)
        return
    at: int | None = 0
    before: _Packed | None = None
    while at is not None and at <= MAX_BUDGET:
        request = turn.request.model_copy(update={"token_budget": at})
        packing = pack(request, turn.eligible, turn.activation, turn.cost, turn.steps)
        if packing.failure is None:
            keys = {
                side.key_of(full_id): turn.cost(each.book, each.entry)
                for full_id, each in packing.chosen.items()
            }
            packed = _Packed(at, keys, failed=False)
        else:
            packed = _Packed(at, {}, failed=True)
        if before is None or packed[1:] != before[1:]:
            yield packed
            before = packed
        at = _next_budget(request, packing)


def _next_budget(request: SelectRequest, packing: Packing) -> int | None:
    """Return the lowest larger budget at which a comparison has another outcome."""
    found = []
    for verdict in packing.dropped.values():
        tokens, room = verdict.figures.tokens, verdict.figures.room
        if tokens is None or room is None:
            continue
        missing = tokens - room
        if verdict.reason == "budget_dropped":
            found.append(request.token_budget + missing)
        elif verdict.reason == "constant_budget_dropped" and request.constant_budget_ratio:
            found.append(_budget_for(request, constant_cap(request) + missing))
    return min(found, default=None)


def _budget_for(request: SelectRequest, cap: int) -> int:
    """Return the lowest budget whose share for constants is at least `cap`."""
    ratio = Decimal(repr(request.constant_budget_ratio))
    return int((Decimal(cap) / ratio).to_integral_value(ROUND_CEILING))


def _nearest(curve: Sequence[PlanStep], budget: int) -> Sequence[PlanStep]:
    """Return at most `MAX_CURVE` steps, those nearest to a budget."""
    if len(curve) <= MAX_CURVE:
        return curve
    at = sum(step.budget <= budget for step in curve)
    begin = min(max(0, at - MAX_CURVE // 2), len(curve) - MAX_CURVE)
    return curve[begin : begin + MAX_CURVE]
