"""Inclusion groups: one candidate of each group stays (docs/rules/sillytavern.md §10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lorewell.engine.sillytavern.draws import RandomDraws
from lorewell.engine.sillytavern.item import ScanItem
from lorewell.engine.sillytavern.javascript import in_object_order, sort_descending
from lorewell.engine.sillytavern.ledger import Ledger
from lorewell.engine.sillytavern.timed import TimedEffects
from lorewell.engine.steps import Steps
from lorewell.model.activate import SillyTavernRequest

Groups = dict[str, list[ScanItem]]


class GroupFilter:
    """The groups of one scan."""

    def __init__(
        self,
        timed: TimedEffects,
        draws: RandomDraws,
        ledger: Ledger,
        score: Callable[[ScanItem], int],
        request: SillyTavernRequest,
        steps: Steps,
    ) -> None:
        """Bind the filter to a scan."""
        self._steps = steps
        self._timed = timed
        self._draws = draws
        self._ledger = ledger
        self._score = score
        self._scoring = request.settings.world_info_use_group_scoring
        self._mending = request.mending
        self._remaining: dict[ScanItem, None] = {}

    def apply(self, candidates: Iterable[ScanItem], active: Iterable[ScanItem]) -> list[ScanItem]:
        """Return the candidates that remain, in order.

        Args:
            candidates: in the order of processing.
            active: the entries already active.
        """
        self._remaining = dict.fromkeys(candidates)
        groups = self._members()
        if not groups:
            return list(self._remaining)
        settled = {name for name, members in groups.items() if self._apply_timers(name, members)}
        for name, members in groups.items():
            if name not in settled:
                self._apply_scores(name, members)
        holders: dict[object, ScanItem] = {}
        for item in active:
            self._steps.spend("groups")
            if isinstance(item.entry.group, str):
                holders.setdefault(item.entry.group, item)
        for name, members in groups.items():
            if name not in settled:
                self._choose(name, members, holders.get(name))
        return list(self._remaining)

    def _members(self) -> Groups:
        """Return the members of each group; groups are in object order, numbers first."""
        groups: Groups = {}
        for item in self._remaining:
            if item.entry.groups:
                self._steps.spend("groups", len(item.entry.groups))
                for name in item.entry.groups:
                    groups.setdefault(name, []).append(item)
        return {name: groups[name] for name in in_object_order(groups)}

    def _remove(self, item: ScanItem) -> None:
        """Remove a candidate. If it is already removed, SillyTavern removes the last one instead.

        Golden cases: groups-046, groups-047.
        """
        if item in self._remaining:
            del self._remaining[item]
        elif self._remaining and not self._mending.group_removal:
            victim, _ = self._remaining.popitem()
            self._ledger.add("group_mistaken", victim.id, winner=item.id)

    def _apply_timers(self, name: str, members: list[ScanItem]) -> bool:
        """Remove members that lose to timed effects; return whether a sticky one settles it."""
        self._steps.spend("groups", 2 * len(members))
        settled = any(self._timed.is_sticky(item.entry) for item in members)
        if settled:
            for item in members:
                if not self._timed.is_sticky(item.entry):
                    self._ledger.add("group_lost_to_sticky", item.id, group=name)
                    self._remove(item)
        for item in members:
            is_kept = self._mending.group_cooldown and self._timed.is_sticky(item.entry)
            if self._timed.is_cooling(item.entry) and not is_kept:
                self._ledger.add("group_cooldown_removed", item.id, group=name)
                self._remove(item)
        for item in members:
            if self._timed.is_held_back(item.entry):
                self._ledger.add("delay", item.id, group=name)
                self._remove(item)
        return settled

    def _uses_scoring(self, item: ScanItem) -> bool:
        return self._scoring if item.entry.scoring is None else item.entry.scoring

    def _apply_scores(self, name: str, members: list[ScanItem]) -> None:
        if not self._scoring and not any(item.entry.scoring for item in members):
            return
        scores = [self._score(item) for item in members]
        best = max(scores)
        remaining = []
        for item, score in zip(members, scores, strict=True):
            if self._uses_scoring(item) and score < best:
                self._ledger.add("group_lost_score", item.id, group=name, score=score, best=best)
                self._remove(item)
            else:
                remaining.append(item)
        members[:] = remaining

    def _choose(self, name: str, members: list[ScanItem], holder: ScanItem | None) -> None:
        self._steps.spend("groups", len(members))
        if holder is not None:
            self._ledger.add("group_already_active", group=name)
            for item in members:
                self._ledger.add("group_taken", item.id, group=name, winner=holder.id)
                self._remove(item)
            return
        if len(members) <= 1:
            return
        winner = self._find_override(name, members) or self._roll(name, members)
        if winner is None:
            return
        for item in members:
            if item is not winner:
                self._ledger.add("group_lost", item.id, group=name, winner=winner.id)
                self._remove(item)

    def _find_override(self, name: str, members: list[ScanItem]) -> ScanItem | None:
        overriding = [item for item in members if item.entry.overrides]
        if not overriding:
            return None
        winner = sort_descending(overriding, lambda item: item.entry.order)[0]
        self._ledger.add("group_prio_winner", winner.id, group=name)
        return winner

    def _roll(self, name: str, members: list[ScanItem]) -> ScanItem | None:
        total = sum(item.entry.weight for item in members)
        roll = self._draws.next() * total
        reached: float = 0
        for item in members:
            reached += item.entry.weight
            if roll <= reached:
                self._ledger.add(
                    "group_roll_winner", item.id, group=name, roll=roll, threshold=reached
                )
                return item
        return None
