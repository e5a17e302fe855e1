"""SillyTavern's old macro engine: passes over the text (docs/rules/sillytavern-macros.md §4).

Each pass replaces all its matches from left to right, and later passes see the results.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

from lorewell.engine.sillytavern.macros import card
from lorewell.engine.sillytavern.macros.old_passes import (
    EXTRA,
    PASSES,
    SIGNS,
    Match,
    Pass,
    StopPassError,
)
from lorewell.engine.sillytavern.macros.parsing import place_units
from lorewell.engine.sillytavern.macros.state import MacroFailedError, MacroState, Miss, Report

_NAME = re.compile(r"\{\{(//|[A-Za-z_]+)")
_CHARS_PER_STEP: Final = 50
_STEPS_PER_MATCH: Final = 5
_STEPS_PER_CARD: Final = 100


def keep_fields(state: MacroState) -> None:
    """Expand the fields of the card once for all texts of a scan, as their macros are names."""
    state.fields = OldExpansion("", state, None).expand_fields()


def expand(text: str, state: MacroState, report: Report) -> str:
    """Return a text with its macros expanded."""
    return OldExpansion(text, state, report).run()


class OldExpansion:
    """The expansion of one text."""

    def __init__(self, text: str, state: MacroState, report: Report | None) -> None:
        """Take a text; without a report it is a field of the card."""
        self._written = text
        self._state = state
        self._report = report
        self._wide: Sequence[int] | None = None
        self._fields: dict[str, tuple[str, list[Miss]]] | None = None

    def run(self) -> str:
        """Return the text with its macros expanded."""
        state = self._state
        state.store_chat_hash()
        if self._report is not None:
            # All fields are expanded for every text, used or not.
            self._fields = state.fields if state.fields is not None else self.expand_fields()
        text = self._written
        for each in SIGNS if "<" in text else ():
            text = self._pass(each, text)
        names = _names_in(text, state)
        for each in PASSES:
            if each.name not in names or (each.is_card and self._fields is None):
                continue
            changed = self._pass(each, text)
            if changed != text:
                text = changed
                names = _names_in(text, state)
                if not names:
                    break
        return self._pass(EXTRA, text) if state.extra and names else text

    def field(self, name: str) -> str:
        """Return a field of the card with its macros expanded."""
        text, misses = (self._fields or {}).get(name, ("", []))
        self._state.misses += misses
        return text

    def expand_fields(self) -> dict[str, tuple[str, list[Miss]]]:
        """Return the fields of the card, each with what its macros lacked."""
        self._state.steps.spend("macros", _STEPS_PER_CARD)
        return {name: self._expand_field(name) for name in card.EXPANDED_FIELDS}

    def _expand_field(self, name: str) -> tuple[str, list[Miss]]:
        """Return a field of the card, and what its macros lacked."""
        if not card.is_preferred(self._state, name):
            return "", []
        misses = self._state.misses
        written = card.field_text(self._state, name)
        expanded = written
        if "{{" in written or "<" in written:
            expanded = OldExpansion(written, self._state, None).run()
        missed, misses[:] = misses[:], []
        return expanded.replace("\r", ""), missed

    def _pass(self, each: Pass, text: str) -> str:
        """Return the text after a pass; unchanged if the pass breaks off."""
        parts: list[str] = []
        at = 0
        try:
            for match in each.find(text):
                self._state.steps.spend("macros", _STEPS_PER_MATCH)
                parts += (text[at : match.start], self._value(each, text, match))
                at = match.end
                self._state.steps.write("macros", len(parts[-1]) + len(parts[-2]))
        except StopPassError:
            return text
        if not parts:
            return text
        parts.append(text[at:])
        self._state.steps.write("macros", len(parts[-1]))
        return "".join(parts)

    def _value(self, each: Pass, text: str, match: Match) -> str:
        written = text[match.start : match.end]
        try:
            return each.run(self._state, self, match)
        except MacroFailedError:
            return written
        finally:
            self._flush(written, each.name)

    def _flush(self, written: str, name: str) -> None:
        """Report what a macro lacked, with its place if the text as written holds it."""
        misses = self._state.misses
        if misses and self._report is not None:
            at = self._written.find(written)
            span = None if at < 0 else (at, at + len(written))
            for miss in misses:
                self._report(miss, name, span)
            misses.clear()

    def pick_seed(self, match: Match) -> str:
        """Return what a pick is seeded with: the text of a number, and U+0000."""
        if self._wide is None:  # picks are the last pass, so all of them are in one text
            self._wide = place_units(match.text)
        place = match.start + bisect_left(self._wide, match.start)
        parts = (self._state.store_chat_hash(), self._digest, place)
        return f"{self._state.hash_of('-'.join(map(str, parts)))}\0"

    @cached_property
    def _digest(self) -> int:
        return self._state.hash_of(self._written)


def _names_in(text: str, state: MacroState) -> frozenset[str]:
    """Return the names of all macros that a text may hold."""
    if "{{" not in text:
        return frozenset()
    state.steps.spend("macros", 1 + len(text) // _CHARS_PER_STEP)
    return frozenset(_all_names(text))


def _all_names(text: str) -> Iterator[str]:
    for found in _NAME.finditer(text):
        yield found[1].lower()
