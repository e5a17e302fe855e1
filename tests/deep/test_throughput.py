"""One worker on SQLite: selections beside requests that are only read and checked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from deep.empty_route import PATH as EMPTY
from deep.load import timeless
from lorewell import SelectRequest, compile_book, select
from process import Server, running

TESTS = Path(__file__).resolve().parents[1]
SCRIPT = Path(__file__).with_name("select.lua")
SELECT = "/v1/context/select"
ROUNDS = 4
SECONDS = 5
CONNECTIONS = 8
LEAST_RATIO = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one run of wrk gave."""

    per_second: float
    cpu_ms: float
    p50_ms: float
    p99_ms: float


@pytest.fixture(scope="module")
def wrk() -> str:
    if shutil.which("wrk") is None and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-qq", "wrk"], check=False)  # noqa: S607  Debian's
    found = shutil.which("wrk")
    if found is None:
        pytest.fail("wrk is missing: apt-get install wrk")
    return found


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Yield a service with its usual settings, on SQLite."""
    monkeypatch.setattr("process.SERVICE", ("-m", "deep.empty_route"))
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    url = f"sqlite:///{tmp_path / 'lorewell.db'}"
    with running(tmp_path / "log", database_url=url) as server:
        yield server


def make_turn(server: Server, monkeypatch: pytest.MonkeyPatch) -> SelectRequest:
    """Store the book of the benchmark, return its chat as a request, and check the answers."""
    monkeypatch.syspath_prepend(str(TESTS.parent))
    inputs: Any = import_module("bench.inputs")
    case, _ = inputs.load_case(1_000)
    book = inputs.book_of(case.entries)
    made = server.client.post("/v1/books", json=book.model_dump(mode="json"))
    book_id = made.json()["books"][0]["book_id"]
    compiled = compile_book(book, book_id=book_id, revision=1)
    turn: SelectRequest = inputs.request_of(case, [compiled], explain="selected")
    response = select([compiled], turn)
    assert inputs.uids(response) == case.expected
    sent = turn.model_dump(mode="json")
    answer = server.client.post(SELECT, json=sent)
    assert timeless(answer.content) == timeless(response.to_json())
    assert server.client.post(EMPTY, json=sent).status_code == 204
    assert server.client.post(EMPTY, json={**sent, "query": 7}).status_code == 422
    return turn


def cpu_s(pid: int) -> float:
    """Return the seconds of processor time that a process has had, in user and system mode."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    user, system = stat.rpartition(") ")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def measure(wrk: str, server: Server, path: str, turn: Path) -> Round:
    pid = server._process.pid
    url = f"{server.url}{path}?tenant_id=demo"
    options = ["-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "-s", str(SCRIPT)]
    before = cpu_s(pid)
    done = subprocess.run(
        [wrk, *options, url],
        env={**os.environ, "LOREWELL_TURN": str(turn)},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    used = cpu_s(pid) - before
    printed = json.loads(done.stdout.splitlines()[-1])
    assert printed["failed"] == 0, done.stdout
    return Round(
        per_second=printed["requests"] / printed["duration_us"] * 1_000_000,
        cpu_ms=used * 1000 / printed["requests"],
        p50_ms=printed["p50_us"] / 1000,
        p99_ms=printed["p99_us"] / 1000,
    )


def summary(name: str, rounds: Sequence[Round]) -> str:
    rates = [each.per_second for each in rounds]
    return (
        f"{name}: median {median(rates):.0f} requests a second "
        f"({min(rates):.0f} to {max(rates):.0f}), "
        f"{median(each.cpu_ms for each in rounds):.3f} ms of CPU each, "
        f"p50 {median(each.p50_ms for each in rounds):.1f} ms, "
        f"p99 {median(each.p99_ms for each in rounds):.1f} ms"
    )


def test_selecting_costs_no_more_than_reading_the_request(
    wrk: str,
    server: Server,
    tmp_path: Path,
    report: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turn = tmp_path / "turn.json"
    turn.write_text(make_turn(server, monkeypatch).model_dump_json(), encoding="utf-8")
    rounds: dict[str, list[Round]] = {EMPTY: [], SELECT: []}
    for number in range(ROUNDS):  # by turns, so that a busy moment hits both
        for path in sorted(rounds, reverse=number % 2 == 1):
            rounds[path].append(measure(wrk, server, path, turn))
    report(f"{ROUNDS} rounds of {SECONDS} s each, {CONNECTIONS} connections, {os.cpu_count()} CPUs")
    for path, measured in rounds.items():
        report(summary(path, measured))
    pairs = list(zip(rounds[SELECT], rounds[EMPTY], strict=True))
    ratios = [chosen.per_second / empty.per_second for chosen, empty in pairs]
    by_cpu = median(empty.cpu_ms / chosen.cpu_ms for chosen, empty in pairs)
    shown = ", ".join(f"{each:.2f}" for each in ratios)
    report(f"{SELECT} / {EMPTY}: {median(ratios):.3f} by rate ({shown}), {by_cpu:.3f} by CPU")
    assert median(ratios) >= LEAST_RATIO
