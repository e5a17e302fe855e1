"""An application that listens on a port, in this process: its clients are real ones."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from lorewell.app.access import create_key
from lorewell.bootstrap import build_services
from lorewell.http.app import create_app
from lorewell.http.protocol import options
from lorewell.model import KeyRequest
from lorewell.settings import load_settings
from process import free_port

QUIET = logging.getLogger("client")  # in the same process; its debug log holds everything
QUIET.setLevel(logging.WARNING)


class Service:
    """A running application."""

    def __init__(self, app: FastAPI, server: uvicorn.Server, port: int) -> None:
        self.app, self.server, self.port = app, server, port
        self.services = app.state.shared.services

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def socket(self, path: str, **given: Any) -> connect:
        return connect(f"ws://127.0.0.1:{self.port}{path}", proxy=None, logger=QUIET, **given)

    def asking(self, **given: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, params={"tenant_id": "demo"}, **given)

    async def key(self, *scopes: str, tenants: tuple[str, ...] = ("demo",)) -> str:
        request = KeyRequest.model_validate({"tenants": tenants, "scopes": scopes})
        return (await create_key(self.services, request)).secret


@asynccontextmanager
async def listening(database: str, **given: Any) -> AsyncIterator[Service]:
    """Yield a service with these settings; it is stopped in the end."""
    settings = load_settings(database_url=database, **given)
    app = create_app(build_services(settings), settings)
    port = free_port()
    given_too = {"log_config": None, "timeout_graceful_shutdown": 20}
    config = uvicorn.Config(app, port=port, lifespan="on", **options(settings), **given_too)
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  it offers no event for this
        await asyncio.sleep(0.01)
    try:
        async with asyncio.timeout(20):
            yield Service(app, server, port)
    finally:
        server.should_exit = True
        await running


async def refusal(client: ClientConnection) -> tuple[dict[str, Any], int, str]:
    """Return the problem that the last frame holds, and how the socket was closed."""
    frame = json.loads(await client.recv())
    with pytest.raises(ConnectionClosed) as closed:
        await client.recv()
    assert frame["type"] == "error"
    assert frame["message"] == frame["problem"]["detail"]
    assert closed.value.rcvd is not None
    return frame["problem"], closed.value.rcvd.code, closed.value.rcvd.reason


async def end_of(client: ClientConnection) -> tuple[int, str]:
    with suppress(ConnectionClosed):
        async for _ in client:
            pass
    return client.close_code or 0, client.close_reason or ""
