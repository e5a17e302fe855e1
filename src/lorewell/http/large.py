"""The process that answers large requests (see `handover.py`), and its supervision."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import uvicorn
from prometheus_client.multiprocess import mark_process_dead

from lorewell.http.accepting import AcceptingServer
from lorewell.http.handover import Handover, receive
from lorewell.http.metrics import MULTIPROCESS

_SERVICE: Final = "lorewell.http.server"
_STARTUP_FAILURE: Final = 3  # as uvicorn has it
_PAUSE_S: Final = 1.0  # before the process starts again
_MARGIN_S: Final = 1.0  # beyond its own time limit
_log = logging.getLogger(__name__)


class LargeRequests:
    """Keeps the process for large requests running, and ends it.

    Args:
        listener: where the processes that accept connections reach it.
        seconds: within which it ends.
    """

    def __init__(
        self, listener: socket.socket, environment: dict[str, str], seconds: float
    ) -> None:
        self._listener, self._seconds = listener, seconds
        self._environment = environment
        self._is_ending = False
        self._lock = threading.Lock()
        self._process = self._start()
        threading.Thread(target=self._watch, name="large requests", daemon=True).start()

    def _start(self) -> subprocess.Popen[bytes]:
        number = self._listener.fileno()
        return subprocess.Popen(  # noqa: S603  our own module
            [sys.executable, "-m", _SERVICE, str(number)],
            env=self._environment,
            stdin=subprocess.PIPE,  # its end is our end
            pass_fds=(number,),
            process_group=0,  # the signals of a terminal reach it through us alone
        )

    def _watch(self) -> None:
        while True:
            status = self._process.wait()
            if MULTIPROCESS in self._environment:
                mark_process_dead(self._process.pid)  # type: ignore[no-untyped-call]
            if self._is_ending:
                return
            _log.warning("The process for large requests ended with %d; starting it again.", status)
            time.sleep(_PAUSE_S)
            with self._lock:
                if self._is_ending:
                    return
                self._process = self._start()

    def end(self) -> None:
        """Ask the process to end."""
        with self._lock:
            self._is_ending = True
            self._process.terminate()

    def wait(self) -> None:
        """Wait until the process has ended."""
        self.end()
        try:
            self._process.wait(self._seconds + _MARGIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()


@contextmanager
def large_requests(
    most_bytes: int, environment: dict[str, str], seconds: float
) -> Iterator[tuple[Handover, LargeRequests]]:
    """Run the process for bodies of more than `most_bytes`, with this environment."""
    with (
        tempfile.TemporaryDirectory(prefix="lorewell-") as folder,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        path = str(Path(folder) / "large")
        listener.bind(path)
        listener.listen()
        large = LargeRequests(listener, environment, seconds)
        try:
            yield Handover(path, most_bytes), large
        finally:
            large.wait()


class LargeServer(AcceptingServer):
    """A server whose connections come from other processes."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket) -> None:
        super().__init__(config)
        self._listener = listener
        self._beginning: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002
        """Start the application and take connections."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(_STARTUP_FAILURE)
        self.servers = []
        loop = asyncio.get_running_loop()
        self._listener.settimeout(0)
        loop.add_reader(self._listener, self._accept, loop)
        loop.add_reader(sys.stdin.fileno(), os.kill, os.getpid(), signal.SIGTERM)
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, and let the others end."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)
        loop.remove_reader(sys.stdin.fileno())
        await super().shutdown(sockets)

    def _accept(self, loop: asyncio.AbstractEventLoop) -> None:
        line, _ = self._listener.accept()
        line.settimeout(0)
        loop.add_reader(line, self._take, line, loop)

    def _take(self, line: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        try:
            found = receive(line)
        except BlockingIOError:
            return
        except OSError:
            found = None
        if found is None:
            loop.remove_reader(line)
            line.close()
            return
        task = loop.create_task(self._begin(*found))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)

    async def _begin(self, connection: socket.socket, data: bytes) -> None:
        create = partial(self.make_protocol, received=data)
        connection.settimeout(0)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(create, connection)
        except OSError:  # the client has left
            connection.close()
