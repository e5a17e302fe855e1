"""Servers in forks of a process that has loaded the service: to load it takes most of a start.

They are processes as any others: they can be killed, and they end with an exit code.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

_SERVICE = "lorewell.http.server"
_LATER = ("lorewell.store.sqlite", "lorewell.store.postgres", "uvicorn.loops.auto", "uvloop")
_IGNORED = ("LOREWELL_", "PROMETHEUS_", "PYTEST_")


class Forked:
    """A server in a fork, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self._process: ForkServerProcess = _context().Process(
            target=_serve, args=(dict(environment), str(log))
        )
        self._process.start()
        assert self._process.pid
        self.pid = self._process.pid
        atexit.register(self._process.kill)  # what still runs would be waited for

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired(_SERVICE, timeout or 0)
        atexit.unregister(self._process.kill)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()


def can_fork(environment: Mapping[str, str]) -> bool:
    """Return whether a fork is as good as a new process with these variables.

    Several workers start as new processes from the command line. Variables other than ours may be
    for Python itself, which reads them when it starts.
    """
    return (
        sys.platform == "linux"
        and os.environ.get("LOREWELL_HYPOTHESIS") != "deep"  # which measures
        and environment.get("LOREWELL_WORKERS", "1") == "1"
        and _others(environment) == _at_first()
    )


def _others(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: v for name, v in environment.items() if not name.startswith(_IGNORED)}


@cache
def _at_first() -> dict[str, str]:
    return _others(os.environ)


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_SERVICE, *_LATER])
    return context


def _serve(environment: Mapping[str, str], log: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(file, stream.fileno())
    os.close(file)
    from lorewell.http.server import main  # noqa: PLC0415  it is loaded before the fork

    sys.exit(main())


_at_first()
