"""The service under attack: its tenants, its processes, their memory, and its end."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from chat_upstream import ChatUpstream, chat_upstream
from embedding_server import EmbeddingServer, embedding_server
from lorewell.app.access import create_key
from lorewell.app.books import create_books
from lorewell.bootstrap import build_services, running
from lorewell.model import BookCreate, KeyRequest
from lorewell.model.parse import parse_model
from lorewell.settings import load_settings
from process import Server
from siege import innocent
from siege.attack import TENANT, Attack, Site

MIB = 1024 * 1024
MOST_BYTES = 3_000 * MIB
"""A service that takes more is killed, so that the machine lives on."""

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_LOOK_S = 0.03
_HANGS_S = 600.0
_IDLE_S, _IDLE_CPU_S = 0.4, 0.06
_BOOK = {
    "name": "harbour",
    "entries": [
        {"id": f"e{n}", "content": f"The lamp {n} is lit. " * 5, "keys": ["lamp", f"lamp {n}"]}
        for n in range(30)
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """The keys and books of both sides."""

    hostile_key: str
    innocent_key: str
    book_id: str

    def hostile(self, port: int, scale: float = 1.0) -> Site:
        return Site(port=port, key=self.hostile_key, scale=scale)

    def innocent(self, port: int) -> Site:
        return Site(port=port, key=self.innocent_key, tenant=innocent.TENANT)


def settle(database_url: str) -> People:
    """Make the keys of both sides, and a few books of the innocent one, in an empty database."""
    services = build_services(load_settings(database_url=database_url, auth=True))

    async def key(tenant: str, *scopes: str) -> str:
        request = parse_model(KeyRequest, {"tenants": [tenant], "scopes": scopes})
        return (await create_key(services, request)).secret

    async def work() -> People:
        async with running(services):
            books = [parse_model(BookCreate, _BOOK)] * 3
            made = await create_books(services, innocent.TENANT, books, route="import", key=None)
            return People(
                hostile_key=await key(TENANT, "read", "write"),
                innocent_key=await key(innocent.TENANT, "read"),
                book_id=made.books[0].book_id,
            )

    return asyncio.run(work())


class Neighbours:
    """The model server and the embedding server of a service under attack."""

    def __init__(self, model: ChatUpstream, embedding: EmbeddingServer) -> None:
        self._model = model
        self.settings = {
            "live": "true",
            "replica_tenant": TENANT,
            "gateway_upstream_url": model.url,
            "embedder": "openai",
            "embedding_url": embedding.url,
            "embedding_model": "m",
            "embedding_dimensions": embedding.dimensions,
        }

    def be_for(self, attack: Attack) -> None:
        """Be what an attack wants: the model server may hang."""
        self._model.behave()
        if attack.hangs:
            self._model.hang(_HANGS_S)


@contextmanager
def neighbours() -> Iterator[Neighbours]:
    with chat_upstream() as model, embedding_server() as embedding:
        yield Neighbours(model, embedding)


class Watched(threading.Thread):
    """Looks at the memory of a server and all that it started, until it ends.

    Attributes:
        most_bytes: what they took at most, together.
        killed: whether that was so much that they were killed.
    """

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self.pid = server._process.pid
        self.most_bytes, self.killed = 0, False
        self._bounded: set[int] = set()
        self._ends = threading.Event()

    def run(self) -> None:
        while not self._ends.wait(_LOOK_S):
            pids = family(self.pid)
            self.most_bytes = max(self.most_bytes, sum(map(own_bytes, pids)))
            self._bound(pids)
            if self.most_bytes > MOST_BYTES:
                self.killed = True
                kill(pids)
                return

    def forget(self) -> int:
        """Look for the most from now on; return what they take now."""
        self.most_bytes = sum(map(own_bytes, family(self.pid)))
        return self.most_bytes

    def _bound(self, pids: list[int]) -> None:
        """Let a process end by itself where it grows faster than anybody looks."""
        for pid in set(pids) - self._bounded:
            with suppress(OSError):
                limit = (MOST_BYTES + 512 * MIB,) * 2
                resource.prlimit(pid, resource.RLIMIT_DATA, limit)
                self._bounded.add(pid)

    def end(self) -> None:
        self._ends.set()
        self.join()


def kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def family(pid: int) -> list[int]:
    """Return a process that still runs and all that came of it, parents first."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError, IndexError):
                state, parent = (path / "stat").read_text().rpartition(") ")[2].split()[:2]
                if state != "Z":
                    parents.setdefault(int(parent), []).append(int(path.name))
    found = [pid] if rss_bytes(pid) else []
    for each in found:
        found += parents.get(each, ())
    return found


def wait_idle(pid: int, patience_s: float = 30.0) -> None:
    """Wait until a process and all that came of it do next to nothing."""
    before, until = 0.0, time.monotonic() + patience_s
    while time.monotonic() < until:
        now = sum(map(cpu_s, family(pid)))
        if now - before < _IDLE_CPU_S:
            return
        before = now
        time.sleep(_IDLE_S)


def cpu_s(pid: int) -> float:
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def workers(pid: int) -> list[int]:
    """Return the processes that answer requests, where there are several."""
    found = []
    for each in family(pid)[1:]:
        with suppress(OSError):
            command = Path(f"/proc/{each}/cmdline").read_bytes()
            parent = int(Path(f"/proc/{each}/stat").read_text().rpartition(") ")[2].split()[1])
            is_large = b"lorewell.http.server" in command and command.rstrip(b"\0")[-1:].isdigit()
            if parent == pid and (b"spawn_main" in command or is_large):
                found.append(each)
    return sorted(found)


def own_bytes(pid: int) -> int:
    """Return the memory of a process, with its share of what it has in common with others."""
    with suppress(OSError, IndexError):
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return int(rollup.partition("\nPss:")[2].split()[0]) * 1024
    return 0


def rss_bytes(pid: int) -> int:
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    return 0


@contextmanager
def besieged(log: Path, **given: object) -> Iterator[tuple[Server, Watched]]:
    """Yield a server with API keys, and who watches it; both end with the block."""
    given.setdefault("handover_bytes", 16_384)
    server = Server(log, auth="true", log_level="warning", **given)
    watched = Watched(server)
    watched.start()
    wait_idle(watched.pid)  # a second worker may still begin when the first one answers
    try:
        yield server, watched
    finally:
        kill(family(watched.pid))
        watched.end()
        server.kill()


def stop(watched: Watched, patience_s: float) -> float:
    """Ask a service to end; return how many seconds it took, `inf` if it did not."""
    pids = family(watched.pid)
    begin = time.monotonic()
    with suppress(ProcessLookupError):
        os.kill(watched.pid, signal.SIGTERM)
    while time.monotonic() - begin < patience_s:
        if not any(map(_lives, pids)):
            return time.monotonic() - begin
        time.sleep(_LOOK_S)
    return float("inf")


def _lives(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False
