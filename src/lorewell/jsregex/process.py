"""The parent's side of a child process that runs V8.

V8 ends its process if a string is too long or memory runs out. In a separate process such a crash
only ends one search. That process also has its own CPU clock, which measures V8 alone.

A thread of ours talks to the child, so that the caller can stop waiting: not every platform can
read a pipe with a time limit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import IO, Final, cast

from lorewell.jsregex import frames

# A search takes at most half a second of CPU time, so only an overloaded machine needs this long.
_MAX_WAIT_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.02
_KILL_SECONDS: Final = 1.0

# The package without its `__init__`, which would load the models and take five times as long.
# The isolated interpreter (`-I -S`) finds packages where this process does and nowhere else.
_BOOT: Final = """
import json, sys, types
sys.path[:] = json.loads(sys.argv[1])
package = sys.modules["lorewell"] = types.ModuleType("lorewell")
package.__path__ = [sys.argv[2]]
from lorewell.jsregex.child import main
main()
"""


class NoEngineError(Exception):
    """There is no regex engine: it is switched off, does not start, or has failed."""


class EngineProcess:
    """A child process, for one caller at a time.

    Attributes:
        loaded: the text of the last search, which the process still holds.
    """

    def __init__(self, watch: Callable[[], None] | None = None) -> None:
        """Start the process and wait until it is ready.

        Raises:
            NoEngineError: it does not start.
        """
        self.loaded = ""
        if not sys.executable or getattr(sys, "frozen", False):  # not an interpreter
            raise NoEngineError
        path = json.dumps([str(Path(place).absolute()) for place in sys.path])
        package = str(Path(__file__).absolute().parents[1])
        try:
            self._process = subprocess.Popen(  # noqa: S603  our own interpreter and code
                [sys.executable, "-I", "-S", "-c", _BOOT, path, package],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            raise NoEngineError from error
        self._pipes: tuple[IO[bytes], IO[bytes]] = cast(
            "tuple[IO[bytes], IO[bytes]]", (self._process.stdin, self._process.stdout)
        )
        self._jobs: SimpleQueue[tuple[float, bytes] | None] = SimpleQueue()
        self._answers: SimpleQueue[tuple[float, bytes] | None] = SimpleQueue()
        self._thread = Thread(target=self._exchange, name="lorewell-jsregex", daemon=True)
        try:
            self._thread.start()
            self._wait(watch)
        except RuntimeError as error:  # no thread can be started
            self.close()
            raise NoEngineError from error
        except BaseException:
            self.close()
            raise

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def ask(
        self, job: bytes, *, left_ms: float, watch: Callable[[], None] | None = None
    ) -> tuple[bytes, float]:
        """Return the answer to a job, and the CPU time in ms that it took.

        Args:
            job: the JSON of `Job.dump`.
            left_ms: the CPU time after which no further pattern is tried.
            watch: called while waiting; its exceptions pass through, and the process must then be
                closed.

        Raises:
            NoEngineError: the process ended, or did not answer in time.
        """
        self._jobs.put((left_ms, job))
        spent_ms, answer = self._wait(watch)
        return answer, spent_ms

    def _wait(self, watch: Callable[[], None] | None) -> tuple[float, bytes]:
        deadline = monotonic() + _MAX_WAIT_SECONDS
        while monotonic() < deadline:
            if watch is not None:
                watch()
            try:
                answer = self._answers.get(timeout=_POLL_SECONDS)
            except Empty:
                if self.is_alive:
                    continue
                answer = None
            if answer is None:
                break
            return answer
        raise NoEngineError

    def _exchange(self) -> None:
        """Send jobs and receive answers until the process is closed or ends."""
        jobs, answers = (pipe.fileno() for pipe in self._pipes)
        try:
            self._answers.put(frames.receive(answers))
            while (job := self._jobs.get()) is not None:
                frames.send(jobs, *job)
                self._answers.put(frames.receive(answers))
        except (OSError, EOFError):
            self._answers.put(None)
        finally:
            self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in self._pipes:
            pipe.close()

    def close(self) -> None:
        """End the process."""
        self._jobs.put(None)
        if not self._thread.ident:
            self._close_pipes()
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_SECONDS)

    def forget(self) -> None:
        """Leave the process to the parent that started it; for use after a fork."""
        self._close_pipes()
        self._process.returncode = 0
