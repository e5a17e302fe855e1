"""Searches texts for the regex keys of one request, and bounds what they may cost.

Source: docs/rules/native.md §8.4, cost guard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lorewell.jsregex.job import Job
from lorewell.jsregex.looks import Look, LookResult, Pattern, Verdict, answer_alike
from lorewell.jsregex.pool import ENGINES
from lorewell.jsregex.process import NoEngineError
from lorewell.jsregex.spans import Ruler

MAX_TIMEOUTS: Final = 100
MAX_SPENT_MS: Final = 500.0


class RegexGuard:
    """Searches on behalf of one request; not shared between threads.

    A pattern that timed out is not tried again. After 100 time-outs, or 500 ms spent inside
    regexes, the guard is closed: whatever is not decided by then is `timeout`, untried. Once an
    engine failed, everything is `unsupported`: one request costs one engine at most.
    """

    def __init__(self, *, watch: Callable[[], None] | None = None) -> None:
        """Begin with nothing spent and nothing quarantined; starts no engine.

        Args:
            watch: called every few milliseconds while a search waits. It raises to end the wait;
                the engine is then stopped, and the error passes through.
        """
        self._watch = watch
        self._timed_out: set[Pattern] = set()
        self._spent_ms = 0.0
        self._failed = False
        self._ruler = Ruler("")

    @property
    def timeouts(self) -> int:
        """Return how many patterns have timed out."""
        return len(self._timed_out)

    @property
    def spent_ms(self) -> float:
        """Return the CPU time spent inside regexes so far, in ms."""
        return self._spent_ms

    @property
    def closed(self) -> bool:
        """Return whether no further pattern will be tried."""
        return self.timeouts >= MAX_TIMEOUTS or self._spent_ms >= MAX_SPENT_MS

    def search(self, text: str, looks: Sequence[Look]) -> list[LookResult]:
        """Return what each look sees in its parts of the text, in the order of the looks.

        An empty text is not searched: there every outcome is `miss`. The same pattern and parts
        are tried once, however many looks ask for them. Without anything to try no engine is
        started. A search over a limit of `job` is not made: everything in it is `timeout`.
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
        return [answer_alike(look, verdict) for look in looks]

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
        seen, timed_out = job.read(answer)
        self._timed_out |= timed_out
        return seen
