"""The engines of this process: none at first, at most one for each core.

A fork starts without engines of its own: those of its parent go on serving the parent.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, LifoQueue
from time import monotonic
from typing import Final

from lorewell.jsregex.process import EngineProcess, NoEngineError

_SWITCH: Final = "LOREWELL_REGEX_ENGINE"
_MOST_ENGINES: Final = 4
_MAX_WAIT_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.02
_REST_SECONDS: Final = 10.0  # after an engine did not start, until the next attempt


class Pool:
    """Engines to borrow; the one used last goes out first, for it has texts and patterns ready."""

    def __init__(self, size: int) -> None:
        """Make room for `size` engines; none is started."""
        self._size = size
        self._on: bool | None = None
        self._fill()

    def _fill(self) -> None:
        self._resting_until = 0.0
        self._running: set[EngineProcess] = set()
        self._slots: LifoQueue[EngineProcess | None] = LifoQueue()
        for _ in range(self._size):
            self._slots.put(None)

    def switch(self, *, on: bool | None) -> None:
        """Allow or forbid the engine; None: what the environment says, as at the start."""
        self._on = on

    def _check(self) -> None:
        if self._on is None:
            self._on = os.environ.get(_SWITCH, "").strip().lower() != "off"
        if not self._on or monotonic() < self._resting_until:
            raise NoEngineError

    @contextmanager
    def borrow(self, watch: Callable[[], None] | None = None) -> Iterator[EngineProcess]:
        """Lend an engine; waits while all are lent. One whose use ends in an error is stopped.

        Args:
            watch: called while waiting; what it raises passes through.

        Raises:
            NoEngineError: there is none, or none comes back in time.
        """
        self._check()
        engine = self._take(watch)
        sound = False
        try:
            if engine is None or not engine.is_alive:
                self._stop(engine)
                engine = self._start(watch)
            yield engine
            sound = True
        finally:
            if not sound:
                self._stop(engine)
            self._slots.put(engine if sound else None)

    def _take(self, watch: Callable[[], None] | None) -> EngineProcess | None:
        deadline = monotonic() + _MAX_WAIT_SECONDS
        while monotonic() < deadline:
            if watch is not None:
                watch()
            try:
                return self._slots.get(timeout=_POLL_SECONDS)
            except Empty:
                continue
        raise NoEngineError

    def _start(self, watch: Callable[[], None] | None) -> EngineProcess:
        try:
            engine = EngineProcess(watch)
        except NoEngineError:
            self._resting_until = monotonic() + _REST_SECONDS
            raise
        self._running.add(engine)
        return engine

    def _stop(self, engine: EngineProcess | None) -> None:
        if engine is not None:
            self._running.discard(engine)
            engine.close()

    def close(self) -> None:
        """Stop all engines; searches under way fail."""
        for engine in tuple(self._running):
            engine.close()

    def begin_anew(self) -> None:
        """Give up the engines of the process that this one is a fork of."""
        for engine in tuple(self._running):
            engine.forget()
        self._fill()


ENGINES: Final = Pool(min(_MOST_ENGINES, os.cpu_count() or 1))

atexit.register(ENGINES.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ENGINES.begin_anew)


def switch_engine(*, on: bool | None) -> None:
    """Switch the engine of this process on or off; None: `LOREWELL_REGEX_ENGINE` decides.

    Switched off, every pattern on a text that is not empty is `unsupported`.
    """
    ENGINES.switch(on=on)
