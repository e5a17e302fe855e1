"""Background jobs of this process, which outlive the requests that start them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, TypeVar

from lorewell.app.computing.pool import caller_leaves
from lorewell.errors import LorewellError

Result = TypeVar("Result")

_RARELY_SECONDS = 600.0


class Jobs:
    """The running jobs; they are cancelled when the service stops. Belongs to one event loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._next_start: dict[str, float] = {}

    def start(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Start a job.

        A LorewellError only reaches callers that await the task; any other error is also reported
        to the event loop's exception handler.
        """
        context = copy_context()
        context.run(caller_leaves.set, None)
        task = asyncio.get_running_loop().create_task(work, context=context)
        self._tasks.add(task)  # the event loop holds tasks by weak references only
        task.add_done_callback(self._ended)
        return task

    def start_rarely(self, name: str, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Start a job unless a job of that name was started in the last 10 minutes."""
        now = time.monotonic()
        if now >= self._next_start.get(name, now):
            self._next_start[name] = now + _RARELY_SECONDS
            self.start(work())

    async def wait(self, seconds: float) -> None:
        """Wait until all jobs have ended, at most for `seconds`."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def stop(self) -> None:
        """Cancel all jobs and wait until each has cleaned up."""
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
