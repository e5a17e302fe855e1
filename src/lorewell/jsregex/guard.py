"""Searches texts for the regex keys of one request, and bounds what they may cost.

Two guards bound one pattern on one text. The backtrack limit decides nearly always, and always
alike (program.py). The clock is for work that is not counted so: it only ever makes a *suspect*,
by V8's own wall clock or because a call had to be interrupted, and the suspect is run again, alone;
it is blamed if that run takes too long by the CPU clock of V8's thread (engine.py). On a busy
machine that takes longer, and no pattern is blamed for it.

Source: spec/native.md §8.4, cost guard.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from lorewell.jsregex.job import Job
from lorewell.jsregex.looks import Look, Pattern, Seen, Verdict, answer_alike
from lorewell.jsregex.pool import ENGINES, NoEngineError

if TYPE_CHECKING:
    from lorewell.jsregex.engine import Engine

MAX_TIMEOUTS = 100
MAX_SPENT_MS = 500.0
# The program comes back by itself after 10 ms, unless one pattern holds it up.
_GO_WALL_MS = 25.0
# Just enough for a suspect to use up its limit on a quiet machine.
_CONFIRM_FACTOR, _CONFIRM_EXTRA_MS = 1.2, 3.0
# What a pattern that runs away takes of the time at least, even where a few threads crowd.
_LEAST_SHARE = 0.2
_CONFIRM_TRIES = 10  # each may last twice as long as the one before: V8 may be starved for seconds


class RegexGuard:
    """Searches on behalf of one request; not shared between threads.

    A pattern that timed out is not tried again. After 100 time-outs, or 500 ms spent inside
    regexes, the guard is closed: whatever is not decided by then is `timeout`, untried.
    """

    def __init__(self) -> None:
        """Begin with nothing spent and nothing quarantined; starts no engine."""
        self._timed_out: set[Pattern] = set()
        self._spent_ms = 0.0

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

    def search(self, texts: Sequence[str], looks: Sequence[Look]) -> list[Seen]:
        """Return what each look sees, in the order of the looks.

        An empty text is not searched: there every outcome is `miss`. The same pattern and text are
        tried once, however many looks ask for them. Without anything to try no engine is started.
        """
        verdict: Verdict = "miss"
        if any(texts[look.text] and (look.primary or look.secondary) for look in looks):
            if not self.closed:
                try:
                    with ENGINES.borrow() as engine:
                        return self._search(engine, Job(texts, looks))
                except NoEngineError:
                    verdict = "unsupported"
                except MemoryError:
                    verdict = "timeout"
            else:
                verdict = "timeout"
        return [answer_alike(texts, look, verdict) for look in looks]

    def _search(self, engine: Engine, job: Job) -> list[Seen]:
        engine.call("load", job.dump(self._timed_out, MAX_TIMEOUTS - self.timeouts))
        wall_ms = _GO_WALL_MS
        while True:
            if self._spent_ms >= MAX_SPENT_MS:
                engine.call("close")
            match self._timed(engine, "go", wall_ms):
                case "pause":
                    pass
                case "halt" | None:
                    if not self._judge(engine):
                        wall_ms *= 2  # it was the machine: give V8 more time to come back
                case results:
                    seen, timed_out = job.read(results)
                    self._timed_out |= timed_out
                    return seen

    def _judge(self, engine: Engine) -> bool:
        """Run the suspect once more, alone, and return whether it is to blame."""
        limit_ms = min(float(engine.call("limit")), MAX_SPENT_MS - self._spent_ms)
        if limit_ms <= 0:  # interrupted between two patterns; or the guard closes anyway
            return False
        wall_ms = _CONFIRM_FACTOR * limit_ms + _CONFIRM_EXTRA_MS
        for _ in range(_CONFIRM_TRIES):
            before_ms, began = self._spent_ms, perf_counter()
            answer = self._timed(engine, "confirm", wall_ms)
            used_ms = self._spent_ms - before_ms
            if answer is None and used_ms < _LEAST_SHARE * (perf_counter() - began) * 1000:
                used_ms = 0.0  # it has not run so long: this is what it costs to wait for a turn
            took_ms = engine.call("took")
            if took_ms:  # where threads crowd, to say that it is done can cost more than to do it
                answer, used_ms = "", min(used_ms, float(took_ms))
            if answer is not None or used_ms > limit_ms:
                break
            wall_ms *= 2
        to_blame = answer is None or used_ms > limit_ms
        engine.call("drop" if to_blame else "keep")
        return to_blame

    def _timed(self, engine: Engine, command: str, wall_ms: float) -> str | None:
        """Return the answer, None if the call was interrupted; count its CPU time."""
        before_ms = engine.cpu_ms
        try:
            return engine.call(command, wall_ms=wall_ms)
        except TimeoutError:
            engine.call("limit")  # waits until V8 has stopped, so that its clock counts all of it
            return None
        finally:
            self._spent_ms += engine.cpu_ms - before_ms
