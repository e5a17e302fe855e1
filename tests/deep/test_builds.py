"""Builds of vector indexes killed at random moments: nothing is half, and nothing is stuck."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from deep.building import kill_builds

SEED = 77
KILLS = 25


def test_builds_that_are_killed_leave_nothing_half_and_nothing_behind(
    empty_url: str, tmp_path: Path, report: Callable[[str], None]
) -> None:
    log = tmp_path / "log"
    counts = kill_builds(empty_url, log, kills=KILLS, seed=SEED)
    report(str(counts))
    assert counts.midst >= KILLS // 2
    assert "Traceback" not in log.read_text(encoding="utf-8")
