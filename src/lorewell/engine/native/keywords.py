"""Matches an entry's keys and secondary logic against a text (docs/rules/native.md §8.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, assert_never

from lorewell.engine.conditions import Leaf, Word, holds
from lorewell.engine.matching.fold import fold_case, keep_case, keep_text
from lorewell.engine.matching.hits import Hits
from lorewell.engine.matching.keys import Key, RegexKey, count_regexes
from lorewell.engine.matching.window import Haystack, HitPlace
from lorewell.engine.native.compiled import CompiledBook, CompiledEntry, KeyExpression
from lorewell.engine.steps import Steps
from lorewell.jsregex import Look, LookResult, Parts, PatternOutcome, RegexGuard
from lorewell.model import Reason
from lorewell.model.entry import Logic


class KeyMatch(NamedTuple):
    """The result of matching an entry's keys.

    Attributes:
        key, place: the first primary key found, in the author's order, and its place.
        supply: the place in a supplied text that contributed: the primary key's, else a secondary
            key's.
        problem: why a regex key could not be evaluated, if the match failed for that.
        detail: the key that the match failed for.
    """

    key: str | None = None
    place: HitPlace | None = None
    supply: HitPlace | None = None
    problem: Reason | None = None
    detail: str | None = None

    @property
    def hit(self) -> bool:
        """Whether a primary key was found and the secondary logic holds."""
        return self.place is not None and self.problem is None and self.detail is None


NOTHING = KeyMatch()


class KeyQuery(NamedTuple):
    """An entry whose keys are about to be matched in `depth` messages.

    Attributes:
        gated: whether the secondary keys count even if no primary key is found.
    """

    scan: KeywordScan
    entry: CompiledEntry
    depth: int
    gated: bool = False


# The problems of a regex key, the one that an entry reports first (§8.4).
_PROBLEMS: dict[str, Reason] = {
    "invalid": "regex_invalid",
    "timeout": "regex_timeout",
    "unsupported": "regex_unsupported",
}


class SearchTexts:
    """The growing text in three forms: for keys without case, keys with case, and regexes.

    A form that no key of the books needs is None.
    """

    def __init__(
        self, messages: Sequence[str], depth: int, books: Sequence[CompiledBook], steps: Steps
    ) -> None:
        """Hold the last `depth` messages."""
        self.steps = steps
        self.folded = Haystack(messages, depth=depth, form=fold_case, steps=steps)
        self.exact = (
            Haystack(messages, depth=depth, form=keep_case, steps=steps)
            if any(book.exact.entries for book in books)
            else None
        )
        self.written = (
            Haystack(messages, depth=depth, form=keep_text, steps=steps)
            if any(book.with_regex for book in books)
            else None
        )

    def extend(self, texts: Sequence[str]) -> None:
        """Add the texts of activated entries."""
        for haystack in (self.folded, self.exact, self.written):
            if haystack is not None:
                haystack.extend(texts)


class KeywordScan:
    """The keys of one book against the texts of one request."""

    def __init__(self, book: CompiledBook, texts: SearchTexts) -> None:
        """Bind a book to the texts; nothing is searched yet."""
        self.book = book
        self._written = texts.written
        self._steps = texts.steps
        # Without an exact form no book has a key for it, so any haystack will do.
        exact = Hits(book.exact, texts.exact or texts.folded, texts.steps)
        self._hits = {False: Hits(book.folded, texts.folded, texts.steps), True: exact}
        self._searched = [each for each in self._hits.values() if each.has_keys]
        self._outcomes: dict[int, LookResult] = {}

    def advance(self) -> set[int]:
        """Search the new texts; return the indexes of the entries with a key in them."""
        return set().union(*[hits.advance() for hits in self._searched])

    def regexes_of(self, query: KeyQuery, parts: Parts) -> Look:
        """Return the regexes that matching an entry needs, in the parts of the text it sees."""
        entry, depth = query.entry, query.depth
        self._steps.spend("keys", self.book.key_steps[entry.index])
        hits = self._hits[bool(entry.spec.case_sensitive)]
        begin = hits.haystack.start_of(depth)
        wanted: list[RegexKey] = []
        found = False
        for key in entry.primary:
            if isinstance(key, RegexKey):
                wanted.append(key)
            elif hits.first(key, begin) is not None:
                found = True
                break
        if not found and entry.expression is not None:
            found = _match_expression(entry.expression, hits, begin).hit
        secondary = [key for key in entry.secondary if isinstance(key, RegexKey)]
        return Look(
            parts=parts,
            primary=tuple(key.pattern for key in wanted),
            fallback=found or query.gated,
            secondary=tuple(key.pattern for key in secondary),
        )

    def store_outcomes(self, entry: CompiledEntry, outcomes: LookResult) -> None:
        """Store the outcomes of an entry's regexes for the next `match`."""
        self._outcomes[entry.index] = outcomes

    def match(self, entry: CompiledEntry, depth: int) -> KeyMatch:
        """Match the entry's keys in `depth` messages and all supplied texts.

        The caller spends the steps; see `key_steps` of the book.
        """
        hits = self._hits[bool(entry.spec.case_sensitive)]
        begin = hits.haystack.start_of(depth)
        if begin >= hits.haystack.length:
            return NOTHING
        failures: list[tuple[PatternOutcome, str]] = []
        outcomes = iter(self._outcomes[entry.index].primary if entry.has_regex else ())
        for key in entry.primary:
            if isinstance(key, RegexKey):
                outcome = next(outcomes)
                place = self._place_of(outcome, depth)
                failures.append((outcome, key.text))
            else:
                place = hits.first(key, begin) if key.pattern in hits.present else None
            if place is not None:
                found = KeyMatch(key.text, place, place if place.supplied else None)
                return self._apply_secondary(entry, found, depth) if entry.secondary else found
        found = NOTHING
        if entry.expression is not None:
            found = _match_expression(entry.expression, hits, begin)
            if found.hit:
                return self._apply_secondary(entry, found, depth) if entry.secondary else found
        return _with_problem(found, failures) if failures else found

    def _apply_secondary(self, entry: CompiledEntry, found: KeyMatch, depth: int) -> KeyMatch:
        """Apply the secondary logic to a primary key that was found."""
        places, failures = self._find_secondary(entry, depth)
        failed = _with_problem(found, failures)
        if failed.problem is not None:
            return failed
        culprit = _culprit(entry.spec.logic, entry.secondary, places)
        if culprit is not None:
            return found._replace(detail=f"secondary {entry.spec.logic}: {culprit}")
        supplied = [place for place in places if place is not None and place.supplied]
        return found if found.supply or not supplied else found._replace(supply=supplied[0])

    def gate_fault(self, entry: CompiledEntry, depth: int) -> str | None:
        """Return why the secondary logic does not hold, whatever the primary keys do; else None.

        The entry's regexes must have been searched with a gated query.
        """
        self._steps.spend("keys", self.book.key_steps[entry.index])
        places, failures = self._find_secondary(entry, depth)
        failed = _with_problem(NOTHING, failures)
        if failed.problem is not None:
            return f"{failed.problem}: {failed.detail}"
        culprit = _culprit(entry.spec.logic, entry.secondary, places)
        return None if culprit is None else f"secondary {entry.spec.logic}: {culprit}"

    def _find_secondary(
        self, entry: CompiledEntry, depth: int
    ) -> tuple[list[HitPlace | None], list[tuple[PatternOutcome, str]]]:
        """Return the place of each secondary key, and the outcomes of those that are regexes."""
        hits = self._hits[bool(entry.spec.case_sensitive)]
        begin = hits.haystack.start_of(depth)
        if begin >= hits.haystack.length:  # an empty text is not searched
            return [None] * len(entry.secondary), []
        places: list[HitPlace | None] = []
        failures: list[tuple[PatternOutcome, str]] = []
        outcomes = iter(self._outcomes[entry.index].secondary if entry.has_regex else ())
        for key in entry.secondary:
            if isinstance(key, RegexKey):
                outcome = next(outcomes)
                places.append(self._place_of(outcome, depth))
                failures.append((outcome, key.text))
            else:
                places.append(hits.first(key, begin))
        return places, failures

    def _place_of(self, outcome: PatternOutcome, depth: int) -> HitPlace | None:
        """Return the place of a regex hit, None if the regex did not match."""
        if outcome.span is None or self._written is None:
            return None
        begin = self._written.start_of(depth)
        return self._written.place(begin + outcome.span[0], begin + outcome.span[1], alone=False)


def search_regexes(
    guard: RegexGuard,
    texts: SearchTexts,
    queries: Iterable[KeyQuery],
) -> None:
    """Search the regex keys of the entries about to be matched, all in one call.

    Args:
        guard: the guard of this request; it tracks regexes that run too long.
        texts: the texts of the scans.
        queries: the entries about to be matched.
    """
    if texts.written is None:
        return
    searched: list[KeyQuery] = []
    looks: list[Look] = []
    text = texts.written.text
    for query in queries:
        if query.entry.has_regex and not texts.written.is_empty(query.depth):
            searched.append(query)
            parts = ((texts.written.start_of(query.depth), len(text)),)
            looks.append(query.scan.regexes_of(query, parts))
    if looks:
        count_regexes(looks, texts.steps)
        for query, outcomes in zip(searched, guard.search(text, looks), strict=True):
            query.scan.store_outcomes(query.entry, outcomes)


def _match_expression(expression: KeyExpression, hits: Hits, begin: int) -> KeyMatch:
    """Match a key expression; the place is that of its first wanted word found.

    If the expression holds, at least one wanted word is found: without any, it would evaluate as
    if no word were found, and then it does not hold.
    """
    places = {word: hits.first(key, begin) for word, key in expression.keys.items()}

    def truth(leaf: Leaf) -> bool:
        return isinstance(leaf, Word) and places[leaf.text] is not None

    found = [word for word, place in places.items() if place is not None]
    if not found:
        return NOTHING
    if not holds(expression.parsed, truth):
        missed = [word for word, place in places.items() if place is None]
        detail = f"key expression: {_quote(found)} found, {_quote(missed) or 'nothing'} not"
        return KeyMatch(detail=detail)
    wanted = [place for word in expression.wanted if (place := places[word]) is not None]
    key = next(word for word in expression.wanted if places[word] is not None)
    supplied = next((place for place in wanted if place.supplied), None)
    return KeyMatch(key, wanted[0], supplied)


def _quote(words: Iterable[str]) -> str:
    return ", ".join(map(repr, words))


def _with_problem(found: KeyMatch, failures: Sequence[tuple[PatternOutcome, str]]) -> KeyMatch:
    """Return the match with the most serious problem of the regex keys, if there is one."""
    for verdict, problem in _PROBLEMS.items():
        for outcome, key in failures:
            if outcome.verdict == verdict:
                return found._replace(problem=problem, detail=key)
    return found


def _culprit(logic: Logic, keys: Sequence[Key], places: Sequence[HitPlace | None]) -> str | None:
    """Return why the secondary logic fails, None if it holds."""
    hit = [key.text for key, place in zip(keys, places, strict=True) if place is not None]
    missed = [key.text for key, place in zip(keys, places, strict=True) if place is None]
    match logic:
        case "and_any":
            return None if hit else "none was found"
        case "and_all":
            return f"{missed[0]!r} was not found" if missed else None
        case "not_any":
            return f"{hit[0]!r} was found" if hit else None
        case "not_all":
            return None if missed else "every one was found"
    assert_never(logic)
