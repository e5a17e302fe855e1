"""Kills at random moments among many writers: nothing acknowledged is lost, nothing is half."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from deep.killing import check_campaign, run_campaign
from process import running

SEED = 20_240
WRITES = 500


def test_kills_lose_nothing_that_was_acknowledged(
    empty_url: str, tmp_path: Path, report: Callable[[str], None], request: pytest.FixtureRequest
) -> None:
    log = tmp_path / "log"
    campaign = run_campaign(empty_url, log, seed=SEED, writes=WRITES)
    report(str(campaign))
    assert campaign.kills >= 5
    with running(log, database_url=empty_url, log_level="warning") as server:
        stored = check_campaign(server, campaign.attempts)
    report(f"{stored} revisions read back, all whole and as they were sent")
    if request.node.callspec.params["empty_url"] == "sqlite":
        with closing(sqlite3.connect(empty_url.removeprefix("sqlite:///"))) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert "Traceback" not in log.read_text(encoding="utf-8")
