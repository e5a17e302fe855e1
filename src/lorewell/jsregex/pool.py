"""The isolates of this process: none at first, at most one for each core.

An isolate lives on threads, and threads do not survive a fork: a child that merely ends with one of
its parent's hangs or aborts. So all isolates are closed before a fork, after the searches under
way; parent and child start new ones when they need them (3 ms each, tested).
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, LifoQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lorewell.jsregex.engine import Engine

_SWITCH = "LOREWELL_REGEX_ENGINE"
_MOST_ENGINES = 4


class NoEngineError(Exception):
    """There is no regex engine: it is switched off, or V8 does not run here."""


class Pool:
    """Engines to borrow; the one used last goes out first, for its patterns are compiled."""

    def __init__(self, size: int) -> None:
        """Make room for `size` engines; none is started."""
        self._size = size
        self._gate = threading.Lock()
        self._on: bool | None = None
        self._broken = False
        self._fill()

    def _fill(self) -> None:
        self._slots: LifoQueue[Engine | None] = LifoQueue()
        for _ in range(self._size):
            self._slots.put(None)

    def switch(self, *, on: bool | None) -> None:
        """Allow or forbid the engine; None: what the environment says, as at the start."""
        self._on = on

    def _check(self) -> None:
        if self._on is None:
            self._on = os.environ.get(_SWITCH, "").strip().lower() != "off"
        if not self._on or self._broken:
            raise NoEngineError

    @contextmanager
    def borrow(self) -> Iterator[Engine]:
        """Lend an engine; waits while all are lent. One that failed is not lent again.

        Raises:
            NoEngineError: there is none.
        """
        self._check()
        with self._gate:  # a fork that waits goes first
            engine = self._slots.get()
        sound = False
        try:
            engine = engine or self._start()
            yield engine
            sound = not engine.worn
        finally:
            if engine and not sound:
                engine.close()
            self._slots.put(engine if sound else None)

    def _start(self) -> Engine:
        try:
            # Here and not above: it costs 80 ms and 50 MB, and may be missing on the platform.
            from lorewell.jsregex.engine import Engine  # noqa: PLC0415

            return Engine()
        except ImportError as error:
            self._broken = True
            raise NoEngineError from error

    def close_idle(self) -> None:
        """Close the engines that are not lent. V8 may hang at exit otherwise."""
        idle = 0
        try:
            while True:
                engine = self._slots.get_nowait()
                idle += 1
                if engine:
                    engine.close()
        except Empty:
            for _ in range(idle):
                self._slots.put(None)

    def before_fork(self) -> None:
        """Wait for the searches under way and close all engines."""
        self._gate.acquire()
        for _ in range(self._size):
            if engine := self._slots.get():
                engine.close()

    def after_fork_in_parent(self) -> None:
        """Allow searches again."""
        for _ in range(self._size):
            self._slots.put(None)
        self._gate.release()

    def after_fork_in_child(self) -> None:
        """Begin anew; locks of the parent may be held by threads that are gone."""
        self._gate = threading.Lock()
        self._fill()


ENGINES = Pool(min(_MOST_ENGINES, os.cpu_count() or 1))

atexit.register(ENGINES.close_idle)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=ENGINES.before_fork,
        after_in_parent=ENGINES.after_fork_in_parent,
        after_in_child=ENGINES.after_fork_in_child,
    )


def switch_engine(*, on: bool | None) -> None:
    """Switch the engine of this process on or off; None: `LOREWELL_REGEX_ENGINE` decides.

    Switched off, every pattern on a text that is not empty is `unsupported`.
    """
    ENGINES.switch(on=on)
