"""The page /live: what it is served with. What it does in a browser is in tests/browser."""

from __future__ import annotations

import re

from service import Api, code, serving


def test_it_is_off_with_the_channel(api: Api) -> None:
    assert code(api("GET", "/live", tenant=None)) == "not_found"


def test_anybody_gets_the_page_and_it_runs_its_own_scripts_alone(database: str) -> None:
    with serving(database_url=database, live=True, auth=True) as api:
        answer = api("GET", "/live", tenant=None)
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith("text/html")
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "connect-src 'self'" in policy
        assert "unsafe" not in policy
        assert policy.count("'sha256-") == 3
        assert not re.search(r"(?:https?:)?//\w", answer.text)
        assert not re.search(r"innerHTML|insertAdjacent|\son\w+=|style=|eval\(", answer.text)
        assert api("POST", "/live", tenant=None).status_code == 405
