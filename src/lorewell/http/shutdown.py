"""The end of a process: after the first signal it refuses work, ends its work, and exits."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import uvicorn
from uvicorn.supervisors import Multiprocess

from lorewell.app.computing.pool import Computing
from lorewell.http.accepting import copies
from lorewell.settings import Settings

# Parts of the whole time: work may end by itself before the first, answers may go out before the
# second.
_WORK_RATIO: Final = 0.4
ANSWERS_RATIO: Final = 0.7
# The delay between the parent's signal and the one that it sends to its workers, with a margin.
_PARENT_SECONDS: Final = 0.8
# A busy worker is not dead: by default uvicorn kills one after five silent seconds.
_WORKER_SILENCE_SECONDS: Final = 60
_STANDARD_ERROR: Final = 2
_SIGNALED: Final = 128  # plus the number of the signal: the exit code, as in shells
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def seconds_of_process(settings: Settings) -> float:
    """Return the seconds within which a process that answers requests ends."""
    return settings.shutdown_seconds if settings.workers == 1 else seconds_of_child(settings)


def seconds_of_child(settings: Settings) -> float:
    """Return the seconds within which a process that another one signals ends."""
    seconds = settings.shutdown_seconds
    return max(seconds / 2, seconds - _PARENT_SECONDS)


@contextmanager
def ending(
    computing: Computing, settings: Settings, on_end: Callable[[], object] | None = None
) -> Iterator[None]:
    """Make the first signal end the work of this process, and the process, in time.

    It calls `on_end`, too.

    A second signal ends the process at once. A worker leaves this to its parent, since both get the
    signals of a terminal. Used on the event loop, around the lifespan of the application, after the
    server has installed its signal handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can handle signals
        return
    loop = asyncio.get_running_loop()
    seconds = seconds_of_process(settings)
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    is_ending = False

    def begin() -> None:
        if on_end is not None:
            on_end()
        computing.refuse()
        loop.call_later(seconds * _WORK_RATIO, computing.end)

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal is_ending
        if is_ending and settings.workers == 1:
            os._exit(_SIGNALED + number)
        if not is_ending:
            is_ending = True
            # This thread does not need the GIL: it exits even if another thread holds it.
            faulthandler.dump_traceback_later(seconds, exit=True, file=_STANDARD_ERROR)
            loop.call_soon_threadsafe(begin)
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for number in _SIGNALS:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_workers(
    factory: str,
    count: int,
    on_end: Callable[[], object] | None = None,
    /,
    **options: Any,  # noqa: ANN401  uvicorn's own
) -> None:
    """Answer requests in `count` processes until a signal, which calls `on_end`."""
    options["timeout_worker_healthcheck"] = _WORKER_SILENCE_SECONDS
    config = uvicorn.Config(factory, **options, workers=count)
    workers = _Workers(config, copies(config.bind_socket()))
    workers.on_end = on_end
    workers.run()


class _Workers(Multiprocess):
    """The worker processes; a second signal ends all of them at once."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  as its base takes them
        super().__init__(*args, **kwargs)
        self.on_end: Callable[[], object] | None = None
        self._is_ending = False
        for number in _SIGNALS:
            signal.signal(number, self._handle)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._is_ending:
            for process in self.processes:
                process.kill()
            sys.exit(_SIGNALED + number)
        self._is_ending = True
        if self.on_end is not None:
            self.on_end()
        self.signal_queue.append(number)
