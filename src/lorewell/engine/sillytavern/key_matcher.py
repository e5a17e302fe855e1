"""Matches the keys of an entry against the texts in its view, and counts hits for groups (§10).

Source: docs/rules/sillytavern.md §7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from lorewell.engine.matching.keys import count_regexes
from lorewell.engine.sillytavern.buffer import EntryView, ScanBuffer
from lorewell.engine.sillytavern.javascript import trim
from lorewell.engine.sillytavern.keys import (
    Borders,
    JsRegexKey,
    PlainKey,
    Prepared,
    SillyTavernKey,
    classify,
    find_plain,
)
from lorewell.engine.sillytavern.macros import Macros
from lorewell.engine.sillytavern.plain_key_hits import KeyHit, PlainKeyHits
from lorewell.engine.sillytavern.scan_entry import AND_ALL, AND_ANY, NOT_ALL, NOT_ANY, ScanEntry
from lorewell.engine.steps import Steps
from lorewell.jsregex import Look, Pattern, PatternOutcome, RegexGuard
from lorewell.model.activate import SillyTavernRequest
from lorewell.model.activated import Activation, Hit


class KeyPlace(NamedTuple):
    """Where a key was found: in one text, or in the joined text (None if that is empty)."""

    in_text: KeyHit | None = None
    in_joined: Hit | None = None

    @property
    def hit(self) -> Hit | None:
        """The place in the form of the ledger; None if there was no text at all."""
        return self.in_joined if self.in_text is None else self.in_text.hit


class KeyHits(NamedTuple):
    """Result of matching the keys of an entry.

    Attributes:
        key, place: the first primary key found; None if none was found.
        why: what activates the entry: the primary key alone, or the secondary logic. None if the
            secondary logic does not hold.
        secondary: the secondary key that decided, macros expanded, if a single one did.
        problem: a primary regex key that could not be evaluated, and why; only if no primary key
            was found.
    """

    key: str | None = None
    place: KeyPlace | None = None
    why: Activation | None = None
    secondary: str | None = None
    problem: tuple[str, Literal["regex_timeout", "regex_unsupported"]] | None = None


class _Expanded(NamedTuple):
    """A key with its macros expanded.

    Attributes:
        text: the text that they make.
        key: what to search for; None if it never matches.
    """

    text: str
    key: Prepared | Literal["always"] | None


class _RegexQuery(NamedTuple):
    """The regexes of an entry to search for in a view."""

    view: EntryView
    primary: tuple[Pattern, ...]
    secondary: tuple[Pattern, ...]


NOTHING: Final = KeyHits()
_STEPS_PER_CALL: Final = 200  # for searching a single regex, on top of the cost of its text
_CHARS_PER_STEP: Final = 100
_ALWAYS: Final = "always"
_PROBLEMS: Final[dict[str, Literal["regex_timeout", "regex_unsupported"]]] = {
    "timeout": "regex_timeout",
    "unsupported": "regex_unsupported",
}


class KeyMatcher:
    """Matches keys against the texts of one scan."""

    def __init__(
        self,
        buffer: ScanBuffer,
        macros: Macros,
        request: SillyTavernRequest,
        stands_alone: Borders,
        steps: Steps,
    ) -> None:
        """Bind the matcher to the texts and settings of a scan."""
        settings = request.settings
        self._steps = steps
        self._stands_alone = stands_alone
        self._blank: Literal["always"] | None = None if request.mending.blank_keys else _ALWAYS
        self._buffer = buffer
        self._macros = macros
        self._case = settings.world_info_case_sensitive
        self._whole = settings.world_info_match_whole_words
        self._guard = RegexGuard(watch=steps.watch)
        self._settled: dict[str, _Expanded | None] = {}
        self._as_written: dict[str, Prepared] = {}

    def match(
        self, entry: ScanEntry, plain_hits: PlainKeyHits | None, *, recursion: bool
    ) -> KeyHits:
        """Match the keys of an entry.

        Args:
            entry: the entry.
            plain_hits: hits of the plain keys of the entry's book.
            recursion: whether the entry sees the texts of recursion.
        """
        view = self._buffer.view(entry, recursion=recursion)
        problem = NOTHING
        for number, key in enumerate(entry.keys):
            expanded = self._expand(key, entry.id, "/key", number)
            place = self._find(key, expanded, entry, view, plain_hits)
            if place is not None:
                if not entry.uses_secondary:
                    return KeyHits(key.text, place, "primary")
                return self._apply_secondary(KeyHits(key.text, place), entry, view, plain_hits)
            if key.plain is None and problem is NOTHING:
                problem = self._problem_of(key, expanded, view)
        return problem

    def _apply_secondary(
        self, found: KeyHits, entry: ScanEntry, view: EntryView, plain_hits: PlainKeyHits | None
    ) -> KeyHits:
        """Apply the secondary logic to a primary key that was found."""
        any_found, all_found = False, True
        for number, key in enumerate(entry.secondary):
            expanded = self._expand(key, entry.id, "/keysecondary", number)
            there = self._find(key, expanded, entry, view, plain_hits) is not None
            any_found, all_found = any_found or there, all_found and there
            if there and entry.logic in (None, AND_ANY):
                return found._replace(why="and_any", secondary=expanded.text)
            if not there and entry.logic == NOT_ALL:
                return found._replace(why="not_all", secondary=expanded.text)
        if entry.logic == NOT_ANY and not any_found:
            return found._replace(why="not_any")
        if entry.logic == AND_ALL and all_found:
            return found._replace(why="and_all")
        return found

    def _problem_of(
        self, key: SillyTavernKey, expanded: _Expanded | SillyTavernKey, view: EntryView
    ) -> KeyHits:
        """Return why a primary regex could not be evaluated, if it is one and could not."""
        if isinstance(expanded, _Expanded) and isinstance(expanded.key, JsRegexKey):
            verdict = self._outcome(expanded.key.pattern, view).verdict
            if verdict in _PROBLEMS:
                return KeyHits(problem=(key.text, _PROBLEMS[verdict]))
        return NOTHING

    def score(self, entry: ScanEntry, *, recursion: bool) -> int:
        """Return how many keys of an entry match, for group scoring.

        Keys are used as written, without macros. An empty key always matches.
        """
        view = self._buffer.view(entry, recursion=recursion)
        if not entry.keys:
            return 0
        primary = self._count(entry.keys, entry, view)
        if not entry.secondary:
            return primary
        secondary = self._count(entry.secondary, entry, view)
        is_complete = secondary == len(entry.secondary)
        if entry.logic == AND_ANY or (entry.logic == AND_ALL and is_complete):
            return primary + secondary
        return primary

    def _count(self, keys: Sequence[SillyTavernKey], entry: ScanEntry, view: EntryView) -> int:
        self._steps.spend("groups", 1 + len(keys))
        places = (self._search(self._classify(key.text), entry, view) for key in keys)
        return sum(place is not None for place in places)

    def _classify(self, text: str) -> Prepared:
        if text not in self._as_written:
            self._steps.spend("groups", 1 + len(text) // _CHARS_PER_STEP)
            self._as_written[text] = classify(text)
        return self._as_written[text]

    def _expand(
        self, key: SillyTavernKey, entry: str, at: str, number: int
    ) -> _Expanded | SillyTavernKey:
        """Return a key with its macros expanded, as SillyTavern does at every test of a key.

        A plain key has none and is returned as it is.
        """
        if key.plain is not None:
            if self._macros.watches_all:
                self._macros.expand(key.text, entry, at)
            return key
        settled = self._find_settled(key)
        if settled is not None:
            return settled
        return self._prepared(self._macros.expand(key.text, entry, f"{at}/{number}"))

    def _find_settled(self, key: SillyTavernKey) -> _Expanded | None:
        """Return a key whose expansion has no effects and never changes, None for any other."""
        text = key.text
        if text not in self._settled:
            expanded = self._macros.find_settled(text)
            self._settled[text] = None if expanded is None else self._prepared(expanded)
        return self._settled[text]

    def _prepared(self, expanded: str) -> _Expanded:
        """Return an expanded key classified."""
        trimmed = trim(expanded)
        prepared: Prepared | Literal["always"] | None = None
        if expanded:
            prepared = classify(trimmed) if trimmed else self._blank
        return _Expanded(expanded, prepared)

    def _find(
        self,
        key: SillyTavernKey,
        expanded: _Expanded | SillyTavernKey,
        entry: ScanEntry,
        view: EntryView,
        plain_hits: PlainKeyHits | None,
    ) -> KeyPlace | None:
        if key.plain is None or plain_hits is None:
            prepared = expanded.key if isinstance(expanded, _Expanded) else key.plain
            if prepared == _ALWAYS:
                return KeyPlace(in_joined=self._buffer.joined(view).hit(0, 0))
            return None if prepared is None else self._search(prepared, entry, view)
        case, as_word = self._modes(entry, key.plain)
        hit = plain_hits.find(key.plain, view, case=case, as_word=as_word)
        return None if hit is None else KeyPlace(hit)

    def _modes(self, entry: ScanEntry, key: PlainKey) -> tuple[bool, bool]:
        """Return whether case counts, and whether the key must stand alone as a word."""
        case = self._case if entry.case is None else entry.case
        whole = self._whole if entry.whole is None else entry.whole
        return case, whole and key.single

    def _search(self, key: Prepared, entry: ScanEntry, view: EntryView) -> KeyPlace | None:
        """Search the joined text."""
        joined = self._buffer.joined(view)
        if isinstance(key, JsRegexKey):
            outcome = self._outcome(key.pattern, view)
            if outcome.span is not None:
                return KeyPlace(in_joined=joined.hit(*outcome.span))
            if outcome.verdict != "invalid":
                return None
            key = key.otherwise
        case, as_word = self._modes(entry, key)
        wanted, text = (key.exact, joined.text) if case else (key.folded, joined.folded)
        start = find_plain(text, wanted, self._stands_alone if as_word else None, self._steps)
        return None if start < 0 else KeyPlace(in_joined=joined.hit(start, start + len(wanted)))

    def _outcome(self, pattern: Pattern, view: EntryView) -> PatternOutcome:
        outcomes = self._buffer.outcomes(view)
        if pattern not in outcomes:
            self._steps.spend("regex", _STEPS_PER_CALL)
            self._search_all([_RegexQuery(view, (pattern,), ())])
        return outcomes[pattern]

    def search_regexes(self, entries: Iterable[ScanEntry], *, recursion: bool) -> None:
        """Search the regex keys of entries about to be matched, all in one call."""
        queries: list[_RegexQuery] = []
        for entry in entries:
            primary = self._patterns(entry.keys)
            if not primary:
                continue
            view = self._buffer.view(entry, recursion=recursion)
            known = [self._buffer.outcomes(view).get(pattern) for pattern in primary]
            if all(outcome is not None and outcome.span is None for outcome in known):
                continue  # no primary regex matches, so the secondary keys do not matter
            secondary = self._patterns(entry.secondary) if entry.uses_secondary else ()
            queries.append(_RegexQuery(view, primary, secondary))
        self._search_all(queries)

    def _patterns(self, keys: Sequence[SillyTavernKey]) -> tuple[Pattern, ...]:
        # Other keys are expanded, and searched, when their turn comes.
        settled = [self._find_settled(key) for key in keys if key.plain is None]
        found = (expanded.key for expanded in settled if expanded is not None)
        return tuple(key.pattern for key in found if isinstance(key, JsRegexKey))

    def _search_all(self, queries: Sequence[_RegexQuery]) -> None:
        """Search all non-empty views in one call, and the empty view in another."""
        filled = [query for query in queries if query.view.depth]
        if filled:
            text, parts = self._buffer.full_text([query.view for query in filled])
            looks = [
                Look(parts[view], primary, fallback=False, secondary=secondary)
                for view, primary, secondary in filled
            ]
            count_regexes(looks, self._steps)
            for query, seen in zip(filled, self._guard.search(text, looks), strict=True):
                outcomes = self._buffer.outcomes(query.view)
                outcomes.update(zip(query.primary, seen.primary, strict=False))
                outcomes.update(zip(query.secondary, seen.secondary, strict=False))
        empty = [query for query in queries if not query.view.depth]
        if empty:
            patterns = dict.fromkeys(pattern for query in empty for pattern in query.primary)
            self._buffer.outcomes(empty[0].view).update(self._match_empty_text(patterns))

    def _match_empty_text(
        self, patterns: Iterable[Pattern]
    ) -> Iterator[tuple[Pattern, PatternOutcome]]:
        r"""Yield the outcomes of regexes on the empty text, which the guard does not search.

        The end of the text "\n" stands for the empty text: with the flag `m` it is both the
        start and the end of a line, and no character is there.
        """
        looks = [
            Look(((0, 1),), (), fallback=True, secondary=(pattern, _after_line_break(pattern)))
            for pattern in patterns
        ]
        count_regexes(looks, self._steps)
        for look, seen in zip(looks, self._guard.search("\n", looks), strict=True):
            alone, found = seen.secondary
            if alone.verdict not in ("hit", "miss"):
                found = alone
            yield look.secondary[0], found._replace(span=(0, 0)) if found.span else found


def _after_line_break(pattern: Pattern) -> Pattern:
    flags = "".join(sorted({*pattern.flags, "m"} - {"y"}))
    return Pattern(f"(?<=\\n)(?:{pattern.source})(?![^])", flags)
