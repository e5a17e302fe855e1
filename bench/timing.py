"""Times of calls that take turns, so that what disturbs the machine disturbs all of them alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """How long one call took, over some number of calls."""

    best_ms: float
    median_ms: float
    calls: int

    def figures(self) -> dict[str, float]:
        """Return the sample for the JSON."""
        return {"best_ms": self.best_ms, "median_ms": self.median_ms, "calls": self.calls}


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is timed, and how often: `repeats` times in each of the first `rounds` rounds."""

    call: Callable[[], object]
    repeats: int = 1
    rounds: int | None = None


def measure(candidates: Mapping[str, Candidate], rounds: int) -> dict[str, Sample]:
    """Return the times of each candidate; in every round each has its turn.

    What exists before is frozen for the garbage collector: the size of other books in memory must
    not show in these times.
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
