"""The process that V8 runs in: takes jobs from its parent and answers them until that is gone."""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

from lorewell.jsregex import frames
from lorewell.jsregex.engine import V8Engine
from lorewell.jsregex.walk import Walk

# V8's own limit is for its heap; this is for all else, where the platform heeds it. V8 reserves 500
# MB and uses a tenth of that; the largest job needs 320 MB.
_MAX_DATA_BYTES: Final = 2**30
# Where all cores are busy, whoever asked for no regex goes first.
_NICENESS: Final = 5


def main() -> None:
    """Serve the parent, and end the process.

    It ends with the pipe that it reads: a signal from the keyboard is for the parent to act on.
    Nothing that V8 prints gets between the answers.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if sys.platform != "win32":
        import resource  # noqa: PLC0415  only POSIX has it

        os.nice(_NICENESS)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_DATA, (_MAX_DATA_BYTES, _MAX_DATA_BYTES))
    answers = os.dup(sys.stdout.fileno())
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    try:
        serve(sys.stdin.fileno(), answers)
    finally:
        os._exit(0)  # V8 may hang at an orderly exit


def serve(jobs: int, answers: int) -> None:
    """Answer jobs until no more come.

    Args:
        jobs: file descriptor; frames of the CPU time in ms that is left, and a job.
        answers: file descriptor; one empty frame when V8 is ready, then for each job a frame of
            the CPU time in ms that it took, and the answer.

    Raises:
        EOFError: no more come.
        ImportError: V8 does not run on this platform.
        MemoryError: V8 does not go on. The process has to end.
    """
    engine = V8Engine()
    frames.send(answers, 0, b"")
    while True:
        left_ms, job = frames.receive(jobs)
        walk = Walk(engine, left_ms)
        answer = walk.run(job.decode())
        frames.send(answers, walk.spent_ms, answer.encode())
