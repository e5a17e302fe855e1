"""Rounds of activation (docs/rules/native.md §8.3, §8.5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from lorewell.engine.native.compiled import CompiledBook, CompiledEntry
from lorewell.engine.native.costs import EntryCost
from lorewell.engine.native.eligibility import Eligibility
from lorewell.engine.native.keywords import (
    KeyMatch,
    KeyQuery,
    KeywordScan,
    SearchTexts,
    search_regexes,
)
from lorewell.engine.native.recall import Recall
from lorewell.jsregex import RegexGuard
from lorewell.model import Reason, SelectRequest

_COUNTED_AT_ONCE = 256


class ActivatedCandidate(NamedTuple):
    """An activated entry: why, in which round, and how its keys matched."""

    book: CompiledBook
    entry: CompiledEntry
    why: Reason
    round: int
    match: KeyMatch

    @property
    def direct(self) -> bool:
        """Whether its keys hit in the messages, not only in recursion."""
        return self.round == 0 and self.match.hit


class HitSource(NamedTuple):
    """Where a key hit, and the entry whose text it hit, as in `Facts`."""

    key: str | None = None
    message: int | None = None
    span: tuple[int, int] | None = None
    woken_by: str | None = None


NO_TRACE = HitSource()


@dataclass(slots=True)
class ActivationResult:
    """The result of all rounds. All mappings are by full id.

    Attributes:
        recall: the ranked entries, those recalled among them.
        active: in order of activation.
        checked: the last match of the keys of the entries that are not active.
        suppliers: full ids of the entries whose text was searched, in order.
        scans: the keys of each book of the snapshot against all texts.
        unheard: full ids of the entries whose text the number of rounds left unsearched.
    """

    recall: Recall
    scans: Sequence[KeywordScan]
    active: dict[str, ActivatedCandidate] = field(default_factory=dict)
    checked: dict[str, KeyMatch] = field(default_factory=dict)
    suppliers: list[str] = field(default_factory=list)
    unheard: list[str] = field(default_factory=list)

    def trace(self, full_id: str) -> HitSource:
        """Return where the entry's key hit, and the entry that woke it."""
        active = self.active.get(full_id)
        match = active.match if active else self.checked.get(full_id)
        if match is None or match.place is None:
            return NO_TRACE
        supplied, number, span = match.place
        # A constant entry is not woken, even if its key hits as well.
        woken = match.supply is not None and (active is None or active.why == "recursion")
        waker = self.suppliers[match.supply.number] if match.supply and woken else None
        return HitSource(match.key, None if supplied else number, span, waker)


def activate(
    books: Sequence[CompiledBook],
    request: SelectRequest,
    eligible: Eligibility,
    recall: Recall,
    cost: EntryCost,
) -> ActivationResult:
    """Return the activated entries of this turn.

    Args:
        books: the snapshot, in request order.
        request: the turn.
        eligible: the filters; only eligible entries are checked.
        recall: the ranked entries, none under `rules`; not admitted yet, because the gate depends
            on secondary keys.
        cost: the tokens of entries.
    """
    messages = [message.content for message in request.history] + [request.query]
    depths = {request.scan_depth}.union(*(book.depths for book in books))
    texts = SearchTexts(messages, max(depths), books, cost.steps)
    scans = [KeywordScan(book, texts) for book in books]
    rounds = _Rounds(scans, texts, request, eligible, cost, ActivationResult(recall, scans))
    rounds.begin()
    for number in range(1, request.max_recursion_rounds + 1):
        if not rounds.recurse(number):
            break
    else:
        rounds.result.unheard = [
            active.entry.full_id for active in rounds.new if not active.entry.spec.prevent_recursion
        ]
    return rounds.result


@dataclass(slots=True)
class _Rounds:
    """The rounds of one request; `new` holds the entries that the last round activated."""

    scans: Sequence[KeywordScan]
    texts: SearchTexts
    request: SelectRequest
    eligible: Eligibility
    cost: EntryCost
    result: ActivationResult
    new: list[ActivatedCandidate] = field(default_factory=list)
    _guard: RegexGuard = field(init=False)

    def __post_init__(self) -> None:
        """Let the request's `watch` stop regex searches."""
        self._guard = RegexGuard(watch=self.texts.steps.watch)

    def begin(self) -> None:
        """Activate entries by the messages, a flag or recall."""
        recall = self.result.recall
        queries = []
        for number, scan in enumerate(self.scans):
            book, ranked = scan.book, recall.candidates_of(number)
            indexes = sorted(scan.advance().union(book.always, book.with_regex, ranked))
            self.texts.steps.spend("keys", len(indexes))
            for index in indexes:
                entry = book.entries[index]
                if self.eligible.refusal(entry) is None:
                    gated = recall.is_gated(entry)
                    queries.append(KeyQuery(scan, entry, self._depth(entry), gated))
        search_regexes(self._guard, self.texts, queries)
        gated_queries = {query.entry.full_id: query for query in queries if query.gated}
        recall = recall.admit(
            lambda full_id: _gate_fault(gated_queries.get(full_id)),
            lambda candidate: self.cost(self.scans[candidate.book].book, candidate.entry),
        )
        self.result.recall = recall
        for scan, entry, depth, _ in self._spend(queries):
            match = scan.match(entry, depth)
            why = _first_reason(entry, match, recall)
            if why is None:
                self.result.checked[entry.full_id] = match
            else:
                self.new.append(ActivatedCandidate(scan.book, entry, why, 0, match))
        self._activate_new()

    def recurse(self, number: int) -> bool:
        """Activate entries by the texts of the last round; return whether there were any texts."""
        supply = [active for active in self.new if not active.entry.spec.prevent_recursion]
        if not supply:
            return False
        self.new = []
        self.result.suppliers += [active.entry.full_id for active in supply]
        self.texts.extend([self.eligible.content(active.entry) for active in supply])
        queries = []
        for scan in self.scans:
            # Without a new hit, the result for an entry does not change.
            indexes = sorted(scan.advance().union(scan.book.with_regex))
            self.texts.steps.spend("keys", len(indexes))
            for index in indexes:
                entry = scan.book.entries[index]
                if entry.full_id in self.result.active or entry.spec.exclude_recursion:
                    continue
                if self.eligible.refusal(entry) is None:
                    queries.append(KeyQuery(scan, entry, self._depth(entry)))
        search_regexes(self._guard, self.texts, queries)
        for scan, entry, depth, _ in self._spend(queries):
            match = scan.match(entry, depth)
            self.result.checked[entry.full_id] = match
            if match.hit:
                self.new.append(ActivatedCandidate(scan.book, entry, "recursion", number, match))
        self._activate_new()
        return True

    def _spend(self, queries: Sequence[KeyQuery]) -> Iterable[KeyQuery]:
        """Return the queries; their steps are spent in batches, before each batch."""
        if len(queries) > _COUNTED_AT_ONCE:
            begins = range(0, len(queries), _COUNTED_AT_ONCE)
            batches = (queries[begin : begin + _COUNTED_AT_ONCE] for begin in begins)
            return chain.from_iterable(map(self._spend, batches))
        work = sum([query.scan.book.key_steps[query.entry.index] for query in queries])
        self.texts.steps.spend("keys", work)
        return queries

    def _depth(self, entry: CompiledEntry) -> int:
        own = entry.spec.scan_depth
        return self.request.scan_depth if own is None else own

    def _activate_new(self) -> None:
        self.result.active.update((active.entry.full_id, active) for active in self.new)


def _gate_fault(query: KeyQuery | None) -> str | None:
    """Return why the gate refuses an entry; None if it passes, or is not gated."""
    return None if query is None else query.scan.gate_fault(query.entry, query.depth)


def _first_reason(entry: CompiledEntry, match: KeyMatch, recall: Recall) -> Reason | None:
    if entry.spec.required:
        return "required"
    if entry.spec.constant:
        return "constant"
    if match.hit:
        return "keyword"
    return "hybrid" if entry.full_id in recall.kept else None
