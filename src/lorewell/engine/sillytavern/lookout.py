"""Whether the keys of an entry are in the text that it sees, and how many (§10).

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
from lorewell.engine.sillytavern.lore import AND_ALL, AND_ANY, NOT_ALL, NOT_ANY, ScanEntry
from lorewell.engine.sillytavern.macros import Macros
from lorewell.engine.sillytavern.sightings import KeyHit, PlainKeyHits
from lorewell.engine.steps import Steps
from lorewell.jsregex import Look, Pattern, PatternOutcome, RegexGuard
from lorewell.model.activate import SillyTavernRequest
from lorewell.model.activated import Activation, Hit


class KeyPlace(NamedTuple):
    """Where a key is: a sight, or a place in the joined text, None where that holds no text."""

    sight: KeyHit | None = None
    in_joined: Hit | None = None

    @property
    def hit(self) -> Hit | None:
        """The place as the ledger has it; None where there was no text at all."""
        return self.in_joined if self.sight is None else self.sight.hit


class KeyHits(NamedTuple):
    """What the keys of an entry gave.

    Attributes:
        key, place: the first primary key that was found; None if none was.
        why: what activates it: the primary key alone, or the secondary logic that holds; None if
            that does not hold.
        secondary: the secondary key that decided, its macros expanded, if a single one did.
        problem: the regex key that was not decided, and why, if the primary keys were in vain.
    """

    key: str | None = None
    place: KeyPlace | None = None
    why: Activation | None = None
    secondary: str | None = None
    problem: tuple[str, Literal["regex_timeout", "regex_unsupported"]] | None = None


class _Asked(NamedTuple):
    """The regexes of an entry that are to be searched in what it sees."""

    view: EntryView
    primary: tuple[Pattern, ...]
    secondary: tuple[Pattern, ...]


NOTHING: Final = KeyHits()
_STEPS_PER_CALL: Final = 200  # of a single regex, beside what its text costs
_CHARS_PER_STEP: Final = 100
_ALWAYS: Final = "always"
_PROBLEMS: Final[dict[str, Literal["regex_timeout", "regex_unsupported"]]] = {
    "timeout": "regex_timeout",
    "unsupported": "regex_unsupported",
}


class KeyMatcher:
    """Looks for keys in the texts of one scan."""

    def __init__(
        self,
        buffer: ScanBuffer,
        macros: Macros,
        request: SillyTavernRequest,
        alone: Borders,
        steps: Steps,
    ) -> None:
        """Bind the looks to texts and settings."""
        settings = request.settings
        self._steps = steps
        self._alone = alone
        self._blank: Literal["always"] | None = None if request.mending.blank_keys else _ALWAYS
        self._buffer = buffer
        self._macros = macros
        self._case = settings.world_info_case_sensitive
        self._whole = settings.world_info_match_whole_words
        self._guard = RegexGuard(watch=steps.watch)
        self._prepared: dict[str, Prepared | Literal["always"] | None] = {}
        self._as_written: dict[str, Prepared] = {}

    def look(self, lore: ScanEntry, sightings: PlainKeyHits | None, *, recursion: bool) -> KeyHits:
        """Return what the keys of an entry give.

        Args:
            lore: the entry.
            sightings: of the entry's book.
            recursion: whether it sees the texts of recursion.
        """
        view = self._buffer.view(lore, recursion=recursion)
        for key in lore.keys:
            place = self._find(key, lore, view, sightings)
            if place is not None:
                if not lore.looks_at_secondary:
                    return KeyHits(key.text, place, "primary")
                return self._judge(KeyHits(key.text, place), lore, view, sightings)
        return self._explain(lore, view)

    def _judge(
        self, found: KeyHits, lore: ScanEntry, view: EntryView, sightings: PlainKeyHits | None
    ) -> KeyHits:
        """Return a found primary key with the verdict of the secondary logic."""
        any_found, all_found = False, True
        for key in lore.secondary:
            there = self._find(key, lore, view, sightings) is not None
            any_found, all_found = any_found or there, all_found and there
            if there and lore.logic in (None, AND_ANY):
                return found._replace(why="and_any", secondary=self._macros.expand(key.text))
            if not there and lore.logic == NOT_ALL:
                return found._replace(why="not_all", secondary=self._macros.expand(key.text))
        if lore.logic == NOT_ANY and not any_found:
            return found._replace(why="not_any")
        if lore.logic == AND_ALL and all_found:
            return found._replace(why="and_all")
        return found

    def _explain(self, lore: ScanEntry, view: EntryView) -> KeyHits:
        """Return why nothing was found, where a regex was not decided."""
        for key in lore.keys:
            prepared = None if key.plain is not None else self._prepare(key.text)
            if isinstance(prepared, JsRegexKey):
                verdict = self._outcome(prepared.pattern, view).verdict
                if verdict in _PROBLEMS:
                    return KeyHits(problem=(key.text, _PROBLEMS[verdict]))
        return NOTHING

    def score(self, lore: ScanEntry, *, recursion: bool) -> int:
        """Return how many keys of an entry are found: as written, an empty one always is."""
        view = self._buffer.view(lore, recursion=recursion)
        if not lore.keys:
            return 0
        primary = self._count(lore.keys, lore, view)
        if not lore.secondary:
            return primary
        secondary = self._count(lore.secondary, lore, view)
        is_complete = secondary == len(lore.secondary)
        if lore.logic == AND_ANY or (lore.logic == AND_ALL and is_complete):
            return primary + secondary
        return primary

    def _count(self, keys: Sequence[SillyTavernKey], lore: ScanEntry, view: EntryView) -> int:
        self._steps.spend("groups", 1 + len(keys))
        found = (self._search(self._classify(key.text), lore, view) for key in keys)
        return sum(place is not None for place in found)

    def _classify(self, text: str) -> Prepared:
        if text not in self._as_written:
            self._steps.spend("groups", 1 + len(text) // _CHARS_PER_STEP)
            self._as_written[text] = classify(text)
        return self._as_written[text]

    def _prepare(self, text: str) -> Prepared | Literal["always"] | None:
        """Return what a key means in this scan; None if it never matches."""
        if text not in self._prepared:
            expanded = self._macros.expand(text)
            trimmed = trim(expanded)
            meaning: Prepared | Literal["always"] | None = None
            if expanded:
                meaning = classify(trimmed) if trimmed else self._blank
            self._prepared[text] = meaning
        return self._prepared[text]

    def _find(
        self, key: SillyTavernKey, lore: ScanEntry, view: EntryView, sightings: PlainKeyHits | None
    ) -> KeyPlace | None:
        if key.plain is None or sightings is None:
            prepared = self._prepare(key.text)
            if prepared == _ALWAYS:
                return KeyPlace(in_joined=self._buffer.joined(view).hit(0, 0))
            return None if prepared is None else self._search(prepared, lore, view)
        case, alone = self._modes(lore, key.plain)
        sight = sightings.find(key.plain, view, case=case, alone=alone)
        return None if sight is None else KeyPlace(sight)

    def _modes(self, lore: ScanEntry, key: PlainKey) -> tuple[bool, bool]:
        """Return whether case counts, and whether the key must stand alone."""
        case = self._case if lore.case is None else lore.case
        whole = self._whole if lore.whole is None else lore.whole
        return case, whole and key.single

    def _search(self, key: Prepared, lore: ScanEntry, view: EntryView) -> KeyPlace | None:
        """Search the joined text."""
        joined = self._buffer.joined(view)
        if isinstance(key, JsRegexKey):
            outcome = self._outcome(key.pattern, view)
            if outcome.span is not None:
                return KeyPlace(in_joined=joined.hit(*outcome.span))
            if outcome.verdict != "invalid":
                return None
            key = key.otherwise
        case, alone = self._modes(lore, key)
        wanted, text = (key.exact, joined.text) if case else (key.folded, joined.folded)
        start = find_plain(text, wanted, self._alone if alone else None, self._steps)
        return None if start < 0 else KeyPlace(in_joined=joined.hit(start, start + len(wanted)))

    def _outcome(self, pattern: Pattern, view: EntryView) -> PatternOutcome:
        outcomes = self._buffer.outcomes(view)
        if pattern not in outcomes:
            self._steps.spend("regex", _STEPS_PER_CALL)
            self._search_all([_Asked(view, (pattern,), ())])
        return outcomes[pattern]

    def search_regexes(self, lores: Iterable[ScanEntry], *, recursion: bool) -> None:
        """Search the regex keys of entries about to be looked at, all in one call."""
        asked: list[_Asked] = []
        for lore in lores:
            primary = self._patterns(lore.keys)
            if not primary:
                continue
            view = self._buffer.view(lore, recursion=recursion)
            known = [self._buffer.outcomes(view).get(pattern) for pattern in primary]
            if all(outcome is not None and outcome.span is None for outcome in known):
                continue  # they were in vain, and the secondary keys do not matter
            secondary = self._patterns(lore.secondary) if lore.looks_at_secondary else ()
            asked.append(_Asked(view, primary, secondary))
        self._search_all(asked)

    def _patterns(self, keys: Sequence[SillyTavernKey]) -> tuple[Pattern, ...]:
        prepared = [self._prepare(key.text) for key in keys if key.plain is None]
        return tuple(key.pattern for key in prepared if isinstance(key, JsRegexKey))

    def _search_all(self, asked: Sequence[_Asked]) -> None:
        """Search what the views show, in one call, and the empty text in another."""
        shown = [each for each in asked if each.view.depth]
        if shown:
            text, parts = self._buffer.written([each.view for each in shown])
            looks = [
                Look(parts[view], primary, fallback=False, secondary=secondary)
                for view, primary, secondary in shown
            ]
            count_regexes(looks, self._steps)
            for each, seen in zip(shown, self._guard.search(text, looks), strict=True):
                outcomes = self._buffer.outcomes(each.view)
                outcomes.update(zip(each.primary, seen.primary, strict=False))
                outcomes.update(zip(each.secondary, seen.secondary, strict=False))
        unseeing = [each for each in asked if not each.view.depth]
        if unseeing:
            patterns = dict.fromkeys(pattern for each in unseeing for pattern in each.primary)
            self._buffer.outcomes(unseeing[0].view).update(self._on_nothing(patterns))

    def _on_nothing(self, patterns: Iterable[Pattern]) -> Iterator[tuple[Pattern, PatternOutcome]]:
        """Yield what regexes give in the empty text, which the guard does not search.

        After the line break of a text that holds nothing else is the same as nowhere: with `m`
        both ends of a line are there, and no character is.
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
