"""Those who watch a prompt, for tests: WebSockets and streams of a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect

from process import Server

PROMPT = "雾渡 🏮"


def address(server: Server, tenant: str = "demo", prompt: str = PROMPT, **more: object) -> str:
    query = urlencode({"tenant_id": tenant, "prompt_id": prompt, **more})
    return f"{server.url.replace('http', 'ws', 1)}/v1/live?{query}"


class Watcher:
    """A socket whose frames are read one by one."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def frame(self) -> Any:
        async with asyncio.timeout(10):
            return json.loads(await self.socket.recv())

    async def frames(self, count: int) -> list[Any]:
        return [await self.frame() for _ in range(count)]

    async def queries(self, count: int) -> list[str]:
        """Return what the titles of the next selections say."""
        return [titles(frame)[0] for frame in await self.frames(count)]


@asynccontextmanager
async def watching(server: Server, **given: Any) -> AsyncIterator[Watcher]:
    """Yield a watcher that is there already: its first frame was `ready`."""
    options = {name: given.pop(name) for name in ("headers", "max_queue") if name in given}
    if "headers" in options:
        options["additional_headers"] = options.pop("headers")
    async with connect(address(server, **given), proxy=None, **options) as socket:
        watcher = Watcher(socket)
        ready = await watcher.frame()
        assert ready["type"] == "ready", ready
        yield watcher


def titles(frame: Any) -> Sequence[str]:
    assert frame["type"] == "selection", frame
    return [entry["title"] for group in frame["groups"] for entry in group["entries"]]
