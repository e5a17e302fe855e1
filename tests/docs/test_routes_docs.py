"""docs/routes.md has every route of the service, with its scope."""

from __future__ import annotations

import re

import pytest

from docs.manual import read
from docs.routes import Row, all_rows, written

ROWS = all_rows()


def test_table_is_that_of_the_application() -> None:
    """After a change of a route, run `.venv/bin/python tests/docs/routes.py`."""
    assert read("docs/routes.md") == written()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.method} {row.path}")
def test_row_says_what_the_route_does(row: Row) -> None:
    shown = re.search(
        rf"^\| `{row.method} {re.escape(row.path)}` \| (.*) \| (.*) \|$",
        read("docs/routes.md"),
        re.MULTILINE,
    )
    assert shown
    assert shown[1] == "open" or re.fullmatch(r"`\w+`(, `\w+`)?", shown[1])
    assert re.fullmatch(r"[A-Z].{9,}\.", shown[2])


def test_open_routes_are_those_that_need_no_key() -> None:
    opened = {row.path for row in ROWS if not row.scopes}
    assert opened == {"/demo", "/healthz", "/live", "/openapi.json", "/readyz"}
