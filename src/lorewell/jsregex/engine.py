"""One V8 isolate with the program loaded. Importing this module loads the library of V8.

V8 runs on a thread of its own and talks to us through an event loop on a second one. The loop is
ours for two reasons: mini-racer would otherwise borrow the caller's running loop, if there is one,
and then could not wait; and each report of V8's thread passes through it, which is the moment to
read that thread's CPU clock. A pattern is blamed by this clock alone: it stands still while a busy
machine lets V8 wait.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import Context
from typing import TypeVarTuple, Unpack, cast

from py_mini_racer import (
    JSEvalException,
    JSFunction,
    JSOOMException,
    JSTimeoutException,
    LibNotFoundError,
    init_mini_racer,
    mini_racer,
)

from lorewell.jsregex.program import PROGRAM

# The two features are younger than Node 20, whose answers ours are compared with. Without tier-up
# every run is native code: the first one would be interpreted, seven times as slow.
_FLAGS = (
    "--single-threaded",
    "--allow-natives-syntax",
    "--no-js-regexp-modifiers",
    "--no-js-regexp-duplicate-named-groups",
    "--no-regexp-tier-up",
)
# A history of 1.6 million characters is a string of 3 MB, and 10 MB as JSON.
MEMORY_LIMIT_BYTES = 256 * 2**20

_STRAY_TRIES = 5

_Args = TypeVarTuple("_Args")


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that reads the CPU clock of V8's thread whenever that thread reports."""

    def __init__(self) -> None:
        super().__init__()
        self.known_threads: set[int] = set()
        self.cpu_ns = 0

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[_Args]], object],
        *args: *_Args,
        context: Context | None = None,
    ) -> asyncio.Handle:
        if threading.get_ident() not in self.known_threads:
            self.cpu_ns = time.thread_time_ns()
        return super().call_soon_threadsafe(callback, *args, context=context)


class Engine:
    """One isolate. For one caller at a time.

    Attributes:
        worn: it failed once, so the isolate should not be used for another search.
    """

    def __init__(self) -> None:
        """Start it.

        Raises:
            ImportError: V8 can't be started on this platform, or was started in this process by
                someone else and without our flags.
        """
        self.worn = False
        self._loop = _Loop()
        self._thread = threading.Thread(target=self._serve, name="lorewell-jsregex", daemon=True)
        self._thread.start()
        self._isolate = ExitStack()
        try:
            init_mini_racer(flags=_FLAGS, ignore_duplicate_init=True)
            self._loop.known_threads = {threading.get_ident()}
            context = self._isolate.enter_context(mini_racer(self._loop))
            context.set_hard_memory_limit(MEMORY_LIMIT_BYTES)
            self._run: JSFunction = cast("JSFunction", context.eval(PROGRAM))
        except (JSEvalException, LibNotFoundError, OSError) as error:
            self.close()
            raise ImportError("V8 can't be used") from error

    def _serve(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    @property
    def cpu_ms(self) -> float:
        """Return the CPU time of V8's thread when the last call ended, in ms."""
        return self._loop.cpu_ns / 1e6

    def call(self, command: str, argument: str = "", *, wall_ms: float | None = None) -> str:
        """Return the program's answer to a command.

        Raises:
            TimeoutError: it took longer than `wall_ms`. V8 stops soon after; the next call waits
                for that.
            MemoryError: the isolate's memory was used up, or it does not answer any more.
        """
        self._loop.known_threads = {threading.get_ident()}
        for _ in range(_STRAY_TRIES):
            try:
                return self._ask(command, argument, wall_ms)
            except JSEvalException:
                # The interruption of one call, when it comes late, ends the next one instead.
                # All commands can be repeated.
                continue
        self.worn = True
        raise MemoryError

    def _ask(self, command: str, argument: str, wall_ms: float | None) -> str:
        timeout_sec = None if wall_ms is None else wall_ms / 1000
        try:
            return str(self._run(command, argument, timeout_sec=timeout_sec))
        except JSTimeoutException:
            raise TimeoutError from None
        except JSOOMException:
            self.worn = True
            raise MemoryError from None

    def close(self) -> None:
        """Give its memory and threads back."""
        self._isolate.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
