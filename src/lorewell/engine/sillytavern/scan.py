"""The scan: loops over the entries until no further loop is due.

Source: docs/rules/sillytavern.md §8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from lorewell.engine.matching import words
from lorewell.engine.sillytavern.budget import LoopContents, TextCounter, limit_of
from lorewell.engine.sillytavern.buffer import ScanBuffer
from lorewell.engine.sillytavern.checks import EntryChecks
from lorewell.engine.sillytavern.draws import RandomDraws
from lorewell.engine.sillytavern.groups import GroupFilter
from lorewell.engine.sillytavern.item import ScanItem
from lorewell.engine.sillytavern.key_matcher import KeyMatcher
from lorewell.engine.sillytavern.keys import stands_alone
from lorewell.engine.sillytavern.ledger import Ledger
from lorewell.engine.sillytavern.macros import Macros
from lorewell.engine.sillytavern.plain_key_hits import PlainKeyHits
from lorewell.engine.sillytavern.sources import EntryList, EntryLocation
from lorewell.engine.sillytavern.timed import TimedEffects
from lorewell.model.activate import SillyTavernRequest
from lorewell.model.activated import EventKind, Loop, State

_COUNTED_AT_ONCE: Final = 500  # steps


class Scan:
    """One scan, from the first loop to the last.

    Attributes:
        active: the active entries by id, in the order of activation.
        limit: the budget in tokens.
        used: running total in tokens after the last entry admitted within the budget.
        overflowed: whether the budget was exceeded.
        draws: the random numbers of the scan.
        macros: the macros of the scan.
    """

    def __init__(
        self,
        entries: EntryList,
        request: SillyTavernRequest,
        *,
        timed: TimedEffects,
        forced: dict[str, ScanItem],
        tally: TextCounter,
        ledger: Ledger,
    ) -> None:
        """Bind a scan to its entries and its turn; it spends the steps of the ledger."""
        self._steps = steps = ledger.steps
        self.active: dict[str, ScanItem] = {}
        self.limit = limit_of(request)
        self.used = 0
        self.overflowed = False
        self.draws = RandomDraws(request.seed, request.draws)
        self._entries = entries
        self._settings = request.settings
        self._skips_oversized = request.mending.budget
        self._length = len(request.chat)
        self._timed = timed
        self._forced = forced
        self._tally = tally
        self._ledger = ledger
        self.macros = macros = Macros(request, self.draws, ledger)
        self._buffer = ScanBuffer(request, macros, steps)
        borders = words.stands_alone if request.mending.word_borders else stands_alone
        self._matcher = KeyMatcher(self._buffer, macros, request, borders, steps)
        self._checks = EntryChecks(request, timed)
        self._groups = GroupFilter(timed, self.draws, ledger, self._score, request, steps)
        self._plain_hits = [
            PlainKeyHits(world, self._buffer, request.settings, borders, steps)
            for world in entries.worlds
        ]
        self._items: dict[int, ScanItem] = {}
        self._pending = set(self._find_keyless())  # entries to check in each loop
        self._levels = list(entries.levels)
        self._state: State = "initial"
        self._charged = LoopContents(tally)  # texts of earlier loops, charged to later ones

    def run(self) -> None:
        """Run all loops."""
        self.macros.begin()
        self._checks.level = self._levels.pop(0) if self._levels else 0
        most = self._settings.world_info_max_recursion_steps
        while self._state != "stop":
            if 0 < most <= self._ledger.loop:
                self._ledger.add("max_recursion_steps")
                break
            self._ledger.loop += 1
            self._ledger.add("loop", number=self._ledger.loop)
            self._run_loop()

    def _run_loop(self) -> None:
        found = self._find_candidates()
        found.sort(key=lambda item: (not self._timed.is_sticky(item.entry), item.place))
        base = self._charged.tokens
        candidates = self._groups.apply(found, self.active.values())
        self._activate(candidates, base)
        successful = [item for item in candidates if not item.failed]
        supply = [item for item in successful if not item.entry.prevents_recursion]
        if self._skips_oversized:
            supply = [item for item in supply if item.loop]
        state = self._next_state(supply)
        if self._ledger.kept:
            self._ledger.add_loop(
                Loop(
                    state=self._state,
                    next=state,
                    candidates=tuple(item.id for item in candidates),
                    successful=tuple(item.id for item in successful),
                    active=len(self.active),
                    overflowed=self.overflowed,
                    level=self._checks.level,
                )
            )
        self._state = state
        if state != "stop":
            self._feed(supply)

    def _feed(self, supply: Sequence[ScanItem]) -> None:
        """Add the texts of a loop to the texts that later loops search and are charged for."""
        text = "\n".join(item.content for item in supply)
        if text:
            self._buffer.add([(item.id, item.content) for item in supply], self._ledger.loop)
            self._charged.put_before([item.content for item in supply])

    def _score(self, item: ScanItem) -> int:
        return self._matcher.score(item.entry, recursion=self._state != "min_activations")

    def _item(self, place: int, book: int) -> ScanItem:
        if place not in self._items:
            self._items[place] = ScanItem(self._entries.entries[place], place, book)
        return self._items[place]

    def _find_pending(self) -> list[EntryLocation]:
        """Return the entries to check in this loop, in order.

        Nothing can happen to the others: they need a key and none was found, or they are settled.
        If the ledger is kept, entries that a check may skip are included, to record why.
        """
        for book, plain_hits in enumerate(self._plain_hits):
            places = self._entries.places[book]
            self._pending.update(
                EntryLocation(places[index], book) for index in plain_hits.advance()
            )
        self._steps.spend("scan", 1 + len(self._plain_hits) + len(self._pending) // 2)
        return sorted(self._pending)

    def _find_keyless(self) -> set[EntryLocation]:
        """Return the entries to check whether or not one of their keys is found."""
        entries = self._entries
        found: set[EntryLocation] = set()
        for book, world in enumerate(entries.worlds):
            indexes: Iterable[int] = world.always
            if self.macros.watches_all:
                indexes = range(len(world.entries))
            elif self._ledger.kept:
                indexes = (*world.always, *world.filtered)
            found.update(EntryLocation(entries.places[book][index], book) for index in indexes)
        for digest in self._timed.active:
            found.update(entries.with_hash(digest))
        for entry in self._forced:
            found.update(entries.with_id(entry))
        return found

    def _find_candidates(self) -> list[ScanItem]:
        """Return the entries that pass the checks and whose keys match, in arbitrary order."""
        recursion = self._state != "min_activations"
        checked = []
        work = 0
        for location in self._find_pending():
            item = self._item(*location)
            if item.failed or item.id in self.active:
                self._pending.discard(location)
                continue
            work += item.entry.look
            if work > _COUNTED_AT_ONCE:
                self._steps.spend("scan", work)
                work = 0
            copy = self._forced.get(item.id)
            outcome = self._checks.check(item.entry, self._state, forced=copy is not None)
            checked.append((item, outcome))
        self._steps.spend("scan", work)
        undecided = (item.entry for item, outcome in checked if outcome is None)
        self._matcher.search_regexes(undecided, recursion=recursion)
        candidates: dict[ScanItem, None] = {}
        for item, outcome in checked:
            if outcome is None:
                if self._match(item, recursion=recursion):
                    candidates[item] = None
            elif outcome[0] == "skip":
                self._ledger.add(outcome[1], item.id)
            else:
                self._ledger.add(outcome[1], item.id)
                candidate = self._forced[item.id] if outcome[1] == "external" else item
                candidate.why = outcome[1]
                candidates[candidate] = None
        return list(candidates)

    def _match(self, item: ScanItem, *, recursion: bool) -> bool:
        """Return whether the keys of an entry match, and record why."""
        found = self._matcher.match(item.entry, self._plain_hits[item.book], recursion=recursion)
        if found.key is None:
            if found.problem is not None:
                self._ledger.add(found.problem[1], item.id, key=found.problem[0])
            return False
        if self._ledger.kept:
            hit = found.place.hit if found.place else None
            both = item.entry.uses_secondary
            kind: EventKind = "primary_then_secondary" if both else "primary"
            self._ledger.add(kind, item.id, key=found.key, hit=hit)
            if both:
                verdict: EventKind = found.why or "secondary_unsatisfied"
                self._ledger.add(verdict, item.id, key=found.secondary)
        if found.why is None:
            return False
        item.why, item.found = found.why, found
        return True

    def _activate(self, candidates: Sequence[ScanItem], base: int) -> None:
        """Activate the candidates that pass their probability and fit the budget.

        Args:
            candidates: in the order of processing.
            base: tokens of the texts of earlier loops.
        """
        text = self._tally.begin()
        for item in candidates:
            unlimited = item.entry.ignores_budget
            if self.overflowed and not unlimited:
                self._ledger.add("budget_refused", item.id, limit=self.limit)
                continue
            if not self._passes(item):
                continue
            item.content = self.macros.expand(item.entry.content, item.id, "/content")
            grown = text.add(item.content)
            fits = unlimited or self._fits(item, base + grown.tokens)
            if fits or not self._skips_oversized:
                text = grown
            if fits:
                item.loop = self._ledger.loop
                self.active[item.id] = item
                tokens = None if unlimited else self.used
                self._ledger.add("added", item.id, tokens=tokens, limit=self.limit)

    def _fits(self, item: ScanItem, tokens: int) -> bool:
        """Return whether an entry fits the budget; unless mended, the first misfit closes it.

        Args:
            item: the candidate.
            tokens: the total with the candidate's text.
        """
        # SillyTavern refuses a text that fills the budget exactly.
        has_room = tokens <= self.limit if self._skips_oversized else tokens < self.limit
        if has_room:
            self.used = tokens
            return True
        self.overflowed = not self._skips_oversized
        kind: EventKind = "budget_refused" if self._skips_oversized else "budget_overflow"
        number = len(self.active)
        self._ledger.add(kind, item.id, tokens=tokens, limit=self.limit, number=number)
        return False

    def _passes(self, item: ScanItem) -> bool:
        """Return whether the entry passes its probability; one that fails stays out for good."""
        chance = item.entry.probability
        if chance is None or self._timed.is_sticky(item.entry):
            return True
        roll = self.draws.next() * 100
        passed = roll <= chance
        item.failed = item.failed or not passed
        self._ledger.add(
            "probability_passed" if passed else "probability_failed",
            item.id,
            roll=roll,
            threshold=chance,
        )
        return passed

    def _next_state(self, supply: Sequence[ScanItem]) -> State:
        state: State = "stop"
        if self._settings.world_info_recursive and not self.overflowed:
            again = self._state == "min_activations" and self._buffer.recursion
            if supply or again:
                state = "recursion"
        if state == "stop" and not self.overflowed and self._goes_deeper():
            state = "min_activations"
        if state == "stop" and self._levels:
            state = "recursion"
            self._checks.level = self._levels.pop(0)
            self._ledger.add("next_delay_level", number=self._checks.level)
        return state

    def _goes_deeper(self) -> bool:
        """Show one more message if more activations are wanted; return whether it did."""
        if not 0 < self._settings.world_info_min_activations > len(self.active):
            return False
        most = self._settings.world_info_min_activations_depth_max
        if 0 < most < self._buffer.depth or self._buffer.depth > self._length:
            self._ledger.add("min_activations_out_of_depth")
            return False
        self._buffer.deepen()
        self._ledger.add("min_activations_advance", number=self._buffer.depth)
        return True
