"""A server for tests: a process of its own, on a free port."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from forked import SERVICE, started

_READY_S = 60


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def environment(**given: object) -> dict[str, str]:
    """Return an environment with these settings and no others of ours."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LOREWELL_", "PROMETHEUS_"))}
    return kept | {f"LOREWELL_{name.upper()}": str(value) for name, value in given.items()}


class Server:
    """A running server, at a free port unless one is given.

    One process answers all requests, unless `handover_bytes` is given: a second one takes a while
    to start.
    """

    def __init__(self, log: Path, *, port: int | None = None, **given: object) -> None:
        given.setdefault("handover_bytes", 0)
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = log
        self._process = started(SERVICE, environment(port=self.port, **given), log)
        self.client = httpx.Client(base_url=self.url, params={"tenant_id": "demo"}, timeout=60)
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline and self._process.poll() is None:
            with suppress(httpx.TransportError):
                if self.client.get("/readyz").status_code == 200:
                    return
            time.sleep(0.05)
        self.kill()
        raise AssertionError(self.log())

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def rss_bytes(self) -> int:
        pages = Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def kill(self) -> None:
        """Kill the process, as a power cut would."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self.client.close()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def stop(self) -> int:
        """Send SIGTERM, wait for the end, and return the exit code."""
        self._process.terminate()
        status = self._process.wait(timeout=60)
        self.client.close()
        return status

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None


@contextmanager
def running(log: Path, *, port: int | None = None, **given: object) -> Iterator[Server]:
    server = Server(log, port=port, **given)
    try:
        yield server
    finally:
        if server.is_running:
            server.stop()
