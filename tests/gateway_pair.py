"""A model server and the gateway before it, for clients that are asked through both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from chat_upstream import ChatUpstream, chat_upstream
from process import Server, running
from service import Json

BELL = {"id": "bell", "content": "钟归沈七管。", "keys": ["钟"], "position": "at_depth", "depth": 1}
CHAT: list[Any] = [
    {"role": "system", "content": "你是沈七。"},
    {"role": "user", "content": "我敲钟 🔔。"},
]
ASKED: Json = {"model": "m", "messages": CHAT, "user": "bells", "temperature": 0.1}


class Pair:
    """A model server, and the gateway before it."""

    def __init__(self, server: Server, upstream: ChatUpstream) -> None:
        self.upstream, self.direct, self.through = (
            *(upstream, upstream.url),
            f"{server.url}/gateway/v1",
        )
        params = {"tenant_id": "default"}
        book = {"name": "钟", "entries": [BELL]}
        made = server.client.post("/v1/books", params=params, json=book).json()
        bindings = {"bindings": [{"book_id": made["books"][0]["book_id"]}]}
        params["prompt_id"] = "bells"
        assert server.client.put("/v1/prompt-bindings", params=params, json=bindings).is_success

    def check_lore(self) -> None:
        """Check that the last two requests were the same but for the lore."""
        direct, through = (each.body for each in self.upstream.requests[-2:])
        assert direct["messages"] == CHAT
        before, lore, after = through["messages"]
        assert [before, after] == CHAT
        assert "钟归沈七管。" in lore["content"]
        assert {**direct, "messages": None} == {**through, "messages": None}


@pytest.fixture(name="pair", scope="module")
def pair_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("clients")
    url = f"sqlite:///{folder / 'lorewell.db'}"
    with (
        chat_upstream() as upstream,
        running(folder / "log", database_url=url, gateway_upstream_url=upstream.url) as server,
    ):
        yield Pair(server, upstream)
