"""Rounds of activation (docs/rules/native.md §8.3, §8.5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from lorewell.engine.native.compiled import CompiledBook, CompiledEntry
from lorewell.engine.native.eligibility import Eligibility
from lorewell.engine.native.keywords import (
    KeyMatch,
    KeyQuery,
    KeywordScan,
    SearchTexts,
    search_regexes,
)
from lorewell.engine.native.recall import Recall
from lorewell.engine.steps import Steps
from lorewell.jsregex import RegexGuard
from lorewell.model import Reason, SelectRequest

_COUNTED_AT_ONCE = 256


class ActivatedCandidate(NamedTuple):
    """An entry that takes part, why, since which round, and what its keys gave."""

    book: CompiledBook
    entry: CompiledEntry
    why: Reason
    round: int
    found: KeyMatch

    @property
    def direct(self) -> bool:
        """Whether its keys hit in the messages; a hit through recursion is not direct."""
        return self.round == 0 and self.found.hit


class HitSource(NamedTuple):
    """Where a key hit and whose text it was, as `Facts` has it."""

    key: str | None = None
    message: int | None = None
    span: tuple[int, int] | None = None
    woken_by: str | None = None


NO_TRACE = HitSource()


@dataclass(slots=True)
class ActivationResult:
    """What the rounds gave. All mappings go by full id.

    Attributes:
        active: in order of activation.
        looked: what the keys of the other entries gave when last looked at.
        suppliers: full ids of the entries whose text was searched, in order.
    """

    active: dict[str, ActivatedCandidate] = field(default_factory=dict)
    looked: dict[str, KeyMatch] = field(default_factory=dict)
    suppliers: list[str] = field(default_factory=list)

    def trace(self, full_id: str) -> HitSource:
        """Return where the entry's key hit and who woke it."""
        active = self.active.get(full_id)
        found = active.found if active else self.looked.get(full_id)
        if found is None or found.place is None:
            return NO_TRACE
        supplied, number, span = found.place
        # A constant entry whose key hits too needed nobody to wake it.
        woken = found.supply is not None and (active is None or active.why == "recursion")
        waker = self.suppliers[found.supply.number] if found.supply and woken else None
        return HitSource(found.key, None if supplied else number, span, waker)


def activate(
    books: Sequence[CompiledBook],
    request: SelectRequest,
    eligible: Eligibility,
    recall: Recall,
    steps: Steps,
) -> ActivationResult:
    """Return the entries that take part in this turn.

    Args:
        books: the snapshot, in request order.
        request: the turn.
        eligible: the filters; entries that fail one are not looked at.
        recall: what ranks for the query, nothing under `rules`. Its `kept` and `gated` are filled:
            the gate needs the secondary keys, which are searched here.
        steps: the budget of the turn.
    """
    messages = [message.content for message in request.history] + [request.query]
    depths = {request.scan_depth}.union(*(book.depths for book in books))
    texts = SearchTexts(messages, max(depths), books, steps)
    rounds = _Rounds([KeywordScan(book, texts) for book in books], texts, request, eligible)
    rounds.begin(recall)
    for number in range(1, request.max_recursion_rounds + 1):
        if not rounds.recurse(number):
            break
    return rounds.result


@dataclass(slots=True)
class _Rounds:
    """The rounds of one request; `new` is what the last one activated."""

    scans: Sequence[KeywordScan]
    texts: SearchTexts
    request: SelectRequest
    eligible: Eligibility
    result: ActivationResult = field(default_factory=ActivationResult)
    new: list[ActivatedCandidate] = field(default_factory=list)
    _guard: RegexGuard = field(init=False)

    def __post_init__(self) -> None:
        """Let a search of regexes end with the request."""
        self._guard = RegexGuard(watch=self.texts.steps.watch)

    def begin(self, recall: Recall) -> None:
        """Activate what the messages, a flag or recall bring in."""
        looks = []
        for number, scan in enumerate(self.scans):
            book, ranked = scan.book, recall.looked_at(number)
            indexes = sorted(scan.advance().union(book.always, book.with_regex, ranked))
            self.texts.steps.spend("keys", len(indexes))
            for index in indexes:
                entry = book.entries[index]
                if self.eligible.refusal(entry) is None:
                    gated = recall.is_gated(entry)
                    looks.append(KeyQuery(scan, entry, self._depth(entry), gated))
        search_regexes(self._guard, self.texts, looks)
        gated_looks = {look.entry.full_id: look for look in looks if look.gated}
        recall.admit(lambda full_id: _gate_fault(gated_looks.get(full_id)))
        for scan, entry, depth, _ in self._counted(looks):
            found = scan.look(entry, depth)
            why = _first_reason(entry, found, recall)
            if why is None:
                self.result.looked[entry.full_id] = found
            else:
                self.new.append(ActivatedCandidate(scan.book, entry, why, 0, found))
        self._admit()

    def recurse(self, number: int) -> bool:
        """Activate what the texts of the last round bring in; return whether there was a text."""
        supply = [active for active in self.new if not active.entry.spec.prevent_recursion]
        if not supply:
            return False
        self.new = []
        self.result.suppliers += [active.entry.full_id for active in supply]
        self.texts.extend([self.eligible.content(active.entry) for active in supply])
        looks = []
        for scan in self.scans:
            # Where nothing new was found, an entry's verdict stays what it was.
            indexes = sorted(scan.advance().union(scan.book.with_regex))
            self.texts.steps.spend("keys", len(indexes))
            for index in indexes:
                entry = scan.book.entries[index]
                if entry.full_id in self.result.active or entry.spec.exclude_recursion:
                    continue
                if self.eligible.refusal(entry) is None:
                    looks.append(KeyQuery(scan, entry, self._depth(entry)))
        search_regexes(self._guard, self.texts, looks)
        for scan, entry, depth, _ in self._counted(looks):
            found = scan.look(entry, depth)
            self.result.looked[entry.full_id] = found
            if found.hit:
                self.new.append(ActivatedCandidate(scan.book, entry, "recursion", number, found))
        self._admit()
        return True

    def _counted(self, looks: Sequence[KeyQuery]) -> Iterable[KeyQuery]:
        """Return the looks; what they take is counted before, many at a time."""
        if len(looks) > _COUNTED_AT_ONCE:
            begins = range(0, len(looks), _COUNTED_AT_ONCE)
            parts = (looks[begin : begin + _COUNTED_AT_ONCE] for begin in begins)
            return chain.from_iterable(map(self._counted, parts))
        work = sum([look.scan.book.looks[look.entry.index] for look in looks])
        self.texts.steps.spend("keys", work)
        return looks

    def _depth(self, entry: CompiledEntry) -> int:
        own = entry.spec.scan_depth
        return self.request.scan_depth if own is None else own

    def _admit(self) -> None:
        self.result.active.update((active.entry.full_id, active) for active in self.new)


def _gate_fault(look: KeyQuery | None) -> str | None:
    """Return what keeps an entry from being recalled; nothing does where no gate is asked for."""
    return None if look is None else look.scan.gate_fault(look.entry, look.depth)


def _first_reason(entry: CompiledEntry, found: KeyMatch, recall: Recall) -> Reason | None:
    if entry.spec.required:
        return "required"
    if entry.spec.constant:
        return "constant"
    if found.hit:
        return "keyword"
    return "hybrid" if entry.full_id in recall.kept else None
