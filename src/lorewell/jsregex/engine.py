"""A V8 isolate with the program loaded. Importing this module loads the V8 library."""

from __future__ import annotations

from typing import Final, cast

from py_mini_racer import (
    JSEvalException,
    JSFunction,
    JSOOMException,
    JSTimeoutException,
    LibNotFoundError,
    MiniRacer,
    init_mini_racer,
)

from lorewell.jsregex.program import PROGRAM

# Results are compared with Node 20, which lacks the two features. Without tier-up every run is
# native code; otherwise the first run is interpreted and takes seven times as long.
FLAGS: Final = (
    "--single-threaded",
    "--allow-natives-syntax",
    "--no-js-regexp-modifiers",
    "--no-js-regexp-duplicate-named-groups",
    "--no-regexp-tier-up",
)
MEMORY_LIMIT_BYTES: Final = 256 * 2**20

_STRAY_TRIES: Final = 5


class V8Engine:
    """An isolate, for one caller at a time.

    Attributes:
        isolate: the library's object.
    """

    def __init__(self) -> None:
        """Start the isolate.

        Raises:
            ImportError: V8 can't be started on this platform.
        """
        try:
            init_mini_racer(flags=FLAGS, ignore_duplicate_init=True)
            self.isolate = MiniRacer()
            self.isolate.set_hard_memory_limit(MEMORY_LIMIT_BYTES)
            self._run: JSFunction = cast("JSFunction", self.isolate.eval(PROGRAM))
        except (JSEvalException, LibNotFoundError, OSError) as error:
            message = "V8 can't be started on this platform."
            raise ImportError(message) from error

    def call(self, command: str, argument: str = "", *, wall_ms: float | None = None) -> str:
        """Return the program's answer to a command.

        Raises:
            TimeoutError: the call took longer than `wall_ms`. V8 stops soon after; the next call
                waits for that.
            MemoryError: the isolate is out of memory or no longer answers.
        """
        timeout_sec = None if wall_ms is None else wall_ms / 1000
        for _ in range(_STRAY_TRIES):
            try:
                return str(self._run(command, argument, timeout_sec=timeout_sec))
            except JSTimeoutException:
                raise TimeoutError from None
            except JSOOMException:
                raise MemoryError from None
            except JSEvalException:
                # A late interruption of one call ends the next one instead. All commands can be
                # repeated.
                continue
        raise MemoryError
