"""Three servers on one database, started together on an empty one: a minute of mixed load."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from deep.load import replicas, run_load

SEED = 31
SECONDS = 60


def test_replicas_are_one_service(
    empty_url: str, tmp_path: Path, report: Callable[[str], None]
) -> None:
    with replicas(3, tmp_path, database_url=empty_url, log_level="warning") as servers:
        load = run_load(servers, seed=SEED, seconds=SECONDS)
        report(f"{len(servers)} servers, the load and the database share {os.cpu_count()} CPUs")
        for line in load.lines():
            report(line)
        assert load.conflicts
        for server in servers:
            server.stop()
        assert [server.log() for server in servers] == ["", "", ""]
