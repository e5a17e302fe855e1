"""The pool of engine processes: none at first, at most one for each core.

A fork starts without engines: those of its parent keep serving the parent.
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
_RETRY_SECONDS: Final = 10.0  # from a failed start of an engine to the next attempt


class Pool:
    """Engines to borrow; the last one used is lent first, as it has texts and patterns cached."""

    def __init__(self, size: int) -> None:
        """Create a pool for at most `size` engines; none is started."""
        self._size = size
        self._on: bool | None = None
        self._fill()

    def _fill(self) -> None:
        self._no_start_before = 0.0
        self._running: set[EngineProcess] = set()
        self._slots: LifoQueue[EngineProcess | None] = LifoQueue()
        for _ in range(self._size):
            self._slots.put(None)

    def switch(self, *, on: bool | None) -> None:
        """Allow or forbid engines; None lets the environment decide, as at the start."""
        self._on = on

    def _check(self) -> None:
        if self._on is None:
            self._on = os.environ.get(_SWITCH, "").strip().lower() != "off"
        if not self._on or monotonic() < self._no_start_before:
            raise NoEngineError

    @contextmanager
    def borrow(self, watch: Callable[[], None] | None = None) -> Iterator[EngineProcess]:
        """Lend an engine; wait while all are lent. An engine is stopped if its use fails.

        Args:
            watch: called while waiting; its exceptions pass through.

        Raises:
            NoEngineError: engines are switched off or don't start, or none is returned in time.
        """
        self._check()
        engine = self._take(watch)
        is_usable = False
        try:
            if engine is None or not engine.is_alive:
                self._stop(engine)
                engine = self._start(watch)
            yield engine
            is_usable = True
        finally:
            if not is_usable:
                self._stop(engine)
            self._slots.put(engine if is_usable else None)

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
            self._no_start_before = monotonic() + _RETRY_SECONDS
            raise
        self._running.add(engine)
        return engine

    def _stop(self, engine: EngineProcess | None) -> None:
        if engine is not None:
            self._running.discard(engine)
            engine.close()

    def close(self) -> None:
        """Stop all engines; running searches fail."""
        for engine in tuple(self._running):
            engine.close()

    def reset_after_fork(self) -> None:
        """Leave the engines to the parent process."""
        for engine in tuple(self._running):
            engine.forget()
        self._fill()


ENGINES: Final = Pool(min(_MOST_ENGINES, os.cpu_count() or 1))

atexit.register(ENGINES.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ENGINES.reset_after_fork)


def switch_engine(*, on: bool | None) -> None:
    """Switch the regex engines of this process on or off; None lets `LOREWELL_REGEX_ENGINE` decide.

    While they are off, every pattern on a text that is not empty is `unsupported`.
    """
    ENGINES.switch(on=on)
