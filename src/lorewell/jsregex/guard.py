"""Searches texts for the regex keys of one request, with bounded cost.

Source: docs/rules/native.md §8.4, cost guard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lorewell.jsregex.job import Job
from lorewell.jsregex.looks import Look, LookResult, Pattern, Verdict, uniform_result
from lorewell.jsregex.pool import ENGINES
from lorewell.jsregex.process import NoEngineError
from lorewell.jsregex.spans import Ruler

MAX_TIMEOUTS: Final = 100
MAX_SPENT_MS: Final = 500.0


class RegexGuard:
    """Searches for one request; not shared between threads.

    A pattern that timed out is not tried again. After 100 timeouts, or 500 ms inside regexes, the
    guard is closed: all further outcomes are `timeout` without a try. After an engine has failed,
    all outcomes are `unsupported`, so that one request costs at most one engine.
    """

    def __init__(self, *, watch: Callable[[], None] | None = None) -> None:
        """Start with an unused budget; this starts no engine.

        Args:
            watch: called every few milliseconds while a search waits. It may raise to end the
                wait; the engine is then stopped, and the error passes through.
        """
        self._watch = watch
        self._timed_out: set[Pattern] = set()
        self._spent_ms = 0.0
        self._failed = False
        self._ruler = Ruler("")

    @property
    def timeouts(self) -> int:
        """Return the number of patterns that timed out."""
        return len(self._timed_out)

    @property
    def spent_ms(self) -> float:
        """Return the CPU time spent inside regexes so far, in ms."""
        return self._spent_ms

    @property
    def closed(self) -> bool:
        """Return whether the budget is used up, so that no further pattern is tried."""
        return self.timeouts >= MAX_TIMEOUTS or self._spent_ms >= MAX_SPENT_MS

    def search(self, text: str, looks: Sequence[Look]) -> list[LookResult]:
        """Return the result of each look, in order.

        In an empty text every outcome is `miss`. Equal patterns on equal parts are tried once.
        Without anything to try, no engine is started. A search beyond a limit of `job` is not
        run: all its outcomes are `timeout`.
        """
        verdict: Verdict
        if all(look.is_idle for look in looks):
            verdict = "miss"
        elif self._failed:
            verdict = "unsupported"
        elif self.closed or (job := Job(text, looks)).is_too_large:
            verdict = "timeout"
        else:
            try:
                return self._search(job)
            except NoEngineError:
                self._failed = True
                verdict = "unsupported"
        return [uniform_result(look, verdict) for look in looks]

    def _search(self, job: Job) -> list[LookResult]:
        self._ruler = Ruler(job.text, self._ruler)
        with ENGINES.borrow(self._watch) as engine:
            dumped = job.dump(
                self._timed_out,
                MAX_TIMEOUTS - self.timeouts,
                ruler=self._ruler,
                loaded=engine.loaded,
            )
            answer, spent_ms = engine.ask(
                dumped, left_ms=MAX_SPENT_MS - self._spent_ms, watch=self._watch
            )
            engine.loaded = job.text
        self._spent_ms += spent_ms
        results, timed_out = job.read(answer)
        self._timed_out |= timed_out
        return results
