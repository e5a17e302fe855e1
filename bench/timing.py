"""Times calls in alternation, so that load on the machine affects all of them alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The times of a number of calls."""

    best_ms: float
    median_ms: float
    calls: int

    def figures(self) -> dict[str, float]:
        """Return the sample for the JSON."""
        return {"best_ms": self.best_ms, "median_ms": self.median_ms, "calls": self.calls}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A call to time: `repeats` times in each of the first `rounds` rounds, None for all."""

    call: Callable[[], object]
    repeats: int = 1
    rounds: int | None = None


def measure(candidates: Mapping[str, Candidate], rounds: int) -> dict[str, Sample]:
    """Return the times of each candidate; every round calls them all in order.

    Existing objects are hidden from the garbage collector, so that other books in memory do not
    affect the times.
    """
    times: dict[str, list[float]] = {name: [] for name in candidates}
    gc.collect()
    gc.freeze()
    try:
        for number in range(rounds):
            for name, candidate in candidates.items():
                if candidate.rounds is None or number < candidate.rounds:
                    times[name] += [_time_ms(candidate.call) for _ in range(candidate.repeats)]
    finally:
        gc.unfreeze()
    return {
        name: Sample(best_ms=min(taken), median_ms=median(taken), calls=len(taken))
        for name, taken in times.items()
    }


def _time_ms(call: Callable[[], object]) -> float:
    begin = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - begin) / 1e6
