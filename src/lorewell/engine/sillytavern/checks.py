"""The checks of an entry before its keys are matched, in order.

Source: docs/rules/sillytavern.md §9.
"""

from __future__ import annotations

from typing import Literal

from lorewell.engine.sillytavern.scan_entry import EntryLimits, ScanEntry
from lorewell.engine.sillytavern.timed import TimedEffects
from lorewell.model.activate import SillyTavernRequest
from lorewell.model.activated import Activation, EventKind, State

Outcome = tuple[Literal["skip"], EventKind] | tuple[Literal["take"], Activation] | None


def _file_name(avatar: str) -> str:
    """Return a file's name without its last extension."""
    stem, dot, _ = avatar.rpartition(".")
    return stem if dot else avatar


class EntryChecks:
    """The checks of one scan that need no key.

    Attributes:
        level: the level of recursion up to which delayed entries can activate.
    """

    def __init__(self, request: SillyTavernRequest, timed: TimedEffects) -> None:
        """Bind the checks to a turn."""
        self._request = request
        self._timed = timed
        self.level: float = 0

    def check(self, entry: ScanEntry, state: State, *, forced: bool) -> Outcome:
        """Return whether to skip or take an entry, and why; None if its keys decide.

        The caller has already excluded active entries and those that failed their probability.
        """
        refusal = self._refusal(entry, state)
        if refusal is not None:
            return "skip", refusal
        if entry.activates:
            return "take", "decorator_activate"
        if entry.suppressed:
            return "skip", "decorator_suppress"
        if forced:
            return "take", "external"
        if entry.constant:
            return "take", "constant"
        if self._timed.is_sticky(entry):
            return "take", "sticky"
        return None if entry.has_keys else ("skip", "no_keys")

    def _refusal(self, entry: ScanEntry, state: State) -> EventKind | None:
        if entry.disabled:
            return "disabled"
        if entry.limits is not None:
            refusal = self._check_limits(entry.limits)
            if refusal is not None:
                return refusal
        if self._timed.is_delayed(entry):
            return "delay"
        if self._timed.is_sticky(entry):
            return None
        if self._timed.is_cooling(entry):
            return "cooldown"
        if state != "recursion":
            return "delay_until_recursion" if entry.level else None
        if entry.level > self.level:
            return "delay_level"
        if entry.excludes_recursion and self._request.settings.world_info_recursive:
            return "exclude_recursion"
        return None

    def _check_limits(self, limits: EntryLimits) -> EventKind | None:
        character = self._request.character
        if limits.triggers and self._request.trigger not in limits.triggers:
            return "trigger_filter"
        if limits.names:
            named = character is not None and _file_name(character.avatar) in limits.names
            if named == limits.excludes:
                return "character_filter"
        if limits.tags and character is not None:
            tagged = any(tag in limits.tags for tag in character.tags)
            if tagged == limits.excludes:
                return "tag_filter"
        return None
