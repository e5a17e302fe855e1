"""Hostile callers beside an innocent client: what one asks for never stops another.

`LOREWELL_SIEGE_ONLY` names attacks, with commas; `name#2` is the third payload of one alone.
`LOREWELL_SIEGE_SECONDS` is how long each goes on.
A row says how long the innocent client waited at p99 for each kind of request, in milliseconds;
what memory the service took at most, with all its processes; what the hostile callers got; and in
how many seconds the service ended while they went on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from process import Server
from siege import service
from siege.attack import NICENESS, Attack, Site
from siege.catalogue import ATTACKS, find
from siege.innocent import KINDS, Seen
from siege.service import MIB, Neighbours, People, Watched, besieged, neighbours, settle
from siege.verdict import GRACE_S, faults_of, late, shown

TESTS = Path(__file__).resolve().parents[1]
SECONDS = float(os.environ.get("LOREWELL_SIEGE_SECONDS", "3"))
ONLY = [each.strip() for each in os.environ.get("LOREWELL_SIEGE_ONLY", "").split(",") if each]
MOST_BYTES = 1_000 * MIB
MARGIN_S = 3.0
_LEAD_S = 0.5  # the callers are at it when the innocent one begins
_PATIENCE_S = 7.0  # beyond which nobody wants to know how late the service ends
_HOG = f"import os; os.nice({NICENESS})\nwhile True: pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What came of one attack."""

    name: str
    seen: Mapping[str, Seen]
    most_bytes: int
    got: Mapping[str, int]
    ended_s: float
    faults: Sequence[str]

    def __str__(self) -> str:
        waits = (f"{self.seen[kind].p99_ms:.0f}" for kind in KINDS)
        rest = (f"{self.most_bytes / MIB:.0f}", shown(self.got), f"{self.ended_s:.1f}")
        cells = (self.name, *waits, *rest)
        return f"| {' | '.join(cells)} | {'; '.join(self.faults) or 'held'} |"


HEAD = f"| attack | {' | '.join(KINDS)} | MB | got | SIGTERM s | verdict |"


@pytest.fixture(name="around", scope="module")
def around_fixture() -> Iterator[Neighbours]:
    with neighbours() as found:
        yield found


def command(module: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", f"siege.{module}", *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(TESTS), *sys.path))}


@contextmanager
def hostile(site: Site, attack: Attack) -> Iterator[subprocess.Popen[str]]:
    """Yield a process of hostile callers that are ready to begin."""
    arguments = command("attack", json.dumps(asdict(site)), attack.name)
    with subprocess.Popen(
        arguments,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", "its preparations failed"
            yield process
        finally:
            process.kill()


def send_word(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


def watch_innocent(people: People, server: Server) -> Mapping[str, Seen]:
    arguments = command("innocent", server.port, people.innocent_key, people.book_id, SECONDS)
    done = subprocess.run(arguments, env=environment(), stdout=subprocess.PIPE, check=True)
    results: dict[str, Any] = json.loads(done.stdout)
    return {kind: Seen(each["took_ms"], Counter(each["wrong"])) for kind, each in results.items()}


@contextmanager
def hogs(count: int) -> Iterator[None]:
    """Keep the CPUs as busy as hostile callers of the same niceness do, beside the service."""
    with ExitStack() as stack:
        for _ in range(count):
            hog = stack.enter_context(subprocess.Popen([sys.executable, "-c", _HOG]))
            stack.callback(hog.kill)
        yield


def lay_siege(attack: Attack, people: People, server: Server, watched: Watched) -> Row:
    before = service.workers(watched.pid)
    with hostile(people.hostile(server.port), attack) as process:
        send_word(process, "go")
        time.sleep(_LEAD_S)
        seen = watch_innocent(people, server)
        is_alive = server.is_running and service.workers(watched.pid) == before
        log = server.log()
        send_word(process, "the service ends")
        ended_s = service.stop(watched, GRACE_S + MARGIN_S + _PATIENCE_S)
        out, _ = process.communicate("")
    tallied = json.loads(out)
    faults = [f"late: {', '.join(late(seen))}"] if late(seen) else []
    faults += faults_of(seen, tallied, log)
    if watched.most_bytes >= MOST_BYTES:
        faults.append(f"{watched.most_bytes / MIB:.0f} MB")
    if watched.killed:
        faults.append("killed for its memory")
    elif not is_alive:
        faults.append("a process of the service ended")
    if ended_s > GRACE_S + MARGIN_S:
        faults.append(f"SIGTERM took {ended_s:.1f} s")
    return Row(
        name=attack.name,
        seen=seen,
        most_bytes=watched.most_bytes,
        got=tallied["got"],
        ended_s=ended_s,
        faults=faults,
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_the_innocent_client_alone_and_beside_a_hog(
    workers: int,
    empty_url: str,
    tmp_path: Path,
    around: Neighbours,
    report: Callable[[str], None],
) -> None:
    people = settle(empty_url)
    given = {**around.settings, "database_url": empty_url, "workers": workers}
    with besieged(tmp_path / "log", **given) as (server, watched):
        rows = []
        for name, count in (("nobody", 0), ("CPU hogs", 2)):
            with hogs(count):
                seen = watch_innocent(people, server)
            rows.append((name, seen))
        ended_s = service.stop(watched, GRACE_S)
    report(HEAD)
    for name, seen in rows:
        row = Row(
            name=name, seen=seen, most_bytes=watched.most_bytes, got={}, ended_s=ended_s, faults=()
        )
        report(str(row))
        assert not any(each.wrong for each in seen.values())
    assert ended_s < GRACE_S


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", ONLY or ATTACKS)
def test_an_innocent_client_is_served(
    name: str,
    workers: int,
    empty_url: str,
    tmp_path: Path,
    around: Neighbours,
    report: Callable[[str], None],
) -> None:
    attack = find(name)
    around.be_for(attack)
    people = settle(empty_url)
    given = {**around.settings, "database_url": empty_url, "workers": workers}
    with besieged(tmp_path / "log", **given) as (server, watched):
        row = lay_siege(attack, people, server, watched)
    report(str(row))
    assert not row.faults
