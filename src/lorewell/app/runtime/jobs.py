"""Work that goes on after its request was answered, in this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, TypeVar

from lorewell.app.computing.pool import caller_leaves
from lorewell.errors import LorewellError

Result = TypeVar("Result")

_SELDOM_SECONDS = 600.0


class Jobs:
    """Tasks that go on until the service stops. Belongs to one event loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._again: dict[str, float] = {}

    def start(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Begin a job.

        Our own errors are for who awaits it, if anybody does; others are told the event loop too.
        """
        context = copy_context()
        context.run(caller_leaves.set, None)
        task = asyncio.get_running_loop().create_task(work, context=context)
        self._tasks.add(task)  # a task that nobody holds may vanish
        task.add_done_callback(self._ended)
        return task

    def seldom(self, name: str, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Begin a job unless one of that name was begun in the last minutes."""
        now = time.monotonic()
        if now >= self._again.get(name, now):
            self._again[name] = now + _SELDOM_SECONDS
            self.start(work())

    async def wait(self, seconds: float) -> None:
        """Return when all jobs have ended, or after so many seconds; at once if there is none."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def stop(self) -> None:
        """End all jobs; each of them tidies up first."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, LorewellError):
            context = {"message": "A job failed.", "exception": error, "task": task}
            task.get_loop().call_exception_handler(context)
