"""What all tests in a browser share: the browser, and a server with every page and socket on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from browser.chromium import browser_fixture, show_fixture, visit_fixture  # noqa: F401  fixtures
from chat_upstream import ChatUpstream, chat_upstream
from process import Server, running


@pytest.fixture(name="database_url", scope="session")
def database_url_fixture(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('browser') / 'lorewell.db'}"


@pytest.fixture(name="upstream", scope="session")
def upstream_fixture() -> Iterator[ChatUpstream]:
    with chat_upstream() as upstream:
        yield upstream


@pytest.fixture(name="server", scope="session")
def server_fixture(
    database_url: str, upstream: ChatUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    given = {
        "database_url": database_url,
        "demo_tenant": "demo",
        "live": True,
        "replica_tenant": "replica",
        "gateway_upstream_url": upstream.url,
    }
    with running(tmp_path_factory.mktemp("server") / "log", **given) as server:
        yield server
