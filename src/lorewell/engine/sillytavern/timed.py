"""Timed effects: sticky, cooldown and delay, measured in messages.

Source: docs/rules/sillytavern.md §11.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from lorewell.engine.sillytavern.javascript import (
    MISSING,
    as_parsed,
    in_object_order,
    is_true,
    to_number,
)
from lorewell.engine.sillytavern.ledger import Ledger
from lorewell.engine.sillytavern.scan_entry import ScanEntry
from lorewell.engine.sillytavern.sources import EntryList
from lorewell.engine.steps import Steps

Timer = Literal["sticky", "cooldown"]
TIMERS: Final[tuple[Timer, ...]] = ("sticky", "cooldown")
_EndReason = Literal["chat_not_advanced", "missing_entry", "not_configured", "expired"]
Effect = Mapping[str, object]


def _turns(entry: ScanEntry, timer: Timer) -> float | None:
    return entry.sticky if timer == "sticky" else entry.cooldown


def _clean(state: Mapping[str, object]) -> dict[str, dict[str, Effect]]:
    """Return the state in object order, without values that are not effects."""
    cleaned: dict[str, dict[str, Effect]] = {}
    for timer in TIMERS:
        effects = state.get(timer)
        known = effects if isinstance(effects, Mapping) else {}
        cleaned[timer] = {
            name: as_parsed(known[name])
            for name in in_object_order(known)
            if isinstance(known[name], Mapping)
        }
    return cleaned


@dataclass(slots=True)
class TimedEffects:
    """The effects of one chat in one scan.

    Attributes:
        length: number of messages of the whole chat.
        state: the stored effects, updated for the next turn.
    """

    length: int
    state: dict[str, dict[str, Effect]]
    _entries: EntryList
    _active: dict[Timer, set[object]]

    @classmethod
    def of(cls, state: Mapping[str, object], length: int, entries: EntryList) -> TimedEffects:
        """Take the state of the last turn; until `check`, only delays are active."""
        return cls(length, _clean(state), entries, {"sticky": set(), "cooldown": set()})

    def is_sticky(self, entry: ScanEntry) -> bool:
        """Return whether an effect keeps an entry active."""
        return entry.hash in self._active["sticky"]

    def is_cooling(self, entry: ScanEntry) -> bool:
        """Return whether an effect keeps an entry inactive."""
        return entry.hash in self._active["cooldown"]

    @property
    def active(self) -> set[object]:
        """The hashes of all entries with an active effect."""
        return self._active["sticky"] | self._active["cooldown"]

    def is_delayed(self, entry: ScanEntry) -> bool:
        """Return whether the chat is too short for an entry."""
        return entry.delay is not None and self.length < entry.delay

    def is_held_back(self, entry: ScanEntry) -> bool:
        """Return whether a candidate is a copy of a delayed entry.

        Delayed entries are never candidates themselves. But a forced copy of one may enter under
        an id that it shares with another entry; its hash identifies the original.
        """
        own = self._entries.find(entry.hash)
        return own is not None and self.is_delayed(own)

    def check(self, ledger: Ledger, steps: Steps) -> None:
        """Remove effects that are over, and find the active ones."""
        per_effect = 2 + len(self._entries.worlds)
        for timer in TIMERS:
            steps.spend("scan", per_effect * len(self.state[timer]))
            for name, effect in list(self.state[timer].items()):
                entry = self._entries.find(effect.get("hash"))
                why = self._end_of(timer, effect, entry)
                if why is None:
                    if entry is not None:
                        self._active[timer].add(entry.hash)
                    continue
                del self.state[timer][name]
                ledger.add("timed_removed", timer=timer, why=why)
                over = entry if why == "expired" and timer == "sticky" else None
                if over is not None and over.cooldown is not None:
                    self._start("cooldown", name, over, protected=True)

    def _end_of(self, timer: Timer, effect: Effect, entry: ScanEntry | None) -> _EndReason | None:
        start, end = (to_number(effect.get(name, MISSING)) for name in ("start", "end"))
        if self.length <= start and not is_true(effect.get("protected", MISSING)):
            return "chat_not_advanced"
        if entry is None:
            return "missing_entry" if self.length >= end else None
        if _turns(entry, timer) is None:
            return "not_configured"
        return "expired" if self.length >= end else None

    def _start(self, timer: Timer, name: str, entry: ScanEntry, *, protected: bool) -> None:
        digest = {} if entry.hash is MISSING else {"hash": entry.hash}
        turns = _turns(entry, timer) or 0
        times = {"start": self.length, "end": self.length + turns, "protected": protected}
        self.state[timer][name] = {**digest, **times}

    def set(self, active: Iterable[ScanEntry]) -> None:
        """Start the effects of active entries, in the order of activation."""
        for entry in active:
            for timer in TIMERS:
                if _turns(entry, timer) is not None and entry.id not in self.state[timer]:
                    self._start(timer, entry.id, entry, protected=False)
