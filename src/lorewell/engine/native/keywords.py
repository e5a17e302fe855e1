"""Whether an entry's keys and secondary logic hold in a text (docs/rules/native.md §8.4)."""

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
    """What a look at an entry's keys gave.

    Attributes:
        key, place: the first primary key that was found, in the author's order, and where.
        supply: where a supplied text had part in it: the primary key's place, else a secondary's.
        problem: why a key could not be looked for, if that is what the hit failed for.
        detail: which key the hit failed for.
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
    """A look to come at an entry's keys, in so many messages.

    Attributes:
        gated: the secondary keys count even if no primary key is found.
    """

    scan: KeywordScan
    entry: CompiledEntry
    depth: int
    gated: bool = False


# What a regex key can fail for, the one first that an entry remembers (§8.4).
_PROBLEMS: dict[str, Reason] = {
    "invalid": "regex_invalid",
    "timeout": "regex_timeout",
    "unsupported": "regex_unsupported",
}


class SearchTexts:
    """The growing text in its forms: for keys where case does not count, where it does, regexes.

    A form that no key of the books asks for is None.
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
        # Without an exact form no book has a key for it: there is nothing to be found.
        exact = Hits(book.exact, texts.exact or texts.folded, texts.steps)
        self._hits = {False: Hits(book.folded, texts.folded, texts.steps), True: exact}
        self._searched = [each for each in self._hits.values() if each.has_keys]
        self._seen: dict[int, LookResult] = {}

    def advance(self) -> set[int]:
        """Search what is new in the texts; return the indexes of entries with a key in it."""
        return set().union(*[hits.advance() for hits in self._searched])

    def question(self, asked: KeyQuery, parts: Parts) -> Look:
        """Return which regexes a look will need of what the entry sees of the written text."""
        entry, depth = asked.entry, asked.depth
        self._steps.spend("keys", self.book.looks[entry.index])
        hits = self._hits[entry.spec.case_sensitive]
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
            found = _weigh(entry.expression, hits, begin).hit
        secondary = [key for key in entry.secondary if isinstance(key, RegexKey)]
        return Look(
            parts=parts,
            primary=tuple(key.pattern for key in wanted),
            fallback=found or asked.gated,
            secondary=tuple(key.pattern for key in secondary),
        )

    def answer(self, entry: CompiledEntry, seen: LookResult) -> None:
        """Keep what the regexes of a question gave, for the next `look` at the entry."""
        self._seen[entry.index] = seen

    def look(self, entry: CompiledEntry, depth: int) -> KeyMatch:
        """Return what the entry's keys give in `depth` messages and all supplied texts.

        Its work is counted by the caller, see `looks` of the book.
        """
        hits = self._hits[entry.spec.case_sensitive]
        begin = hits.haystack.start_of(depth)
        if begin >= hits.haystack.length:
            return NOTHING
        failures: list[tuple[PatternOutcome, str]] = []
        outcomes = iter(self._seen[entry.index].primary if entry.has_regex else ())
        for key in entry.primary:
            if isinstance(key, RegexKey):
                outcome = next(outcomes)
                place = self._place_of(outcome, depth)
                failures.append((outcome, key.text))
            else:
                place = hits.first(key, begin) if key.pattern in hits.present else None
            if place is not None:
                found = KeyMatch(key.text, place, place if place.supplied else None)
                return self._judge(entry, found, depth) if entry.secondary else found
        weighed = NOTHING
        if entry.expression is not None:
            weighed = _weigh(entry.expression, hits, begin)
            if weighed.hit:
                return self._judge(entry, weighed, depth) if entry.secondary else weighed
        return _fail(weighed, failures) if failures else weighed

    def _judge(self, entry: CompiledEntry, found: KeyMatch, depth: int) -> KeyMatch:
        """Return the found primary key with the verdict of the secondary logic."""
        places, failures = self._look_for_secondary(entry, depth)
        failed = _fail(found, failures)
        if failed.problem is not None:
            return failed
        culprit = _culprit(entry.spec.logic, entry.secondary, places)
        if culprit is not None:
            return found._replace(detail=f"secondary {entry.spec.logic}: {culprit}")
        supplied = [place for place in places if place is not None and place.supplied]
        return found if found.supply or not supplied else found._replace(supply=supplied[0])

    def gate_fault(self, entry: CompiledEntry, depth: int) -> str | None:
        """Return why the secondary logic does not hold, whatever the primary keys do; else None.

        Regexes must have been asked for as those of a gated entry.
        """
        self._steps.spend("keys", self.book.looks[entry.index])
        places, failures = self._look_for_secondary(entry, depth)
        failed = _fail(NOTHING, failures)
        if failed.problem is not None:
            return f"{failed.problem}: {failed.detail}"
        culprit = _culprit(entry.spec.logic, entry.secondary, places)
        return None if culprit is None else f"secondary {entry.spec.logic}: {culprit}"

    def _look_for_secondary(
        self, entry: CompiledEntry, depth: int
    ) -> tuple[list[HitPlace | None], list[tuple[PatternOutcome, str]]]:
        """Return where each secondary key lies, and what became of those that are regexes."""
        hits = self._hits[entry.spec.case_sensitive]
        begin = hits.haystack.start_of(depth)
        if begin >= hits.haystack.length:  # nothing was asked of an empty text
            return [None] * len(entry.secondary), []
        places: list[HitPlace | None] = []
        failures: list[tuple[PatternOutcome, str]] = []
        outcomes = iter(self._seen[entry.index].secondary if entry.has_regex else ())
        for key in entry.secondary:
            if isinstance(key, RegexKey):
                outcome = next(outcomes)
                places.append(self._place_of(outcome, depth))
                failures.append((outcome, key.text))
            else:
                places.append(hits.first(key, begin))
        return places, failures

    def _place_of(self, outcome: PatternOutcome, depth: int) -> HitPlace | None:
        """Return where a regex hit lies, None if it did not hit."""
        if outcome.span is None or self._written is None:
            return None
        begin = self._written.start_of(depth)
        return self._written.place(begin + outcome.span[0], begin + outcome.span[1], alone=False)


def search_regexes(
    guard: RegexGuard,
    texts: SearchTexts,
    looks: Iterable[KeyQuery],
) -> None:
    """Search the regex keys of the entries about to be looked at, all of them in one call.

    Args:
        guard: the one of this request; it keeps count of what runs too long.
        texts: what the scans are bound to.
        looks: those to come.
    """
    if texts.written is None:
        return
    asked: list[KeyQuery] = []
    questions: list[Look] = []
    text = texts.written.text
    for look in looks:
        if look.entry.has_regex and not texts.written.is_empty(look.depth):
            asked.append(look)
            parts = ((texts.written.start_of(look.depth), len(text)),)
            questions.append(look.scan.question(look, parts))
    if questions:
        count_regexes(questions, texts.steps)
        answers = guard.search(text, questions)
        for look, seen in zip(asked, answers, strict=True):
            look.scan.answer(look.entry, seen)


def _weigh(expression: KeyExpression, hits: Hits, begin: int) -> KeyMatch:
    """Return where a key expression holds: the first of its wanted words that is found.

    One of them is: without any, the expression says no more than where nothing is found, and
    there it does not hold.
    """
    places = {word: hits.first(key, begin) for word, key in expression.keys.items()}

    def truth(leaf: Leaf) -> bool:
        return isinstance(leaf, Word) and places[leaf.text] is not None

    found = [word for word, place in places.items() if place is not None]
    if not found:
        return NOTHING
    if not holds(expression.parsed, truth):
        missed = [word for word, place in places.items() if place is None]
        detail = f"key expression: {_listed(found)} found, {_listed(missed) or 'nothing'} not"
        return KeyMatch(detail=detail)
    wanted = [place for word in expression.wanted if (place := places[word]) is not None]
    key = next(word for word in expression.wanted if places[word] is not None)
    supplied = next((place for place in wanted if place.supplied), None)
    return KeyMatch(key, wanted[0], supplied)


def _listed(words: Iterable[str]) -> str:
    return ", ".join(map(repr, words))


def _fail(found: KeyMatch, failures: Sequence[tuple[PatternOutcome, str]]) -> KeyMatch:
    """Return `found`, failed for the gravest problem of its regex keys if one has a problem."""
    for verdict, problem in _PROBLEMS.items():
        for outcome, key in failures:
            if outcome.verdict == verdict:
                return found._replace(problem=problem, detail=key)
    return found


def _culprit(logic: Logic, keys: Sequence[Key], places: Sequence[HitPlace | None]) -> str | None:
    """Return what makes the logic fail, None if it holds."""
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
