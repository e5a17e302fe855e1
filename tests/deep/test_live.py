"""The live channel under load: 500 subscribers and 200 selections a second, for a minute."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any, Self

import pytest

from process import Server, running

TESTS = Path(__file__).resolve().parents[1]
RATE = 200
SECONDS = float(os.environ.get("LOREWELL_LIVE_SECONDS", "60"))
QUIET_SECONDS = max(5.0, SECONDS / 4)
SUBSCRIBERS = 500
SPREAD = 100
MIB = 1024 * 1024
MOST_GROWTH_BYTES = 150 * MIB
ENTRIES = [
    {
        "id": f"e{number}",
        "title": f"灯 {number}",
        "content": f"Lamp {number} 照着雾渡. " * 8,
        "keys": [f"lamp{number}x"],
        "position": "before_character" if number % 2 else "after_character",
    }
    for number in range(200)
]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "deep.live_load", *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(TESTS), *sys.path))}


@contextmanager
def subscribers(server: Server, count: int, prompts: int) -> Iterator[list[dict[str, Any]]]:
    """Yield a list that holds afterwards what each subscriber got."""
    address = server.url.replace("http", "ws", 1)
    found: list[dict[str, Any]] = []
    with subprocess.Popen(
        command("watch", address, count, prompts),
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield found
        measured, _ = process.communicate("")
        found += json.loads(measured)


def cpu_s(server: Server) -> float:
    """Return the seconds of processor time that a server has had."""
    stat = Path(f"/proc/{server._process.pid}/stat").read_text(encoding="utf-8")
    user, system = stat.rpartition(") ")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def select(server: Server, body: bytes, seconds: float, prompts: int) -> dict[str, Any]:
    before = cpu_s(server)
    done = subprocess.run(
        command("select", server.url, RATE, seconds, prompts),
        env=environment(),
        input=body,
        stdout=subprocess.PIPE,
        check=True,
    )
    measured: dict[str, Any] = json.loads(done.stdout)
    return {**measured, "cpu": (cpu_s(server) - before) / measured["seconds"]}


class Memory(threading.Thread):
    """Looks at a server's memory now and then."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self._server, self.most, self._ends = server, server.rss_bytes(), threading.Event()

    def run(self) -> None:
        while not self._ends.wait(0.25):
            self.most = max(self.most, self._server.rss_bytes())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self.join()


def figures(took_ms: list[float]) -> tuple[float, float]:
    cuts = quantiles(took_ms, n=100)
    return cuts[49], cuts[98]


def shown(name: str, measured: dict[str, Any]) -> str:
    p50, p99 = figures(measured["took_ms"])
    rate = len(measured["took_ms"]) / measured["seconds"]
    return (
        f"{name}: {rate:.0f} selections a second, p50 {p50:.2f} ms, p99 {p99:.2f} ms, "
        f"{measured['cpu'] * 100:.0f} % of a CPU in the service; "
        f"the load itself was late by {figures(measured['late_ms'])[1]:.2f} ms at p99"
    )


@pytest.mark.parametrize("prompts", [SPREAD, 10])
def test_nothing_is_lost_and_selections_are_not_slower(
    prompts: int, tmp_path: Path, report: Callable[[str], None]
) -> None:
    given = {"database_url": f"sqlite:///{tmp_path}/lorewell.db", "live": "true"}
    with running(tmp_path / "log", log_level="warning", **given) as server:
        made = server.client.post("/v1/books", json={"name": "灯", "entries": ENTRIES})
        book_id = made.json()["books"][0]["book_id"]
        request = {
            "books": [{"book_id": book_id, "revision": 1}],
            "query": " ".join(f"lamp{number}x" for number in range(0, 200, 40)),
            "explain": "selected",
        }
        body = json.dumps(request).encode()
        select(server, body, 3, prompts)
        alone = [select(server, body, QUIET_SECONDS, prompts)]
        resting = server.rss_bytes()
        with subscribers(server, SUBSCRIBERS, prompts) as seen:
            with Memory(server) as memory:
                watched = select(server, body, SECONDS, prompts)
            most = memory.most
        time.sleep(1)
        alone.append(select(server, body, QUIET_SECONDS, prompts))
        log = (tmp_path / "log").read_text(encoding="utf-8")
    sent = Counter(number % prompts for number in range(len(watched["took_ms"])))
    got = sum(one["selections"] for one in seen)
    report(
        f"{SUBSCRIBERS} subscribers of {prompts} prompts, {RATE} selections a second, "
        f"{SECONDS:.0f} s, one worker on SQLite, {os.cpu_count()} CPUs"
    )
    report(shown("without subscribers, before", alone[0]))
    report(shown("with", watched))
    report(shown("without, after", alone[1]))
    report(
        f"{got} frames received, {got / watched['seconds']:.0f} a second; "
        f"memory {resting / MIB:.0f} MiB before, {most / MIB:.0f} MiB at most"
    )
    assert log == ""
    for number, one in enumerate(seen):
        assert one["closed"] == "", one
        assert (one["missed"], one["disorder"]) == (0, 0), one
        assert one["selections"] == sent[number % prompts], (one, sent[number % prompts])
    assert most - resting < MOST_GROWTH_BYTES
    before = figures(alone[0]["took_ms"] + alone[1]["took_ms"])
    during = figures(watched["took_ms"])
    assert during[0] < before[0] * 1.5 + 1  # p99 is that of whatever else runs here
