"""Rounds of activation (spec/native.md §8.3, §8.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lorewell.engine.compiled import CompiledBook, CompiledEntry
from lorewell.engine.native.eligibility import Filters, Refusal
from lorewell.engine.native.keywords import Found, KeywordScan, Texts
from lorewell.model import Facts, Reason, SelectRequest
from lorewell.model.decision import NO_FACTS


@dataclass(frozen=True, slots=True)
class Activated:
    """An entry that takes part, why, since which round, and what its keys gave."""

    book: CompiledBook
    entry: CompiledEntry
    why: Reason
    round: int
    found: Found

    @property
    def direct(self) -> bool:
        """Whether its keys hit in the messages; a hit through recursion is not direct."""
        return self.round == 0 and self.found.hit


@dataclass(slots=True)
class Activation:
    """What the rounds gave. All mappings go by full id.

    Attributes:
        active: in order of activation.
        looked: what the keys of the other entries gave when last looked at.
        suppliers: full ids of the entries whose text was searched, in order.
    """

    filters: Filters
    active: dict[str, Activated] = field(default_factory=dict)
    looked: dict[str, Found] = field(default_factory=dict)
    suppliers: list[str] = field(default_factory=list)
    _refusals: dict[str, Refusal | None] = field(default_factory=dict)

    def refusal(self, entry: CompiledEntry) -> Refusal | None:
        """Return the filter that the entry fails, None if it is eligible. Asked once an entry."""
        if entry.full_id not in self._refusals:
            self._refusals[entry.full_id] = self.filters.check(entry)
        return self._refusals[entry.full_id]

    def facts(self, full_id: str) -> Facts:
        """Return where the entry's key hit and who woke it."""
        active = self.active.get(full_id)
        found = active.found if active else self.looked.get(full_id)
        if found is None or found.place is None:
            return NO_FACTS
        place = found.place
        # A constant entry whose key hits too needed nobody to wake it.
        woken = found.supply is not None and (active is None or active.why == "recursion")
        return Facts(
            key=found.key,
            message=None if place.supplied else place.index,
            span=place.span,
            woken_by=self.suppliers[found.supply.index] if found.supply and woken else None,
        )


def activate(
    books: Sequence[CompiledBook],
    request: SelectRequest,
    result: Activation,
    ranks: Mapping[str, float],
) -> None:
    """Find the entries that take part in this turn.

    Args:
        books: the snapshot, in request order.
        request: the turn.
        result: where they are put.
        ranks: fused score of each recalled entry by full id; empty under `rules`.
    """
    messages = [message.content for message in request.history] + [request.query]
    depths = {request.scan_depth}.union(*(book.depths for book in books))
    texts = Texts(messages, max(depths), exact=any(len(book.exact.entries) for book in books))
    scans = [KeywordScan(book, texts) for book in books]
    new: list[Activated] = []
    for book, scan in zip(books, scans, strict=True):
        ranked = [e.index for full_id in ranks if (e := book.find(full_id)) is not None]
        for index in sorted(scan.advance().union(book.always, book.with_regex, ranked)):
            entry = book.entries[index]
            if result.refusal(entry) is None:
                found = scan.look(entry, _depth(entry, request))
                why = _first_reason(entry, found, ranks)
                if why is None:
                    result.looked[entry.full_id] = found
                else:
                    new.append(Activated(book, entry, why, 0, found))
    _admit(result, new)
    for number in range(1, request.max_recursion_rounds + 1):
        supply = [active for active in new if not active.entry.spec.prevent_recursion]
        if not supply:
            break
        result.suppliers += [active.entry.full_id for active in supply]
        texts.extend([result.filters.content(active.entry) for active in supply])
        new = _recurse(books, scans, request, result, number)
        _admit(result, new)


def _recurse(
    books: Sequence[CompiledBook],
    scans: Sequence[KeywordScan],
    request: SelectRequest,
    result: Activation,
    number: int,
) -> list[Activated]:
    """Return what the texts of the rounds before activate."""
    new = []
    for book, scan in zip(books, scans, strict=True):
        # Where nothing new was found, an entry's verdict stays what it was.
        for index in sorted(scan.advance().union(book.with_regex)):
            entry = book.entries[index]
            if entry.full_id in result.active or entry.spec.exclude_recursion:
                continue
            if result.refusal(entry) is None:
                found = scan.look(entry, _depth(entry, request))
                result.looked[entry.full_id] = found
                if found.hit:
                    new.append(Activated(book, entry, "recursion", number, found))
    return new


def _depth(entry: CompiledEntry, request: SelectRequest) -> int:
    own = entry.spec.scan_depth
    return request.scan_depth if own is None else own


def _first_reason(entry: CompiledEntry, found: Found, ranks: Mapping[str, float]) -> Reason | None:
    if entry.spec.required:
        return "required"
    if entry.spec.constant:
        return "constant"
    if found.hit:
        return "keyword"
    return "hybrid" if entry.full_id in ranks else None


def _admit(result: Activation, new: Sequence[Activated]) -> None:
    result.active.update((active.entry.full_id, active) for active in new)
