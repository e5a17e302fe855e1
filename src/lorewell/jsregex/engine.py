"""One V8 isolate with the program loaded. Importing this module loads the library of V8."""

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

# The two features are younger than Node 20, whose answers ours are compared with. Without tier-up
# every run is native code: the first one would be interpreted, seven times as slow.
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
    """One isolate. For one caller at a time.

    Attributes:
        isolate: as the library has it.
    """

    def __init__(self) -> None:
        """Start it.

        Raises:
            ImportError: V8 can't be started on this platform.
        """
        try:
            init_mini_racer(flags=FLAGS, ignore_duplicate_init=True)
            self.isolate = MiniRacer()
            self.isolate.set_hard_memory_limit(MEMORY_LIMIT_BYTES)
            self._run: JSFunction = cast("JSFunction", self.isolate.eval(PROGRAM))
        except (JSEvalException, LibNotFoundError, OSError) as error:
            message = "V8 can't be used."
            raise ImportError(message) from error

    def call(self, command: str, argument: str = "", *, wall_ms: float | None = None) -> str:
        """Return the program's answer to a command.

        Raises:
            TimeoutError: it took longer than `wall_ms`. V8 stops soon after; the next call waits
                for that.
            MemoryError: the isolate's memory was used up, or it does not answer any more.
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
                # The interruption of one call, when it comes late, ends the next one instead.
                # All commands can be repeated.
                continue
        raise MemoryError
