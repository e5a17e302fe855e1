"""Whether an entry's keys and secondary logic hold in a text (spec/native.md §8.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, assert_never

from lorewell.engine.compiled import CompiledBook, CompiledEntry
from lorewell.engine.matching.hits import Hits
from lorewell.engine.matching.keys import Key, LiteralKey, RegexKey
from lorewell.engine.matching.window import Haystack, Place
from lorewell.model import Reason
from lorewell.model.entry import Logic


class Found(NamedTuple):
    """What a look at an entry's keys gave.

    Attributes:
        hit: whether a primary key was found and the secondary logic holds.
        key, place: the first primary key that was found, in the author's order, and where.
        supply: where a supplied text had part in it: the primary key's place, else a secondary's.
        problem: why a key could not be looked for, if that is what the hit failed for.
        detail: which secondary key the logic failed for.
    """

    hit: bool = False
    key: str | None = None
    place: Place | None = None
    supply: Place | None = None
    problem: Reason | None = None
    detail: str | None = None


class Texts:
    """The two forms of the growing text: for keys where case does not count, and for the rest."""

    def __init__(self, messages: Sequence[str], depth: int, *, exact: bool) -> None:
        """Hold the last `depth` messages; the exact form only if some key asks for it."""
        self.folded = Haystack(messages, depth=depth, case_sensitive=False)
        self.exact = Haystack(messages, depth=depth, case_sensitive=True) if exact else None

    def extend(self, texts: Sequence[str]) -> None:
        """Add the texts of activated entries."""
        self.folded.extend(texts)
        if self.exact is not None:
            self.exact.extend(texts)


class KeywordScan:
    """The keys of one book against the texts of one request."""

    def __init__(self, book: CompiledBook, texts: Texts) -> None:
        """Bind a book to the texts; nothing is searched yet."""
        self._text = texts.folded
        self._hits = {False: Hits(book.folded, texts.folded)}
        if texts.exact is not None:
            self._hits[True] = Hits(book.exact, texts.exact)

    def advance(self) -> set[int]:
        """Search what is new in the texts; return the indexes of entries with a key in it."""
        return set().union(*(hits.advance() for hits in self._hits.values()))

    def look(self, entry: CompiledEntry, depth: int) -> Found:
        """Return what the entry's keys give in `depth` messages and all supplied texts."""
        if self._text.start_of(depth) >= len(self._text.text):
            return Found()
        problem: Reason | None = None
        for key in entry.primary:
            if isinstance(key, RegexKey):
                problem = "regex_unsupported"
            elif (place := self._find(key, depth)) is not None:
                supply = place if place.supplied else None
                found = Found(hit=True, key=key.text, place=place, supply=supply)
                return self._judge(entry, found, depth) if entry.secondary else found
        return Found(problem=problem)

    def _find(self, key: LiteralKey, depth: int) -> Place | None:
        return self._hits[key.case_sensitive].first(key, depth)

    def _judge(self, entry: CompiledEntry, found: Found, depth: int) -> Found:
        """Return the found primary key with the verdict of the secondary logic."""
        if any(isinstance(key, RegexKey) for key in entry.secondary):
            return found._replace(hit=False, problem="regex_unsupported")
        places = [self._find(key, depth) for key in entry.secondary if isinstance(key, LiteralKey)]
        culprit = _culprit(entry.spec.logic, entry.secondary, places)
        if culprit is not None:
            return found._replace(hit=False, detail=f"secondary {entry.spec.logic}: {culprit}")
        supplied = [place for place in places if place is not None and place.supplied]
        return found if found.supply or not supplied else found._replace(supply=supplied[0])


def _culprit(logic: Logic, keys: Sequence[Key], places: Sequence[Place | None]) -> str | None:
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
