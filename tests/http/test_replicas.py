"""Several servers on one database are one service; `tests/deep` asks them for much longer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deep.load import replicas, run_load

SECONDS = 2


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_three_that_start_together_on_an_empty_database_are_one_service(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'lorewell.db'}"
    if kind == "postgres":
        make: Callable[[], str] = request.getfixturevalue("make_database")
        url = make()
    with replicas(3, tmp_path, database_url=url, log_level="warning") as servers:
        load = run_load(servers, seed=7, seconds=SECONDS)
        print(*load.lines(), sep="\n")
        assert load.distinct_selections
        assert [server.log() for server in servers] == ["", "", ""]
