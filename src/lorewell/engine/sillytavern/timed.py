"""Timed effects: sticky, cooldown and delay, told by the number of messages.

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
_Why = Literal["chat_not_advanced", "missing_entry", "not_configured", "expired"]
Effect = Mapping[str, object]


def _turns(entry: ScanEntry, timer: Timer) -> float | None:
    return entry.sticky if timer == "sticky" else entry.cooldown


def _clean(state: Mapping[str, object]) -> dict[str, dict[str, Effect]]:
    """Return the state without what is no effect, in object order."""
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
        length: how many messages the chat has.
        state: what is stored, as it will go out.
    """

    length: int
    state: dict[str, dict[str, Effect]]
    _entries: EntryList
    _active: dict[Timer, set[object]]

    @classmethod
    def of(cls, state: Mapping[str, object], length: int, entries: EntryList) -> TimedEffects:
        """Take the state of the last turn; nothing but delays is active before `check`."""
        return cls(length, _clean(state), entries, {"sticky": set(), "cooldown": set()})

    def is_sticky(self, entry: ScanEntry) -> bool:
        """Return whether an entry is kept active."""
        return entry.hash in self._active["sticky"]

    def is_cooling(self, entry: ScanEntry) -> bool:
        """Return whether an entry is kept inactive."""
        return entry.hash in self._active["cooldown"]

    @property
    def active(self) -> set[object]:
        """The hashes of all entries kept active or inactive."""
        return self._active["sticky"] | self._active["cooldown"]

    def is_delayed(self, entry: ScanEntry) -> bool:
        """Return whether the chat is too short for an entry."""
        return entry.delay is not None and self.length < entry.delay

    def is_held_back(self, entry: ScanEntry) -> bool:
        """Return whether a candidate is delayed all the same.

        Delayed entries are no candidates. But what is forced may be a copy of one of them and have
        come in under the id that it shares with another; its hash tells whose copy it is.
        """
        own = self._entries.find(entry.hash)
        return own is not None and self.is_delayed(own)

    def check(self, ledger: Ledger, steps: Steps) -> None:
        """End what is over, and find out what is active."""
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

    def _end_of(self, timer: Timer, effect: Effect, entry: ScanEntry | None) -> _Why | None:
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
