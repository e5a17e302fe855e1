"""Programs in forks of a process that has loaded the package: loading takes most of a start.

They are processes as any others: they can be killed, and they end with an exit code.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

CLI = ("-c", "from lorewell.cli.main import main; main()")
SERVICE = ("-m", "lorewell.http.server")
_LOADED = (
    *("lorewell.http.server", "lorewell.cli.main", "lorewell.store.sqlite"),
    *("lorewell.store.postgres", "uvicorn.loops.auto", "uvloop"),
)
_IGNORED = ("LOREWELL_", "PROMETHEUS_", "PYTEST_", "COLUMNS", "NO_COLOR")


class Forked:
    """A program in a fork, with the methods of `subprocess.Popen` that tests use.

    Args:
        arguments: what follows `python` in a command line: `-c CODE`, `-m MODULE` or a file.
        environment: all variables of the process.
        log: where it appends what it prints.
        errors: where it appends its standard error, if that is another file.
        folder: where it works, if that is another folder.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        *,
        errors: Path | None = None,
        folder: Path | None = None,
    ) -> None:
        self.arguments = arguments
        files = str(log), str(errors or log)
        self._process: ForkServerProcess = _context().Process(
            target=_run, args=(list(arguments), dict(environment), files, str(folder or Path.cwd()))
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
            raise subprocess.TimeoutExpired(self.arguments, timeout or 0)
        atexit.unregister(self._process.kill)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


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
    context.set_forkserver_preload([*_LOADED])
    return context


def started(
    arguments: Sequence[str], env: Mapping[str, str], log: Path, *, folder: Path | None = None
) -> Forked | subprocess.Popen[bytes]:
    """Start Python with these arguments: in a fork where that is as good, else as a new process."""
    if can_fork(env):
        return Forked(arguments, env, log, folder=folder)
    with log.open("ab") as file:
        command = [sys.executable, *arguments]
        return subprocess.Popen(command, env=env, cwd=folder, stderr=file, stdout=file)


def finished(
    arguments: Sequence[str], env: Mapping[str, str], *, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments: in a fork where that is as good, else as a new process."""
    if not can_fork(env):
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=env,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    with tempfile.TemporaryDirectory() as made:
        out, errors = Path(made, "out"), Path(made, "errors")
        code = Forked(arguments, env, out, errors=errors, folder=folder).wait()
        printed = (file.read_text(encoding="utf-8") for file in (out, errors))
        return subprocess.CompletedProcess(arguments, code, *printed)


def _run(
    arguments: list[str], environment: Mapping[str, str], files: tuple[str, str], folder: str
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, name in enumerate(files, 1):
        file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8") for number in (1, 2))
    try:
        _interpret(arguments)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _interpret(arguments: list[str]) -> None:
    match arguments:
        case ["-c", code, *rest]:
            sys.argv = ["-c", *rest]
            exec(code, {"__name__": "__main__"})  # noqa: S102  a test gives it
        case ["-m", module, *rest]:
            sys.argv = [module, *rest]
            sys.exit(import_module(module).main())  # it is loaded already
        case [file, *_]:
            sys.argv = arguments
            runpy.run_path(file, run_name="__main__")


_at_first()
